"""Examples of stages: one declaration, from which a stage is run in any number of parts, between workers, and shown to cuDF.

A test file of a stage states its examples once, `EXAMPLES = [StageExample(Filter(where="x > 1"), {"rows": FRAME})]`, and gives each to the
checks below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any
from unittest import SkipTest

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal
from ruamel.yaml import YAML

from pipeline.backend.arrays import to_host
from pipeline.job.describe import split_example
from pipeline.job.load import load_text
from pipeline.job.schema import described
from pipeline.stage import Stage
from pipeline.tables.budget import Budget
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import Session
from pipeline.testing.stages import Tables, cut, even_sizes, height, run_parts

SUMS = 1e-12  # how far a float may be from what one part on a CPU gives, where an example says nothing else
LEAST_CORRELATION = 0.99


class Between(Session):
    """Tasks at once in this process, rows exchanged as between two workers: partial queries, and their merging, run too."""

    workers = 2


class OnDisk(Session):
    """Tasks at once in this process, with as good as no memory for tables: what is held or exchanged goes by the disk."""

    def __init__(self, folder: str) -> None:
        self.budget = Budget(1, 2, folder)


class Translating(Session):
    """Tasks at once in this process; every query is first shown to cuDF's translator, which needs no GPU."""

    backend = "translate"


class TranslatingBetween(Translating):
    """The same, exchanged as between two workers."""

    workers = 2


@dataclass(frozen=True)
class StageExample:
    """A stage, the tables that it reads by role, and the axes of their arrays.

    `tolerances` are relative, by column; a float column that is not named there has SUMS, every other column is exact. `modelled` are
    columns that only correlate between backends, as trees may split elsewhere. `ordered`: the rows' order is part of the result.
    `needs` is a library that the stage cannot do without and that need not be installed.
    """

    stage: Stage
    tables: Tables
    axes: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=dict)
    modelled: tuple[str, ...] = ()
    ordered: bool = False
    needs: str | None = None

    def run(self, session: Session, parts: int = 1, place: Callable[[Part], Part] | None = None) -> dict[str, Part]:
        """The tables that the stage gives, by name, each as one part; `place` is put over every part given (to move arrays, say)."""
        pieces = {role: cut(data, even_sizes(height(data), parts)) for role, data in self.tables.items()}
        given = {role: [place(part) for part in cuts] if place else cuts for role, cuts in pieces.items()}
        return {name: concat_parts(found) for name, found in run_parts(self.stage, given, session, self.axes).items()}

    def check(self, found: Mapping[str, Part], expected: Mapping[str, Part]) -> None:
        """Assert that every table found is the one expected, arrays too, within the tolerances."""
        assert found.keys() == expected.keys()
        for name in expected:
            ours, theirs = with_arrays(found[name]), with_arrays(expected[name])
            assert_alike(ours, theirs, self.tolerances, modelled=self.modelled, ordered=self.ordered)

    def check_runs(self, runs: Mapping[str, tuple[Session, int]]) -> None:
        """Assert that each run (a session and a number of parts, by what to call it) gives what one part on a CPU gives, arrays too."""
        if self.needs and find_spec(self.needs) is None:
            raise SkipTest(f"{self.stage.name} needs {self.needs}, which is not installed here")
        expected = self.run(Session())
        for what, (session, parts) in runs.items():
            found = self.run(session, parts)
            try:
                self.check(found, expected)
            except AssertionError as error:
                raise AssertionError(f"{self.stage.name}, {what}: {error}") from error


def check_parts(example: StageExample) -> None:
    """Assert that a stage gives the same from one part, from 2 and 7, exchanged as between two workers, and with its tables on disk."""
    with TemporaryDirectory() as folder:
        example.check_runs(
            {
                "2 parts": (Session(), 2),
                "7 parts": (Session(), 7),
                "2 parts on two workers": (Between(), 2),
                "3 parts on disk": (OnDisk(folder), 3),
            }
        )


def check_translation(example: StageExample) -> None:
    """Assert that cuDF takes every query of a stage, of one worker and of two. Raises SkipTest, with the reason, where it is not installed.

    A query that it refuses raises UntranslatableError, or an error that says so. No GPU is needed.
    """
    if find_spec("cudf_polars") is None:
        text = "whether cuDF takes the query is not checked: cudf_polars is not installed here (make contract brings it)"
        raise SkipTest(text)
    example.check_runs({"translated for cuDF": (Translating(), 1), "translated for cuDF on two workers": (TranslatingBetween(), 2)})


def check_documented(kind: type[Stage]) -> Stage:
    """The stage that the example in its docstring makes, read as a job file is. Raises JobError, or AssertionError without an example."""
    text = split_example(described(kind))[1]
    assert text, f"{kind.__name__} has no example: end its docstring with `Example: {{use: {kind.name}, from: TABLE, as: NAME, ...}}`"
    entry = YAML(typ="safe", pure=True).load(text)
    assert isinstance(entry, dict), f"the example of {kind.__name__} must be a mapping: {text}"
    assert (entry.get("use"), "as" in entry) == (kind.name, True), f"the example must have `use: {kind.name}` and `as`: {text}"
    source = entry.get("from", [])
    tables = [source] if isinstance(source, str) else source.values() if isinstance(source, dict) else source
    inputs = {table.split(".")[0]: {"format": "parquet", "path": f"{table}.parquet"} for table in tables}
    job = json.dumps({"job": "example", "inputs": inputs, "stages": [entry]})
    (spec,) = load_text(job, f"example of {kind.name}").stages
    return spec.stage


def with_arrays(part: Part) -> pl.DataFrame:
    """A part's frame with the columns of its arrays beside its own, on the CPU."""
    arrays = {name: to_host(array) for name, array in part.arrays.items()}
    columns = [pl.Series(f"{name}:{i}", array[:, i]) for name, array in arrays.items() for i in range(array.shape[1])]
    return part.frame.hstack([column.fill_nan(None) if column.dtype.is_float() else column for column in columns])


def assert_alike(
    found: pl.DataFrame,
    expected: pl.DataFrame,
    tolerances: Mapping[str, float] | None = None,
    *,
    modelled: Sequence[str] = (),
    ordered: bool = False,
) -> None:
    """Assert that two frames hold the same rows: floats within their tolerance (SUMS where it is not given), all else exact."""
    assert found.schema == expected.schema, f"schemas differ: {found.schema}, not {expected.schema}"
    loose = [name for name, dtype in expected.schema.items() if dtype.is_float()]
    if not ordered:
        order = [*(name for name in expected.columns if name not in loose), *(name for name in loose if name not in modelled)]
        found, expected = found.sort(order, nulls_last=True), expected.sort(order, nulls_last=True)
    assert_frame_equal(found.drop(loose), expected.drop(loose))
    for name in loose:
        if name in modelled:
            assert_correlated(found[name].to_numpy(), expected[name].to_numpy())
            continue
        limit = (tolerances or {}).get(name, SUMS)
        assert_frame_equal(found.select(name), expected.select(name), rel_tol=limit, abs_tol=limit)


def assert_correlated(found: Any, expected: Any) -> None:
    """Assert that two columns of a model's answers go together; two that do not vary must be equal."""
    if len(expected) == 0 or np.ptp(expected) == 0:
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        together = np.corrcoef(found, expected)[0, 1]
        assert together > LEAST_CORRELATION, f"answers differ: their correlation is {together}"
