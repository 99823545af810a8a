"""Runs of homozygosity: stretches where a person had the same from both parents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.genome.chromosomes import autosomes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex, males, refuse_haploid
from pipeline.kernels.dosages import genotypes_of
from pipeline.kernels.homozygosity import WindowRule, homozygous_pieces
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import calls_in
from pipeline.stages.genomics._linkage import kind_of
from pipeline.stages.genomics._neighbours import Ahead, Rows, aheads, behinds, going_on
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.reduced import FAN_IN
from pipeline.tables.table import Table

PLACE = ("chromosome", "base_pair_location", "variant_id")
RUN: dict[str, pl.DataType] = {
    "sample_id": pl.String(), "chromosome": pl.String(), "start": pl.Int64(), "end": pl.Int64(), "first_variant_id": pl.String(),
    "last_variant_id": pl.String(), "variants": pl.Int64(), "heterozygous": pl.Int64(), "missing": pl.Int64(),
}  # fmt: skip
PERSON: dict[str, pl.DataType] = {
    "sample_id": pl.String(), "runs": pl.Int64(), "run_kb": pl.Float64(), "mean_run_kb": pl.Float64(), "inbreeding": pl.Float64()
}  # fmt: skip
PIECE: dict[str, pl.DataType] = {
    "person": pl.Int64(), "first": pl.Int64(), "last": pl.Int64(), "heterozygous": pl.Int64(), "missing": pl.Int64(),
    "goes_on": pl.Boolean(), **{name: RUN[name] for name in ("chromosome", "start", "end")},
    "first_variant_id": pl.String(), "last_variant_id": pl.String(),
}  # fmt: skip
"""A piece of a run: rows of the whole table, and whether the row before may be of it."""
_KB = 1000


@dataclass(frozen=True)
class _Found:
    """Pieces of runs in rows `low` up to `high` of the whole table, and each autosome's first and last position there."""

    pieces: pl.DataFrame
    low: int
    high: int
    autosomes: pl.DataFrame


