"""The words, and runs of words, that move a model's answer most, class by class."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST, CLASSES = 15, 8  # n-grams of a class, and classes side by side


class TellingNgrams(Finding, name="ngrams"):
    """A table a text: the n-grams with the greatest influence towards each class."""

    place = 802
    columns = ("text", "ngram", "towards", "influence", "texts")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where no n-gram stood in enough texts."""
        rows = evidence.outputs[output].filter(pl.col("influence") > 0).sort("influence", "ngram", descending=[True, False]).collect()
        tables = [_table(str(text), of_text) for (text,), of_text in rows.group_by("text", maintain_order=True)]
        if tables:
            yield Section(headline("Telling words", output), [*tables])


def _table(text: str, rows: pl.DataFrame) -> Grid:
    """A column a class, its n-grams from the most telling down."""
    ways = rows["towards"].unique().sort(descending=True).to_list()
    most = float(rows["influence"][0])
    columns = [
        [(f"{ngram} · {number_text(influence)}", influence / most) for ngram, influence in told.select("ngram", "influence").iter_rows()]
        for told in (rows.filter(pl.col("towards") == way).head(MOST) for way in ways[:CLASSES])
    ]
    more = f" {len(ways) - CLASSES} more classes are in the output." if len(ways) > CLASSES else ""
    caption = (
        f"N-grams of {text} that move the answer most, by what they move it towards, in some of the training rows: how far an n-gram is "
        f"from a mean text, times the mean gradient of what the network gives.{more}"
    )
    head = [f"towards {way}" for way in ways[:CLASSES]]
    return Grid(head, "h" * len(head), [*zip_longest(*columns, fillvalue=("", 0.0))], caption)
