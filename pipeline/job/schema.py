"""The JSON schema of job files, from the models of all stages and formats: an editor completes and checks a job as it is typed.

`python -m pipeline.run --schema > jobs/schema.json` writes it; a job names it in its first line.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema
from pydantic_core import core_schema

from pipeline.format import InputFormat, OutputFormat
from pipeline.job.spec import JobSettings, OutputKeys
from pipeline.registry import FORMATS, STAGES, format_side, stage_class

TABLE = {"type": "string", "description": "The name of an input, of a stage, or of a part of one (NAME.part)."}
DIALECT = "http://json-schema.org/draft-07/schema#"


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, and text wherever a validator stands before a list or a mapping: `on: loan_id`, `mean(balance)`."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> dict[str, Any]:
        """What the validator hands on, or text."""
        inner = super().function_before_schema(schema)
        plain = schema.get("json_schema_input_schema") is not None or inner.get("type") in {"string", "number", "integer", "boolean"}
        return inner if plain else {"anyOf": [{"type": "string"}, inner]}

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> dict[str, Any]:
        """Any of the union's models: where the tag is not given, several may fit."""
        return {"anyOf": super().tagged_union_schema(schema)["oneOf"]}


def job_schema() -> dict[str, Any]:
    """The schema of a whole job file (JSON Schema draft 7)."""
    stages = {name: stage_class(name) for name in sorted(STAGES.modules)}
    readers = {name: reader for name in sorted(FORMATS.modules) if (reader := format_side(name, InputFormat))}
    writers = {name: writer for name in sorted(FORMATS.modules) if (writer := format_side(name, OutputFormat))}
    models: list[type[BaseModel]] = [JobSettings, OutputKeys, *stages.values(), *readers.values(), *writers.values()]
    pairs: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in models]
    references, document = models_json_schema(pairs, schema_generator=_Generator)
    shared: dict[str, dict[str, Any]] = document["$defs"]
    taken = {model: shared[references[model, "validation"]["$ref"].rsplit("/", 1)[-1]] for model in models}
    tops = {references[model, "validation"]["$ref"].rsplit("/", 1)[-1] for model in models}
    entries = {f"stage_{name}": _stage(name, model, taken[model]) for name, model in stages.items()}
    entries |= {f"input_{name}": _entry(name, model, taken[model], needed=True) for name, model in readers.items()}
    own = _object(taken[OutputKeys])
    entries |= {f"output_{name}": _entry(name, model, taken[model], own) for name, model in writers.items()}
    definitions = {name: part for name, part in shared.items() if name not in tops} | entries
    return _document(_object(taken[JobSettings]), definitions)


def _document(settings: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    def _any_of(kind: str) -> dict[str, Any]:
        return {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in definitions if name.startswith(f"{kind}_")]}

    named = {"type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$"}}
    sections = {
        "inputs": {
            **named,
            "minProperties": 1,
            "additionalProperties": _any_of("input"),
            "description": "The tables that are read, by name.",
        },
        "stages": {
            "type": ["array", "null"],
            "items": _any_of("stage"),
            "description": "What is done with them; the order is found by name.",
        },
        "outputs": {**named, "additionalProperties": _any_of("output"), "description": "The tables that are written, by name."},
    }
    return {
        "$schema": DIALECT,
        "title": "Job",
        "description": "A job of this pipeline: inputs, the stages that turn them into other tables, and the outputs to write.",
        "type": "object",
        "additionalProperties": False,
        "required": ["job", "inputs"],
        "properties": settings["properties"] | sections,
        "$defs": definitions,
    }


def _stage(name: str, model: type[BaseModel], part: dict[str, Any]) -> dict[str, Any]:
    """One stage's entry: its parameters, `use`, `from` and `as`."""
    model_stage = stage_class(name)
    schema = _object(part)
    keys = {
        "use": {"const": name, "description": summary(model)},
        "from": _source(model_stage.roles, model_stage.optional),
        "as": {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$", "description": f"The table's name; {name} if not given."},
    }
    keys["checkpoint"] = {"type": "boolean", "description": "Keep its tables: always, or never; by default where that pays."}
    required = ["use", *(["from"] if model_stage.roles else []), *schema.get("required", [])]
    return {
        **schema,
        "title": name,
        "description": described(model),
        "properties": keys | schema.get("properties", {}),
        "required": required,
    }


def _source(roles: tuple[str, ...], optional: frozenset[str]) -> dict[str, Any]:
    if roles == ("*",):
        return {"anyOf": [TABLE, {"type": "array", "items": TABLE, "minItems": 1}], "description": "The tables that the stage reads."}
    if roles == ("**",):
        named = {"type": "object", "additionalProperties": TABLE, "minProperties": 1}
        return {"anyOf": [TABLE, {"type": "array", "items": TABLE, "minItems": 1}, named], "description": "The tables, by name."}
    required = [role for role in roles if role not in optional]
    mapping = {"type": "object", "properties": dict.fromkeys(roles, TABLE), "required": required, "additionalProperties": False}
    return {"anyOf": [TABLE, mapping], "description": TABLE["description"]} if len(roles) == 1 else mapping


def _entry(
    name: str, model: type[BaseModel], part: dict[str, Any], own: Mapping[str, Any] | None = None, *, needed: bool = False
) -> dict[str, Any]:
    """One format's entry of inputs or outputs: its keys, `format`, and those of every output."""
    schema, own = _object(part), own or {}
    keys = {**own.get("properties", {}), "format": {"const": name, "description": summary(model)}}
    default = name == "parquet" and not needed
    required = [*([] if default else ["format"]), *own.get("required", []), *schema.get("required", [])]
    return {
        **schema,
        "title": name,
        "description": described(model),
        "properties": keys | schema.get("properties", {}),
        "required": required,
    }


def _object(part: dict[str, Any]) -> dict[str, Any]:
    """The mapping among what a model takes; a validator before it may let text pass too."""
    for branch in part.get("anyOf", [part]):
        if branch.get("type") == "object":
            return dict(branch)
    return part


def described(model: type[BaseModel]) -> str:
    """A model's own docstring; '' where it has none."""
    return inspect.cleandoc(model.__doc__ or "")


def summary(model: type[BaseModel]) -> str:
    """Its first paragraph."""
    return " ".join(described(model).split("\n\n")[0].split())
