"""runs_of_homozygosity: PLINK 1.9's runs on HapMap 3, and windows counted one by one on a cohort with gaps, men and missing calls."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.runs_of_homozygosity import RunsOfHomozygosity
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from tests import example_tables as examples
from tests.kernels.plink_files import needs_data
from tests.stages.genomics.cohorts import Cohort, hapmap3, run, same_for_any_parts
from tests.stages.genomics.test_dosages import certain

SMALL: dict[str, Any] = {
    "window": 6, "window_missing": 2, "window_share": 0.3, "min_variants": 4, "min_kb": 3, "max_kb_per_variant": 3, "max_gap_kb": 5
}  # fmt: skip
EXAMPLES = [
    StageExample(
        RunsOfHomozygosity(window=3, min_variants=2, min_kb=0, window_heterozygous=0), {"genotypes": examples.GENOTYPES}, examples.AXES
    )
]
LOOSE: dict[str, Any] = {"window": 20, "window_missing": 2, "min_kb": 500, "max_kb_per_variant": 1000, "max_gap_kb": 3000}

# plink 1.90b6.26 --homozyg-window-snp 20 --homozyg-window-missing 2 --homozyg-kb 500 --homozyg-density 1000 --homozyg-gap 3000 of
# HapMap 3: runs, people with one, variants in them and kb.
PLINK = {
    "any": ({"min_variants": 20}, 1307, 657, 37176, 6_437_527.268),
    "two": ({"min_variants": 15, "max_heterozygous": 2}, 1322, 661, 37396, 6_508_453.906),
    "none": ({"min_variants": 15, "max_heterozygous": 0}, 927, 515, 24547, 4_235_509.818),
}
SECOND = ("NA20282", "rs6444192", "rs6784748", 188193792, 198636093, 74)  # its third run, with any heterozygous calls


@cache
def cohort() -> Cohort:
    """Nine people at 70 variants of chromosome 1, five of 2, thirty of X and four of Y, mostly homozygous, with a gap of 9 kb."""
    random, people = np.random.default_rng(12), 9
    chromosomes = ["1"] * 70 + ["2"] * 5 + ["X"] * 30 + ["Y"] * 4
    share = np.where(np.arange(people) < 7, 0.18, 0.02)
    calls = np.where(random.random((109, people)) < share, 1, 2 * random.binomial(1, 0.5, (109, people)))
    calls[random.random(calls.shape) < 0.06] = 3
    position = np.concatenate([1000 * np.arange(1, count + 1) for count in (70, 5, 30, 4)])
    position[35:70] += 9000
    frame = pl.DataFrame(
        {"chromosome": chromosomes, "base_pair_location": position, "variant_id": [f"v{at}" for at in range(len(position))]},
        schema={"chromosome": pl.String(), "base_pair_location": pl.Int64(), "variant_id": pl.String()},
    )
    sexed = pl.DataFrame({"sample_id": [f"i{at}" for at in range(people)], "sex": pl.Series([1, 2, 0] * 3, dtype=pl.Int8)})
    return Cohort(Part(frame, {"calls": pack(calls.astype(np.uint8))}), sexed)


def slow_runs(cohort: Cohort, stage: RunsOfHomozygosity) -> list[tuple[str, str, str, int, int, int]]:
    """Whose runs, from and to which variant, with how many variants, heterozygous and missing calls; window by window."""
    found = []
    frame, codes = cohort.rows.frame, cohort.codes
    for person, (name, sex) in enumerate(cohort.people.select("sample_id", "sex").iter_rows()):
        for chromosome in ("1", "2", "X"):
            if chromosome == "X" and sex == 1:
                continue
            rows = frame["chromosome"].eq(chromosome).arg_true().to_numpy()
            calls, places = codes[rows, person], frame["base_pair_location"].to_numpy()[rows]
            windows = [calls[at : at + stage.window] for at in range(len(calls) - stage.window + 1)]
            hits = [(one == 1).sum() <= stage.window_heterozygous and (one == 3).sum() <= stage.window_missing for one in windows]
            covering = [[hit for at, hit in enumerate(hits) if at <= row < at + stage.window] for row in range(len(calls))]
            inside = [bool(some) and sum(some) >= stage.window_share * len(some) - 1e-9 for some in covering]
            found += [(name, chromosome, rows[run]) for run in _split(inside, calls, places, stage)]
    told = []
    for name, _, run_rows in found:
        here, place = codes[run_rows, int(name[1:])], frame["base_pair_location"].to_numpy()[run_rows]
        length = place[-1] - place[0] + 1
        if len(here) >= stage.min_variants and length >= stage.min_kb * 1000 and length <= len(here) * stage.max_kb_per_variant * 1000:
            told.append((name, f"v{run_rows[0]}", f"v{run_rows[-1]}", len(here), int((here == 1).sum()), int((here == 3).sum())))
    return told


def _split(inside: list[bool], calls: Any, places: Any, stage: RunsOfHomozygosity) -> list[list[int]]:
    runs: list[list[int]] = []
    most = stage.max_heterozygous
    now: list[int] = []
    for row, is_inside in enumerate(inside):
        heterozygous = sum(calls[one] == 1 for one in now)
        too_many = most is not None and calls[row] == 1 and heterozygous >= most
        far = row > 0 and places[row] - places[row - 1] > stage.max_gap_kb * 1000
        if now and (not is_inside or too_many or far):
            runs.append(now)
            now = []
        if is_inside and not (too_many and most == 0):
            now.append(row)
    return [*runs, now] if now else runs


@pytest.mark.parametrize("most", [None, pytest.param(0, marks=pytest.mark.soak), 1, pytest.param(2, marks=pytest.mark.soak)])
def test_runs__are_those_that_windows_one_by_one_give(most: int | None, workers: ClusterSession) -> None:
    stage = RunsOfHomozygosity(**SMALL, max_heterozygous=most)
    found = same_for_any_parts(stage, {"genotypes": cohort()}, workers)
    columns = ["sample_id", "first_variant_id", "last_variant_id", "variants", "heterozygous", "missing"]
    expected = slow_runs(cohort(), stage)
    assert found[""].frame.select(columns).rows() == expected
    assert len(expected) > 15
    assert run(stage, {"genotypes": cohort()}, 109)[""].frame.equals(found[""].frame)


def test_runs__are_counted_by_person_and_variant() -> None:
    found = run(RunsOfHomozygosity(**SMALL), {"genotypes": cohort()}, 4)
    runs, people, variants = (found[name].frame for name in ("", "people", "variants"))
    length = runs["end"] - runs["start"] + 1
    assert people["runs"].sum() == runs.height == found[""].counts["runs"]
    assert people["run_kb"].sum() == pytest.approx(length.sum() / 1000)
    on_autosomes = runs.with_columns(length=length).filter(pl.col("chromosome") != "X").group_by("sample_id").agg(pl.col("length").sum())
    share = people.join(on_autosomes, on="sample_id", how="left")["length"].fill_null(0) / (78_001 + 4_001)
    np.testing.assert_allclose(people["inbreeding"].to_numpy(), share.to_numpy())
    counted = [
        sum(int(low[1:]) <= int(name[1:]) <= int(high[1:]) for low, high in runs.select("first_variant_id", "last_variant_id").iter_rows())
        for name in variants["variant_id"]
    ]
    assert variants["people_in_runs"].to_list() == counted
    assert variants["chromosome"].unique(maintain_order=True).to_list() == ["1", "2", "X"]


@needs_data
@pytest.mark.parametrize("name", PLINK)
def test_runs__are_those_of_plink_on_hapmap(name: str) -> None:
    chosen, runs, people, variants, kb = PLINK[name]
    found = run(RunsOfHomozygosity(**LOOSE, **chosen), {"genotypes": hapmap3()}, 5)
    frame = found[""].frame
    assert (frame.height, found["people"].frame["runs"].gt(0).sum(), frame["variants"].sum()) == (runs, people, variants)
    assert found["people"].frame["run_kb"].sum() == pytest.approx(kb, abs=0.01)
    if name == "any":
        assert frame.select("sample_id", "first_variant_id", "last_variant_id", "start", "end", "variants").row(2) == SECOND


def test_runs__of_dosages_are_those_of_the_calls_nearest_to_them() -> None:
    stage = RunsOfHomozygosity(**SMALL)
    assert run(stage, {"genotypes": certain(cohort())}, 3)[""].frame.equals(run(stage, {"genotypes": cohort()})[""].frame)


def test_runs__need_variants_in_order() -> None:
    whole = cohort()
    turned = whole.rows.frame.with_columns(pl.col("base_pair_location").reverse())
    with pytest.raises(DataError, match=r"the positions on chromosome '1' are not in order: .* Put a sort by chromosome"):
        run(RunsOfHomozygosity(), {"genotypes": Cohort(whole.rows.replaced(turned), whole.people)}, 2)
    apart = whole.rows.frame.with_columns(chromosome=pl.Series(["1", "2"] * 54 + ["1"]))
    with pytest.raises(DataError, match=r"do not stand together"):
        run(RunsOfHomozygosity(), {"genotypes": Cohort(whole.rows.replaced(apart), whole.people)}, 2)
