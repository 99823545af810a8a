"""How far the predictions of an exported model are from ours."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, headline, number_text


class Exported(Finding, name="exported"):
    """A table of the columns of predictions."""

    place = 770
    columns = ("column", "rows", "largest_difference", "mean_difference")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        found = evidence.outputs[output].select(self.columns).collect()
        cells = [(name, f"{rows:,}", number_text(largest), number_text(mean)) for name, rows, largest, mean in found.iter_rows()]
        caption = "Predictions by the exported file beside ours: the difference, as a share of our prediction where that is beyond 1."
        section = Section(headline("Exported model", output), [Grid(("prediction", "rows", "largest", "mean"), "lrrr", cells, caption)])
        if found.height:
            worst = float(found["largest_difference"].to_numpy().max())
            section.highlights.append((number_text(worst), f"largest difference of {found['rows'][0]:,} predictions"))
        yield section
