"""What the stages of models measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section, number_text


class Metrics(Finding, name="metrics"):
    """A table per model stage, a row per split; what is not of that shape is written as it is."""

    place = 900

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """One section for all stages that measured anything."""
        section = Section("Metrics")
        for stage, value in evidence.metrics.items():
            rows = value if isinstance(value, Mapping) and all(isinstance(row, Mapping) for row in value.values()) else {"": value}
            cells = {name: row if isinstance(row, Mapping) else {"value": row} for name, row in rows.items()}
            names = list(dict.fromkeys(name for row in cells.values() for name in row))
            several = any(cells)  # else it is not by split
            body = [[*[split] * several, *(_text(row.get(name)) for name in names)] for split, row in cells.items()]
            if names:
                head = (*["split"] * several, *map(str, names))
                section.blocks.append(Grid(head, "l" * several + "r" * len(names), body, f"Stage {stage}."))
        if section.blocks:
            yield section


def _text(value: Any) -> str:
    if isinstance(value, float) and (value == 0 or 5e-4 <= abs(value) < 10):
        return f"{value:.4f}"
    return number_text(value) if value is None or isinstance(value, int | float | str) else json.dumps(value, default=str)
