"""The table of clumps: the index variants with the smallest p-values."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.locus_table import COLUMNS, locus_table
from pipeline.report.pieces import Note, Section, headline
from pipeline.report.scan_data import CHROMOSOME, CLUMPED, P_VALUES, POSITION, scan_rows

MOST_CLUMPS = 20


class Clumps(Finding, name="clumps"):
    """Index variants, how many variants each stands for, and their genes where the output has them."""

    place = 200
    columns = (CHROMOSOME, POSITION, *CLUMPED)
    any_of = P_VALUES

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        yield clumps(output, evidence.outputs[output])


def clumps(output: str, rows: pl.LazyFrame) -> Section:
    """The index variants with the smallest p-values, how many variants each stands for, and their genes where the output has them."""
    rows = scan_rows(rows).filter(pl.col("strength").is_not_null())
    has = rows.collect_schema().names()
    columns = ["trait", CHROMOSOME, POSITION, "strength", *(name for name in COLUMNS if name in has)]
    order = ["strength", "trait", CHROMOSOME, POSITION, "variant_id"]
    top = rows.select(columns).sort(order, descending=[True] + [False] * 4).head(MOST_CLUMPS).collect(engine="streaming")
    counts = rows.select(pl.len(), pl.col("trait").n_unique().alias("traits")).collect(engine="streaming").row(0)
    section = Section(headline("Clumps", output), highlights=[(f"{counts[0]:,}", "clumps")])
    if top.height == 0:
        section.blocks.append(Note("No variant has a p-value small enough to begin a clump."))
        return section
    text = f"{counts[0]:,} clumps" + (f" of {counts[1]:,} traits" if counts[1] > 1 else "")
    text += f"; those with the {MOST_CLUMPS} smallest p-values are shown" if counts[0] > MOST_CLUMPS else ""
    members = "members are the variants that an index variant stands for by linkage, itself not counted"
    section.blocks.append(locus_table(top, ["members"], f"{text}. Each row is an index variant; {members}."))
    return section
