from __future__ import annotations

import gzip
import math
import re
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import polars as pl
import pytest

from pipeline.formats.csv import CsvOutput
from pipeline.formats.gwas_ssf import GwasSsfOutput
from pipeline.formats.plink import PlinkOutput
from pipeline.report.pieces import bytes_text, number_text, p_text, seconds_text
from pipeline.report.svg import ticks
from pipeline.results.manifest import Entry
from pipeline.running.record import Account
from tests.report.pages import Page, page_of, predictions_of, record_of, report_of, scan_of

RECORD = {"run.json", "metrics.json", "manifest.json"}


def test_report__is_one_well_formed_page_that_needs_nothing_else(tmp_path: Path) -> None:
    ancestry = pl.DataFrame({"sample_id": ["a", "b"], "pc1": [0.1, 0.2], "pc2": [0.0, 0.1], "population": ["x", "y"]})
    html = page_of(tmp_path, {"gwas": scan_of(), "ancestry": ancestry, "predictions": predictions_of()})
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert page.addresses
    beside = {address for address in page.addresses if not address.startswith(("#", "data:image/svg+xml;base64,"))}
    assert beside == {f"{name}/part-00000-ab12.parquet" for name in ("gwas", "ancestry", "predictions")} | RECORD
    assert {address for address in page.addresses if address.startswith("#")} >= {"#section-1", "#about"}
    assert not {"link", "img", "iframe"} & {*page.tags}
    assert not re.search(r"https?://|url\(|@import", html.replace(page.script, ""))
    assert not re.search(r"https?://|fetch\(|import\(|eval\(", page.script)
    assert len(html) < 2_000_000


def test_report__sections_follow_the_columns(tmp_path: Path) -> None:
    always = ["Stages", "Outputs", "This run"]
    assert Page(page_of(tmp_path, {"table": pl.DataFrame({"a": [1]})})).headings == ["Preview: table", *always]
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
    assert found.headings == [
        "Associations: gwas",
        "Predictions",
        "Feature importance: weights",
        "Preview: variants",
        "Metrics",
        "Counts",
        *always,
    ]


def test_report__links_the_files_of_the_run(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1]})
    files = [f"two words/part-{number:05d}.parquet" for number in range(12)]
    (tmp_path / "two words").mkdir()
    for file in files:
        frame.write_parquet(tmp_path / file)
    page = Page(report_of([Entry(file, 1) for file in files], {"two words": frame}, tmp_path))
    found = [unquote(address) for address in page.addresses if not address.startswith("#")]
    assert found[:17] == [*files[:8], "run.json", *files[:8]]  # above the preview and the table of stages, and among the outputs
    assert all((tmp_path / file).exists() for file in found[:8])
    assert {*found[17:]} == RECORD
    assert "and 4 more beside them" in page.text


