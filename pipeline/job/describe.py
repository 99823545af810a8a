"""What --list, --describe and --schema print: the stages and formats, from their own classes."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from pipeline.errors import JobError, near
from pipeline.format import InputFormat, OutputFormat
from pipeline.job.elsewhere import places_of
from pipeline.job.schema import described, job_schema
from pipeline.job.type_words import branches, schema_of, type_words
from pipeline.registry import FORMATS, STAGES, format_side, stage_class
from pipeline.stage import Stage

__all__ = ["describe_stage", "job_schema", "list_stages", "stage_reference"]

WIDTH = 110
OURS = f"{STAGES.package}."
EXAMPLE = re.compile(r"^Examples?:[ \t]*\n?", re.MULTILINE)


def list_stages() -> str:
    """Every stage with its first sentence, in groups, without importing one; and the formats."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, module in STAGES.modules.items():
        groups[_group(module)].append(name)
    width = max(map(len, STAGES.modules), default=0)
    lines = []
    for group in sorted(groups):
        lines += [group, *(f"  {name:{width}}  {_sentence(STAGES.summary(name))}".rstrip() for name in sorted(groups[group])), ""]
    return "\n".join(
        [*lines, f"formats: {', '.join(sorted(FORMATS.modules))}", "", "--describe NAME tells more about a stage or a format."]
    )


def _group(module: str) -> str:
    """The folder of a stage of ours, or the package that another one comes with."""
    return module.split(".")[-2 if module.startswith(OURS) else 0]


def _sentence(text: str) -> str:
    """The first sentence of a line."""
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def describe_stage(name: str) -> str:
    """What a stage, or a format, does: its docstring, what it reads, its parameters and an example. Raises JobError for an unknown name."""
    if name in STAGES.modules:
        kind = stage_class(name)
        text, example = split_example(described(kind))
        example = "example:\n" + textwrap.indent(f"- {example}", "  ") if example else ""
        return "\n\n".join(filter(None, (name, text, _reads(kind), _parameters(kind, "parameters"), example)))
    if name in FORMATS.modules:
        return "\n\n".join([name, *_format(name)])
    if places := places_of(name):
        raise JobError(f"{name!r} is no stage and no format, but {places}. See --describe of the stage.")
    raise JobError(f"there is no stage or format {name!r}.{near(name, [*STAGES.modules, *FORMATS.modules])}")


def stage_reference() -> str:
    """docs/stages.md: what `describe_stage` says of every stage of ours, group by group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, module in sorted(STAGES.modules.items()):
        if module.startswith(OURS):
            groups[_group(module)].append(name)
    lines = [
        "# Stages",
        "",
        "Made from the code by `make schema`. The same is printed by `python -m pipeline.run --describe STAGE`.",
        "What is said of several workers (exchanges, and the order of what comes out) holds for tables beyond memory as well.",
        "",
    ]
    for group in sorted(groups):
        lines += [f"## {group}", ""]
        for name in groups[group]:
            lines += [f"### {name}", "", "```text", describe_stage(name).rstrip(), "```", ""]
    return "\n".join(lines)


def _format(name: str) -> list[str]:
    """A format's two sides."""
    sides = {"input": format_side(name, InputFormat), "output": format_side(name, OutputFormat)}
    return [text for side, kind in sides.items() if kind for text in (f"as an {side}: {described(kind)}", _parameters(kind, "keys"))]


def split_example(text: str) -> tuple[str, str]:
    """A docstring without its example, and the example, YAML that may go on over several lines; '' where there is none."""
    match = EXAMPLE.search(text)
    if match is None:
        return text, ""
    example, _, rest = text[match.end() :].partition("\n\n")
    return "\n\n".join(filter(None, (text[: match.start()].strip(), rest.strip()))), textwrap.dedent(example).strip()


def _reads(kind: type[Stage]) -> str:
    if kind.roles == ("*",):
        return "reads: from: [TABLE, TABLE, ...]"
    if kind.roles == ("**",):
        return "reads: from: {NAME: TABLE, ...}"
    if len(kind.roles) == 1:
        return "reads: from: TABLE"
    spare = f" ({' and '.join(sorted(kind.optional))} may be left out)" if kind.optional else ""
    return f"reads: from: {{{', '.join(f'{role}: TABLE' for role in kind.roles)}}}{spare}" if kind.roles else "reads: no table"


def _parameters(kind: type[BaseModel], heading: str) -> str:
    """One paragraph a parameter: name, type in words, default, meaning."""
    if not kind.model_fields:
        return f"{heading}: none"
    schema = schema_of(kind)
    lines = [f"{heading}:"]
    for name, field in kind.model_fields.items():
        part = schema.get("properties", {}).get(field.alias or name, {})
        default = _default(field.default, required=field.is_required())
        lines += _entry(field.alias or name, f"{type_words(part, schema)}, {default}", field.description or "")
        lines += _keys(part, schema)
    return "\n".join(lines)


def _entry(name: str, words: str, meaning: str, indent: int = 2) -> list[str]:
    spaces = " " * (indent + 4)
    return [f"{' ' * indent}{name}: {words}", *textwrap.wrap(meaning, WIDTH, initial_indent=spaces, subsequent_indent=spaces)]


def _keys(part: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """The keys of the mapping that a parameter is, or of those that it holds."""
    lines = []
    for branch in branches([part], schema):
        inner = branch.get("additionalProperties") if branch.get("type") == "object" else branch.get("items")
        for child in [branch, *(branches([inner], schema) if isinstance(inner, dict) else ())]:
            for name, below in child.get("properties", {}).items():
                given = "required" if name in child.get("required", []) else _default(below.get("default"), required=False)
                lines += _entry(name, f"{type_words(below, schema)}, {given}", below.get("description", ""), 6)
    return lines


def _default(value: object, *, required: bool) -> str:
    if required:
        return "required"
    if value is None or value is PydanticUndefined or value == ():
        return "optional"
    if models := [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, BaseModel)]:
        given = [", ".join(f"{key}: {of}" for key, of in one.model_dump(exclude_unset=True).items()) for one in models]
        return f"default [{', '.join(f'{{{text}}}' for text in given)}]" if any(given) else "optional"
    if isinstance(value, bool):
        return f"default {str(value).lower()}"
    return (
        f"default {list(value)}"
        if isinstance(value, tuple)
        else f"default {value if str(value).isidentifier() or not isinstance(value, str) else repr(value)}"
    )
