"""A parameter's type in words, from the JSON schema of its model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model; empty where it has types that have none."""
    try:
        return model.model_json_schema()
    except PydanticInvalidForJsonSchema:
        return {}


def branches(parts: Iterable[dict[str, Any]], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts with references followed and unions taken apart."""
    for part in parts:
        if "$ref" in part:
            yield from branches([schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]], schema)
        elif "anyOf" in part or "oneOf" in part:
            yield from branches(part.get("anyOf") or part["oneOf"], schema)
        else:
            yield part


def below(schema: dict[str, Any], path: tuple[str | int, ...]) -> list[dict[str, Any]]:
    """The JSON schemas of the value at a path."""
    parts = [schema]
    for key in path:
        found = []
        for part in branches(parts, schema):
            child = part.get("items") if isinstance(key, int) else part.get("properties", {}).get(key, part.get("additionalProperties"))
            found += [child] if isinstance(child, dict) else []
        parts = found
    return parts


def type_words(part: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A JSON schema's type in words: 'number from 0 to 1', 'list of texts', 'a | b'. A title in small letters is the words."""
    if "$ref" in part:
        return type_words(schema["$defs"][part["$ref"].rsplit("/", 1)[-1]], schema)
    if branches := part.get("anyOf") or part.get("oneOf"):
        return " or ".join(dict.fromkeys(type_words(branch, schema) for branch in branches))
    if "enum" in part or "const" in part:
        return " | ".join(map(str, part.get("enum", [part.get("const")])))
    title, kind = str(part.get("title", "")), part.get("type")
    if kind in {"number", "integer"}:
        return ("whole number" if kind == "integer" else "number") + _range(part)
    if kind == "array":
        items = part.get("items")
        return f"list of {_plural(type_words(items, schema))}" if isinstance(items, dict) and items else "list"
    if kind == "object":
        values = part.get("additionalProperties")
        return f"mapping of name to {type_words(values, schema)}" if isinstance(values, dict) and values else "mapping"
    if kind == "string":
        return title if title[:1].islower() else "text"
    return {"boolean": "true or false", "null": "null"}.get(str(kind), "anything")


def _range(part: Mapping[str, Any]) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    above, below = part.get("exclusiveMinimum"), part.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    words = [f"above {above:,}" if above is not None else f"of at least {low:,}" if low is not None else ""]
    words.append(f"of at most {high:,}" if high is not None else f"below {below:,}" if below is not None else "")
    return "".join(f" {word}" for word in [" and ".join(filter(None, words))] if word)


def _plural(words: str) -> str:
    """'number from 0 to 1' as 'numbers from 0 to 1'; words that have no such form as they are."""
    return re.sub(r"^(column name|table name|name|whole number|number|text|mapping)\b", r"\1s", words)
