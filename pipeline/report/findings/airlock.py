"""What may leave a secure place, for the person who decides it: every output, and of those made for leaving all that they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Grid, Note, Section, headline, number_text

KIND, COUNT, MASKED = "kind", "count", "masked"
STAGE = "airlock"
MOST_ROWS = 400
TO_CHECK = (
    "Before a table leaves: is each row of its input a person? Do its keys name nobody? Is there another table of the same people, here or "
    "outside, whose difference from it would show a masked count? What is shown below is the table; this page itself, metrics and other "
    "files of the run tell more than it, and stay."
)


class AirlockTables(Finding, name="airlock"):
    """A list of the outputs with what may leave, and each table of a stage `airlock` as it would."""

    place = 10
    columns = (KIND, COUNT, MASKED)

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """Nothing where the job has no such stage."""
        job = evidence.record.get("job", {})
        stages = [_name(stage) for stage in job.get("stages") or () if stage.get("use") == STAGE]
        if not stages:  # columns of these names alone make no such table
            return
        tables = {name: str(output.get("from")) for name, output in (job.get("outputs") or {}).items()}
        rows = [(name, table, _verdict(table, stages, evidence.metrics)) for name, table in tables.items()]
        caption = "A model may hold what its rows were: none of this run's models is made for leaving."
        yield Section("What may leave", [Note(TO_CHECK), Grid(("output", "table", "may it leave?"), "lll", rows, caption)])
        for output, table in tables.items():
            if table in stages and output in evidence.outputs and self.applies(evidence.columns[output]):
                yield _shown(output, evidence.outputs[output], evidence.metrics.get(table))


def _name(stage: Mapping[str, Any]) -> str:
    return str(stage.get("as") or stage.get("use"))


def _verdict(table: str, stages: list[str], metrics: Mapping[str, Any]) -> str:
    if table not in stages:
        return f"no: it is not from a stage {STAGE}"
    told = metrics.get(table)
    masked = f": counts below {told['least']} are masked, zeros {told['zeros']}" if isinstance(told, Mapping) else ""
    return f"once you have looked{masked}"


def _shown(output: str, rows: pl.LazyFrame, told: Any) -> Section:
    """The table, masked cells as such, and how many of each kind were masked."""
    section = Section(headline("To leave", output), output=output)
    if isinstance(told, Mapping):
        section.blocks.append(
            Note(
                f"{told['cells']:,} cells and totals of {told['rows']:,} rows: {told['masked_small']:,} are masked because they are small, "
                f"{told['masked_beside']:,} so that no total gives these away. Each small one may have more than {told['least']} values "
                "for whoever knows all that is shown."
            )
        )
    frame = rows.head(MOST_ROWS + 1).collect(engine="streaming")
    names = [name for name in frame.columns if name != MASKED]
    cells = [["masked" if name == COUNT and row[MASKED] else number_text(row[name]) for name in names] for row in frame.rows(named=True)]
    more = f"The first {MOST_ROWS} rows; look at the rest in the file." if frame.height > MOST_ROWS else "All rows."
    section.blocks.append(Grid(names, "".join("r" if name == COUNT else "l" for name in names), cells[:MOST_ROWS], more))
    return section
