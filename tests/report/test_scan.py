from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from pipeline.report import plots_scan, scan_data
from pipeline.report.findings.associations import associations, leads
from pipeline.report.locus_table import locus_table
from pipeline.report.pieces import Figure
from pipeline.report.svg import Panel
from tests.report.pages import Page, dots_of, page_of, scan_of


def random_scan(n: int, seed: int = 4, trait: str = "t", scale: float = 2.0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "chromosome": [str(c) for c in random.integers(1, 23, n)],
            "base_pair_location": random.integers(1, 10**8, n),
            "neg_log_10_p_value": random.exponential(scale, n),
            "trait": trait,
        }
    )


def inflation_of(strengths: Any) -> float:
    """Lambda by SciPy's chi-square."""
    return float(np.median(stats.chi2.isf(10.0 ** -np.asarray(strengths), 1)) / stats.chi2.median(1))


def drawn_of(frame: pl.DataFrame) -> tuple[pl.DataFrame, Panel, dict[str, pl.DataFrame]]:
    rows = scan_data.scan_rows(frame.lazy())
    found = scan_data.extents(rows)
    genome, best = scan_data.genome_of(found), dict(scan_data.trait_counts(found).select("trait", "best").iter_rows())
    panels = {trait: plots_scan.manhattan_panel(genome, strength) for trait, strength in best.items()}
    return genome, next(iter(panels.values())), scan_data.places_of(rows, genome, panels, dict.fromkeys(panels, scan_data.STRONG))


def test_places__keep_every_strong_point_and_few_weak_ones() -> None:
    frame = random_scan(20_000)
    genome, panel, places = drawn_of(frame)
    starts = {row["chromosome"]: row for row in genome.iter_rows(named=True)}
    drawn, strong = {*places["t"].drop("weak").rows()}, 0
    for chromosome, position, strength in frame.drop("trait").iter_rows():
        if strength >= scan_data.STRONG:
            place = starts[chromosome]
            series = 2 if 10**-strength < 5e-8 else place["number"] % 2
            x, y = panel.x(place["start"] + position - place["low"]), panel.y(strength)
            assert any((series, int(x) + across, int(y) + up) in drawn for across in (0, -1, 1) for up in (0, -1, 1))
            strong += 1
    assert strong > 4_000
    assert places["t"].filter(pl.col("y") > int(panel.y(scan_data.STRONG)) + 2).height < 620 * 50


def test_places__of_very_many_strong_points_stay_within_a_dot() -> None:
    genome, panel, places = drawn_of(random_scan(200_000, scale=30.0))
    assert places["t"].height < 46_000
    assert genome["chromosome"].to_list() == [str(c) for c in range(1, 23)]
    ends = scan_data.GENOME_WIDE_STRENGTH, panel.y_range[1]
    assert places["t"].filter(pl.col("series") == 2)["y"].is_between(int(panel.y(ends[1])) - 5, int(panel.y(ends[0])) + 5).all()


def test_places__of_several_traits_are_those_of_each_alone() -> None:
    frames = [random_scan(3_000, seed, f"trait{seed}", scale=seed) for seed in (1, 2, 3)]
    shared = [frame.with_columns(frames[0]["chromosome"], frames[0]["base_pair_location"]) for frame in frames]
    _, _, together = drawn_of(pl.concat(shared))
    for frame in shared:
        _, _, alone = drawn_of(frame)
        trait = frame["trait"][0]
        assert together[trait].equals(alone[trait])


def test_manhattan__leaves_out_nothing_that_is_genome_wide() -> None:
    frame = pl.DataFrame({"chromosome": ["1", "2", "10"], "base_pair_location": [5, 5, 5], "neg_log_10_p_value": [9.0, 1.0, math.inf]})
    section = associations("gwas", frame.lazy())
    svg = cast(Figure, section.blocks[0]).svg
    assert dots_of(svg, "hit") == 2
    assert dots_of(svg, "odd") == 1
    assert re.findall(r'text-anchor="middle">([^<]*)</text>', svg)[:3] == ["1", "2", "10"]
    assert "2 loci below p = 5e-8, smallest p 0" in svg


@pytest.mark.parametrize("n", [1, 2, 3, 1_000, 20_001, 50_000])
def test_inflation__of_every_trait_is_exact(n: int) -> None:
    frames = [random_scan(n, seed, f"trait{seed}", 0.4 + 0.05 * seed) for seed in (1, 2, 3)]
    rows = scan_data.scan_rows(pl.concat(frames).lazy())
    bins = scan_data.strength_bins(rows, ["trait1", "trait2", "trait3"])
    found = scan_data.inflations(rows, bins)
    for frame in frames:
        assert found[frame["trait"][0]] == pytest.approx(inflation_of(frame["neg_log_10_p_value"]), rel=1e-9)


