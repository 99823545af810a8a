"""What smaller forms of a model cost: bytes, metrics and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from pipeline.report import plots
from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Note, Section, bytes_text, headline, number_text
from pipeline.report.splits import by_split, split_style

LOSSES = ("log_loss", "rmse", "pinball_loss")  # what compress judges by
GIVEN = "as given"  # its method for the model itself
MOST_FORMS = 24


class Tradeoff(Finding, name="tradeoff"):
    """A curve of the loss by size, and a table of the forms that were tried."""

    place = 760
    columns = ("method", "form", "bytes", "split", "metric", "value", "chosen")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        frame = evidence.outputs[output].select(self.columns).collect()
        section = Section(headline("Smaller model", output))
        if not frame.height:
            section.blocks.append(Note("No form of the model was measured."))
            yield section
            return
        given, chosen = frame.head(1).row(0, named=True), frame.filter("chosen").head(1)
        size = int(chosen["bytes"][0]) if chosen.height else int(given["bytes"])
        section.highlights.append((f"{size / given['bytes']:.0%}", f"of the model's {bytes_text(given['bytes'])} are left"))
        section.blocks += _curve(frame)
        section.blocks.append(_forms(frame))
        section.blocks += _times(_counts(output, evidence.record))
        yield section


def _curve(frame: pl.DataFrame) -> Iterator[Figure]:
    """The loss of every split by the size of a form."""
    loss = next((name for name in LOSSES if name in frame["metric"]), None)
    if loss is None:
        return
    points = frame.filter(pl.col("metric") == loss).drop_nulls("value").sort("bytes", maintain_order=True)
    splits = by_split(points)
    lines = [(split_style(name), part["bytes"].to_numpy() / 1000, part["value"].to_numpy()) for name, part in splits.items()]
    legend = [(split_style(name), f"{name}: {_ends(part)}") for name, part in splits.items()]
    caption = f"{loss} by the size of the model's file; the smaller the better."
    yield Figure(plots.curves(lines, ("Size, kB", loss), f"{caption} {'; '.join(text for _, text in legend)}"), caption, legend)


def _ends(part: pl.DataFrame) -> str:
    """The loss of the model as given, which has the first rows, and of the form chosen."""
    chosen = part.filter("chosen")["value"]
    given = part.filter(pl.col("method") == GIVEN)["value"]
    return ", ".join(f"{number_text(values[0])} {what}" for values, what in ((given, GIVEN), (chosen, "chosen")) if len(values))


def _forms(frame: pl.DataFrame) -> Grid:
    """A row a form: the model as given, the one chosen, and others evenly among the rest."""
    forms = frame.select("method", "form", "bytes", "chosen").unique(maintain_order=True)
    step = max(1, -(-forms.height // MOST_FORMS))
    shown = forms.with_row_index("number").filter((pl.col("number") % step == 0) | pl.col("chosen"))
    measures = frame.select("metric", "split").unique(maintain_order=True).sort("metric", maintain_order=True).rows()
    most, rows = forms["bytes"].max(), []
    for method, form, size, chosen in shown.drop("number").iter_rows():
        about = (pl.col("method") == method) & (pl.col("form") == form) & (pl.col("chosen") == chosen)
        values = {(metric, split): value for split, metric, value in frame.filter(about).select("split", "metric", "value").iter_rows()}
        rows.append([form, size / most, bytes_text(size), *(number_text(values.get(at)) for at in measures), "chosen" if chosen else ""])
    head = ("form", "", "size", *(f"{metric}, {split}" for metric, split in measures), "")
    caption = f"{shown.height} of {forms.height} forms of the model by {forms['method'][-1]}, the largest first."
    return Grid(head, "lbr" + "r" * len(measures) + "l", rows, caption)


def _counts(output: str, record: Mapping[str, object]) -> Mapping[str, int]:
    """What the stage counted that gave an output."""
    table = _within(record, "job", "outputs", output, "from")
    found = _within(record, "stages", str(table).split(".")[0], "counts")
    return found if isinstance(found, Mapping) else {}


def _within(record: object, *keys: str) -> object:
    for key in keys:
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def _times(counts: Mapping[str, int]) -> Iterator[Note]:
    """How long predictions take, before and after."""
    before, after = counts.get("nanoseconds_given"), counts.get("nanoseconds_published")
    if before and after:
        yield Note(f"A thousand rows took {before / 1e6:.3g} ms by the model as given, and {after / 1e6:.3g} ms by the one published.")
