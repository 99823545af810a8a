"""How far columns have moved from those of earlier rows."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import LARGE_CHANGE, SOME_CHANGE, Grid, Section, headline, number_text, psi_word

MOST_COLUMNS = 40


class DriftTable(Finding, name="drift"):
    """A table of the columns that moved most."""

    place = 780
    columns = ("column", "psi", "jensen_shannon", "ks", "missing", "reference_missing")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].select(self.columns).sort("psi", "column", descending=[True, False], nulls_last=True)
        top, total = rows.head(MOST_COLUMNS).collect(), rows.select(pl.len()).collect().item()
        most = max(*(float(psi) for psi in top["psi"].drop_nulls()), LARGE_CHANGE, 0.0)
        cells = [
            (name, (psi or 0) / most, number_text(psi), psi_word(psi), number_text(distance), number_text(ks), *map(_share, missing))
            for name, psi, distance, ks, *missing in top.iter_rows()
        ]
        head = ("column", "", "psi", "", "Jensen-Shannon", "KS", "missing", "missing before")
        caption = (
            f"{top.height} of {total:,} columns, the one that moved most first; the population stability index is read as some change from "
            f"{SOME_CHANGE} and as a large one from {LARGE_CHANGE}."
        )
        yield Section(headline("Drift", output), [Grid(head, "lbrlrrrr", cells, caption)])


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