def test_quantile_quantile__draws_the_quantiles() -> None:
    frame = random_scan(3_000, scale=1 / math.log(10))
    strengths = np.sort(frame["neg_log_10_p_value"].to_numpy())[::-1]
    bins = scan_data.strength_bins(scan_data.scan_rows(frame.lazy()), ["t"])["t"]
    svg = plots_scan.quantile_quantile(bins["strength"].to_numpy(), bins["count"].to_numpy(), "QQ plot")
    expected = -np.log10(np.arange(1, 3_001) / 3_001)
    panel = Panel(330, 300, (0.0, expected[0] * 1.04), (0.0, max(strengths[0], expected[0]) * 1.06))
    drawn = places_in(svg)
    due = np.column_stack([panel.x(expected), panel.y(strengths)])
    away = np.abs(drawn[:, None, :] - due[None, :, :]).max(axis=2)
    assert away.min(axis=1).max() <= 1
    assert away.min(axis=0).max() <= 1


def places_in(svg: str) -> NDArray[np.int64]:
    """The half pixels of a figure's only series of dots."""
    path = re.search(r'class="dots s0" [^>]*d="([^"]*)"', svg)
    assert path
    steps = np.array([[int(a), int(b)] for a, b in re.findall(r"m(-?\d+) (-?\d+)h0", path[1])])
    return np.cumsum(steps, axis=0)


def test_quantile_quantile__band_is_that_of_order_statistics() -> None:
    n = 1_000
    strengths = np.sort(-np.log10((np.arange(n) + 0.5) / n))[::-1]
    svg = plots_scan.quantile_quantile(strengths, np.ones(n, np.int64), "QQ plot")
    panel = Panel(330, 300, (0.0, -math.log10(1 / (n + 1)) * 1.04), (0.0, -math.log10(0.5 / n) * 1.06))
    first = re.search(r'class="area band" [^>]*d="M(\d+) (\d+)L', svg)
    assert first
    assert abs(int(first[2]) - int(panel.y(min(-math.log10(stats.beta.ppf(0.025, 1, n)), panel.y_range[1])))) <= 1
    last = re.search(r'class="area band" [^>]*L(\d+) (\d+)z', svg)
    assert last
    assert abs(int(last[2]) - int(panel.y(-math.log10(stats.beta.ppf(0.975, 1, n))))) <= 1


def test_associations__tell_lambda_and_loci_of_every_trait(tmp_path: Path) -> None:
    scans = [scan_of(seed=i, trait=f"trait{i}") for i in range(8)]
    page = Page(page_of(tmp_path, {"gwas": pl.concat(scans)}))
    assert page.tags.count("figure") == 2 * 6
    assert "Drawn are the 6 traits of 8" in page.text
    for i, scan in enumerate(scans):
        assert f"{inflation_of(scan['neg_log_10_p_value']):.3f}" in page.text
        assert f"trait{i}" in page.text


def test_report__of_several_scans_divides_what_is_drawn(tmp_path: Path) -> None:
    scan = pl.concat([scan_of(seed=i, trait=f"trait{i}") for i in range(8)])
    page = Page(page_of(tmp_path, {"first": scan, "second": scan, "third": scan, "fourth": scan}))
    assert page.tags.count("figure") == 4 * 2  # a Manhattan plot and a QQ plot of one trait each
    assert page.text.count("Drawn is the trait of 8 with the smallest p-values.") == 4


def test_associations__draw_the_traits_with_the_smallest_p(tmp_path: Path) -> None:
    scans = [random_scan(500, i, f"trait{i}", 0.4).with_columns(pl.col("neg_log_10_p_value").clip(0, 1 + i)) for i in range(9)]
    top = [scan.head(499).vstack(scan.tail(1).with_columns(neg_log_10_p_value=pl.lit(10.0 + i))) for i, scan in enumerate(scans)]
    page = Page(page_of(tmp_path, {"gwas": pl.concat(top).sample(fraction=1, shuffle=True, seed=1)}))
    assert all((f"genomic inflation λ of trait{i}" in page.text or f"p-values of trait{i}" in page.text) == (i >= 3) for i in range(9))


def test_associations__of_kept_small_p_values_have_no_lambda(tmp_path: Path) -> None:
    scan = scan_of(20_000).filter(pl.col("p_value") <= 0.01)
    page = Page(page_of(tmp_path, {"gwas": scan}))
    assert "without the rest there is no QQ plot and no inflation λ" in page.text
    assert page.tags.count("figure") == 1


def test_associations__count_the_kinds_of_tests() -> None:
    scan = scan_of(1_000).with_columns(test=pl.when(pl.col("p_value") < 0.05).then(pl.lit("firth")).otherwise(pl.lit("score")))
    grid = cast(Any, associations("gwas", scan.lazy()).blocks[0])
    few = scan.filter(pl.col("p_value") < 0.05).height
    assert grid.head[-2:] == ("firth tests", "score tests")
    assert grid.rows[0][-2:] == (str(few), str(1_000 - few))
    linear = associations("gwas", scan.with_columns(test=pl.lit("linear")).lazy())
    assert isinstance(linear.blocks[0], Figure)


