"""${NAME} and ${NAME:-default} in a job file, and which of its values no record may show."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from pipeline.job.yaml_text import scalar
from pipeline.job.yaml_tree import Node, Problems, found_text
from pipeline.urls import MASK, hidden

REFERENCE = re.compile(r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\})?")
SECRET = re.compile(
    r"passw|pwd$|secret|credential|(api|access|private|account|auth)_?key|storage_options|(^|_)(token|sas|connection_string)s?($|_)"
)


def is_secret(key: str) -> bool:
    """Whether a key, or the name of a variable, is one that holds a secret: password, token, storage_options and the like."""
    return SECRET.search(re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", key).lower()) is not None


def fill_environment(node: Node, problems: Problems, environ: Mapping[str, str] | None = None) -> None:
    """Replace ${NAME} in every text of the tree; a text without quotes is read as YAML afterwards, so ${N} can be a number.

    `$${` stands for `${` itself. A variable that is not set and has no default is a problem. Text under a secret key stays text.
    """
    _fill(node, "", problems, os.environ if environ is None else environ)


def _fill(node: Node, key: str, problems: Problems, environ: Mapping[str, str]) -> None:
    for name, child in node.children():
        _fill(child, f"{key}.{name}" if key else name, problems, environ)
    if not isinstance(node.value, str) or "${" not in node.value:
        return
    node.source = node.value
    text = REFERENCE.sub(lambda match: _replaced(match, node, key, (problems, environ)), node.value)
    try:
        node.value = scalar(text) if node.plain and not (is_from_secret(node) or any(map(is_secret, key.split(".")))) else text
    except ValueError as error:
        problems.add(node.place, key, str(error))


def _replaced(match: re.Match[str], node: Node, key: str, about: tuple[Problems, Mapping[str, str]]) -> str:
    problems, environ = about
    if match[0] == "$${":
        return "${"
    name, default = match["name"], match["default"]
    if name is None:
        problems.add(node.place, key, f"{found_text(node.source)}: after ${{ a name and }} are needed, as in ${{NAME}}; $${{ is ${{ itself")
        return match[0]
    if default is not None:
        return environ.get(name) or default.removeprefix(":-")
    if name not in environ:
        problems.add(node.place, key, f"the environment variable {name} is not set. Set it, or give a default: ${{{name}:-value}}")
    return environ.get(name, match[0])


def masked(node: Node, *, secret: bool = False) -> Any:
    """The tree as plain data for the record: secrets are shown as ${NAME} where they came from there, else as ***."""
    if isinstance(node.value, dict):
        return {key: masked(child, secret=secret or is_secret(key)) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [masked(child, secret=secret) for child in node.value]
    if node.value is None:
        return None
    names = [match["name"] for match in REFERENCE.finditer(node.source or "") if match["name"]]
    if secret:
        return node.source if names and REFERENCE.sub("", node.source or "") == "" and not _has_default(node) else MASK
    if is_from_secret(node):
        return hidden(str(node.source))
    return hidden(node.value) if isinstance(node.value, str) else node.value


def is_from_secret(node: Node) -> bool:
    """Whether a value came, all or in part, from a variable whose name is that of a secret."""
    return any(match["name"] and is_secret(match["name"]) for match in REFERENCE.finditer(node.source or ""))


def _has_default(node: Node) -> bool:
    return any(match["default"] for match in REFERENCE.finditer(node.source or ""))
