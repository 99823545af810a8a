"""Genotype tables for the tests of genomics stages, a small random cohort and HapMap 3, and a stage run on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.testing import assert_frame_equal

from pipeline.formats.plink import PlinkInput
from pipeline.kernels.genotypes import pack
from pipeline.stage import Context, Stage
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.stages import SEED, cut, even_sizes
from tests.kernels.plink_files import DATA, REFERENCE, floats, read_columns

HAPMAP3 = REFERENCE / "hapmap3"
AUTOSOMES = [str(number) for number in range(1, 23)]
COVARIATES = ("age", "sex01", *(f"PC{number}" for number in range(1, 11)))


@dataclass(frozen=True)
class Cohort:
    """A genotype table that is held whole: variants with their packed calls or dosages, and the people of these."""

    rows: Part
    people: pl.DataFrame

    @property
    def codes(self) -> NDArray[np.uint8]:
        """ALT alleles `uint8[variants, people]`, 3 where missing, unpacked the slow way."""
        return codes(self.rows, self.people.height)


Data = Cohort | pl.DataFrame


@dataclass(frozen=True)
class Found:
    """A table that a stage gave: its rows and arrays as one part, the frames that label its arrays, and what its tasks counted."""

    part: Part
    axes: Mapping[str, pl.DataFrame]
    counts: Mapping[str, int]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows."""
        return self.part.frame

    def sorted(self, by: str) -> Found:
        """The rows, and what rides along with them, in another order."""
        order = self.frame[by].arg_sort().to_numpy()
        arrays = {name: array[order] for name, array in self.part.arrays.items()}
        return replace(self, part=replace(self.part, held=self.frame[order], arrays=arrays))


MOVES = {"copied", "exchanged", "hot_keys"}  # what a join counts of rows that go between workers


