"""What --list, --describe and --schema print: the stages and formats, from their own classes."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from pipeline.errors import JobError, near
from pipeline.format import InputFormat, OutputFormat, format_class, format_files
from pipeline.job_schema import described, has_kind, job_schema
from pipeline.registry import stage_class, stage_files, stage_summary
from pipeline.stage import Stage
from pipeline.type_words import schema_of, type_words

__all__ = ["describe_stage", "job_schema", "list_stages"]

WIDTH = 110
EXAMPLE = re.compile(r"^Examples?:[ \t]*\n?", re.MULTILINE)


def list_stages() -> str:
    """Every stage with its first sentence, in groups, without importing one; and the formats."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, module in stage_files().items():
        parts = module.split(".")
        groups[parts[-2] if parts[:2] == ["pipeline", "stages"] and len(parts) > 3 else parts[0]].append(name)
    width = max(map(len, stage_files()), default=0)
    lines = []
    for group in sorted(groups):
        lines += [group, *(f"  {name:{width}}  {stage_summary(name)}".rstrip() for name in sorted(groups[group])), ""]
    return "\n".join([*lines, f"formats: {', '.join(sorted(format_files()))}", "", "--describe NAME tells more about a stage or a format."])


def describe_stage(name: str) -> str:
    """What a stage, or a format, does: its docstring, what it reads, its parameters and an example. Raises JobError for an unknown name."""
    if name in stage_files():
        kind = stage_class(name)
        text, example = _split(described(kind))
        return "\n\n".join(filter(None, (name, text, _reads(kind), _parameters(kind, "parameters"), example)))
    if name in format_files():
        return "\n\n".join([name, *_format(name)])
    raise JobError(f"there is no stage or format {name!r}.{near(name, [*stage_files(), *format_files()])}")


def _format(name: str) -> list[str]:
    """A format's two sides."""
    lines = []
    for heading, kind in (("as an input", InputFormat), ("as an output", OutputFormat)):
        if has_kind(name, kind):
            found: type[BaseModel] = format_class(name, kind)
            lines += [f"{heading}: {described(found)}", _parameters(found, "keys")]
    return lines


def _split(text: str) -> tuple[str, str]:
    """The docstring and its example, which may go on over several lines."""
    match = EXAMPLE.search(text)
    if match is None:
        return text, ""
    example, _, rest = text[match.end() :].partition("\n\n")
    body = "\n\n".join(filter(None, (text[: match.start()].strip(), rest.strip())))
    return body, "example:\n" + textwrap.indent("- " + textwrap.dedent(example).strip(), "  ")


def _reads(kind: type[Stage]) -> str:
    if kind.roles == ("*",):
        return "reads: from: [TABLE, TABLE, ...]"
    if len(kind.roles) == 1:
        return "reads: from: TABLE"
    return f"reads: from: {{{', '.join(f'{role}: TABLE' for role in kind.roles)}}}" if kind.roles else "reads: no table"


def _parameters(kind: type[BaseModel], heading: str) -> str:
    """One paragraph a parameter: name, type in words, default, meaning."""
    if not kind.model_fields:
        return f"{heading}: none"
    schema = schema_of(kind)
    properties = schema.get("properties", {})
    lines = [f"{heading}:"]
    for name, field in kind.model_fields.items():
        words = type_words(properties.get(field.alias or name, {}), schema)
        lines.append(f"  {field.alias or name}: {words}, {_default(field.default, required=field.is_required())}")
        meaning = field.description or ""
        lines += textwrap.wrap(meaning, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines)


def _default(value: object, *, required: bool) -> str:
    if required:
        return "required"
    if value is None or value is PydanticUndefined or value == ():
        return "not given unless you say so"
    if isinstance(value, bool):
        return f"default {str(value).lower()}"
    return f"default {list(value)}" if isinstance(value, tuple) else f"default {value!r}" if value == "" else f"default {value}"
