"""What was expected of tables, and how many rows are otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Section


class Expectations(Finding, name="expectations"):
    """A table of rules for each stage that checks some, those that are broken first."""

    place = 20

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """One section for all of them."""
        section = Section("Expectations")
        for stage, rules in evidence.metrics.items():
            if is_of_rules(rules):
                ordered = sorted(rules.items(), key=lambda item: -item[1]["broken"])
                body = [(name, rule["rule"], rule["action"], *_found(rule)) for name, rule in ordered]
                broken = sum(rule["broken"] > 0 for rule in rules.values())
                caption = f"Stage {stage}: {len(rules) - broken} of {len(rules)} rules hold for {ordered[0][1]['rows']:,} rows."
                section.blocks.append(
                    Grid(("rule", "what is expected", "else", "rows that break it", "share", ""), "lllrrb", body, caption)
                )
        if section.blocks:
            yield section


def is_of_rules(metrics: Any) -> bool:
    """Whether metrics are those of rules."""
    keys = {"rule", "action", "rows", "broken"}
    return (
        isinstance(metrics, Mapping) and bool(metrics) and all(isinstance(row, Mapping) and row.keys() == keys for row in metrics.values())
    )


def _found(rule: Mapping[str, Any]) -> tuple[str, str, float]:
    share = rule["broken"] / max(rule["rows"], 1)
    return f"{rule['broken']:,}", f"{share:.2%}" if rule["broken"] else "", share