def codes(rows: Part, people: int) -> NDArray[np.uint8]:
    """The calls of a genotype table, a byte each."""
    calls: NDArray[np.uint8] = rows.arrays["calls"]
    return np.stack([calls[:, s // 4] >> 2 * (s % 4) & 3 for s in range(people)], axis=1)


@cache
def small_cohort(variants: int = 60, people: int = 41) -> Cohort:
    """Random calls with 4 % missing on chromosomes 1, chr2, X and MT; the last three: all REF, one ALT, not called."""
    rng = np.random.default_rng(11)
    groups = np.arange(people) % 3
    frequency = np.clip(rng.uniform(0.1, 0.9, (variants, 1)) + rng.normal(0, 0.15, (variants, 3))[:, groups], 0.02, 0.98)
    calls = rng.binomial(2, frequency).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.04] = 3
    calls[-3:] = [[0], [0], [3]]
    calls[-2, people // 2] = 1
    frame = pl.DataFrame(
        {
            "chromosome": (["1", "chr2", "X", "MT"] * variants)[: variants - 4] + ["1"] * 4,
            "base_pair_location": rng.permutation(variants) + 1000,
            "variant_id": [f"rs{i}" for i in range(variants)],
            "ref": [("A", "C", "G", "T")[i % 4] for i in range(variants)],
            "alt": [("C", "G", "T", "A")[i % 4] for i in range(variants)],
        }
    )
    return Cohort(Part(frame, {"calls": pack(calls)}), pl.DataFrame({"sample_id": [f"p{i}" for i in range(people)]}))


@cache
def small_sheet() -> pl.DataFrame:
    """A sample sheet of the small cohort, in another order, with strangers, one person left out, and gaps."""
    people = small_cohort().people
    rng = np.random.default_rng(12)
    age, height = rng.normal(50, 9, people.height), rng.normal(170, 8, people.height)
    sheet = people.with_columns(age=age, sex=pl.Series(np.arange(people.height) % 2, dtype=pl.Int8), height=height, score=height + age)
    sheet = sheet.with_columns(height=pl.when(pl.col("sample_id") != "p3").then("height"))[1:]
    strangers = pl.DataFrame({"sample_id": ["x1", "x2"], "age": [1e6, None], "height": [-1e6, 3.0], "score": [0.0, None]})
    return pl.concat([sheet, strangers], how="diagonal")[rng.permutation(people.height + 1)]


@cache
def hapmap3() -> Cohort:
    """HapMap 3 as the plink format reads it."""
    return plink_cohort(DATA / "hapmap3" / "data.bed")


def plink_cohort(path: Path) -> Cohort:
    """A fileset as the plink format reads it."""
    reader = PlinkInput.model_validate({"path": str(path), "parts": 3})
    return Cohort(concat_parts([source.load() for source in reader.sources(1)]), reader.axes()["calls"])


@cache
def hapmap3_sheet() -> pl.DataFrame:
    """PLINK's covariates and the simulated traits of HapMap 3, by sample_id."""
    covariates, traits = read_columns(HAPMAP3 / "hm3.covar12"), read_columns(HAPMAP3 / "hm3.pheno")
    assert np.array_equal(covariates["IID"], traits["IID"])
    values = {name: floats(covariates[name]) for name in COVARIATES}
    values |= {name: floats(traits[name]) for name in ("y_lin", "y_null", "y_strong", "y_bin", "y_rare")}
    return pl.DataFrame({"sample_id": covariates["IID"].tolist(), **values}).with_columns(pl.selectors.float().fill_nan(None))


def run(stage: Stage, data: Mapping[str, Data], sizes: int | Sequence[int] = 1, session: Session | None = None) -> dict[str, Found]:
    """The tables that the stage gives ('' is its own) from genotypes in so many parts, or parts of these sizes.

    What is planned, schemas of the rows and of what labels the arrays, must be what comes.
    """
    session = session or Session()
    schemas = {role: _schema(given) for role, given in data.items()}
    planned = stage.plan(schemas, Context("tested", SEED, Session()))
    outcome = stage.run({role: _table(session, role, given, sizes) for role, given in data.items()}, Context("tested", SEED, session))
    counts = _had(session, outcome.counts) if outcome.counts is not None else {}
    found = {}
    for name, table in outcome.tables.items():
        part = concat_parts([_had(session, future) for future in table.futures()])
        axes = {array: concat_parts([_had(session, future) for future in axis.futures()]).frame for array, axis in table.axes.items()}
        axes = {array: axes[array] for array in part.arrays}
        given = Schema(part.frame.schema, {array: axis.schema for array, axis in axes.items()})
        assert given == planned[name], f"planned {planned[name]}, gave {given}"
        found[name] = Found(part, axes, {**counts, **{key.split(":")[-1]: count for key, count in part.counts.items()}})
    assert set(found) == set(planned)
    return found


def _schema(data: Data) -> Schema:
    if isinstance(data, pl.DataFrame):
        return Schema(data.schema)
    return Schema(data.rows.frame.schema, dict.fromkeys(data.rows.arrays, data.people.schema))


def _table(session: Session, role: str, data: Data, sizes: int | Sequence[int]) -> Table:
    if isinstance(data, pl.DataFrame):
        return Table.of(session, role, [Part(data)], schema=_schema(data))
    axis = Table.of(session, role, [Part(data.people)], schema=Schema(data.people.schema))
    pieces = cut(data.rows, even_sizes(data.rows.frame.height, sizes) if isinstance(sizes, int) else sizes)
    return Table.of(session, role, pieces, schema=_schema(data), axes=dict.fromkeys(data.rows.arrays, axis))


def _had(session: Session, value: Any) -> Any:
    return value.result() if session.is_future(value) else value


def assert_found_equal(found: Mapping[str, Found], expected: Mapping[str, Found], what: str) -> None:
    """The same rows, arrays, axes and counts; numbers within 1e-9 (relative and absolute), for sums come in another order."""
    assert set(found) == set(expected)
    for name, table in expected.items():
        try:
            assert_frame_equal(found[name].frame, table.frame, rel_tol=1e-9, abs_tol=1e-9)
            for array in table.part.arrays:
                np.testing.assert_array_equal(found[name].part.arrays[array], table.part.arrays[array])
                assert_frame_equal(found[name].axes[array], table.axes[array], rel_tol=1e-9, abs_tol=1e-9)
            assert _counted(found[name]) == _counted(table)
        except AssertionError as error:
            raise AssertionError(f"{what}, table {name!r}: {error}") from error


def _counted(table: Found) -> dict[str, int]:
    """Its counts, but for those of how rows moved, and of what an audit drew of each part."""
    return {name: count for name, count in table.counts.items() if name not in MOVES and not name.startswith("audited")}


def same_for_any_parts(stage: Stage, data: Mapping[str, Data], workers: Session, unordered: str | None = None) -> dict[str, Found]:
    """What the stage gives from one part, after it was the same from 2 and 7, from some empty ones, and on two worker processes.

    `unordered` names a unique column where the order of the rows over several processes is not promised.
    """
    expected = run(stage, data)
    height = next(given.rows.frame.height for given in data.values() if isinstance(given, Cohort))
    cuts: dict[str, int | Sequence[int]] = {"2 parts": 2, "7 parts": 7, "empty parts": [0, height // 3, 0, height - height // 3, 0]}
    for what, sizes in cuts.items():
        assert_found_equal(run(stage, data, sizes), expected, what)
    found = run(stage, data, 3, workers)
    both = [{name: table.sorted(unordered) for name, table in tables.items()} if unordered else tables for tables in (found, expected)]
    assert_found_equal(both[0], both[1], "two processes")
    return expected


def with_calls(cohort: Cohort, called: NDArray[np.uint8]) -> Cohort:
    """The cohort with other calls, `uint8[variants, people]`."""
    return replace(cohort, rows=cohort.rows.replaced(calls=pack(called)))
