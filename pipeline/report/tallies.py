"""What the tasks of a run counted: funnels where something went in and came out, and tables of the rest."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.report.pieces import Section, Tally, number_text
from pipeline.running.record import RunRecord
from pipeline.tables.counts import Count, count_of

Step = tuple[str, str] | tuple[str, str, float, float]


def tallies(record: RunRecord) -> tuple[Section, Section]:
    """The sections of funnels and of other counts, in the order of the stages; with no blocks where there are none."""
    funnels, others = Section("Quality control", file="run.json"), Section("Counts", file="run.json")
    declared = declared_counts(record)
    for name, account in record.accounts.items():
        words = {what: count_of(what, declared.get(name, {})) for what in account.counts}
        counts = {what: count for what, count in account.counts.items() if count or words[what].always}
        title = f"{name} ({account.use})" if account.use != name else name
        unit = next((what.removesuffix("_in") for what in account.counts if what.endswith("_in")), None)
        steps = _funnel(counts, unit, words) if unit else []
        plain = [(words[what].text, number_text(count)) for what, count in counts.items() if not steps or words[what].aside]
        if steps or plain:
            (funnels if steps else others).blocks.append(Tally(title, [*steps, *plain]))
    return funnels, others


def declared_counts(record: RunRecord) -> dict[str, Mapping[str, Count]]:
    """The words of each table's counts, as its stage or its input's format declares them."""
    readers = {name: entry.reader.counts for name, entry in record.plan.job.inputs.items()}
    return readers | {stage.spec.name: stage.spec.stage.counts for stage in record.plan.stages}


def _funnel(counts: Mapping[str, int], unit: str, words: Mapping[str, Count]) -> list[Step]:
    """The steps from what went in to what came out; none where the counts between do not add up to the difference."""
    ends = f"{unit}_in", f"{unit}_out"
    start, end = (counts.get(name, 0) for name in ends)
    fell = {what: count for what, count in counts.items() if what not in ends and not words[what].aside}
    if start <= 0 or start - sum(fell.values()) != end:
        return []
    steps, left = list[Step]([(words[ends[0]].text, number_text(start), 1.0, 0.0)]), start
    for what, count in fell.items():
        left -= count
        steps.append((words[what].text, f"−{count:,}", left / start, count / start))
    return [*steps, (_text(ends[1], words), number_text(end), end / start, 0.0)]


def _text(name: str, words: Mapping[str, Count]) -> str:
    return words.get(name, count_of(name, {})).text
