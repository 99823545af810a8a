"""What one task does, as a small tree of lazy steps: stages in a row become one query, from the file's scan to the collect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import polars as pl

from pipeline.backend.arrays import to_device
from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect, read_by_polars
from pipeline.errors import DataError, PipelineError, RunError
from pipeline.tables.as_one import as_one
from pipeline.tables.failures import at_row, is_of_a_check, problem_of, text_of
from pipeline.tables.infinities import Tally, counting, enter, tally_here
from pipeline.tables.part import ROW, Part, added_counts, concat_parts
from pipeline.tables.sources import Explains


@runtime_checkable
class Source(Protocol):
    """Where a part comes from: some files, or a range of one. It pickles, and is read inside the task."""

    @property
    def cheap(self) -> bool:
        """Whether reading it twice costs less than holding it (a scan that projections and filters reach).

        A scan that is not is of text: Polars reads it, whatever engine runs the query.
        """

    def load(self) -> pl.LazyFrame | Part:
        """A scan, or a part where there are arrays."""

    def interval(self, column: str) -> tuple[Any, Any] | None:
        """Least and greatest value of a column, exact and from the file's own statistics; None where they are not known."""


Looks = Literal["", "groups", "order"]  # at what of its part beside a row a step looks


@dataclass(frozen=True)
class Step:
    """One lazy step: `read` takes a source or a held part, `frame` maps LazyFrames, `part` maps parts, `concat` stacks rows.

    `scan` takes what a task has laid on disk, `keep` hands its function what makes the part below. `small` are reduced values or gathered
    tables, handed to the function after its inputs. `source` is of a `part` which rows of the part below, or pieces on disk, it takes.
    `fresh`: the source is a part that a task has just read, whose counts nobody knows yet. `stays`: what a query gives stays on the GPU,
    also for a function on parts that says `takes_device`. `whole`: a row of the result is of several rows of the part, of a group's, or of
    all of them in some order.
    """

    kind: Literal["read", "scan", "frame", "part", "concat", "keep"]
    stage: str
    inputs: tuple[Step, ...] = ()
    function: Callable[..., Any] | None = None
    small: tuple[Any, ...] = ()
    source: Any = None
    fresh: bool = False
    stays: bool = False
    whole: Looks = ""

    @property
    def cheap(self) -> bool:
        """Whether evaluating it twice costs less than holding its result: lazy row-wise steps over a held part or a cheap source."""
        if self.kind == "read":
            return not isinstance(self.source, Source) or self.source.cheap
        return self.kind == "scan" or (self.kind == "frame" and not self.whole and len(self.inputs) == 1 and self.inputs[0].cheap)

    @property
    def sorts(self) -> bool:
        """Whether the query that it ends in puts rows in order: above the parts that it is over."""
        return self.kind in {"frame", "concat"} and (self.whole == "order" or any(child.sorts for child in self.inputs))

    @property
    def is_query(self) -> bool:
        """Whether the whole tree is one lazy query on files: no step on parts, nothing held, no arrays."""
        if self.kind == "read":
            return isinstance(self.source, Source) and self.source.cheap
        return self.kind not in {"part", "keep", "scan"} and all(child.is_query for child in self.inputs)

    @property
    def sources(self) -> list[Any]:
        """Every source below, left to right."""
        return [self.source] if self.kind == "read" else [source for child in self.inputs for source in child.sources]

    @property
    def rows_of(self) -> list[Any]:
        """What tells its rows from those of other parts: sources, parts on disk, and which of the rows below its steps take."""
        below = [found for child in self.inputs for found in child.rows_of]
        return below if self.source is None else [*below, self.source]


@dataclass(frozen=True)
class Lazy:
    """A query under way, with the arrays of its first frame and what was counted so far; `apart`: it is of pieces below one another."""

    query: pl.LazyFrame
    arrays: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    apart: bool = False

    @staticmethod
    def of(part: Part, backend: Backend) -> Lazy:
        """A part as the start of a query; where it has arrays, a column remembers their rows."""
        if not isinstance(part.held, pl.DataFrame):
            rows = part.lazy(backend)
            return Lazy(rows.with_row_index(ROW) if part.arrays else rows, part.arrays, part.counts)
        frame = part.frame.with_row_index(ROW) if part.arrays else part.frame
        return Lazy(frame.lazy(), part.arrays, part.counts)


def evaluate(step: Step, backend: Backend) -> Part:
    """Run a tree in this task.

    Raises RunError, naming the stage, for what Polars or cuDF refuse while running; DataError, with its row, where a check fails.
    """
    return _part(step, backend)


def count_rows(stage: str, sources: Sequence[Source]) -> int:
    """Rows of plain tables, read on the CPU: of text files, which no footer tells. Raises RunError as `evaluate` does."""
    reads = (Step("read", stage, source=source) for source in sources)
    return sum(int(evaluate(Step("frame", stage, (read,), _counted), "cpu").frame.item()) for read in reads)


def read_part(step: Step) -> Part:
    """What a source holds, read on the CPU; its counts are as it gave them. Raises RunError as `evaluate` does."""
    loaded: pl.LazyFrame | Part = step.source.load()
    return loaded if isinstance(loaded, Part) else _collected(Lazy(loaded), step, Tally("cpu"))


