"""Whether energy and momentum were conserved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Section, headline, number_text
from pipeline.report.plots import curves

MOST = 2_000  # times in the figure


class Conserved(Finding, name="conserved"):
    """The total energy over time, as parts of its larger share beside its first value."""

    place = 784
    columns = ("time", "kinetic", "potential", "total")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        rows = evidence.outputs[output].select("time", "kinetic", "potential", "total").sort("time").collect()
        if not rows.height:
            return
        scale = max(abs(rows["kinetic"][0]), abs(rows["potential"][0])) or 1.0
        off = ((rows["total"] - rows["total"][0]) / scale).to_numpy()
        caption = f"The total energy beside its first value, {number_text(rows['total'][0])}, as shares of the larger of its two parts:"
        caption += f" off by {number_text(float(abs(off).max()))} at most."
        some = np.unique(np.linspace(0, rows.height - 1, MOST).astype(int))
        figure = curves([("s0 thin", rows["time"].to_numpy()[some], off[some])], ("time", "energy gained"), caption)
        section = Section(headline("Conserved energy", output), [Figure(figure, caption)])
        section.highlights.append((number_text(float(abs(off).max())), "of its energy gained or lost, at most"))
        yield section