def test_scan_rows__take_what_odd_columns_hold() -> None:
    odd = pl.DataFrame(
        {
            "chromosome": [1, 2, None, 4, 5],
            "base_pair_location": ["10", "x", "30", "40", "50"],
            "p_value": [0.1, 0.1, 0.1, 2.0, 0.0],
            "neg_log_10_p_value": [None, 1.0, 1.0, float("nan"), -3.0],
        }
    )
    rows = scan_data.scan_rows(odd.lazy()).collect()
    assert rows["strength"].to_list() == [pytest.approx(1.0), None, None, None, math.inf]
    assert rows["trait"].to_list() == [""] * 5


def test_report__of_a_long_scan_is_small(tmp_path: Path) -> None:
    n = 400_000
    scan = random_scan(n, scale=1 / math.log(10)).with_columns(trait=pl.Series([f"t{i % 4}" for i in range(n)]))
    assert len(page_of(tmp_path, {"gwas": scan})) < 2_000_000  # every figure is there twice: to be seen, and to be saved


def test_leads__are_one_a_locus() -> None:
    hits = pl.DataFrame(
        {
            "chromosome": ["1", "1", "1", "2", "1"],
            "base_pair_location": [1_000_000, 1_400_000, 1_800_000, 1_000_001, 1_500_001],
            "strength": [10.0, 9.0, 8.0, 20.0, 6.0],
            "variant_id": ["a", "b", "c", "d", "e"],
        }
    )
    found = leads(hits)
    assert found["variant_id"].to_list() == ["d", "a", "c"]  # b is near a; e is beyond a and near c
    assert found["others"].to_list() == [0, 1, 1]


def test_leads__agree_with_the_slow_way() -> None:
    random = np.random.default_rng(5)
    n = 400
    places, strength = random.integers(1, 30_000_000, n), random.uniform(5, 20, n)
    hits = pl.DataFrame({"chromosome": [str(i % 2) for i in range(n)], "base_pair_location": places, "strength": strength})
    kept: list[int] = []
    for i in np.argsort(-strength):
        if all(i % 2 != j % 2 or abs(int(places[i]) - int(places[j])) > 500_000 for j in kept):
            kept.append(int(i))
    found = leads(hits)
    assert found["strength"].to_list() == [float(strength[i]) for i in kept]
    assert found["others"].sum() == n - len(kept)


def test_highlights__name_their_scan_where_there_are_several(tmp_path: Path) -> None:
    one = page_of(tmp_path / "one", {"linear": scan_of()})
    assert "<span>inflation λ of ldl</span>" in one
    two = page_of(tmp_path / "two", {"linear": scan_of(), "logistic": scan_of(seed=2)})
    for output in ("linear", "logistic"):
        assert f"<span>inflation λ of ldl in {output}</span>" in two
        assert f"loci below 5e-8 of ldl in {output}</span>" in two


def test_manhattan__names_the_last_chromosome() -> None:
    lengths = [248, 242, 198, 190, 182, 171, 159, 145, 138, 134, 135, 133, 114, 107, 102, 90, 83, 80, 59, 64, 47, 51]  # GRCh38, in Mb
    for names in ([str(number) for number in range(1, 23)], [f"scaffold_{number}" for number in range(1, 23)]):
        starts = np.cumsum([0, *lengths[:-1]]) * 1e6
        genome = pl.DataFrame({"chromosome": names, "start": starts, "low": 0.0, "high": [1e6 * length for length in lengths]})
        panel = plots_scan.manhattan_panel(genome, 9.0)
        nothing = pl.DataFrame(schema={"series": pl.Int64, "weak": pl.Boolean, "x": pl.Int64, "y": pl.Int64})
        leads = pl.DataFrame(
            schema={"chromosome": pl.String, "base_pair_location": pl.Int64, "strength": pl.Float64, "variant_id": pl.String}
        )
        written = re.findall(r'text-anchor="middle">([^<]*)</text>', plots_scan.manhattan(genome, nothing, panel, leads, "x"))
        assert names[-1] in written
        assert names[0].startswith("scaffold") or {*names} <= {*written}


def test_loci__name_long_alleles_by_their_length_and_genes_apart() -> None:
    lead = {"trait": "ldl", "variant_id": "rs1", "chromosome": "1", "base_pair_location": 5, "strength": 9.0, "gene_name": "A1,B2"}
    row = locus_table(pl.DataFrame([{**lead, "effect_allele": "ACGTACGTAC" * 6, "other_allele": "ACGTACGTAC"}]), [], "").rows[0]
    assert row[2:4] == ["ACGTACGT… (60) / ACGTACGTAC", "A1, B2"]


def test_wide_tables__have_the_page_for_themselves(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"gwas": scan_of()})
    table = html[: html.index("<th scope", html.index("The leads of"))]
    assert table.rpartition('<div class="scroll')[2].startswith(' full"')
