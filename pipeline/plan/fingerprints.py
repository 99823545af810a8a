"""Fingerprints: what an input or a stage's result is known by before it is computed, as digests that change with whatever counts.

An input counts by its files (path, size, time of change or etag) and by how they are read; how many parts it is cut into changes no row.
A stage counts by what it is, its version and parameters, the job's seed, what it reads, and the backend, since results of a CPU and of a
GPU differ in their last digits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from pipeline.files import absolute
from pipeline.format import InputFormat
from pipeline.job.spec import StageSpec
from pipeline.plan.unchanged import Stamps
from pipeline.sql.expression import Written

_BY_TEXT = (date, time, timedelta, Decimal, PurePath)  # types whose text says all that they hold


class Fingerprints:
    """The fingerprints of a job's tables, from the inputs on; `found` has them by the name of the input or the stage."""

    def __init__(self, backend: str, seed: int) -> None:
        self.backend, self.seed = backend, seed
        self.found: dict[str, str] = {}

    def add_input(self, name: str, reader: InputFormat, stamps: Stamps) -> None:
        """Note an input, by the stamps of its files and by how they are read."""
        state = [list(reader.state())] if reader.state() else []
        self.found[name] = digest([reader.name, fields_of(reader, reader.asides), _known(stamps), *state])

    def add_stage(self, spec: StageSpec, stamps: Stamps) -> None:
        """Note a stage all of whose tables are known, by the stamps of the files that it reads itself, too."""
        reads = [(role, self.found[table.split(".")[0]], table) for role, table in sorted(spec.inputs.items())]
        files = [_known(stamps)] if stamps else []
        self.found[spec.name] = digest([spec.use, spec.stage.version, self.seed, self.backend, fields_of(spec.stage), reads, *files])


def _known(stamps: Stamps) -> list[tuple[str, int, int, str]]:
    return [(absolute(file), known.size, known.changed, known.etag) for file, known in stamps.items()]


def fields_of(model: BaseModel, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A model's fields by name, sorted: a field that moves in its class is no change."""
    return dict(sorted(model.model_dump(exclude=set(leave_out)).items()))


def digest(value: Any) -> str:
    """A digest of plain values: texts, numbers, times, and lists, sets and mappings of them. The order of a mapping counts.

    Raises TypeError, with the value's place, for any other: its text may say too little (two values with one digest) or too much (an
    address in memory, and no digest is ever found again).
    """
    return hashlib.blake2b(json.dumps(_plain(value, "")).encode(), digest_size=16).hexdigest()


def _plain(value: Any, place: str) -> Any:
    if isinstance(value, Written):
        return {"sql": _plain(value.meaning(), place)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, f"{place}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return {"set": sorted(json.dumps(_plain(item, f"{place}{{}}")) for item in value)}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(part, f"{place}.{key}") for part in (key, item)] for key, item in value.items()]}
    if isinstance(value, _BY_TEXT):
        return {type(value).__name__: str(value)}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    remedy = "Give a parameter a type of texts, numbers, times, lists, sets or mappings."
    raise TypeError(f"{place.lstrip('.') or 'the value'} is a {kind}, which no fingerprint can name: {value!r:.100}. {remedy}")
