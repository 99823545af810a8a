"""A published run done again from its own record, and what came out beside what was published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from pipeline.errors import PlaceError
from pipeline.format import InputFormat, OutputFormat
from pipeline.job.environment import REFERENCE, is_secret
from pipeline.job.load import load_text
from pipeline.job.spec import Job
from pipeline.registry import FORMATS, format_class
from pipeline.results.manifest import run_path
from pipeline.results.published import Run
from pipeline.results.store import open_store
from pipeline.running.certificate import CERTIFICATE
from pipeline.urls import MASK

KEPT = ("from", "sort_by", "columns")  # keys of an output that is compared by its rows alone


@dataclass(frozen=True)
class Former:
    """A published run: its folder, its record and its certificate."""

    path: str
    record: Mapping[str, Any]
    certificate: Mapping[str, Any]

    def job(self, overrides: Sequence[str]) -> Job:
        """The job as it was run, with `overrides` (KEY=VALUE), secrets from the environment. What is delivered elsewhere is only written.

        Raises JobError, and PlaceError where the record does not have all of it.
        """
        raw = json.loads(json.dumps(self.record["job"]))
        hidden = next((key for key, text in _texts(raw, "") if text == MASK or f":{MASK}@" in text), None)
        if hidden is not None:
            remedy = "Take it from the environment (${NAME}) and run the job again; that run can be replayed."
            raise PlaceError(f"{self.path}: the job had a secret written out at {hidden}, which no record keeps. {remedy}")
        for name, output in raw.get("outputs", {}).items():
            written = format_class(output.get("format", "parquet"), OutputFormat)
            if written.deliver is not OutputFormat.deliver:
                raw["outputs"][name] = {key: output[key] for key in KEPT if key in output}
        pinned = [f"inputs.{name}.{key}={json.dumps(value)}" for name, key, value in self._pinned()]
        return load_text(json.dumps(_quoted(raw, secret=False)), f"the job of {self.path}", [*pinned, *overrides])

    def _pinned(self) -> Iterator[tuple[str, str, Any]]:
        """The versions of inputs that have some, and into how many parts each was cut, so that sums of floats have the same last digits."""
        for name, account in self.record.get("inputs", {}).items():
            fields = format_class(account["use"], InputFormat).model_fields if account.get("use") in FORMATS.modules else {}
            yield from ((name, key, value) for key, value in account.items() if key in fields and value is not None)


@dataclass
class Replayed:
    """How a run done again compares; `outputs` says of each what is the same, `same` whether all is."""

    run: str
    outputs: dict[str, str] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"run": self.run, "same": self.same, "outputs": self.outputs, "otherwise": self.causes}

    @property
    def same(self) -> bool:
        """Whether every value of every output is as it was."""
        return not self.differing


def read_former(place: str) -> Former:
    """The run of a results folder or a run's own. Raises PlaceError where it has no certificate."""
    path = run_path(place)
    store = open_store(path)
    try:
        return Former(path, json.loads(store.read("run.json")), json.loads(store.read(CERTIFICATE)))
    except (OSError, ValueError) as error:
        raise PlaceError(f"{path}: no certificate can be read there ({error}). Runs of earlier releases have none: run the job.") from error


def compared(former: Former, was: Run, now: Run, certificate: Mapping[str, Any]) -> Replayed:
    """What the second run gave beside the first: bytes where they are equal, else rows and values."""
    found = Replayed(str(former.certificate["run"]), causes=_causes(former.certificate, certificate))
    before, after = former.certificate["outputs"], certificate["outputs"]
    for name in sorted({path.rpartition(".")[0] if path.startswith("models/") else path.split("/")[0] for path in (*before, *after)}):
        own = [{path: entry for path, entry in files.items() if path.startswith((f"{name}/", f"{name}."))} for files in (before, after)]
        if own[0] == own[1]:
            found.outputs[name] = "the same bytes"
            continue
        difference = "other bytes" if name.startswith("models/") else _difference(name, was, now)
        found.outputs[name] = difference or "the same values in other bytes"
        found.differing += [name] if difference else []
    return found


def _difference(name: str, was: Run, now: Run) -> str:
    """How an output's rows differ; '' where they do not."""
    if name not in was.outputs or name not in now.outputs:
        return "is only in one of the runs"
    before, after = was.table(name).to_polars(), now.table(name).to_polars()
    if before.schema != after.schema:
        return "has other columns or types"
    if before.height != after.height:
        return f"has {after.height:,} rows, and had {before.height:,}"
    differing = [_column(before[column], after[column]) for column in before.columns]
    return "; ".join(filter(None, differing))


def _column(before: pl.Series, after: pl.Series) -> str:
    unequal = before.ne_missing(after)
    if not unequal.any():
        return ""
    text = f"{before.name}: {unequal.sum():,} of {len(before):,} values differ"
    if not before.dtype.is_float():
        return text
    values = pl.DataFrame({"was": before, "now": after}).filter(pl.all_horizontal(pl.all().is_finite()))
    apart = values.select((pl.col("was") - pl.col("now")).abs() / pl.max_horizontal(pl.all().abs())).to_series().drop_nans().max()
    return f"{text}, by {apart:.1e} of themselves at most" if isinstance(apart, float) else text


def _causes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What was not the same when the job was done again: files, code, versions, the machine's workers."""
    files = [{(name, file["path"]): file for name, found in one["inputs"].items() for file in found} for one in (before, after)]
    changed = [path for key, path in ((key, key[1]) for key in files[0]) if _content(files[0][key]) != _content(files[1].get(key, {}))]
    added = [path for _, path in files[1].keys() - files[0].keys()]
    words = [f"input {path} has other content" for path in dict.fromkeys(changed)] + [f"input {path} was not there" for path in added]
    then, now = before["versions"], after["versions"]
    words += [
        f"{name} was {then.get(name, 'not there')}, and is {now.get(name, 'not there')}"
        for name in dict.fromkeys((*then, *now))
        if then.get(name) != now.get(name)
    ]
    for key in ("code", "backend", "seed", "plan", "cluster", "parts"):
        if before[key] != after[key]:
            words.append(f"{key}: {before[key]} then, {after[key]} now" if key != "parts" else "tables came in other parts")
    return words


def _content(file: Mapping[str, Any]) -> tuple[Any, Any]:
    return file.get("bytes"), file.get("sha256") or file.get("etag")


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield from _texts(child, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from _texts(child, f"{key}.{number}")
    elif isinstance(value, str):
        yield key, value


def _quoted(value: Any, *, secret: bool) -> Any:
    """The record's job as text of a job file: a ${ that is no secret's name is that text itself."""
    if isinstance(value, Mapping):
        return {key: _quoted(child, secret=secret or is_secret(key)) for key, child in value.items()}
    if isinstance(value, list):
        return [_quoted(child, secret=secret) for child in value]
    if isinstance(value, str) and not secret and not any(is_secret(match["name"] or "") for match in REFERENCE.finditer(value)):
        return value.replace("${", "$${")
    return value
