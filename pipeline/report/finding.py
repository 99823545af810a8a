"""A finding: what the outputs of a run show, as sections of its page. One file under findings/ a finding, found by being there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar

import polars as pl

from pipeline.registry import Registry
from pipeline.report.pieces import Section

FINDINGS = Registry("finding", "pipeline.report.findings", "pipeline.findings")
TOGETHER = 2  # findings that are put together at once: each may hold an output's columns

Outputs = Mapping[str, pl.LazyFrame]


@dataclass(frozen=True)
class Evidence:
    """What a run left to be shown: the outputs that can be read, as rows by output, the metrics of its stages, by stage, and run.json."""

    outputs: Outputs
    metrics: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def columns(self) -> Mapping[str, frozenset[str]]:
        """The columns of every output."""
        return {output: frozenset(rows.collect_schema().names()) for output, rows in self.outputs.items()}


class Finding:
    """Base of all findings: a section for every output that has all of `columns`, and one at least of `any_of` where it names some.

    `place` is where on the page it stands, from low to high. A finding about metrics, or about several outputs at once, has its own
    `sections`.
    """

    name: ClassVar[str] = ""  # of its file, as `class Clumps(Finding, name="clumps")` states it
    place: ClassVar[int] = 850  # after the package's own findings on outputs, before the metrics
    columns: ClassVar[tuple[str, ...]] = ()
    any_of: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, name: str = "") -> None:
        """Take `name` out of the class statement."""
        cls.name = name or cls.name

    def applies(self, columns: Set[str]) -> bool:
        """Whether the finding is about an output of these columns."""
        declared = bool(self.columns or self.any_of)
        return declared and columns >= {*self.columns} and (not self.any_of or not columns.isdisjoint(self.any_of))

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """The sections of all outputs that it is about, in the order of the outputs."""
        for output, columns in evidence.columns.items():
            if self.applies(columns):
                for section in self.show(output, evidence):
                    section.output = output
                    yield section

    def show(self, output: str, evidence: Evidence) -> Iterable[Section]:
        """The sections of one output."""
        raise NotImplementedError(f"{type(self).__name__} has no show")


def check_findings() -> None:
    """Raise JobError where two findings have one name, or where one of another package cannot be had; ours are not imported for it."""
    for name, module in FINDINGS.modules.items():
        if not module.startswith(f"{FINDINGS.package}."):
            FINDINGS.one(name, Finding)


@cache
def findings() -> tuple[Finding, ...]:
    """All findings in the order of the page. Raises JobError where a file has none of its name, or several."""
    return tuple(sorted((FINDINGS.one(name, Finding)() for name in FINDINGS.modules), key=lambda one: (one.place, one.name)))


def sections(evidence: Evidence) -> Iterator[Section]:
    """What all findings say, in the order of the page."""
    _ = evidence.columns  # once, for all of them
    with ThreadPoolExecutor(TOGETHER, thread_name_prefix="finding") as pool:
        for found in pool.map(lambda finding: list(finding.sections(evidence)), findings()):
            yield from found