class RunsOfHomozygosity(Whole, name="runs_of_homozygosity", version=1):
    """Find stretches of the genome where a person's calls are homozygous, as PLINK 1.9's --homozyg does.

    A window of `window` variants slides along each chromosome, and is homozygous with at most so many calls heterozygous and missing; a
    variant is inside a run where `window_share` of the windows that cover it are. Of the runs those of `min_variants` and `min_kb` stay,
    with a variant per `max_kb_per_variant` on average and no gap above `max_gap_kb`. A row a run: positions of its first and last variant,
    and calls. NAME.people has everyone's runs, kb in them, their mean and `inbreeding`: the share of the autosomes, each from its first to
    its last variant, that lies in runs. NAME.variants has in how many people's runs a variant is. Autosomes, pseudoautosomal regions, and X
    of those who are not men. Of dosages, calls are the nearest ones. Variants must be sorted by position within a chromosome.

    Example: {use: runs_of_homozygosity, from: cohort, as: runs}
    """

    roles = ("genotypes",)
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {"runs": Count("runs", always=True), "people": Count("people with a run")}

    window: int = Field(50, ge=1, le=10_000, description="Variants of the window that slides.")
    window_heterozygous: int = Field(1, ge=0, le=10_000, description="Heterozygous calls that a homozygous window may have.")
    window_missing: int = Field(5, ge=0, le=10_000, description="Missing calls that a homozygous window may have.")
    window_share: float = Field(0.05, gt=0, le=1, description="Share of the windows that cover a variant of a run which are homozygous.")
    min_variants: int = Field(100, ge=1, description="Variants that a run has at least.")
    min_kb: float = Field(1000, ge=0, description="Thousands of base pairs that a run is long at least.")
    max_kb_per_variant: float = Field(50, gt=0, description="Thousands of base pairs per variant of a run at most, on average.")
    max_gap_kb: float = Field(1000, gt=0, description="Thousands of base pairs between neighbours of a run at most.")
    max_heterozygous: int | None = Field(None, ge=0, description="Heterozygous calls of a run at most; by default any number.")

    @property
    def rule(self) -> WindowRule:
        """The window, and what a heterozygous call does to a run."""
        cut = None if self.max_heterozygous is None else "piece" if self.max_heterozygous else "out"
        return WindowRule(self.window, self.window_heterozygous, self.window_missing, self.window_share, cut)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a run, a row a person, and a row a variant."""
        schema = schemas["genotypes"]
        check_sex(need_genotypes(schema, PLACE, dosages=True))
        variants = {name: schema.columns[name] for name in PLACE} | {"people_in_runs": pl.Int64()}
        return {"": Schema(pl.Schema(RUN)), "people": Schema(pl.Schema(PERSON)), "variants": Schema(pl.Schema(variants))}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernel."""
        import_module("pipeline.kernels.compiled.homozygosity")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A task a part, with the variants that its windows reach; pieces are joined in a tree, and then looked up by variant."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        people, parts = people_of(genotypes), genotypes.futures()
        offsets: list[Any] = [0]
        for part in parts[:-1]:
            offsets.append(submit(_after, offsets[-1], part, stage=name))
        earlier = behinds(context.session, parts, max(1, self.window - 1), name)
        later = aheads(context.session, parts, Rows(self.window - 2), name)
        around = zip(parts, earlier, later, offsets, strict=False)
        found: list[Any] = [submit(self.pieces, *one, people, stage=name) for one in around]
        while len(found) > 1:
            found = [submit(self.joined, *found[at : at + FAN_IN], stage=name) for at in range(0, len(found), FAN_IN)]
        runs = submit(self.runs, found[0], stage=name)
        told = submit(_named, runs, people, stage=name)
        of_people = submit(_of_people, runs, found[0], people, stage=name)
        of_variants = [submit(_of_variants, part, offset, runs, people, stage=name) for part, offset in zip(parts, offsets, strict=False)]
        made = {"": [told], "people": [of_people], "variants": of_variants}
        return Outcome(
            {key: Table.of(context.session, name, parts) for key, parts in made.items()}, counts=submit(_tally, of_people, stage=name)
        )

    def pieces(self, part: Part, earlier: Part | None, later: Ahead | None, offset: int, people: Part) -> _Found:
        """Pieces of runs in one part. Raises DataError where variants are not in order, or everyone is haploid."""
        refuse_haploid(people.frame, "nobody has the same from two parents", "Leave the stage out.")
        frames, spans = [pl.DataFrame(schema=PIECE)], [pl.DataFrame(schema={name: RUN[name] for name in ("chromosome", "start", "end")})]
        everyone, autosomes = np.arange(people.rows), autosomes_of(people.frame)
        for chromosome, low, high, whole in going_on(part, later):
            kind = kind_of(chromosome, autosomes)
            if kind not in ("autosome", "par", "x"):
                continue
            before = 0
            if earlier and low == 0 and earlier.rows and earlier.frame["chromosome"][-1] == chromosome:
                before, whole = earlier.rows, concat_parts([earlier, whole])
            who = everyone[~males(people.frame)] if kind == "x" else everyone
            frames.append(self._of_chromosome(whole, slice(before, before + high - low), offset + low, who, people.rows))
            if kind == "autosome":
                spans.append(whole.frame[before : before + high - low].select(pl.col("chromosome").first(), *_ends("base_pair_location")))
        found = _Found(pl.concat(frames), offset, offset + part.rows, pl.concat(spans))
        return self._still_open(found)

    def _of_chromosome(self, whole: Part, own: slice, first_row: int, who: NDArray[np.int64], people: int) -> pl.DataFrame:
        Rows(0).places(whole.frame["chromosome"][0], whole.frame)
        places = whole.frame["base_pair_location"].to_numpy().astype(np.int64)
        joined = np.diff(places, prepend=places[0] - 2 * self.max_gap_kb * _KB)[own] <= self.max_gap_kb * _KB
        calls = calls_in(whole)
        calls = calls if len(who) == people else genotypes_of(calls, people, who)
        found = homozygous_pieces(calls, len(who), self.rule, own, joined)
        rows = whole.frame[own]
        ids, of = rows["variant_id"].cast(pl.String), rows["base_pair_location"].cast(pl.Int64)
        columns = {
            "person": who[found.person], "first": first_row + found.first, "last": first_row + found.last,
            "heterozygous": found.heterozygous, "missing": found.missing, "goes_on": joined[found.first],
            "chromosome": pl.repeat(rows["chromosome"][0], len(found.person), eager=True),
            "start": of.gather(found.first), "end": of.gather(found.last),
            "first_variant_id": ids.gather(found.first), "last_variant_id": ids.gather(found.last),
        }  # fmt: skip
        return pl.DataFrame(columns, schema=PIECE)

    def joined(self, *parts: _Found) -> _Found:
        """Neighbouring parts as one: pieces that go on in the next are one, and short ones that are whole are gone."""
        pieces = pl.concat(part.pieces for part in parts)
        found = _Found(
            pieces if self.rule.cut == "piece" else _joined(pieces),
            parts[0].low,
            parts[-1].high,
            pl.concat(part.autosomes for part in parts),
        )
        return self._still_open(found)

    def _still_open(self, found: _Found) -> _Found:
        """Without the pieces that nothing can be joined to and that are no run."""
        if self.rule.cut == "piece":
            return found
        is_open = (pl.col("first") == found.low) | (pl.col("last") == found.high - 1)
        return _Found(found.pieces.filter(is_open | self._long_enough()), found.low, found.high, found.autosomes)

    def runs(self, found: _Found) -> pl.DataFrame:
        """The runs, in order of people."""
        return _joined(found.pieces, self.max_heterozygous or 0).filter(self._long_enough())

    def _long_enough(self) -> pl.Expr:
        variants, length = pl.col("last") - pl.col("first") + 1, pl.col("end") - pl.col("start") + 1
        sparse = length > variants * self.max_kb_per_variant * _KB
        return (variants >= self.min_variants) & (length >= self.min_kb * _KB) & ~sparse


