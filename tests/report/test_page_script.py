"""What the page's script makes of the data that a figure carries; it runs in Node.js here, and in every browser there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from pipeline.report.findings.associations import Most, associations
from pipeline.report.genes import gene_names
from pipeline.report.pieces import Figure, p_text
from pipeline.report.scan_points import MANY_LETTERS, told_from
from tests.report.pages import Page, page_of, scan_of

NODE = shutil.which("node")
SCRIPT = Path(__file__).parents[2] / "pipeline" / "report" / "page.js"
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed, which runs the page's script here")


def ran(expression: str, given: Any) -> Any:
    """What an expression of the script's functions (as `page`) comes to, of something `given`."""
    program = f"const page = require({json.dumps(str(SCRIPT))}); const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    command = [NODE or "node", "-e", f"{program} process.stdout.write(JSON.stringify({expression}))"]
    return json.loads(subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True, timeout=60).stdout)


def carried(scan: pl.DataFrame, most: int = 100_000, genes: pl.DataFrame | None = None) -> Figure:
    return cast(Figure, associations("gwas", scan.lazy(), None if genes is None else genes.lazy(), Most(points=most)).blocks[0])


@needs_node
def test_script__writes_p_values_as_the_tables() -> None:
    strengths = [*np.random.default_rng(1).uniform(0, 400, 300), 0.0, 2.9999, 3.0, 7.30103, 11.9999999]
    assert ran("given.map(page.pText)", strengths)[4:] == [p_text(strength) for strength in strengths][4:]


@needs_node
def test_script__finds_the_point_beside_the_pointer_in_any_part() -> None:
    scan = scan_of(600).with_columns(nearest_gene=pl.lit("BRCA2"))
    data = dict(carried(scan).data)
    found = ran("(({whole, chromosomes, points}) => ({whole, chromosomes, points}))(page.scanOf(given))", data)
    assert len(found["points"]) == scan.height
    left, right, top, bottom, width, height, low, high, most = map(float, data["frame"].split())
    assert found["whole"] == [low, high]
    part, middle = [low + 1e6, low + 9e6], height - bottom - (height - top - bottom) / most
    asked: list[Any] = [[[low, high], 300.0, middle], [part, 500.0, middle], [part, 700.0, middle], [part, 500.0, 15.0]]
    given = {"data": data, "asked": asked}
    names = ran("given.asked.map(([view, x, y]) => page.nearest(page.scanOf(given.data), view, x, y)?.name ?? null)", given)
    for (view, x, y), name in zip(asked, names, strict=True):
        at = np.array([point["at"] for point in found["points"]])
        strength = np.array([point["strength"] for point in found["points"]])
        across = left + (at - view[0]) * (width - left - right) / (view[1] - view[0])
        away = np.hypot(across - x, height - bottom - np.minimum(strength, most) * (height - top - bottom) / most - y)
        away[(at < view[0]) | (at > view[1])] = np.inf
        assert name == (found["points"][int(away.argmin())]["name"] if away.min() < 14 else None)
    assert None in names
    assert any(names)
    told = ran("page.told(page.scanOf(given).points[5], page.scanOf(given).fields)", data)
    row = scan.filter(pl.col("variant_id") == told.split(" · ")[0]).row(0, named=True)
    assert f"{row['chromosome']}:{row['base_pair_location']:,} · p = {p_text(row['neg_log_10_p_value'])}" in told
    beta = float(f"{row['beta']:.3g}")
    assert f"alleles A/G · frequency 0.25 · beta {beta:g} · SE 0.1 · n 1000 · gene BRCA2" in told


@needs_node
def test_script__names_an_axis_by_what_is_in_view() -> None:
    data = dict(carried(scan_of(600)).data)
    low, high = (float(value) for value in data["frame"].split()[6:8])
    asked = [[low, high], [1e6, 3e6]]
    whole, part = ran("given.asked.map((view) => page.axisOf(page.scanOf(given.data), view))", {"data": data, "asked": asked})
    assert (whole["label"], [text for _, text in whole["ticks"]]) == ("Chromosome", ["1", "2", "3"])
    assert part["label"] == "Position on chromosome 1 (Mb)"
    first = scan_of(600).filter(pl.col("chromosome") == "1")["base_pair_location"].min()
    assert all(place == pytest.approx(float(text) * 1e6 - cast(int, first)) for place, text in part["ticks"])
    assert ran("page.kept([-5, 10], [0, 1e6])", None) == [0, 2000]


def test_figure__carries_the_strongest_results_and_says_how_many() -> None:
    scan = scan_of(5_000)
    figure = carried(scan, most=700)
    lines = figure.data["points"].split("\n")
    assert 600 < len(lines) <= 700
    assert f"The {len(lines)} strongest answer the pointer" in figure.caption
    least = min(float(line.split("\t")[3]) for line in lines)
    assert scan.filter(pl.col("neg_log_10_p_value") > least + 1e-3).height < len(lines)
    bins = pl.DataFrame({"bin": [9_000, 5_000, 10], "strength": [9.0, 5.0, 0.01], "count": [2, 3, 4]})
    assert [told_from(bins, most) for most in (1, 2, 4, 9)] == [float("inf"), 9.0, 9.0, 0.01]


def test_figure__tells_of_genes_that_an_output_has(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    starts = random.integers(1, 9_000_000, 9)
    genes = pl.DataFrame({"chromosome": "1", "start": starts, "end": starts + random.integers(1_000, 2_000_000, 9)})
    genes = genes.with_columns(gene_name=pl.format("G{}", pl.int_range(9)), strand=pl.lit(None, pl.String), key=pl.col("chromosome"))
    scan = scan_of(300)
    found = gene_names(scan, genes)
    for (chromosome, position), names in zip(scan.select("chromosome", "base_pair_location").iter_rows(), found, strict=True):
        over = genes.filter(pl.col("start") <= position, pl.col("end") >= position)["gene_name"].to_list() if chromosome == "1" else []
        assert {*(names or "").split(",")} - {""} == {*over}
    html = page_of(tmp_path, {"gwas": scan, "genes": genes.drop("key")})
    data = re.search(r'data-points="([^"]*)"', html)
    assert data
    last = {line.split("\t")[0]: line.split("\t")[-1] for line in unescape(data[1]).split("\n")}
    assert {name for name in last.values() if name} == {*found.drop_nulls()}


def test_figure__of_odd_names_has_a_line_a_result(tmp_path: Path) -> None:
    names = ['a\tb\n"c"', "x" * 500, None, "<b>&amp;"]
    scan = scan_of(4).with_columns(variant_id=pl.Series(names), p_value=pl.Series([0.0, 0.5, 1e-4, 1e-9])).drop("neg_log_10_p_value")
    html = page_of(tmp_path, {"gwas": scan})
    assert Page(html).tags.count("figure") == 2
    data = re.search(r'data-points="([^"]*)"', html)
    assert data
    lines = [line.split("\t") for line in unescape(data[1]).split("\n")]
    assert {line[0] for line in lines} == {'a b "c"', "x" * MANY_LETTERS + "…", "", "<b>&amp;"}
    assert {len(line) for line in lines} == {9}
    assert "Infinity" in {line[3] for line in lines}
