"""What the stages of models measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.report.finding import Evidence, Finding
from pipeline.report.findings.expectations import is_of_rules
from pipeline.report.pieces import Grid, Section, number_text


class Metrics(Finding, name="metrics"):
    """A table per model stage, a row per split or fold; what is not of that shape is written as it is."""

    place = 900

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """One section for all stages that measured anything."""
        section = Section("Metrics", file="metrics.json")
        for stage, value in evidence.metrics.items():
            if is_of_rules(value):
                continue
            rows = value if isinstance(value, Mapping) and all(isinstance(row, Mapping) for row in value.values()) else {"": value}
            cells = {name: row if isinstance(row, Mapping) else {"value": row} for name, row in rows.items()}
            for alike in _alike(cells):
                names = list(dict.fromkeys(name for row in alike.values() for name in row))
                several = any(alike)  # else it is not by split
                body = [[*[split] * several, *(_text(row.get(name)) for name in names)] for split, row in alike.items()]
                if names:
                    head = (*["split"] * several, *map(str, names))
                    section.blocks.append(Grid(head, "l" * several + "r" * len(names), body, f"Stage {stage}."))
        if section.blocks:
            yield section


def _alike(rows: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Mapping[str, Any]]]:
    """Rows by what they measure: those with no column in common have tables of their own."""
    groups: list[dict[str, Mapping[str, Any]]] = []
    for name, row in rows.items():
        found = next((group for group in groups if not row or any(row.keys() & other.keys() for other in group.values())), None)
        if found is None:
            groups.append({name: row})
        else:
            found[name] = row
    return groups


def _text(value: Any) -> str:
    if isinstance(value, float) and (value == 0 or 5e-4 <= abs(value) < 10):
        return f"{value:.4f}"
    return number_text(value) if value is None or isinstance(value, int | float | str) else json.dumps(value, default=str)