def _ends(column: str) -> tuple[pl.Expr, pl.Expr]:
    return pl.col(column).first().cast(pl.Int64).alias("start"), pl.col(column).last().cast(pl.Int64).alias("end")


def _joined(pieces: pl.DataFrame, at_most: int = 0) -> pl.DataFrame:
    """A person's neighbouring pieces that go on, as one; with `at_most` above 0 a heterozygous call too many begins another."""
    pieces = pieces.sort("person", "first")
    same = (pl.col("person") == pl.col("person").shift()) & (pl.col("first") == pl.col("last").shift() + 1) & pl.col("goes_on")
    calls = pl.col("heterozygous").cum_sum().over("chain")
    number = (calls - 1).clip(0) // at_most if at_most else pl.lit(0)
    pieces = pieces.with_columns((~same.fill_null(value=False)).cum_sum().alias("chain")).with_columns(number.alias("number"))
    first = [name for name in PIECE if name not in {"last", "end", "last_variant_id", "heterozygous", "missing"}]
    summed, last = pl.col("heterozygous", "missing").sum(), pl.col("last", "end", "last_variant_id").last()
    return pieces.group_by("chain", "number", maintain_order=True).agg(pl.col(first).first(), last, summed).select(list(PIECE))


def _after(offset: int, part: Part) -> int:
    return offset + part.rows


def _named(runs: pl.DataFrame, people: Part) -> Part:
    """The runs with whose they are."""
    ids = people.frame["sample_id"].cast(pl.String).gather(runs["person"])
    return Part(runs.with_columns(ids.alias("sample_id"), (pl.col("last") - pl.col("first") + 1).alias("variants")).select(list(RUN)))


def _of_people(runs: pl.DataFrame, found: _Found, people: Part) -> Part:
    """Everyone's runs."""
    spans = found.autosomes.group_by("chromosome").agg(pl.col("start").min(), pl.col("end").max())
    genome = spans.select((pl.col("end") - pl.col("start") + 1).sum()).item()
    length = pl.col("end") - pl.col("start") + 1
    sums = runs.group_by("person").agg(
        pl.len().cast(pl.Int64).alias("runs"), length.sum().alias("length"),
        length.filter(pl.col("chromosome").is_in(spans["chromosome"].implode())).sum().alias("autosomal"),
    )  # fmt: skip
    everyone = people.frame.select(pl.col("sample_id").cast(pl.String), pl.int_range(pl.len()).alias("person"))
    told = everyone.join(sums, on="person", how="left", maintain_order="left").with_columns(
        pl.col("runs", "length", "autosomal").fill_null(0)
    )
    kb = pl.col("length") / _KB
    mean = pl.when(pl.col("runs") > 0).then(kb / pl.col("runs"))
    share = pl.col("autosomal") / (genome or None)
    return Part(told.select("sample_id", "runs", kb.alias("run_kb"), mean.alias("mean_run_kb"), share.cast(pl.Float64).alias("inbreeding")))


def _of_variants(part: Part, offset: int, runs: pl.DataFrame, people: Part) -> Part:
    """The part's variants with how many people's runs they are in."""
    rows = part.rows
    here = runs.filter((pl.col("last") >= offset) & (pl.col("first") < offset + rows))
    first, last = (here[name].to_numpy() - offset for name in ("first", "last"))
    steps = np.bincount(first.clip(0), minlength=rows + 1)[: rows + 1]
    steps = steps - np.bincount(last.clip(max=rows - 1) + 1, minlength=rows + 1)[: rows + 1]
    frame = part.frame.select(PLACE).with_columns(pl.Series("people_in_runs", steps.cumsum()[:rows], dtype=pl.Int64))
    autosomes = autosomes_of(people.frame)
    names = [name for name in frame["chromosome"].unique() if name and kind_of(name, autosomes) in ("autosome", "par", "x")]
    return Part(frame.filter(pl.col("chromosome").is_in(names)))


def _tally(people: Part) -> dict[str, int]:
    runs = people.frame["runs"]
    return {"runs": int(runs.sum()), "people": int((runs > 0).sum())}
