"""Whether a genome scan's test holds where there is nothing to find: how often its null traits passed each threshold."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text

MOST_ROWS, LEAST_EXPECTED = 40, 5.0
KEYS = ["trait", "above_frequency", "to_frequency"]


class NullTraits(Finding, name="null_traits"):
    """A table by trait and minor allele frequency of what null traits passed, as multiples of each threshold."""

    place = 110
    columns = (*KEYS, "threshold", "tests", "passed", "type_1_error", "lower", "upper", "lambda_null", "lambda")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].collect()
        counted = rows.filter(pl.col("tests") * pl.col("threshold") >= LEAST_EXPECTED)
        if counted.is_empty():
            return
        thresholds = [float(value) for value in counted["threshold"].unique().sort(descending=True)]
        cells = list[list[str]]()
        for (trait, above, to), own in counted.group_by(KEYS, maintain_order=True):
            by_threshold = {row["threshold"]: row for row in own.iter_rows(named=True)}
            first = own.row(0, named=True)
            share = f"{trait} ({first['case_share']:.2%} cases)" if first.get("case_share") is not None else str(trait)
            found = [_times(by_threshold.get(threshold)) for threshold in thresholds]
            spread = [number_text(round(value, 3)) if value is not None else "" for value in (first["lambda_null"], first["lambda"])]
            cells.append([share, f"{above:g} to {to:g}", number_text(first["tests"]), *found, *spread, _word(own)])
        head = ("trait", "minor allele", "tests", *(f"p ≤ {threshold:g}" for threshold in thresholds), "lambda, null", "lambda", "")
        caption = (
            "How often null traits passed a threshold, in multiples of it, with an interval of 95 %; 1 is right. Where tests expect "
            f"fewer than {LEAST_EXPECTED:g}, nothing is said."
        )
        if len(cells) > MOST_ROWS:
            caption += f" The first {MOST_ROWS} of {len(cells):,} rows."
        section = Section(headline("Null traits", output), [Grid(head, "llr" + "l" * len(thresholds) + "rrl", cells[:MOST_ROWS], caption)])
        often = counted.filter(pl.col("lower") > pl.col("threshold"))
        text = f"of {counted.height} counts of null traits lie above their threshold"
        section.highlights.append((str(often.height), text))
        yield section


def _times(row: dict[str, float] | None) -> str:
    """A type I error over its threshold, with its interval."""
    if row is None:
        return ""
    middle, low, high = (row[name] / row["threshold"] for name in ("type_1_error", "lower", "upper"))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _word(rows: pl.DataFrame) -> str:
    """What the intervals say together."""
    above, below = (rows["lower"] > rows["threshold"]).any(), (rows["upper"] < rows["threshold"]).any()
    return "passes too often" if above else "passes too seldom" if below else "holds"
