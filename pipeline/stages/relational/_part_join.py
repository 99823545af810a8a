"""The join of two parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import polars as pl

from pipeline.backend import frames
from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.backend.frames import DeviceFrame
from pipeline.errors import DataError, under
from pipeline.sql.checks import Problem
from pipeline.sql.expression import check_condition
from pipeline.tables.hot import AWAY, COPY, HOME, NORMAL
from pipeline.tables.matched import Partners, have_partners, partners, shared_keys
from pipeline.tables.part import ROW, Part

How = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
Validate = Literal["one_to_one", "many_to_one", "one_to_many"]
MATCHED, OTHER = "__matched__", "__other__"
OURS, THEIRS = f"{COPY}first", f"{COPY}second"  # which rows of hot keys are copies, of the first part and of the second


@contextmanager
def _named() -> Iterator[None]:
    """A check that fails in a condition is an error of the job."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        if problem := Problem.found(str(error)):
            raise DataError(str(problem), key="where") from error
        raise


@dataclass(frozen=True)
class PartJoin:
    """The join of two parts, whose keys have the same names and whose other columns have different ones.

    Of `right` the first part is of the right table, and its rows are kept as `left` keeps the left's. `columns` are those of the result, in
    their order; `noted` is counted once a pair of parts; where `shared` the second part meets many first ones. Where one of the parts lies
    on a GPU the result does, and of the joined rows the host sees those columns that say what to count.
    """

    takes_device: ClassVar[bool] = True

    on: tuple[str, ...]
    how: How
    where: str | None
    columns: tuple[str, ...]
    validate: Validate | None
    backend: Backend
    noted: Mapping[str, int] = field(default_factory=dict)
    shared: bool = False

    def __call__(self, first: Part, second: Part) -> Part:
        """The joined part with its counts. Raises DataError where a key that must be unique is not."""
        left, right = (second, first) if self.how == "right" else (first, second)
        if (found := self._looked_up(first, second)) is not None:
            return found
        if self.validate in {"one_to_one", "many_to_one"}:
            self._need_unique(right, "right")
        if self.validate in {"one_to_one", "one_to_many"}:
            self._need_unique(left, "left")
        if isinstance(first.held, DeviceFrame) or isinstance(second.held, DeviceFrame):
            return self._there(first, second)
        ours, theirs = first.frame.rename({COPY: OURS}, strict=False), second.frame.rename({COPY: THEIRS}, strict=False)
        with _named():
            joined = collect(self._query(ours, theirs), self.backend, in_memory=self.where is None and self.how != "cross")
        if self.how == "inner" and MATCHED in joined.columns and joined[MATCHED].null_count():
            joined = joined.filter(pl.col(MATCHED))
        counts = {**self._counts(joined, ours), **self.noted}
        if self.how in {"right", "full"}:
            return Part(joined.select(self.columns), counts=counts)
        return replace(first.with_frame(joined.select(*self.columns, ROW)), counts=counts)

    def _looked_up(self, first: Part, second: Part) -> Part | None:
        """The joined part, by keys as whole numbers; None where they are not, or by a condition, or a key is not unique that must be."""
        if self.backend != "cpu" or self.how in {"full", "cross"} or self.where is not None or first.arrays or COPY in first.frame.columns:
            return None
        rows, others = first.frame, second.frame.drop(COPY, strict=False)
        every, tells = self.validate is not None, self.how in {"semi", "anti"}
        if tells and not every and not self.shared:
            return self._told_apart(rows, have_partners(rows, others, self.on))
        if not self.shared:
            found = partners(rows, others, self.on, every=every)
        else:
            found = keyed.partners(rows, every=every) if (keyed := shared_keys(second, self.on)) is not None else None
        if found is None or not self._fit(found, rows, others):
            return None
        if tells:
            return self._told_apart(rows, found.first.is_not_null())
        lost = found.first.null_count()
        counts = {"matched": rows.height - lost, "multiplied": 0, "lost": lost, **self.noted}
        ours, theirs = found.pairs(alone=self.how != "inner")
        counts["multiplied"] = len(theirs) - (counts["matched"] if self.how == "inner" else rows.height)
        kept = rows if ours is None else rows.select(name for name in self.columns if name in rows.columns).rechunk()[ours]
        added = others.select(name for name in self.columns if name not in rows.columns).rechunk()  # of one piece: five times as fast
        return Part(kept.hstack(added.select(pl.all().gather(theirs))).select(self.columns), counts=counts)

    def _told_apart(self, rows: pl.DataFrame, matched: pl.Series | None) -> Part | None:
        """Of a semi or anti join the rows that have a partner, or none."""
        if matched is None:
            return None
        counts = {"matched": int(matched.sum()), "multiplied": 0, "lost": int((~matched).sum()), **self.noted}
        return Part(rows.filter(matched if self.how == "semi" else ~matched).select(self.columns), counts=counts)

    def _fit(self, found: Partners, rows: pl.DataFrame, others: pl.DataFrame) -> bool:
        """Whether the keys that must be unique are. Raises DataError where they are not, of rows without a partner."""
        sides = (self.validate or "many_to_many").split("_to_")
        ours, theirs = sides[::-1] if self.how == "right" else sides
        if theirs == "one" and found.repeat:
            return False
        if ours == "many":
            return True
        if not found.is_one_to_one(others.height):
            return False
        if found.first.null_count():
            self._need_unique(Part(rows.filter(found.first.is_null())), "right" if self.how == "right" else "left")
        return True

    def _there(self, first: Part, second: Part) -> Part:
        """The joined part, on the GPU."""
        ours, theirs = (part.lazy(self.backend).rename({COPY: own}, strict=False) for part, own in ((first, OURS), (second, THEIRS)))
        with _named():
            joined = frames.collect_there(self._query(ours, theirs))
        told = [name for name in (ROW, MATCHED, OURS) if name in joined.columns]
        copies = collect(ours.select(OURS), self.backend) if OURS in ours.collect_schema() else pl.DataFrame(height=first.rows)
        counts = {**self._counts(collect(joined.lazy().select(told), self.backend), copies), **self.noted}
        if self.how in {"right", "full"}:
            return Part(frames.collect_there(joined.lazy().select(self.columns)), counts=counts)
        return replace(first.with_frame(frames.collect_there(joined.lazy().select(*self.columns, ROW))), counts=counts)

    def _by_left(self, first: pl.DataFrame | pl.LazyFrame, second: pl.DataFrame | pl.LazyFrame) -> bool:
        """Whether an inner join is done as a left one whose rows without a partner go.

        That has its pairs in order, where an inner one sorts them, which takes twice as long (Polars 1.44). Where the second table is
        small, most rows may have no partner, and would be made in vain.
        """
        return (
            isinstance(first, pl.DataFrame)
            and isinstance(second, pl.DataFrame)
            and self.backend == "cpu"
            and first.height <= 2 * second.height
        )

    def _counts(self, joined: pl.DataFrame, first: pl.DataFrame) -> dict[str, int]:
        """Rows of the first with and without a partner, more rows by second partners, and rows of the second that came alone.

        A row that was copied has a partner, if in another part; it counts at home.
        """
        height, home = first.height, 0
        if OURS in first.columns:
            height, home = first.filter(pl.col(OURS) != AWAY).height, first.filter(pl.col(OURS) == HOME).height
        if self.how in {"semi", "anti"}:
            matched = joined.height if self.how == "semi" else height - joined.height
            return {"matched": matched, "multiplied": 0, "lost": height - matched}
        both = joined.drop_nulls([name for name in (ROW, MATCHED) if name in joined.columns])
        normal = both.filter(pl.col(OURS) == NORMAL) if OURS in first.columns else both
        order = normal[ROW].set_sorted() if self.backend == "cpu" else normal[ROW]  # as every join here leaves it
        matched = order.n_unique() + home
        counts = {"matched": matched, "multiplied": both.height - matched, "lost": height - matched}
        return {**counts, "added": joined[ROW].null_count()} if self.how == "full" else counts

    def _query(self, first: pl.DataFrame | pl.LazyFrame, second: pl.DataFrame | pl.LazyFrame) -> pl.LazyFrame:
        rows, others = first.with_row_index(ROW).lazy(), second.lazy()
        if self.where is not None:
            return self._conditional(rows, second.with_row_index(OTHER).lazy())
        if self.how in {"semi", "anti"}:
            return rows.join(others.select(self.on), on=self.on, how="semi" if self.how == "semi" else "anti").sort(ROW)
        if self.how == "cross":
            return rows.join(others, how="cross", maintain_order="left_right")
        if self.how == "inner" and not self._by_left(first, second):
            return rows.join(others, on=self.on, maintain_order="left_right")
        told = pl.lit(True).alias(MATCHED)
        if self.how == "full":  # whose rows without a left one Polars' streaming engine gives in any order, whatever it is asked to keep
            others = second.with_row_index(OTHER).lazy().with_columns(told)
            joined = rows.join(others, on=self.on, how="full", coalesce=True).sort(ROW, OTHER, nulls_last=True).drop(OTHER)
        else:
            joined = rows.join(others.with_columns(told), on=self.on, how="left", coalesce=True, maintain_order="left_right")
        if OURS in first.collect_schema() and self.how != "inner":
            joined = joined.filter(pl.col(MATCHED).is_not_null() | (pl.col(OURS) == NORMAL))
        if THEIRS in second.collect_schema() and self.how == "full":
            joined = joined.filter(pl.col(ROW).is_not_null() | (pl.col(THEIRS) == NORMAL))
        return joined

    def _conditional(self, rows: pl.LazyFrame, others: pl.LazyFrame) -> pl.LazyFrame:
        """By the pairs that have equal keys, where there are some, and meet the condition."""
        assert self.where is not None
        pairs = rows.join(others, on=self.on) if self.on else rows.join(others, how="cross")
        with under("where"):
            pairs = pairs.filter(check_condition(self.where, pairs.drop(ROW, OTHER).collect_schema()).expr)
        if self.how == "inner":
            return pairs.sort(ROW, OTHER)
        if self.how in {"semi", "anti"}:
            return rows.join(pairs.select(ROW).unique(), on=ROW, how="semi" if self.how == "semi" else "anti").sort(ROW)
        added = [name for name in others.collect_schema().names() if name not in self.on]
        partners = pairs.select(ROW, *added, pl.lit(True).alias(MATCHED)).sort(ROW, OTHER)
        kept = rows.join(partners, on=ROW, how="left", maintain_order="left_right")
        if self.how != "full":
            return kept
        alone = others.join(pairs.select(OTHER).unique(), on=OTHER, how="anti").sort(OTHER)
        return pl.concat([kept, alone], how="diagonal")

    def _need_unique(self, part: Part, side: str) -> None:
        keys = part.lazy(self.backend).select(self.on).drop_nulls().group_by(self.on).len()
        twice = collect(keys.filter(pl.col("len") > 1).sort(self.on).head(1), self.backend)
        if twice.height:
            *key, times = twice.row(0)
            named = ", ".join(f"{name} = {value!r}" for name, value in zip(self.on, key, strict=True))
            remedy = "drop_duplicates or aggregate it before, or leave out validate"
            raise DataError(f"join, validate {self.validate}: the {side} table has {named} {times} times; {remedy}")