def _counted(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(pl.len())


def _part(step: Step, backend: Backend) -> Part:
    with counting(backend) as tally:
        part = _collected(_made(step, backend), step, tally)
    counts = [each for each in (tally.counts, *tally.after()) if each]
    return replace(part, counts=added_counts([part.counts, *counts])) if counts else part


def _collected(made: Part | Lazy, step: Step, tally: Tally) -> Part:
    """What a tree gave as a part: a held one, or what a step on parts gave, is that already, and only a query is run."""
    if isinstance(made, Part):
        return made
    try:
        apart = made.apart and "CACHE[" not in made.query.explain(optimized=False)  # held by SQL for its subqueries
        frame = tally.collect(made.query, stays=step.stays, in_memory=step.sorts, apart=apart)
    except (pl.exceptions.PolarsError, OSError) as error:
        if is_of_a_check(error) and (failed := _failed_check(step)):
            raise failed from error
        raise RunError(_explained(step, error), stage=step.stage) from error
    return Part(frame, made.arrays, made.counts).with_frame(frame)


def _failed_check(step: Step) -> DataError | None:
    """The error of the first step, from the sources on, that fails by a check; None where none does."""
    if step.kind == "part":
        return None
    for child in step.inputs:
        if failed := _failed_check(child):
            return failed
    if step.kind != "frame":
        return None
    first, *others = step.inputs
    given = [lazy_of(other, "cpu").query for other in others]

    def run(rows: pl.LazyFrame) -> pl.DataFrame:
        """The step on some of its rows."""
        return collect(_call(step, rows, *given), "cpu")

    for source in (*first.inputs, first) if first.kind == "concat" else (first,):  # a check of a group may need its rows of all parts
        rows = collect(lazy_of(source, "cpu").query, "cpu")
        if problem := problem_of(run, rows.lazy()):
            return at_row(problem, run, rows, step.stage)
    return None


def _explained(step: Step, error: Exception) -> str:
    """What the first source that cannot be read says of itself, else the error."""
    for source in step.sources:
        if isinstance(source, Explains) and (problem := source.explain()):
            return problem
    return text_of(error)


def lazy_of(step: Step, backend: Backend) -> Lazy:
    """The query that a tree stands for; steps on parts are run on the way."""
    made = _made(step, backend)
    return Lazy.of(made, backend) if isinstance(made, Part) else made


def _made(step: Step, backend: Backend) -> Part | Lazy:
    """What a tree gives: a part where it ends in one, else a query."""
    if step.kind == "read":
        return _read(step, backend)
    if step.kind == "scan":
        return _read(step, backend)  # counted where it was made
    if step.kind == "frame":
        inputs = [lazy_of(child, backend) for child in step.inputs]
        others = [lazy.query.drop(ROW, strict=False) if lazy.arrays else lazy.query for lazy in inputs[1:]]
        query = _call(step, inputs[0].query, *others)
        return Lazy(query, inputs[0].arrays, added_counts([lazy.counts for lazy in inputs]))
    if step.kind == "part":
        stays = step.stays and getattr(step.function, "takes_device", False)
        parts = [_part(replace(child, stays=stays), backend) for child in step.inputs]
        part: Part = _call(step, *(Part(part.held, part.arrays) for part in parts))
        own = {f"{step.stage}:{name}": count for name, count in part.counts.items()}
        return replace(part, counts=added_counts([own, *(part.counts for part in parts)]))
    if step.kind == "keep" and step.function is not None:
        kept: Part = step.function(partial(_part, step.inputs[0], backend))
        return replace(kept, arrays={name: to_device(array, backend) for name, array in kept.arrays.items()})
    return _stacked(step, backend) if (one := as_one(step.inputs)) is None else _made(one, backend)


def _stacked(step: Step, backend: Backend) -> Part | Lazy:
    """The rows of several trees below one another: as parts where any has arrays or all are parts already, else as one query."""
    made = [_made(child, backend) for child in step.inputs]
    if any(each.arrays for each in made) or all(isinstance(each, Part) and isinstance(each.held, pl.DataFrame) for each in made):
        tally = tally_here(backend)
        return concat_parts([_collected(each, replace(child, stays=False), tally) for each, child in zip(made, step.inputs, strict=True)])
    queries = [Lazy.of(each, backend) if isinstance(each, Part) else each for each in made]
    return Lazy(pl.concat([lazy.query for lazy in queries]), {}, added_counts([lazy.counts for lazy in queries]), apart=len(queries) > 1)


def _read(step: Step, backend: Backend) -> Part | Lazy:
    if isinstance(step.source, Part) and not step.fresh:
        return replace(step.source, counts={}, beside=None)  # counted where it was made
    loaded: pl.LazyFrame | Part = step.source if step.fresh else step.source.load()
    if isinstance(loaded, pl.LazyFrame):
        return Lazy(loaded if backend == "cpu" or step.source.cheap else read_by_polars(loaded))
    arrays = {name: to_device(array, backend) for name, array in loaded.arrays.items()}
    counts = {f"{step.stage}:{name}": count for name, count in loaded.counts.items()}
    return replace(loaded, arrays=arrays, counts=counts)


def _call(step: Step, *values: Any) -> Any:
    assert step.function is not None
    enter(step.stage, step.rows_of)
    try:
        return step.function(*values, *step.small)
    except PipelineError as error:
        error.within(step.stage)
        raise
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise RunError(f"{type(error).__name__}: {error}", stage=step.stage) from error
