from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from pipeline.report.finding import Evidence, sections
from pipeline.report.pieces import Figure, Section
from pipeline.report.plots_locus import gene_track, r2_bins, recombination_rates
from tests.report.pages import Page, dots_of, page_of, scan_of


def linkage_of(n: int = 200, index: str = "rs1", trait: str = "ldl", strongest: float = 20.0) -> pl.DataFrame:
    random = np.random.default_rng(7)
    places = np.sort(random.choice(500_000, n, replace=False)) + 1_000_000
    return pl.DataFrame(
        {
            "chromosome": "20",
            "base_pair_location": places,
            "variant_id": [index, *(f"v{i}" for i in range(1, n))],
            "index_variant_id": index,
            "trait": trait,
            "r2": pl.Series([1.0, *random.uniform(size=n - 2), None]),
            "neg_log_10_p_value": [strongest, *random.exponential(size=n - 1)],
        }
    )


def genes_of(*names: str) -> pl.DataFrame:
    starts = [1_000_000 + 400_000 * i for i in range(len(names))]
    return pl.DataFrame(
        {"chromosome": "chr20", "start": starts, "end": [s + 9_000 for s in starts], "gene_name": names, "strand": "+", "feature": "gene"}
    )


def sections_of(**outputs: pl.DataFrame) -> list[Section]:
    return [*sections(Evidence({name: frame.lazy() for name, frame in outputs.items()}))]


def test_regions__colour_every_variant_by_its_linkage() -> None:
    linkage = linkage_of()
    sections = sections_of(ld=linkage)
    assert [section.title for section in sections] == ["Loci: ld"]
    figure = cast(Figure, sections[0].blocks[0])
    counts = np.histogram(linkage["r2"].drop_nulls().to_numpy(), np.linspace(0, 1, 6))[0]
    texts = dict(text.rsplit(": ", 1) for _, text in figure.legend if ": " in text)
    assert [int(texts[f"r² {low / 5} to {low / 5 + 0.2:.1f}"]) for low in range(5)] == counts.tolist()
    assert texts["r² unknown"] == "1"
    assert sum(dots_of(figure.svg, f"large s{style}") for style in (0, 1, 2, 3, 4, 6)) >= 195  # dots at one place are one
    assert dots_of(figure.svg, "huge s5") == 1
    assert "200 variants around rs1 (ldl) at 20:1,0" in figure.caption
    assert f'aria-label="Regional plot: {figure.caption.rstrip(".")}' in figure.svg


def test_r2_bins__are_fifths() -> None:
    points = pl.DataFrame({"r2": [0.0, 0.19, 0.2, 0.4, 0.6, 0.8, 1.0, None, float("nan")]})
    assert r2_bins(points).to_list() == [0, 0, 1, 2, 3, 4, 4, None, None]


def test_regions__show_the_genes_of_their_stretch() -> None:
    genes = pl.concat([genes_of("<i>A</i>", "B", "FAR"), genes_of("OTHER").with_columns(chromosome=pl.lit("chr2"))])
    exon = genes_of("EXON").with_columns(feature=pl.lit("exon"))
    figure = cast(Figure, sections_of(ld=linkage_of(), genes=pl.concat([genes, exon]))[0].blocks[0])
    assert figure.caption.endswith("genes: <i>A</i>, B.")
    assert "&lt;i&gt;A&lt;/i&gt; →" in figure.svg
    assert figure.svg.count('class="line gene"') == 2
    assert "OTHER" not in figure.svg


def test_regions__show_the_recombination_of_a_genetic_map() -> None:
    places = [1_000_000, 1_100_000, 1_300_000, 1_400_000, 9_000_000]
    table = pl.DataFrame({"chromosome": "chr20", "base_pair_location": places, "centimorgan": [1.0, 1.2, 1.2, 5.2, 9.0], "rsid": "x"})
    figure = cast(Figure, sections_of(ld=linkage_of(), map=table)[0].blocks[0])
    assert figure.caption.endswith("; recombination up to 40 cM/Mb.")  # 4 centimorgans within 100,000 bases
    assert ("square s4", "recombination") in figure.legend
    assert 'class="line thin s4"' in figure.svg
    assert "cM/Mb</text>" in figure.svg
    rates = recombination_rates(table.lazy(), "20", (1_050_000.0, 1_350_000.0))
    assert rates is not None
    assert rates["rate"].to_list() == pytest.approx([2.0, 0.0, 40.0])
    unknown = cast(Figure, sections_of(ld=linkage_of(), map=table.with_columns(centimorgan=pl.lit(0.0)))[0].blocks[0])
    assert "recombination" not in unknown.caption


