"""Relatives among the people of a run, by their kinship."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST_PAIRS = 10
DEGREES = (("duplicates or twins", 0.354), ("first degree", 0.177), ("second degree", 0.0884), ("third degree", 0.0442))
"""Kinship above which KING calls two people relatives of a degree (Manichaikul et al. 2010, Bioinformatics 26:2867-2873)."""


class Relatives(Finding, name="relatives"):
    """Pairs by degree, and the closest."""

    place = 500
    columns = ("sample_id_1", "sample_id_2", "kinship")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        yield kinship(output, evidence.outputs[output])


def kinship(output: str, rows: pl.LazyFrame) -> Section:
    """Pairs by degree of their kinship, and the closest pairs."""
    pairs = rows.select(pl.col("sample_id_1", "sample_id_2").cast(pl.String), pl.col("kinship").cast(pl.Float64)).drop_nulls()
    above = pairs.select((pl.col("kinship") > least).sum().alias(name) for name, least in DEGREES).collect(engine="streaming").row(0)
    cells = [
        (name, f"above {least:g}", number_text(count - before))
        for (name, least), count, before in zip(DEGREES, above, (0, *above[:-1]), strict=True)
    ]
    order = pairs.sort("kinship", "sample_id_1", "sample_id_2", descending=[True, False, False]).head(MOST_PAIRS)
    closest = [(first, second, f"{value:.4f}") for first, second, value in order.collect(engine="streaming").iter_rows()]
    section = Section(headline("Relatives", output), [Grid(("degree", "kinship", "pairs"), "llr", cells, "Pairs by KING's degrees.")])
    if closest:
        section.blocks.append(Grid(("person", "person", "kinship"), "llr", closest, f"The {len(closest)} closest pairs."))
    return section
