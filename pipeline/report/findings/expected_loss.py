"""What loans are expected to cost, the riskiest first, beside what they did cost."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text
from pipeline.report.plots import curves
from pipeline.report.splits import by_split, judged_split

SHARES, SUMS = ("predicted", "observed"), ("balance", "expected_loss", "observed_loss")


class ExpectedLoss(Finding, name="expected_loss"):
    """A table and a drawing of the split that a model is judged by, a row a decile, and a line of totals for each of the others."""

    place = 703
    columns = ("split", "decile", "loans", *SHARES, *SUMS)

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        floats = [pl.col(*SHARES, *SUMS).cast(pl.Float64)]
        rows = evidence.outputs[output].select("split", "decile", "loans", *floats).drop_nulls(["split", "decile"]).sort("decile")
        splits, section = by_split(rows.collect()), Section(headline("Expected loss", output.replace("_", " ")))
        judged = judged_split(splits)
        if not judged:
            section.blocks.append(Note("No loan has a prediction."))
            yield section
            return
        found = splits[judged]
        lines = [("s0", "expected_loss", "expected"), ("s6", "observed_loss", "observed")]
        caption = f"Loss by decile of the prediction, the riskiest first, {judged}."
        drawn = [(style, found["decile"].to_numpy(), found[name].fill_null(0.0).to_numpy()) for style, name, _ in lines]
        figure = curves(drawn, ("Decile", "Loss"), caption)
        section.blocks.append(Figure(figure, caption, [(style, text) for style, _, text in lines], "medium"))
        head = ("decile", "loans", "predicted", "observed", "balance", "expected loss", "observed loss", "of the balance")
        section.blocks.append(
            Grid(
                head,
                "rrrrrrrr",
                [_cells(str(row[1]), *row[2:]) for row in found.iter_rows()],
                f"Tenths of the loans of {judged} by their prediction.",
            )
        )
        wholes = [(name, *_whole(frame)) for name, frame in splits.items()]
        note = "Of the balance: the share of it that is expected to be lost."
        section.blocks.append(Grid(("split", *head[1:]), "lrrrrrrr", [_cells(*whole) for whole in wholes], note))
        _, _, _, _, _, expected, observed = next(whole for whole in wholes if whole[0] == judged)
        section.highlights.append((number_text(expected), f"expected loss, {judged}; {number_text(observed)} was observed"))
        yield section


def _cells(name: str, loans: int, *values: float | None) -> tuple[str, ...]:
    """A row of a table, of shares and sums in their order; empty where they are not known."""
    predicted, observed, balance, expected, loss = values
    share = f"{(expected or 0.0) / balance:.2%}" if balance else ""
    shares = ("" if value is None else f"{value:.2%}" for value in (predicted, observed))
    return (name, f"{loans:,}", *shares, *map(number_text, (balance, expected, loss)), share)


def _whole(frame: pl.DataFrame) -> tuple[int, float, float, float, float, float]:
    """All deciles of a split together: loans, mean prediction and outcome, and sums."""
    loans = int(frame["loans"].sum())
    means = [float((frame[name] * frame["loans"]).sum()) / max(loans, 1) for name in SHARES]
    balance, expected, observed = (float(frame[name].sum()) for name in SUMS)
    return loans, means[0], means[1], balance, expected, observed
