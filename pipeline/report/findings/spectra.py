"""Spectra: what each signal has at each frequency."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Note, Section, headline, number_text
from pipeline.report.plots import curves

MOST_SERIES, MOST_SIGNALS, BINS = 4, 6, 1_000


class Spectra(Finding, name="spectra"):
    """A drawing a series, a line a signal; of many frequencies the greatest of neighbours is drawn."""

    place = 781
    columns = ("frequency",)

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section, where all behind the frequency are numbers."""
        rows = evidence.outputs[output]
        schema = rows.collect_schema()
        names = schema.names()
        keys, signals = names[: names.index("frequency")], names[names.index("frequency") + 1 :]
        if not signals or any(not schema[name].is_float() for name in ("frequency", *signals)):
            return
        section = Section(headline("Spectra", output))
        series = rows.select(keys).unique().sort(keys, nulls_last=True).collect() if keys else pl.DataFrame()
        for key in series.head(MOST_SERIES).iter_rows(named=True) if keys else [{}]:
            chosen = [pl.col(name).eq_missing(pl.lit(value, schema[name])) for name, value in key.items()]
            some = rows.filter(*chosen) if chosen else rows
            section.blocks += _drawn(some, signals[:MOST_SIGNALS], ", ".join(map(str, key.values())))
        more = [f"{MOST_SERIES} of {series.height:,} series"] if series.height > MOST_SERIES else []
        more += [f"{MOST_SIGNALS} of {len(signals):,} signals"] if len(signals) > MOST_SIGNALS else []
        if more:
            section.blocks.append(Note(f"The first {' and '.join(more)}."))
        yield section


def _drawn(rows: pl.LazyFrame, signals: list[str], series: str) -> list[Figure]:
    """The lines of one series; none where it has no row."""
    bins = (pl.col("frequency") * (BINS / pl.col("frequency").max())).fill_nan(0).floor()
    frame = rows.group_by(bins.alias("bin")).agg(pl.col("frequency").max(), *(pl.col(name).max() for name in signals)).sort("bin").collect()
    if not frame.height:
        return []
    styles = [f"s{at}" for at in range(len(signals))]
    peaks = [f"{name} at {number_text(frame['frequency'][_peak(frame[name])])}" for name in signals]
    caption = f"{series + ': ' if series else ''}the greatest value of {', '.join(peaks)}."
    lines = [(f"{style} thin", frame["frequency"].to_numpy(), frame[name].to_numpy()) for style, name in zip(styles, signals, strict=True)]
    return [Figure(curves(lines, ("frequency", "value"), caption), caption, list(zip(styles, signals, strict=True)), "medium")]


def _peak(values: pl.Series) -> int:
    return values.arg_max() or 0
