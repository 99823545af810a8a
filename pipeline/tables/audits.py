"""What audits count: results that were computed again in another way, by how far the two were apart."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.tables.counts import Count

OFF = float("inf")
TOLERANCE = 1e-5
"""In standard errors, or as a share of the value where there is none: more is a disagreement."""
CLOSE = 1e-8

AGAIN, NEAR, WRONG = "audited", "audited_beyond_1e_8", "audited_off"
ROWS, GROUPS = "audited_rows", "audited_groups"
AUDIT_COUNTS: Mapping[str, Count] = {
    AGAIN: Count("results computed again in another way", aside=True),
    NEAR: Count("of these, more than 1e-8 apart", aside=True),
    WRONG: Count("of these, more than 1e-5 apart", aside=True),
}
"""The words of these counts, for stages that audit."""
GROUP_COUNTS: Mapping[str, Count] = {
    ROWS: Count("rows that an audit took out, one after another", aside=True),
    GROUPS: Count("groups of these that were computed again", aside=True),
    **AUDIT_COUNTS,
}
"""The same for those whose groups are audited."""


def tally(counts: dict[str, int], apart: float) -> None:
    """Add one result that was computed again to the counts, by how far it was apart."""
    for name, counted in ((AGAIN, True), (NEAR, apart > CLOSE), (WRONG, apart > TOLERANCE)):
        if counted:
            counts[name] = counts.get(name, 0) + 1


def disagreements(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What a run must be warned of, by the counts of its stages: results that were computed again and disagree."""
    remedy = "Do not use this result: report it, with the certificate, and compare with a run of another backend."
    return [
        f"{stage}: {own[WRONG]:,} of {own[AGAIN]:,} results that were computed again in another way disagree. {remedy}"
        for stage, own in counts.items()
        if own.get(WRONG)
    ]
