"""Pydantic's errors as plain sentences with their place in the job file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from pipeline.errors import near
from pipeline.job.environment import is_from_secret, is_secret
from pipeline.job.spec import Name, TableName
from pipeline.job.type_words import below, branches, schema_of, type_words
from pipeline.job.yaml_tree import Node, Place, Problems, found_text
from pipeline.urls import MASK, hidden

# Pydantic's name of a wrong type -> what was expected.
OF_BAD_ROWS = ("on_bad_rows", "max_bad_rows")  # keys of inputs of text, which users look for in others
EXPECTED = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "mapping": "a mapping",
    "none": "null",
    "date": "a date such as 2026-01-31",
    "datetime": "a time such as 2026-01-31T10:20:30",
}
# Names of types in SQL, pandas and Python -> ours.
ELSEWHERE = {
    "tinyint": "int8", "smallint": "int16", "int": "int64", "integer": "int64", "bigint": "int64", "long": "int64", "real": "float32",
    "float": "float64", "double": "float64", "number": "float64", "bool": "boolean", "logical": "boolean", "timestamp": "datetime",
    "text": "string", "varchar": "string", "str": "string", "utf8": "string", "object": "string",
}  # fmt: skip
BOUNDS = {
    "greater_than_equal": ("ge", "{value} is below the smallest value allowed, {bound}"),
    "greater_than": ("gt", "{value} is too small: it must be above {bound}"),
    "less_than_equal": ("le", "{value} is above the largest value allowed, {bound}"),
    "less_than": ("lt", "{value} is too large: it must be below {bound}"),
    "multiple_of": ("multiple_of", "{value} is no multiple of {bound}"),
}


@dataclass(frozen=True)
class Subject:
    """What is checked: model, entry in the file, the entry's key, its name in a sentence, and keys that are known beside the model's."""

    model: type[BaseModel]
    node: Node
    key: str
    name: str
    known: tuple[str, ...] = ()


def report(error: ValidationError, subject: Subject, problems: Problems) -> None:
    """Add every problem of a failed validation, one sentence for each place."""
    groups: dict[tuple[str | int, ...], list[Mapping[str, Any]]] = {}
    for item in _telling(error):
        path, rest = _follow(subject.node, item["loc"])
        if item["type"] == "missing":
            path = (*path, rest[-1])
        elif item["type"] == "union_tag_invalid":
            path = (*path, item["ctx"]["discriminator"].strip("'"))
        groups.setdefault(path, []).append(item)
    schema = schema_of(subject.model)
    for path, items in groups.items():
        key = ".".join(filter(None, (subject.key, *map(str, path))))
        for what in _sentences(items, path, subject, schema):
            problems.add(_place(subject.node, path, items), key, what)


def _telling(error: ValidationError) -> list[Mapping[str, Any]]:
    """The errors that are not mere consequences: no default for want of another key, no list too short because its items were refused."""
    items = [item for item in error.errors(include_url=False) if item["type"] != "default_factory_not_called"]
    above = {item["loc"][:size] for item in items for size in range(len(item["loc"]))}
    return [item for item in items if not (item["type"] == "too_short" and item["loc"] in above)]


def check_numbers(values: BaseModel, subject: Subject, problems: Problems) -> None:
    """Refuse true and false where a number is wanted; Pydantic takes them for 1 and 0."""
    for name, field in type(values).model_fields.items():
        child = subject.node.child(field.alias or name)
        value = getattr(values, name)
        if child is not None and isinstance(child.value, bool) and isinstance(value, int | float) and not isinstance(value, bool):
            what = f"expected {EXPECTED['int' if isinstance(value, int) else 'float']}, found {found_text(child.value)}"
            problems.add(child.place, f"{subject.key}.{name}", what)


def _follow(node: Node, loc: tuple[str | int, ...]) -> tuple[tuple[str | int, ...], list[str | int]]:
    """The keys of `loc` that lead down from a node, and those that do not (names of a union's branches, a missing key)."""
    path: list[str | int] = []
    rest: list[str | int] = []
    for key in loc:
        child = node.child(key)
        if child is None:
            rest.append(key)
        else:
            node, rest = child, []
            path.append(key)
    return tuple(path), rest


def _place(node: Node, path: tuple[str | int, ...], items: list[Mapping[str, Any]]) -> Place:
    """Where the value stands; of an unknown key the key, of a missing one what it is missing from."""
    for key in path:
        if items[0]["type"] == "extra_forbidden" and key == path[-1] and key in node.keys:
            return node.keys[str(key)]
        child = node.child(key)
        if child is None:
            break
        node = child
    return node.place


def _sentences(items: list[Mapping[str, Any]], path: tuple[str | int, ...], subject: Subject, schema: dict[str, Any]) -> list[str]:
    """What is wrong at one place: several wrong types of a union in one sentence."""
    kinds = [_expected(item) for item in items]
    node = _given(subject.node, path)
    secret = is_from_secret(node) or any(is_secret(str(key)) for key in (*subject.key.split("."), *path))
    shown = MASK if secret else hidden(found_text(node.value))
    if all(kinds):
        wanted = list(dict.fromkeys(kind for kind in kinds if kind))
        value = node.value
        hint = f". For text put it in quotes: '{shown}'" if "text" in wanted and isinstance(value, int | float) and shown != MASK else ""
        return [f"expected {' or '.join(wanted)}, found {shown}{hint}"]
    unions = [item for item, kind in zip(items, kinds, strict=True) if kind is None]
    return list(dict.fromkeys(_sentence(item, path, shown, (subject, schema)) for item in unions))


def _given(node: Node, path: tuple[str | int, ...]) -> Node:
    for key in path:
        node = node.child(key) or node
    return node


def _is_of(node: Node, part: dict[str, Any]) -> bool:
    """Whether what is given has the constants of one part of a union, which tell its parts apart: a rule's `check`, say."""
    told = {name: found["const"] for name, found in part.get("properties", {}).items() if "const" in found}
    return all((child := node.child(name)) is None or child.value == value for name, value in told.items())


def _expected(item: Mapping[str, Any]) -> str | None:
    """What type was expected where the type is wrong; None for any other error."""
    kind = str(item["type"])
    if kind == "int_from_float":
        return EXPECTED["int"]
    match = re.fullmatch(r"(.+?)_(type|parsing|from_date_parsing|attributes_type)", kind)
    return EXPECTED.get(match[1]) if match else None


def _sentence(item: Mapping[str, Any], path: tuple[str | int, ...], shown: str, about: tuple[Subject, dict[str, Any]]) -> str:
    (subject, schema), kind, context = about, item["type"], item.get("ctx", {})
    if kind in BOUNDS:
        bound, text = BOUNDS[kind]
        if shown in {"true", "false"}:
            return f"expected {EXPECTED['float']}, found {shown}"
        return text.format(value=shown, bound=context[bound])
    if kind == "missing":
        found = below(schema, path)
        return f"missing: {path[-1]}" + (f" ({type_words(found[0], schema)})" if found else "")
    if kind == "extra_forbidden":
        node = _given(subject.node, path[:-1])
        known = {name for part in branches(below(schema, path[:-1]), schema) if _is_of(node, part) for name in part.get("properties", {})}
        known |= set(subject.known) if len(path) == 1 else set()
        whole = " Its rows are not bad one by one: a file is read whole, or refused." if path[-1] in OF_BAD_ROWS else ""
        return f"unknown parameter {str(path[-1])!r} of {subject.name}.{whole}{near(str(path[-1]), known)}"
    if kind in {"literal_error", "enum", "union_tag_invalid"}:
        expected = str(context.get("expected") or context["expected_tags"])
        choices = re.findall(r"'([^']*)'", expected) or [expected]
        given = shown.strip("'")
        other = ELSEWHERE.get(given.lower()) if set(choices) >= set(ELSEWHERE.values()) else None
        hint = near(other or given, choices) if len(choices) > 1 else f" Known: {choices[0]}."
        return f"{shown} is not one of the choices.{hint}"
    if kind == "string_pattern_mismatch":
        return f"{shown} is not a {type_words((below(schema, path) or [{}])[0], schema)}"
    if kind in {"too_short", "string_too_short"}:
        return "must not be empty" if context["min_length"] == 1 else f"{shown} is too short: at least {context['min_length']} are needed"
    if kind in {"too_long", "string_too_long"}:
        return f"{shown} is too long: at most {context['max_length']} are allowed"
    if kind in {"value_error", "assertion_error"}:
        return str(context.get("error", item["msg"]))
    return f"{item['msg']}, found {shown}"


def check_name(value: Any, place: Place, key: str, problems: Problems) -> None:
    """Refuse a name of an input, stage or output that a folder or a message could not carry."""
    _check_text(value, Name, place, (key, problems))


def check_table_name(value: Any, place: Place, key: str, problems: Problems) -> bool:
    """Refuse what cannot be a table's name; returns whether it can."""
    return _check_text(value, TableName, place, (key, problems))


def _check_text(value: Any, kind: Any, place: Place, about: tuple[str, Problems]) -> bool:
    adapter = TypeAdapter(kind)
    try:
        adapter.validate_python(value)
    except ValidationError:
        about[1].add(place, about[0], f"{found_text(value)} is not a {type_words(adapter.json_schema(), {})}")
        return False
    return True
