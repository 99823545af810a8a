"""What inputs, stages and outputs are known by from run to run, field by field, so that what has changed can be named.

A table is known by all that it is made of: the stage and its version, its parameters, the seed, the backend, the code, the libraries, and
whatever it reads; an input by its files and how they are read. Names of jobs, comments, places, and how many parts or workers there are,
change nothing; but for what learns over workers, where the cluster is part of the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from pydantic import BaseModel

from pipeline.files import absolute
from pipeline.job.environment import is_secret
from pipeline.job.spec import Output
from pipeline.plan.fingerprints import digest, fields_of
from pipeline.plan.plan import Plan, PlannedStage
from pipeline.plan.unchanged import Stamps
from pipeline.plan.versions import code_of, versions
from pipeline.urls import MASK

ELSEWHERE = ("results", "cluster", "checkpoints", "price")  # what a job says that shows in no page and no file
SHOWN = 60  # characters of a value
NAMELESS = ("size of", "time of", "files", "libraries", "code")  # fields whose values say less than that they changed


@dataclass(frozen=True)
class Meaning:
    """What one input, stage or output is known by: a digest and a short text per field, whom it reads, and `key`, the digest of all."""

    fields: Mapping[str, tuple[str, str]]
    reads: tuple[str, ...]
    key: str

    def document(self) -> dict[str, Any]:
        """The same for a file."""
        return {"key": self.key, "fields": {name: list(known) for name, known in self.fields.items()}, "reads": list(self.reads)}


class Meanings:
    """Those of a plan: inputs and stages by name, outputs apart."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.of: dict[str, Meaning] = {}
        self.outputs: dict[str, Meaning] = {}
        for name, entry in plan.job.inputs.items():
            fields = {"format": entry.reader.name, **fields_of(entry.reader, entry.reader.asides), **_files(plan.stamps.get(name, {}))}
            state = list(entry.reader.state())
            self.of[name] = _meaning(fields | ({"state": state} if state else {}), (), self.of)
        for stage in plan.stages:
            self.of[stage.spec.name] = self._stage(stage)
        for name, output in plan.job.outputs.items():
            self.outputs[name] = self._output(output)

    def document(self) -> dict[str, Any]:
        """All of them for a file."""
        of = {name: meaning.document() for name, meaning in self.of.items()}
        shown = digest({key: value for key, value in self.plan.job.raw.items() if key not in ELSEWHERE})
        return {"job": shown, "of": of, "outputs": {name: meaning.document() for name, meaning in self.outputs.items()}}

    def table_key(self, table: str) -> str:
        """What a table of a stage is known by."""
        stage, _, part = table.partition(".")
        return digest([self.of[stage].key, "table", part])

    def beside_key(self, stage: str) -> str:
        """What a stage gives beside its tables is known by."""
        return digest([self.of[stage].key, "beside"])

    def _stage(self, stage: PlannedStage) -> Meaning:
        spec, plan = stage.spec, self.plan
        fields: dict[str, Any] = {"use": spec.use, f"version of {spec.use}": spec.stage.version, **fields_of(spec.stage)}
        fields |= {f"from.{role}" if len(spec.inputs) > 1 else "from": table for role, table in sorted(spec.inputs.items())}
        fields |= _files(plan.stamps.get(spec.name, {}))
        fields |= {"seed": plan.job.seed, "backend": plan.backend, "libraries": versions(), "code": code_of(type(spec.stage).__module__)}
        if needs_workers(fields):
            fields["cluster"] = plan.job.cluster.model_dump(mode="json")
        if any(field.exclude for field in type(spec.stage).model_fields.values()):
            fields["secrets"] = token_hex(16)  # they are in no record, so nobody can say whether they are as they were
        if plan.job.counts != "boundaries":
            fields["counts"] = plan.job.counts
        return _meaning(fields, {table.partition(".")[0] for table in spec.inputs.values()}, self.of)

    def _output(self, output: Output) -> Meaning:
        fields = {
            "from": output.table,
            "format": output.format,
            **fields_of(output.writer),
            "sort_by": output.sort_by.names,
            "columns": output.columns,
            "append": output.append,
            "name": output.name,
        }
        return _meaning(fields, {output.table.partition(".")[0]}, self.of)


def first_difference(name: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """In which field a stage or input differs first from what was known of it, or what it reads does; '' where in none.

    `now` and `before` are documents by name, as `Meanings.document` has them in `of`.
    """
    if name not in before:
        return "it was not there before"
    new, old = now[name], before[name]
    if new["key"] == old["key"]:
        return ""
    for field, (known, shown) in new["fields"].items():
        if field not in old["fields"]:
            return f"{field} was not there before"
        was, was_shown = old["fields"][field]
        if was != known:
            plain = was_shown == shown or field.startswith(NAMELESS)
            return f"{field} changed" if plain else f"{field} {was_shown} -> {shown}"
    if gone := [field for field in old["fields"] if field not in new["fields"]]:
        return f"{gone[0]} is no longer there"
    for read in new["reads"]:
        if found := first_difference(read, now, before):
            of = read if "use" in now[read]["fields"] else f"input {read}"
            return found if ": " in found else f"{of}: {found}"
    return "it reads other tables"


def needs_workers(value: Any) -> bool:
    """Whether parameters say that a model is learned over workers: what comes of that depends on how many there are."""
    if isinstance(value, BaseModel):
        return needs_workers(value.model_dump())
    if isinstance(value, Mapping):
        return value.get("workers") == "all" or value.get("parallel") is not None or any(map(needs_workers, value.values()))
    return False


def _files(stamps: Stamps) -> dict[str, Any]:
    """Fields of files: their names, and of each what it is known by."""
    fields: dict[str, Any] = {"files": [absolute(file) for file in stamps]} if stamps else {}
    for file, known in stamps.items():
        fields[f"size of {file}"], fields[f"time of {file}"] = known.size, [known.changed, known.etag]
    return fields


def _meaning(fields: Mapping[str, Any], reads: Iterable[str], of: Mapping[str, Meaning]) -> Meaning:
    named = {name: (digest(value), _shown(name, value)) for name, value in fields.items()}
    read = tuple(sorted(reads))
    return Meaning(named, read, digest([sorted((name, known) for name, (known, _) in named.items()), [of[name].key for name in read]]))


def _shown(name: str, value: Any) -> str:
    """A value in few characters; secrets are not."""
    text = MASK if is_secret(name) or _has_secret(value) else json.dumps(value, default=str)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _has_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(is_secret(str(key)) or _has_secret(child) for key, child in value.items())
    return isinstance(value, list | tuple) and any(map(_has_secret, value))
