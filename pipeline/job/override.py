"""--set: values of a job file changed by name. stages.NAME.key, inputs.NAME.key, outputs.NAME.key, or any other key with dots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.clusters.kinds import keys_of_text
from pipeline.errors import near
from pipeline.job.environment import is_secret
from pipeline.job.yaml_text import read_yaml
from pipeline.job.yaml_tree import Node, Place, Problems, found_text, node_of
from pipeline.urls import MASK, hidden

SHOWN = 120
MAX_PARTS = 20


def apply_overrides(root: Node, overrides: Mapping[str, Any] | Sequence[str], problems: Problems) -> None:
    """Change the tree in place, in the order given. Texts are KEY=VALUE with YAML as the value; a mapping's values are Python's own.

    A whole entry (`inputs.cohort={...}`) is replaced, and removed by null; an output that is new is added.
    """
    for key, value in _read(overrides, problems):
        parts = key.split(".")
        if not all(parts) or len(parts) > MAX_PARTS:
            problems.add(value.place, "", "no key of a job; write it as stages.NAME.key=VALUE")
        elif parts[0] in {"inputs", "outputs"} and len(parts) > 1:
            _set_named(root, parts, value, problems)
        elif parts[0] == "stages" and len(parts) > 1:
            _set_stage(root, parts, value, problems)
        else:
            _descend(root, parts, value, problems)


def stage_name(node: Node) -> str | None:
    """The name of a stage's entry: its `as`, else its `use`."""
    for key in ("as", "use"):
        if (found := node.child(key)) is not None and not isinstance(found.value, dict | list | None):
            return str(found.value)
    return None


def _read(overrides: Mapping[str, Any] | Sequence[str], problems: Problems) -> Iterable[tuple[str, Node]]:
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            yield key, node_of(value, Place(0, 0, f"override {_shown(key, repr(value))}"))
        return
    for item in overrides:
        key, sign, text = item.partition("=")
        key = key.strip()
        place = Place(0, 0, f"--set {_shown(key, text)}" if sign else f"--set {item[:SHOWN]}")
        if not sign or not key:
            problems.add(place, "", "write it as KEY=VALUE, as in stages.NAME.min_maf=0.05")
            continue
        before = len(problems.found)
        node = read_yaml(text, problems, place.given) or Node(None, place)
        if len(problems.found) == before:
            yield key, node


def _shown(key: str, text: str) -> str:
    """KEY=VALUE as messages show it: a secret hidden, a long value cut."""
    secret = any(is_secret(part) for part in [*key.split("."), text])
    shown = f"{key}={MASK if secret else hidden(text)}"
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def _set_named(root: Node, parts: list[str], value: Node, problems: Problems) -> None:
    section, name = parts[0], parts[1]
    entries = root.child(section)
    if entries is None and section == "outputs":
        entries = root.value[section] = Node({}, value.place)
    if entries is None or not isinstance(entries.value, dict):
        _no_entry(parts, [], value, problems)
    elif len(parts) > 2:
        if name not in entries.value:
            _no_entry(parts, entries.value, value, problems)
        else:
            _descend(entries.value[name], parts[2:], value, problems, parts[:2])
    elif name not in entries.value and (section == "inputs" or value.value is None):
        _no_entry(parts, entries.value, value, problems)
    elif value.value is None:
        del entries.value[name]
    else:
        entries.value[name], entries.keys[name] = value, value.place


def _set_stage(root: Node, parts: list[str], value: Node, problems: Problems) -> None:
    entries, name = root.child("stages"), parts[1]
    stages = entries.value if entries is not None and isinstance(entries.value, list) else []
    names = [stage_name(stage) for stage in stages]
    if name not in names:
        _no_entry(parts, [known for known in names if known], value, problems)
        return
    index = names.index(name)
    if len(parts) > 2:
        _descend(stages[index], parts[2:], value, problems, parts[:2])
    elif value.value is None:
        del stages[index]
    else:
        if isinstance(value.value, dict) and "as" not in value.value:
            value.value["as"] = Node(name, value.place)
        stages[index] = value


def _no_entry(parts: list[str], known: Iterable[str], value: Node, problems: Problems) -> None:
    problems.add(value.place, ".".join(parts[:2]), f"the job has no {parts[0].removesuffix('s')} {parts[1]!r}.{near(parts[1], known)}")


def _descend(node: Node, parts: list[str], value: Node, problems: Problems, above: Sequence[str] = ()) -> None:
    """Set a key below a mapping, with the mappings on the way made where they are missing."""
    path = list(above)
    for part in parts[:-1]:
        if not isinstance(node.value, dict):
            break
        path.append(part)
        below = node.child(part)
        if below is None or below.value is None:
            below = node.value[part] = Node({}, value.place)
            node.keys[part] = value.place
        elif path == ["cluster"] and isinstance(below.value, str):
            try:
                below.value = node_of(keys_of_text(below.value), below.place).value
            except ValueError as error:
                problems.add(below.place, "cluster", str(error))
                return
        node = below
    if not isinstance(node.value, dict):
        problems.add(value.place, ".".join([*path, parts[-1]]), f"{'.'.join(path)} is {found_text(node.value)}: set the whole of it")
        return
    node.value[parts[-1]], node.keys[parts[-1]] = value, value.place
