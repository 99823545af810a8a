"""Variants in linkage equilibrium: PLINK's --indep-pairwise, chromosome by chromosome and part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import DataError
from pipeline.genome.chromosomes import AUTOSOMES
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex
from pipeline.kernels.linkage import Samples
from pipeline.kernels.linkage_pruning import MORE, Pruned, PruneRule, prune
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import genotypes_in
from pipeline.stages.genomics._linkage import UNPLACED, chosen_calls, last_position, stretches
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts, take
from pipeline.tables.table import Table

ORDER = "__order__"  # where a row stood, while lanes take the rows apart
MOST_LANES = 24


@dataclass(frozen=True)
class Waiting:
    """The variants of a chromosome whose windows go on in the next part, from the window's start on, and what was found of them."""

    chromosome: str
    part: Part
    found: Pruned
    position: int  # the last one


@dataclass(frozen=True)
class Lane:
    """What a lane, a chain of tasks over all parts for some of the chromosomes, has come to after a part."""

    waiting: Waiting | None = None
    ended: frozenset[str] = frozenset()
    counts: Mapping[str, int] = field(default_factory=dict)


class LdPrune(Whole, name="ld_prune", version=2):
    """Keep variants that are hardly correlated with one another: of a pair in a window with r^2 above `r2` one goes.

    PLINK's --indep-pairwise (order of 2.00a3.5), the same lists. r^2 is of the calls that both variants have, of founders alone, who
    have no parent named. The variant with the rarer minor allele goes, on a tie the later one; also one that does not vary
    (unless it has no neighbour), and one on chromosome 0. X counts a woman twice, Y is men's alone, and a heterozygous call of a man there
    or of anybody on MT is missing. Of dosages r^2 is of the calls within 0.1 of them, and minor alleles' frequencies are their own.
    Variants must be sorted by position within a chromosome. Filter rare ones first (variant_qc).

    Example:
        {use: ld_prune, from: passed, as: pruned, window_variants: 50, step: 5, r2: 0.2}
    """

    roles = ("genotypes",)
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        "variants_in": Count("variants read"),
        "unplaced": Count("without a place"),
        "not_varying": Count("without variation"),
        "in_linkage": Count("in linkage with one that is kept", always=True),
        "variants_out": Count("variants kept"),
    }

    window_variants: int | None = Field(None, ge=2, description="Variants in a window; give this or window_kb.")
    window_kb: float | None = Field(None, gt=0, le=1_000_000, description="Thousands of base pairs that a window spans.")
    step: int = Field(1, ge=1, description="Variants by which a window of variants moves; 1 for window_kb.")
    r2: float = Field(ge=0, lt=1, description="Greatest r^2 of two variants that both stay.")

    @model_validator(mode="after")
    def _one_window(self) -> Self:
        if (self.window_variants is None) == (self.window_kb is None):
            raise ValueError("give either window_variants or window_kb")
        if self.window_kb is not None and self.step != 1:
            raise ValueError(f"a window in kb moves from variant to variant, so step is 1, not {self.step}; leave it out")
        if self.window_variants is not None and self.step > self.window_variants:
            raise ValueError(f"step {self.step} is more than window_variants {self.window_variants}, which would skip variants")
        return self

    @property
    def rule(self) -> PruneRule:
        """The window and the limit, in base pairs where it is in kb."""
        by_position = self.window_kb is not None
        size = int((self.window_kb or 0) * 1000 * MORE) if by_position else int(self.window_variants or 0)
        return PruneRule(size, self.step, self.r2, by_position)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The genotype table as it is."""
        schema = schemas["genotypes"]
        check_sex(need_genotypes(schema, ("chromosome", "base_pair_location"), dosages=True))
        return {"": schema}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernel."""
        prune(np.zeros((2, 1), np.uint8), np.arange(2), Samples(4), self.rule)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Lanes of tasks from part to part, each for some of the chromosomes; rows are settled when no window can reach them any more."""
        genotypes, session, name = tables["genotypes"].named(context.name), context.session, context.name
        people, parts = people_of(genotypes), genotypes.futures()
        slots = session.workers * session.threads
        lanes = min(2 * slots, MOST_LANES) if slots > 1 else 1
        before: list[Any] = [None] * lanes
        settled = []
        for number, part in enumerate(parts):
            places = [(lane, lanes, number, number == len(parts) - 1) for lane in range(lanes)]
            before = [session.submit(self.walk, place, part, people, before[place[0]], stage=name) for place in places]
            settled.append(session.submit(_joined, *before, stage=name))
        table = replace(Table.of(session, name, settled), axes=genotypes.axes, fitted=genotypes.fitted)
        return Outcome({"": table}, counts=session.submit(_tally, *before, stage=name))

    def walk(
        self, place: tuple[int, int, int, bool], part: Part, people: Part, before: tuple[list[Part], Lane] | None
    ) -> tuple[list[Part], Lane]:
        """The rows that stay and are settled once a lane has seen this part, by chromosome (an empty piece first), and the lane.

        `place`: lane, lanes, part, whether the last.

        Raises DataError where a chromosome's variants are not together and in order.
        """
        lane, lanes, number, last = place
        state = Lane() if before is None else before[1]
        order = pl.int_range(pl.len(), dtype=pl.Int64) + (number << 40)
        numbered = part.replaced(part.frame.with_columns(order.alias(ORDER)))
        pieces = list(stretches(part.frame))
        settled = [_rows(numbered, 0, 0)]
        if state.waiting and (last if not pieces else pieces[0][0] != state.waiting.chromosome):
            done, state = self._judge(state, state.waiting.chromosome, settled[0], people, True)
            settled.append(done)
        for at, (chromosome, low, high) in enumerate(pieces):
            if _lane_of(chromosome, lanes) == lane:
                final = last or at < len(pieces) - 1
                done, state = self._judge(state, chromosome, _rows(numbered, low, high), people, final)
                settled.append(done)
        return settled, state

    def _judge(self, state: Lane, chromosome: str | None, piece: Part, people: Part, final: bool) -> tuple[Part, Lane]:
        """What stays of a chromosome, as far as its variants are here, with those that wait; and the lane after it."""
        counts = _plus(state.counts, variants_in=piece.frame.height)
        if chromosome is None or chromosome == UNPLACED:
            return _rows(piece, 0, 0), replace(state, counts=_plus(counts, unplaced=piece.frame.height))
        if chromosome in state.ended:
            raise DataError(
                f"the variants of chromosome {chromosome!r} do not stand together. Put a sort by chromosome and "
                "base_pair_location before this stage."
            )
        whole = concat_parts([state.waiting.part, piece]) if state.waiting else piece
        last = last_position(chromosome, piece.frame, state.waiting.position if state.waiting else None)
        calls, samples = chosen_calls(genotypes_in(whole), people.frame, chromosome)
        positions = whole.frame["base_pair_location"].cast(pl.Int64).to_numpy()
        found = prune(calls, positions, samples, self.rule, state.waiting.found if state.waiting else None, final)
        removed, constant = found.removed[: found.start], found.constant[: found.start]
        counts = _plus(counts, not_varying=int(constant.sum()), in_linkage=int((removed & ~constant).sum()))
        stay = _taken(whole, np.flatnonzero(~removed))
        if final:
            return stay, Lane(None, state.ended | {chromosome}, counts)
        rest = _taken(whole, np.arange(found.start, whole.frame.height))
        return stay, replace(state, waiting=Waiting(chromosome, rest, found, last), counts=counts)


def _lane_of(chromosome: str | None, lanes: int) -> int:
    """Autosomes go to the lanes forth and back, so that each has long and short ones; the lane depends on the name alone."""
    number = str(chromosome).lower().removeprefix("chr")
    place = AUTOSOMES.index(number) if number in AUTOSOMES else crc32(str(chromosome).encode())
    turn, lane = divmod(place, lanes)
    return lane if turn % 2 == 0 else lanes - 1 - lane


def _rows(part: Part, low: int, high: int) -> Part:
    return Part(part.frame[low:high], {name: array[low:high] for name, array in part.arrays.items()})


def _taken(part: Part, rows: Any) -> Part:
    return Part(part.frame[rows], {name: take(array, rows) for name, array in part.arrays.items()})


def _plus(counts: Mapping[str, int], **more: int) -> dict[str, int]:
    return {**counts, **{name: counts.get(name, 0) + count for name, count in more.items()}}


def _joined(*lanes: tuple[list[Part], Lane]) -> Part:
    """What the lanes settled at one part, in the order that the rows had: a chromosome's stand together, so pieces are put in order."""
    pieces = [piece for settled, _ in lanes for piece in settled if piece.frame.height]
    whole = concat_parts(sorted(pieces, key=lambda piece: int(piece.frame[ORDER][0])) or lanes[0][0][:1])
    return whole.replaced(whole.frame.drop(ORDER))


def _tally(*lanes: tuple[list[Part], Lane]) -> dict[str, int]:
    total = dict.fromkeys(("variants_in", "unplaced", "not_varying", "in_linkage"), 0)
    for _, lane in lanes:
        total = _plus(total, **lane.counts)
    return {**total, "variants_out": total["variants_in"] - total["unplaced"] - total["not_varying"] - total["in_linkage"]}
