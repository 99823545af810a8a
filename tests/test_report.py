from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from pipeline.execute import Executed
from pipeline.kernels.p_values import genomic_inflation
from pipeline.manifest import Entry
from pipeline.page import findings, plots
from pipeline.page.findings_scan import leads
from pipeline.page.pieces import bytes_text, number_text, p_text, seconds_text
from pipeline.page.svg import Panel, ticks
from pipeline.plan import Plan
from pipeline.record import Account, RunRecord
from pipeline.report import write_report

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """What a page holds: headings, text, addresses; refuses tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "h2":
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings[-1] += data
        if self.open and self.open[-1] != "style":
            self.text += data


def record_of(accounts: Mapping[str, Account] | None = None, title: str | None = "A scan") -> RunRecord:
    stages = [SimpleNamespace(spec=SimpleNamespace(name=name, use="some_use", inputs={"rows": "cohort"})) for name in ("passed", "model")]
    raw = {"job": "genomics", "title": title, "stages": [{"use": "variant_qc", "min_hwe_p": 1e-6}]}
    job = SimpleNamespace(name="genomics", title=title, description=None, raw=raw)
    plan = cast(Plan, SimpleNamespace(job=job, backend="cpu", inputs={"cohort": None}, stages=stages, fingerprints={}))
    record = RunRecord("20261121T093012Z-3f2a9c", plan, {"kind": "local", "workers": 1}, datetime(2026, 11, 21, 9, 30, tzinfo=UTC))
    record.accounts = dict(accounts or {})
    record.status, record.finished = "done", datetime(2026, 11, 21, 9, 31, 15, tzinfo=UTC)
    return record


def page_of(folder: Path, outputs: Mapping[str, pl.DataFrame], csv: bool = False, **more: Any) -> str:
    entries = []
    for name, frame in outputs.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        path = f"{name}/part-00000-ab12{'.csv' if csv else '.parquet'}"
        frame.write_csv(folder / path) if csv else frame.write_parquet(folder / path)
        entries.append(Entry(path, frame.height))
    executed = Executed(entries, metrics=more.pop("metrics", {}))
    return write_report(more.pop("record", None) or record_of(**more), executed, str(folder))


def scan_of(n: int = 2_000, chromosomes: int = 3, seed: int = 1, trait: str = "ldl") -> pl.DataFrame:
    random = np.random.default_rng(seed)
    p = random.uniform(size=n)
    p[::500] = 1e-12
    places = np.sort(random.integers(1, 10_000_000, n))
    return pl.DataFrame(
        {
            "chromosome": [str(i % chromosomes + 1) for i in range(n)],
            "base_pair_location": places,
            "effect_allele": "A",
            "other_allele": "G",
            "beta": random.normal(size=n),
            "standard_error": 0.1,
            "effect_allele_frequency": 0.25,
            "p_value": p,
            "neg_log_10_p_value": -np.log10(p),
            "variant_id": [f"rs{i}" for i in range(n)],
            "n": 1_000,
            "trait": trait,
            "reason": pl.Series([None] * n, dtype=pl.String),
        }
    )


def predictions_of(n: int = 600, seed: int = 2) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, n)
    score = 1 / (1 + np.exp(-(truth - 0.5 + random.normal(size=n))))
    split = np.array(["train", "validation", "test"])[np.arange(n) % 3]
    return pl.DataFrame({"person": np.arange(n), "split": split, "disease": truth, "prediction": score.astype(np.float32)})


def test_report__is_one_well_formed_page_that_needs_nothing_else(tmp_path: Path) -> None:
    ancestry = pl.DataFrame({"sample_id": ["a", "b"], "pc1": [0.1, 0.2], "pc2": [0.0, 0.1], "population": ["x", "y"]})
    html = page_of(tmp_path, {"gwas": scan_of(), "ancestry": ancestry, "predictions": predictions_of()})
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert page.addresses
    assert all(address.startswith("#section-") or address == "#about" for address in page.addresses)
    assert not {"script", "link", "img", "iframe"} & {*page.tags}
    assert not re.search(r"https?://|url\(|@import", html)
    assert len(html) < 2_000_000


def test_report__sections_follow_the_columns(tmp_path: Path) -> None:
    always = ["Stages", "Outputs", "This run"]
    assert Page(page_of(tmp_path, {"table": pl.DataFrame({"a": [1]})})).headings == always
    importance = pl.DataFrame({"feature": ["age", "sex"], "gain": [3.0, 1.0]})
    outputs = {
        "gwas": scan_of(),
        "predictions": predictions_of(),
        "weights": importance,
        "variants": scan_of().drop("p_value", "neg_log_10_p_value"),
    }
    found = Page(
        page_of(tmp_path, outputs, metrics={"model": {"test": {"auc": 0.7}}}, accounts={"c": Account("c", "vcf", counts={"records": 5})})
    )
    assert found.headings == ["Associations: gwas", "Predictions", "Feature importance: weights", "Metrics", "Counts", *always]


def test_report__escapes_every_name(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>&"
    scan = scan_of().with_columns(pl.lit(evil).alias("variant_id"), pl.lit(evil).alias("trait"), pl.lit(evil).alias("chromosome"))
    ancestry = pl.DataFrame({"pc1": [0.1, 0.2], "pc2": [0.0, 0.1], "population": [evil, "y"]})
    record = record_of({evil: Account(evil, evil, counts={evil: 3})}, title=evil)
    record.warnings = [evil]
    html = page_of(tmp_path, {"gwas": scan, "ancestry": ancestry}, record=record, metrics={evil: {evil: {evil: evil}}})
    assert "<script" not in html
    assert Page(html).text.count(evil) >= 8


def test_report__is_the_same_for_the_same_data(tmp_path: Path) -> None:
    outputs = {"gwas": scan_of(), "predictions": predictions_of()}
    first = page_of(tmp_path / "a", outputs)
    assert page_of(tmp_path / "b", {name: frame.sample(fraction=1, shuffle=True, seed=3) for name, frame in outputs.items()}) == first


def test_report__reads_csv_and_names_what_it_cannot_read(tmp_path: Path) -> None:
    scan = scan_of().with_columns(
        pl.when(pl.col("chromosome") == "3").then(pl.lit("X")).otherwise(pl.col("chromosome")).alias("chromosome")
    )
    assert (
        page_of(tmp_path / "csv", {"gwas": scan}, csv=True).count("Manhattan")
        == page_of(tmp_path / "pq", {"gwas": scan}).count("Manhattan")
        == 1
    )
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "part.parquet").write_bytes(b"no parquet")
    html = write_report(record_of(), Executed([Entry("bad/part.parquet", 3), Entry("calls/part.bed", 9)]), str(tmp_path))
    assert "output bad could not be read for this page" in html
    assert '<td class="l">bed</td>' in html


def test_report__reads_a_folder_that_is_a_url(tmp_path: Path) -> None:
    local = page_of(tmp_path, {"gwas": scan_of()})
    entries = [Entry("gwas/part-00000-ab12.parquet", 2_000)]
    assert write_report(record_of(), Executed(entries), f"file://{tmp_path}/") == local


@pytest.mark.parametrize(
    "change",
    [
        pl.lit(None, pl.Float64),
        pl.lit(float("nan")),
        pl.lit(float("inf")),
        pl.lit(0.0),
        pl.lit(0.3),
    ],
)
@pytest.mark.parametrize("rows", [0, 1, 2_000])
def test_report__draws_scans_with_nothing_to_draw(tmp_path: Path, change: pl.Expr, rows: int) -> None:
    scan = scan_of(2_000, chromosomes=1).with_columns(neg_log_10_p_value=change).drop("p_value").head(rows)
    page = Page(page_of(tmp_path, {"gwas": scan}))
    assert page.headings[0] == "Associations: gwas"
    assert not re.search(r"\bnan\b|\binf\b", page.text)


def test_report__counts_variants_without_a_result_and_says_why(tmp_path: Path) -> None:
    scan = scan_of().with_columns(
        neg_log_10_p_value=pl.when(pl.int_range(pl.len()) < 7).then(None).otherwise(pl.col("neg_log_10_p_value")),
        reason=pl.when(pl.int_range(pl.len()) < 7).then(pl.lit("no variation")),
    )
    assert (
        "7 of 2,000 variants of ldl have no result. Why: no variation (7)." in Page(page_of(tmp_path, {"gwas": scan.drop("p_value")})).text
    )


def test_report__tells_lambda_and_loci_of_every_trait(tmp_path: Path) -> None:
    scans = [scan_of(seed=i, trait=f"trait{i}") for i in range(6)]
    page = Page(page_of(tmp_path, {"gwas": pl.concat(scans)}))
    assert page.tags.count("figure") == 2 * 4
    assert "Drawn are the 4 traits of 6" in page.text
    assert f"λ = {genomic_inflation(scans[0]['p_value'].to_numpy()):.3f}" in page.text
    assert all(f"trait{i}" in page.text for i in range(6))


def test_p_text__is_right_beyond_underflow() -> None:
    assert [p_text(x) for x in (0.0, 0.5, 2.0, 11.509, 1073.2)] == ["1", "0.316", "0.01", "3.1e-12", "6.3e-1074"]
    assert [p_text(x) for x in (7.0, 6.9999, 7.0001, 8.02)] == ["1.0e-7", "1.0e-7", "1.0e-7", "9.5e-9"]
    assert (p_text(math.inf), p_text(math.nan), p_text(None)) == ("0", "", "")
    for p in 10.0 ** -np.random.default_rng(0).uniform(3, 300, 200):
        assert float(p_text(-math.log10(p))) == pytest.approx(p, rel=0.051)


def test_report__prints_p_values_that_have_underflowed(tmp_path: Path) -> None:
    scan = scan_of(10).with_columns(p_value=pl.lit(0.0), neg_log_10_p_value=pl.lit(1073.2))
    assert "6.3e-1074" in Page(page_of(tmp_path, {"gwas": scan})).text


def test_number_texts__are_plain() -> None:
    assert [number_text(x) for x in (None, 1234567, 0.123456, True, "a", 12345.6, math.nan)] == [
        "",
        "1,234,567",
        "0.1235",
        "True",
        "a",
        "12,346",
        "nan",
    ]
    assert [bytes_text(x) for x in (None, 0, 812, 1000, 4_200_000, 3 * 10**16)] == ["", "0 B", "812 B", "1 kB", "4.2 MB", "3e+04 TB"]
    assert [seconds_text(x) for x in (0.314, 12.44, 185, 7_440)] == ["0.31 s", "12.4 s", "3 min 5 s", "2 h 4 min"]


def test_thinned__keeps_every_strong_point_and_few_weak_ones() -> None:
    random = np.random.default_rng(4)
    n = 200_000
    points = pl.DataFrame(
        {
            "chromosome": [str(c) for c in random.integers(1, 23, n)],
            "base_pair_location": random.integers(1, 10**8, n),
            "strength": random.exponential(2.0, n),
        }
    )
    genome = plots.genome_of(points)
    panel = plots.manhattan_panel(genome, float(points["strength"].to_numpy().max()))
    drawn = plots.thinned(points, genome, panel)
    starts = dict(zip(genome["chromosome"], zip(genome["start"], genome["low"], genome["number"], strict=True), strict=True))
    strong = points.filter(pl.col("strength") >= plots.STRONG)
    places = {*drawn.rows()}
    for chromosome, position, strength in strong.iter_rows():
        start, low, number = starts[chromosome]
        series = 2 if 10**-strength < 5e-8 else number % 2
        assert (series, int(panel.x(start + position - low)), int(panel.y(strength))) in places
    limit = int(panel.y(plots.STRONG))
    assert drawn.filter(pl.col("y") > limit + 2).height < 620 * 50


def test_thinned__leaves_out_nothing_that_is_genome_wide_in_the_page() -> None:
    points = pl.DataFrame({"chromosome": ["1", "2", "10"], "base_pair_location": [5, 5, 5], "strength": [9.0, 1.0, math.inf]})
    leads_of = points.head(1).with_columns(variant_id=pl.lit("rs1"))
    svg = plots.manhattan(points, leads_of)
    assert dots_of(svg, "hit") == 2
    assert dots_of(svg, "odd") == 1
    assert re.findall(r'text-anchor="middle">([^<]*)</text>', svg)[:3] == ["1", "2", "10"]


def dots_of(svg: str, style: str) -> int:
    return sum(path.count("m") for path in re.findall(rf'class="dots {style}" [^>]*d="([^"]*)"', svg))


def test_natural_order__is_that_of_people() -> None:
    names = ["MT", "10", "chr2", "X", "1", "HLA-A", "Y"]
    assert sorted(names, key=plots.natural_order) == ["1", "chr2", "10", "X", "Y", "MT", "HLA-A"]


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


def test_quantile_quantile__band_is_that_of_order_statistics() -> None:
    n = 1_000
    svg = plots.quantile_quantile(np.sort(-np.log10((np.arange(n) + 0.5) / n))[::-1])
    panel = Panel(330, 300, (0.0, -math.log10(1 / (n + 1)) * 1.04), (0.0, -math.log10(0.5 / n) * 1.06))
    first = re.search(r'class="area band" [^>]*d="M(\d+) (\d+)L', svg)
    assert first
    assert abs(int(first[2]) - int(panel.y(min(-math.log10(stats.beta.ppf(0.025, 1, n)), panel.y_range[1])))) <= 1
    last = re.search(r'class="area band" [^>]*L(\d+) (\d+)z', svg)
    assert last
    assert abs(int(last[2]) - int(panel.y(-math.log10(stats.beta.ppf(0.975, 1, n))))) <= 1


def test_receiver_operating__follows_scikit_learn() -> None:
    rows = predictions_of(200).with_columns(pl.col("prediction").round(1))
    truth, score = rows["disease"].to_numpy().astype(float), rows["prediction"].to_numpy().astype(float)
    svg = plots.receiver_operating([("s0", truth, score)])
    false, hits, _ = roc_curve(truth, score, drop_intermediate=False)
    panel = Panel(330, 300, (0.0, 1.0), (0.0, 1.0))
    path = "L".join(f"{x} {y}" for x, y in zip(panel.x(false), panel.y(hits), strict=True))
    assert f'd="M{path}"' in svg


def test_predictions__tell_the_auc_of_every_split(tmp_path: Path) -> None:
    rows = predictions_of()
    text = Page(page_of(tmp_path, {"predictions": rows})).text
    for name in ("train", "validation", "test"):
        part = rows.filter(pl.col("split") == name)
        assert f"{name}: {roc_auc_score(part['disease'], part['prediction']):.3f}" in text
    assert "test AUC of disease" in text


def test_predictions__find_the_target_in_any_order_of_columns(tmp_path: Path) -> None:
    rows = predictions_of().select("prediction", "disease", "split", "person")
    assert "test AUC of disease" in Page(page_of(tmp_path, {"predictions": rows})).text


def test_predictions__with_one_class_or_no_rows_are_no_failure(tmp_path: Path) -> None:
    rows = predictions_of()
    one = Page(page_of(tmp_path / "one", {"predictions": rows.filter(pl.col("disease") == 1)}))
    assert "No split has both classes of disease" in one.text
    assert "Predictions" in Page(page_of(tmp_path / "none", {"predictions": rows.head(0)})).headings
    assert "AUC" in Page(page_of(tmp_path / "unsplit", {"predictions": rows.drop("split")})).text
    assert Page(page_of(tmp_path / "alone", {"p": rows.select("prediction")})).headings[0] == "Stages"


def test_predictions__of_a_value_show_r2(tmp_path: Path) -> None:
    rows = predictions_of().with_columns(disease=pl.col("prediction") * 10 + pl.col("person") / 300)
    text = Page(page_of(tmp_path, {"predictions": rows})).text
    assert "Predicted disease" in text
    assert "test R² of disease" in text


def test_predictions__of_classes_show_the_confusion(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "person": range(4),
            "split": ["test"] * 4,
            "kind": ["a", "b", "b", "c"],
            "prediction_a": [0.8, 0.1, 0.9, 0.1],
            "prediction_b": [0.1, 0.8, 0.05, 0.1],
            "prediction_c": [0.1, 0.1, 0.05, 0.8],
        }
    )
    html = page_of(tmp_path, {"predictions": rows})
    assert "75.0% of 4 are right" in html
    assert '<td class="l">b</td><td class="h" style="--share: 0.500">1</td><td class="h" style="--share: 0.500">1</td>' in html


def test_ancestry__colours_few_groups_and_no_names() -> None:
    rows = pl.DataFrame({"sample_id": ["a", "b", "c"], "pc1": [1.0, 2.0, None], "pc2": [1.0, 1.0, 1.0], "pop": ["n", "s", "s"]})
    values = pl.DataFrame({"component": [1, 2], "eigenvalue": [41.25, 3.0]}).lazy()
    section = next(iter(findings.sections({"axes": rows.lazy(), "sizes": values})))
    figure = cast(Any, section.blocks[0])
    assert [name for _, name in figure.legend] == ["n", "s"]
    assert dots_of(figure.svg, "large s0") == dots_of(figure.svg, "large s1") == 1
    assert "PC1 (eigenvalue 41.25)" in figure.svg
    many = rows.with_columns(pop=pl.Series([f"g{i}" for i in range(3)]), pc1=1.0)
    wide = pl.concat([many.with_columns(pop=pl.col("pop") + str(i)) for i in range(7)])
    assert cast(Any, next(iter(findings.sections({"axes": wide.lazy()}))).blocks[0]).legend == []


def test_counts__make_a_funnel_only_where_they_add_up(tmp_path: Path) -> None:
    counts = {"variants_in": 100, "low_maf": 10, "low_call_rate": 0, "variants_out": 90}
    html = page_of(tmp_path, {}, accounts={"passed": Account("passed", "variant_qc", counts=counts)})
    assert "allele too rare" in html
    assert "−10" in html
    assert 'style="width: 90.00%"' in html
    other = page_of(tmp_path, {}, accounts={"passed": Account("passed", "variant_qc", counts={**counts, "variants_out": 80})})
    assert '<i class="lost"' not in other
    assert "variants kept" in other
    plain = page_of(tmp_path, {}, accounts={"scan": Account("scan", "linear_gwas", counts={"people_ldl": 5, "odd_name": 1})})
    assert "people, ldl" in plain
    assert "odd name" in plain


def test_metrics__of_any_shape_are_shown(tmp_path: Path) -> None:
    metrics = {
        "a": {"test": {"auc": 0.75, "log_loss": None}, "train": {"auc": 1}},
        "b": {"note": [1, {"x": 2}]},
        "c": 5,
        "d": {},
        "e": None,
    }
    text = Page(page_of(tmp_path, {}, metrics=metrics)).text
    assert "0.75" in text
    assert '[1, {"x": 2}]' in text
    assert "Stage c." in text


def test_stages__say_what_was_fused(tmp_path: Path) -> None:
    accounts = {
        "cohort": Account("cohort", "vcf", rows=21_300, parts=8),
        "passed": Account("passed", "variant_qc", seconds=2.5),
        "model": Account("model", "xgboost", rows=1_180, bytes=4_200, parts=1, seconds=0.5),
    }
    html = page_of(tmp_path, {}, accounts=accounts)
    text = Page(html).text
    assert "fused into its reader" in text
    assert all(part in text for part in ("21,300", "2.50 s", "4.2 kB", "1 min 15 s", "min_hwe_p: 1e-06"))
    assert 'style="width: 20.0%"' in html


def test_ticks__are_round_numbers_inside_the_range() -> None:
    assert [text for _, text in ticks((0.0, 1.0))] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    for low, high in ((-3.7, 912.0), (1e-9, 2e-9), (0.0, 1073.2), (-5e6, -4e6)):
        values = [value for value, _ in ticks((low, high))]
        assert 3 <= len(values) <= 8
        assert low <= values[0] < values[-1] <= high + 1e-9 * abs(high)


def test_report__draws_a_large_scan_in_seconds_and_small(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    n = 500_000
    scan = pl.DataFrame(
        {
            "chromosome": np.repeat([str(i) for i in range(1, 21)], n // 20),
            "base_pair_location": np.tile(np.arange(n // 20) * 1_000, 20),
            "neg_log_10_p_value": random.exponential(1 / math.log(10), n),
        }
    )
    start = time.perf_counter()
    html = page_of(tmp_path, {"gwas": scan})
    assert time.perf_counter() - start < 5
    assert len(html) < 500_000