def test_gene_track__puts_no_gene_on_another() -> None:
    random = np.random.default_rng(8)
    starts = np.sort(random.integers(0, 900_000, 60))
    genes = pl.DataFrame(
        {"start": starts, "end": starts + 20_000, "gene_name": [f"GENE{i}" for i in range(60)], "strand": ["+", "-", None] * 20}
    )
    svg, left_out = gene_track(genes, (0.0, 1_000_000.0), "Genes")
    lines = re.findall(r'class="line gene" [^>]*d="M(\d+) (\d+)L(\d+) \d+', svg)
    assert len(lines) + left_out == 60
    rows: dict[str, list[tuple[int, int]]] = {}
    for start, row, end in lines:
        rows.setdefault(row, []).append((int(start), int(end)))
    assert len(rows) <= 8
    assert all(before[1] < after[0] for row in rows.values() for before, after in itertools.pairwise(row))


def test_regions__draw_the_strongest_and_say_how_many_there_are(tmp_path: Path) -> None:
    linkage = pl.concat([linkage_of(50, f"rs{i}", "<html>", 10.0 + i) for i in range(8)])
    html = page_of(tmp_path, {"ld": linkage})
    page = Page(html)
    assert "Drawn are the 6 of 8 index variants" in page.text
    assert [f"around rs{i} (<html>)" in page.text for i in range(8)] == [i >= 2 for i in range(8)]
    assert html.count("<html") == 1


def test_regions__draw_a_locus_once_for_all_its_traits(tmp_path: Path) -> None:
    traits = [linkage_of(50, "rs1", "ldl", 12.0), linkage_of(50, "rs2", "hdl", 15.0), linkage_of(50, "rs3", "hdl", 9.0)]
    far = linkage_of(50, "rs9", "ldl", 8.0).with_columns(pl.col("base_pair_location") + 50_000_000)
    page = Page(page_of(tmp_path, {"ld": pl.concat([*traits, far])}))
    assert page.tags.count("figure") == 3  # two of one trait are two loci
    assert [f"variants around {name} " in page.text for name in ("rs1", "rs2", "rs3", "rs9")] == [False, True, True, True]
    assert page.text.count("a locus of ldl, too") == 1


def test_regions__of_odd_tables_are_no_failure(tmp_path: Path) -> None:
    linkage = linkage_of(3)
    tables = {
        "none": linkage.head(0),
        "one": linkage.head(1),
        "without_itself": linkage.tail(2),
        "without_p": linkage.with_columns(neg_log_10_p_value=pl.lit(None, pl.Float64)),
        "without_r2": linkage.with_columns(r2=pl.lit(None, pl.Float64)),
        "infinite": linkage.with_columns(neg_log_10_p_value=pl.lit(float("inf"))),
    }
    for name, table in tables.items():
        page = Page(page_of(tmp_path / name, {"ld": table, "genes": genes_of("A").head(0)}))
        assert page.headings[0] == "Loci: ld", name
        assert not re.search(r"\bnan\b|\binf\b", page.text), name


def test_clumps__are_a_table_with_members_and_genes(tmp_path: Path) -> None:
    rows = scan_of(2_000).sort("p_value").head(30).with_columns(members=pl.int_range(30), gene_name=pl.lit(None, pl.String))
    named = rows.with_columns(nearest_gene=pl.lit("LDLR"), gene_distance=pl.lit(12_345, pl.Int64))
    section = sections_of(clumps=named)[0]
    grid = cast(Any, section.blocks[0])
    assert section.title == "Clumps"
    assert grid.head[:4] == ["variant", "place", "effect / other", "gene"]
    assert grid.head[-2:] == ["p", "members"]
    assert {row[3] for row in grid.rows} == {"LDLR (12 kb)"}
    assert len(grid.rows) == 20
    traits = named.with_columns(trait=pl.Series(["a", "b"] * 15))
    assert cast(Any, sections_of(clumps=traits)[0].blocks[0]).head[0] == "trait"
    assert "No variant has a p-value" in Page(page_of(tmp_path, {"clumps": rows.head(0)})).text
