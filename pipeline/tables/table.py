"""Partitioned, lazy tables and their verbs: with clusters/ the only code that knows Dask. Stages use the verbs and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import getitem
from typing import Any

import polars as pl
from pydantic import BaseModel

from pipeline.tables import on_disk
from pipeline.tables.budget import Size, stacked
from pipeline.tables.conserved import watch
from pipeline.tables.exchange import Interval, are_disjoint, buckets, join_pieces, split_part
from pipeline.tables.part import Part, Schema, empty_part
from pipeline.tables.reduced import GATHER_LIMIT_BYTES, gathered, reduced
from pipeline.tables.session import Session
from pipeline.tables.steps import Looks, Source, Step


@dataclass(frozen=True)
class Fitted:
    """What a stage learned from the data and applied: its parameters, frozen, and its fitted frame, which scoring needs again."""

    stage: str
    use: str
    parameters: BaseModel
    state: Any


@dataclass(frozen=True)
class Table:
    """Parts to be had (one step each), their schema, and facts.

    `axes[array]` is the one-part table that labels an array's second axis. `origins` are the sources that each part's rows came from and
    `written` the columns that steps have written since (None: any may be), so that the files' statistics can tell whether equal keys
    already share a part; `spread` are the columns by whose hash an exchange put rows into these parts, where they have not changed since.
    `unique`: together they name a row. `fitted`: what stages before learned and applied; `name`: the job's for it, if any; `as_read`: parts
    are all of their origins; `size`: what it comes to at most, as far as that is known.
    """

    session: Session
    stage: str
    blocks: tuple[Step, ...]
    schema: Schema | None = None
    axes: Mapping[str, Table] = field(default_factory=dict)
    written: frozenset[str] | None = frozenset()
    origins: tuple[tuple[Source, ...], ...] = ()
    spread: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    fitted: tuple[Fitted, ...] = ()
    name: str | None = None
    as_read: bool = True
    size: Size | None = None

    @staticmethod
    def of(session: Session, stage: str, sources: Sequence[Any], **facts: Any) -> Table:
        """A table of one part a source; a source is a `Source`, a part, or a future of one."""
        origins = tuple((source,) for source in sources if isinstance(source, Source))
        blocks = tuple(Step("read", stage, source=source) for source in sources)
        return Table(session, stage, blocks, origins=origins if len(origins) == len(blocks) else (), **facts)

    @staticmethod
    def empty(session: Session, stage: str, schema: Schema) -> Table:
        """A table of that schema with no rows, as planning uses it."""
        axes = {array: Table.of(session, stage, [Part(axis.to_frame())]) for array, axis in schema.arrays.items()}
        return Table.of(session, stage, [empty_part(schema)], schema=schema, axes=axes)

    def known_schema(self) -> Schema:
        """The schema of a table that was computed at once, in this process."""
        part: Part = self.futures()[0]
        return Schema(part.frame.schema, {array: self.axes[array].futures()[0].frame.schema for array in part.arrays})

    @property
    def cheap(self) -> bool:
        """Whether using it twice needs no `hold`."""
        return all(block.cheap for block in self.blocks)

    @property
    def sources(self) -> list[Any]:
        """Everything that its parts are read from, in order."""
        return [source for block in self.blocks for source in block.sources]

    @property
    def is_beyond(self) -> bool:
        """Whether it is more than a query over all its rows may have in memory, so that its rows are exchanged on disk."""
        budget = self.session.budget
        return budget is not None and self.size is not None and len(self.blocks) > 1 and not self.axes and not budget.holds(self.size)

    @property
    def is_apart(self) -> bool:
        """Whether rows of different parts come together by an exchange alone: they lie with several workers, or are beyond memory."""
        return self.session.workers > 1 or self.is_beyond

    @property
    def is_held(self) -> bool:
        """Whether its parts are there, or will be: nothing is left to do for them."""
        return all(block.kind == "read" and not isinstance(block.source, Source) for block in self.blocks)

    def named(self, stage: str) -> Table:
        """The same table, whose next tasks carry this stage's name."""
        return replace(self, stage=stage)

    def map(self, function: Callable[..., pl.LazyFrame], *small: Any, writes: frozenset[str] | None = None, whole: Looks = "") -> Table:
        """`function(LazyFrame, *small) -> LazyFrame` on every part; maps in a row fuse into one query.

        `writes`: columns it may change or drop (None: any); facts about others stay. `whole`: as `Step` has it.
        """
        blocks = tuple(Step("frame", self.stage, (block,), function, small, whole=whole) for block in self.blocks)
        return self._after(blocks, writes)

    def map_parts(self, function: Callable[..., Part], *small: Any, writes: frozenset[str] | None = None) -> Table:
        """`function(Part, *small) -> Part` on every part: for arrays, and for what a lazy query cannot say."""
        blocks = tuple(Step("part", self.stage, (block,), function, small) for block in self.blocks)
        return self._after(blocks, writes)

    def zip_parts(self, other: Table, function: Callable[..., Part], *small: Any, writes: frozenset[str] | None = None) -> Table:
        """`function(Part, Part, *small) -> Part` on this table's parts and another's, pair by pair (`together` makes the pairs)."""
        blocks = tuple(Step("part", self.stage, pair, function, small) for pair in zip(self.blocks, other.blocks, strict=True))
        return replace(self._after(blocks, writes), fitted=self.fitted + other.fitted)

    def _after(self, blocks: tuple[Step, ...], writes: frozenset[str] | None) -> Table:
        written = None if writes is None or self.written is None else self.written | writes
        spread = () if writes is None or writes.intersection(self.spread) else self.spread
        return replace(self, blocks=blocks, schema=None, written=written, spread=spread, unique=(), name=None, as_read=False)

    def hold(self) -> Table:
        """The table computed once, one task a part; its parts stay with the workers that made them, spilled when memory is short.

        Beyond memory they are laid on disk as they are made.
        """
        if self.is_beyond:
            return replace(self, blocks=on_disk.held(self))
        return replace(self, blocks=tuple(Step("read", self.stage, source=part) for part in self.futures()))

    def futures(self) -> list[Any]:
        """One future (or part) a block, for whoever needs parts and not a table."""
        if self.is_held:
            return [block.source for block in self.blocks]
        parts = [self.session.evaluate(block) for block in self.blocks]
        self.session.measure(self.name, self.stage, parts)
        return parts

    def reduce(self, function: Callable[..., Any], combine: Callable[[list[Any]], Any], *small: Any) -> Any:
        """A small value from all parts: `function(Part, *small)` on each, `combine(values)` in a tree; returns a future of it."""
        return reduced(self, function, combine, small)

    def gather(self, limit_bytes: int = GATHER_LIMIT_BYTES) -> Table:
        """The whole as one part. Raises DataError (in the task) where it is larger than `limit_bytes`."""
        if len(self.blocks) == 1:
            return self
        whole = self.session.submit(gathered, limit_bytes, *self.futures(), stage=self.stage)
        return replace(self, blocks=(Step("read", self.stage, source=whole),), origins=(), spread=(), name=None)

    def value(self) -> Any:
        """The whole as one part, for use as a small value of another table's map."""
        return self.gather().futures()[0]

    def concat(self, *others: Table) -> Table:
        """The rows of several tables below one another, parts kept as they are."""
        blocks = tuple(block for table in (self, *others) for block in table.blocks)
        size = stacked([table.size for table in (self, *others)])
        return replace(self, blocks=blocks, origins=(), schema=None, spread=(), unique=(), name=None, size=size)

    def query(self, others: Sequence[Table], function: Callable[..., pl.LazyFrame], *small: Any) -> Table:
        """`function(LazyFrame, ..., *small) -> LazyFrame` on all rows of this table and others: one query in one task, or on all GPUs."""
        tables = (self, *others)
        inputs = tuple(block for table in tables for block in table.merged([range(len(table.blocks))]).blocks)
        fitted = tuple(fitted for table in tables for fitted in table.fitted)
        return Table(self.session, self.stage, (Step("frame", self.stage, inputs, function, small),), written=None, fitted=fitted)

    def in_parts(self, parts: int) -> Table:
        """The same rows in so many parts at most, neighbours together and about as many in each."""
        count = len(self.blocks)
        edges = [number * count // parts for number in range(parts + 1)]
        return self.merged([range(first, last) for first, last in pairwise(edges) if first < last])

    def merged(self, groups: Sequence[Sequence[int]]) -> Table:
        """A part a group of parts, by their numbers."""
        blocks = tuple(
            self.blocks[group[0]] if len(group) == 1 else Step("concat", self.stage, tuple(self.blocks[i] for i in group))
            for group in groups
        )
        origins = tuple(tuple(source for i in group for source in self.origins[i]) for group in groups) if self.origins else ()
        return replace(self, blocks=blocks, origins=origins, spread=(), name=None)

    def exchange(self, by: Sequence[str]) -> Table:
        """Rows with equal keys come together in one part; all rows where there is no key.

        Nothing moves where they are already together (one part, disjoint key ranges by the files' statistics, or an exchange before by some
        of the keys). In one process the next map is one query over all parts, which Polars' streaming engine does best, and on several GPUs
        one query of cuDF's own engine where only scans lie below; otherwise split and concat tasks. Beyond memory the pieces lie on disk
        between these, which waits for them: what is small after all is one part.
        """
        if len(self.blocks) == 1 or self.is_spread(by) or self.disjoint(by) is not None:
            return self
        if not self.is_beyond and self.session.is_one_query(self.blocks):
            return self.merged([range(len(self.blocks))])
        if not by:
            return self.gather()
        return on_disk.settled(self, by) if self.is_beyond else self.shuffled(by, self.buckets())

    def buckets(self) -> int:
        """Into how many parts an exchange puts its rows."""
        if self.is_beyond and self.session.budget and self.size:
            return self.session.budget.pieces(self.size)
        return buckets(len(self.blocks), self.session.workers * self.session.threads)

    def is_spread(self, by: Sequence[str]) -> bool:
        """Whether an exchange before has put rows that are equal in `by` into one part."""
        return bool(self.spread) and set(self.spread) <= set(by)

    def shuffled(self, by: Sequence[str], parts: int, hot: pl.DataFrame | None = None) -> Table:
        """So many parts by a hash of the keys; rows of `hot` keys one to each part in turn, so that equal ones are not together."""
        if self.spread == tuple(by) and len(self.blocks) == parts and hot is None:
            return self
        if self.is_beyond:
            return on_disk.shuffled(self, by, parts, hot)[0]
        submit = self.session.submit
        splits = [submit(split_part, part, list(by), parts, hot, stage=self.stage) for part in self.futures()]
        pieces = [[submit(getitem, split, index, stage=self.stage) for split in splits] for index in range(parts)]
        blocks = [submit(join_pieces, *bucket, stage=self.stage) for bucket in pieces]
        watch(self.session, self.stage, f"exchange by {', '.join(by)}", splits, blocks)
        steps = tuple(Step("read", self.stage, source=block) for block in blocks)
        return replace(self, blocks=steps, origins=(), spread=() if hot is not None else tuple(by), name=None)

    def disjoint(self, by: Sequence[str]) -> tuple[str, list[Interval]] | None:
        """A key among `by` whose ranges do not overlap between parts, with each part's range; None where there is none."""
        for key in by:
            intervals = self.intervals(key)
            if intervals and are_disjoint(intervals):
                return key, intervals
        return None

    def intervals(self, key: str) -> list[Interval] | None:
        """Of each part, the least and greatest value of a column that no step has written; None where a source does not know."""
        if not self.origins or self.written is None or key in self.written:
            return None
        found: list[Interval] = []
        for sources in self.origins:
            known = [source.interval(key) for source in sources]
            bounds = [pair for pair in known if pair is not None]
            if len(bounds) < len(known):
                return None
            found.append((min(low for low, _ in bounds), max(high for _, high in bounds)))
        return found