def test_report__escapes_every_name(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>&"
    scan = scan_of().with_columns(pl.lit(evil).alias("variant_id"), pl.lit(evil).alias("trait"), pl.lit(evil).alias("chromosome"))
    ancestry = pl.DataFrame({"pc1": [0.1, 0.2], "pc2": [0.0, 0.1], "population": [evil, "y"]})
    record = record_of({evil: Account(evil, evil, counts={evil: 3})}, title=evil)
    record.warnings = [evil]
    html = page_of(tmp_path, {"gwas": scan, "ancestry": ancestry}, record=record, metrics={evil: {evil: {evil: evil}}})
    assert evil not in html
    assert html.count("<script") == 1  # the page's own
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
    none = pl.DataFrame({"a": [1]})
    html = report_of([Entry("bad/part.parquet", 3)], {"bad": none}, tmp_path)
    assert "output bad could not be read for this page" in html
    calls = report_of([Entry("calls/part.bed", 9)], {"calls": none}, tmp_path, writer=PlinkOutput())
    assert '<td class="l">bed</td>' in calls
    assert "could not be read" not in calls


def test_report__reads_summary_statistics_of_every_trait(tmp_path: Path) -> None:
    entries = []
    (tmp_path / "gwas").mkdir()
    for trait in ("ldl", "a%2Fb"):
        rows = scan_of().drop("trait").with_columns(rsid="variant_id", p_value=pl.when(pl.int_range(pl.len()) > 0).then(pl.col("p_value")))
        rows = rows.with_columns(variant_id=pl.lit("1_460_G_A"))
        text = rows.drop("neg_log_10_p_value").write_csv(separator="\t", null_value="#NA")
        half = text.index("\n", len(text) // 2) + 1
        blocks = gzip.compress(text[:half].encode()) + gzip.compress(text[half:].encode())  # as bgzip has several members
        (tmp_path / f"gwas/gwas.{trait}.tsv.gz").write_bytes(blocks)
        entries += [Entry(f"gwas/gwas.{trait}.tsv.gz", rows.height), Entry(f"gwas/gwas.{trait}.tsv.gz-meta.yaml")]
    page = Page(report_of(entries, {"gwas": scan_of()}, tmp_path, writer=GwasSsfOutput()))
    assert "1 of 2,000 variants of ldl have no result" in page.text
    assert "genomic inflation λ" in page.text
    assert "p-values of a/b against chance" in page.text
    assert "rs500" in page.text


def test_report__reads_csv_as_it_was_written(tmp_path: Path) -> None:
    rows = scan_of().with_columns(trait=pl.lit("a;b"))
    (tmp_path / "gwas").mkdir()
    rows.write_csv(tmp_path / "gwas/part.csv", separator=";", null_value="-")
    page = Page(report_of([Entry("gwas/part.csv", rows.height)], {"gwas": rows}, tmp_path, writer=CsvOutput(separator=";", null_value="-")))
    assert "2,000 variants of a;b" in page.text


def test_report__reads_a_folder_that_is_a_url(tmp_path: Path) -> None:
    local = page_of(tmp_path, {"gwas": scan_of()})
    entries = [Entry("gwas/part-00000-ab12.parquet", 2_000)]
    assert report_of(entries, {"gwas": scan_of()}, f"file://{tmp_path}/") == local


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


def test_counts__make_a_funnel_only_where_they_add_up(tmp_path: Path) -> None:
    counts = {"variants_in": 100, "low_maf": 10, "low_call_rate": 0, "variants_out": 90}
    html = page_of(tmp_path, {}, accounts={"passed": Account("passed", "variant_qc", counts=counts)})
    assert "allele too rare" in html
    assert "−10" in html
    assert 'style="width: 90.00%"' in html
    other = page_of(tmp_path, {}, accounts={"passed": Account("passed", "variant_qc", counts={**counts, "variants_out": 80})})
    assert '<i class="lost"' not in other
    assert "variants kept" in other
    assert all(
        re.search(f'<h2>{title}</h2>\\s*<p class="soft">Its numbers: <a href="run.json">', html) for title in ("Quality control", "Stages")
    )
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
    page = Page(page_of(tmp_path, {}, metrics=metrics))
    text = page.text
    assert page.addresses.count("metrics.json") == 1 + page.addresses.count("manifest.json")
    assert "0.75" in text
    assert '[1, {"x": 2}]' in text
    assert "Stage c." in text
    one = Page(page_of(tmp_path / "one", {}, metrics={"axes": {"method": "exact"}})).text
    assert "exact" in one
    assert "split" not in one


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


def test_ticks__of_a_short_stretch_far_along_a_chromosome_differ() -> None:
    for low, high in ((117.8372, 117.8392), (240.0, 240.002), (1_000_000.1, 1_000_000.4)):
        found = ticks((low, high))
        assert len({text for _, text in found}) == len(found) > 2
        assert [float(text) for _, text in found] == pytest.approx([value for value, _ in found], rel=1e-12)


def test_ticks__are_round_numbers_inside_the_range() -> None:
    assert [text for _, text in ticks((0.0, 1.0))] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    for low, high in ((-3.7, 912.0), (1e-9, 2e-9), (0.0, 1073.2), (-5e6, -4e6)):
        values = [value for value, _ in ticks((low, high))]
        assert 3 <= len(values) <= 8
        assert low <= values[0] < values[-1] <= high + 1e-9 * abs(high)
