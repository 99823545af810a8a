"""Hits of a scan gathered around the strongest of them: PLINK's --clump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import AUTOSOME_COUNT, autosomes_of
from pipeline.genome.columns import VOCABULARY, dtypes_of, need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex
from pipeline.kernels.linkage import haplotype_r_squared, without_haploid_heterozygotes
from pipeline.kernels.linkage_pruning import MORE
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import calls_in
from pipeline.stages.genomics._linkage import chosen_calls, kind_of
from pipeline.stages.genomics._loci import ALLELES, CALLS_ROW, PLACE, examples_of, matched_rows, need_one_species
from pipeline.tables.counts import Count
from pipeline.tables.part import ROW, Part, Schema, take
from pipeline.tables.table import Table

KEPT = (
    *PLACE,
    *ALLELES,
    "effect_allele_frequency",
    "beta",
    "standard_error",
    "n",
    "p_value",
    "neg_log_10_p_value",
    "trait",
    "test",
    AUTOSOME_COUNT,
)
SHOWN = (*PLACE, "index_variant_id", "r2", "p_value", "neg_log_10_p_value")


class Clump(Whole, name="clump", version=2):
    """Put the hits of each trait into clumps: the strongest variant, and those near it that are in linkage with it.

    PLINK's --clump: variants with p at most `p1` in order of p (the strongest first, on a tie the first in the genotype table) each open a
    clump, unless they are in one; its members are those less than `kb` away with p at most `p2`, r^2 above `r2` and in no clump yet.
    r^2 is of haplotypes of greatest likelihood, among founders (X, Y and dosages as ld_prune has them). A row per clump: the association
    of its strongest variant, members, member_ids. NAME.ld has r^2 of all variants around the `regions` strongest. Associations find their
    calls by id, position and alleles, either way round; the others are counted as unmatched.

    Example:
        {use: clump, from: {associations: gwas, genotypes: passed}, as: hits, p1: 5e-8, p2: 1e-4, r2: 0.1, kb: 500}
    """

    roles = ("associations", "genotypes")
    counts: ClassVar[Mapping[str, Count]] = {
        "hits": Count("hits"),
        "unmatched": Count("without a partner"),
        "clumps": Count("clumps"),
        "members": Count("members"),
    }

    p1: float = Field(1e-4, gt=0, le=1, description="Greatest p-value that opens a clump.")
    p2: float = Field(1e-2, gt=0, le=1, description="Greatest p-value of a member; at least p1.")
    r2: float = Field(0.5, ge=0, lt=1, description="A member's r^2 with the clump's strongest variant is above this.")
    kb: float = Field(250, gt=0, le=1_000_000, description="Thousands of base pairs; members are nearer than that.")
    regions: int = Field(5, ge=0, le=1_000, description="Clumps, the strongest of all traits, whose surroundings NAME.ld shows.")

    @model_validator(mode="after")
    def _members_are_weaker(self) -> Self:
        if self.p2 < self.p1:
            raise ValueError(f"p2 {self.p2:g} is below p1 {self.p1:g}; members may be weaker than what opens a clump, not stronger")
        return self

    @property
    def reach(self) -> int:
        """Base pairs to the farthest member."""
        return int(self.kb * 1000 * MORE) - 1

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per clump; one row per variant near the strongest."""
        given = schemas["associations"]
        need_known(given, (*PLACE, *ALLELES), "associations")
        if not {"p_value", "neg_log_10_p_value"} & set(given.columns):
            raise StageError("the table given as 'associations' has neither p_value nor neg_log_10_p_value, which clumps are made by")
        check_sex(need_genotypes(schemas["genotypes"], (*PLACE, "ref", "alt"), dosages=True))
        hits = _hits(given.columns.to_frame().lazy(), 0).collect_schema()
        clumps = {name: hits[name] for name in KEPT if name in hits}
        members = dtypes_of(("members", "member_ids"))
        shown = {name: hits[name] if name in hits else VOCABULARY[name].dtype for name in _shown(hits.names())}
        return {"": Schema(pl.Schema({**clumps, **members})), "ld": Schema(pl.Schema(shown))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The few associations that matter and their calls are gathered for the clumps, then those around the strongest."""
        session, name = context.session, context.name
        given, genotypes = ((table if table.cheap else table.hold()).named(name) for table in (tables["associations"], tables["genotypes"]))
        people = people_of(genotypes)
        hits = given.map(_hits, -np.log10(self.p2)).value()
        calls = genotypes.map_parts(_named, hits).map_parts(_called).value()
        clumps = session.submit(self.clumps, hits, calls, people, stage=name)
        found = session.submit(itemgetter(0), clumps, stage=name)
        top = session.submit(self.strongest, found, stage=name)
        near = given.map(_hits, -np.inf).map_parts(_near, top).value()
        calls_near = genotypes.map_parts(_near, top).map_parts(_called).value()
        shown = session.submit(self.linkage, near, calls_near, people, top, stage=name)
        made = {"": Table.of(session, name, [found]), "ld": Table.of(session, name, [shown])}
        return Outcome(made, counts=session.submit(itemgetter(1), clumps, stage=name))

    def clumps(self, hits: Part, calls: Part, people: Part) -> tuple[Part, dict[str, int]]:
        """The clumps of all traits, and what was counted. Raises DataError where no association finds its calls."""
        need_one_species(hits.frame, people.frame)
        matched = matched_rows(hits.frame, calls.frame)
        counts = {"hits": hits.frame.height, "unmatched": hits.frame.height - matched.height}
        if matched.height == 0 < hits.frame.height:
            raise DataError(f"no association finds its calls. {examples_of(hits.frame, calls.frame)}")
        rows: list[int] = []
        members: list[list[str]] = []
        for trait in matched.partition_by("trait", maintain_order=True) if "trait" in matched.columns else [matched]:
            for row, others in self._of_trait(trait, calls, people):
                rows.append(trait["__row__"][row])
                members.append(trait["variant_id"].gather(others).to_list())
        found = matched.select(name for name in KEPT if name in matched.columns)[rows].with_columns(
            pl.Series("members", [len(ids) for ids in members], dtype=pl.Int64),
            pl.Series("member_ids", [",".join(ids) for ids in members], dtype=pl.String),
        )
        return Part(found), {**counts, "clumps": len(rows), "members": sum(map(len, members))}

    def _of_trait(self, hits: pl.DataFrame, calls: Part, people: Part) -> list[tuple[int, list[int]]]:
        """Rows of one trait's hits that open a clump, the strongest first, and the rows of their members in order of position."""
        strength, place = hits["neg_log_10_p_value"].to_numpy(), hits["base_pair_location"].to_numpy()
        rows, chromosome = hits[CALLS_ROW].to_numpy(), hits["chromosome"].to_numpy()
        taken, found = np.zeros(len(hits), np.bool_), []
        for one in np.lexsort((rows, -strength)):
            if taken[one] or strength[one] * MORE < -np.log10(self.p1):
                continue
            taken[one] = True
            near = np.flatnonzero(~taken & (chromosome == chromosome[one]) & (np.abs(place - place[one]) <= self.reach))
            squared = self._squared(calls, people, hits["chromosome"][int(one)], np.concatenate([rows[one : one + 1], rows[near]]))
            near = near[squared[1:] > self.r2 * MORE]
            taken[near] = True
            found.append((int(one), near[np.lexsort((rows[near], place[near]))].tolist()))
        return found

    def _squared(self, calls: Part, people: Part, chromosome: str, rows: Any) -> Any:
        """r^2 of the first of these rows with all of them, on the host; NaN where one does not vary."""
        if len(rows) == 1:
            return np.ones(1)
        chosen, samples = chosen_calls(take(calls.arrays["calls"], rows), people.frame, chromosome)
        if kind_of(chromosome, autosomes_of(people.frame)) != "mt":  # PLINK 1.9 takes heterozygous calls there as they are
            chosen = without_haploid_heterozygotes(chosen, samples)
        return to_host(haplotype_r_squared(chosen, samples.count, 0))

    def strongest(self, clumps: Part) -> Part:
        """The index variants whose surroundings are shown, with the first and last position of each."""
        position = pl.col("base_pair_location").cast(pl.Int64)
        top = clumps.frame.sort("neg_log_10_p_value", descending=True, maintain_order=True).head(self.regions)
        return Part(top.with_columns(low=position - self.reach, high=position + self.reach))

    def linkage(self, near: Part, calls: Part, people: Part, top: Part) -> Part:
        """r^2 of the index variants of `top` with the variants around each, in order of position."""
        matched = matched_rows(near.frame, calls.frame)
        names = _shown(near.frame.columns)
        shown = [matched.clear().with_columns(index_variant_id=pl.lit(None, pl.String), r2=pl.lit(None, pl.Float64))]
        for index in top.frame.iter_rows(named=True):
            around = matched.filter(
                pl.col("chromosome") == index["chromosome"],
                pl.col("base_pair_location").is_between(index["low"], index["high"]),
                *([pl.col("trait").eq_missing(pl.lit(index["trait"], pl.String))] if "trait" in index else []),
            ).sort("base_pair_location", CALLS_ROW)
            itself = pl.all_horizontal(pl.col(name) == index[name] for name in ("variant_id", *ALLELES))
            rows = np.concatenate([around.filter(itself)[CALLS_ROW].head(1).to_numpy(), around[CALLS_ROW].to_numpy()])
            squared = self._squared(calls, people, index["chromosome"], rows)[1:]
            r2 = pl.Series("r2", squared, dtype=pl.Float64).fill_nan(None)
            shown.append(around.with_columns(index_variant_id=pl.lit(index["variant_id"]), r2=r2))
        return Part(pl.concat([frame.select(names) for frame in shown]))


def _hits(rows: pl.LazyFrame, least: float) -> pl.LazyFrame:
    """Associations with a p-value of at most 10 to the minus `least`, with p_value and neg_log_10_p_value both."""
    names = rows.collect_schema().names()
    if "neg_log_10_p_value" not in names:
        rows = rows.with_columns(neg_log_10_p_value=-pl.col("p_value").cast(pl.Float64).log10())
    if "p_value" not in names:
        rows = rows.with_columns(p_value=10.0 ** (-pl.col("neg_log_10_p_value").cast(pl.Float64)))
    kept = [name for name in KEPT if name in rows.collect_schema().names()]
    strength = pl.col("neg_log_10_p_value")
    return rows.select(kept).filter(strength.is_not_null() & strength.is_not_nan() & (strength * MORE >= least))


def _shown(names: Sequence[str]) -> list[str]:
    """Columns of NAME.ld, from those of the associations."""
    return [*SHOWN, *(name for name in ("trait", AUTOSOME_COUNT) if name in names)]


def _called(part: Part) -> Part:
    """The variants with their calls alone: of dosages, those nearest to them."""
    return Part(part.frame, {"calls": calls_in(part)}, part.counts)


def _named(part: Part, hits: Part) -> Part:
    """The variants that have the id of a hit."""
    ids = hits.frame["variant_id"].unique().to_list()
    return part.with_frame(part.frame.with_row_index(ROW).filter(pl.col("variant_id").is_in(ids)))


def _near(part: Part, top: Part) -> Part:
    """The rows around an index variant."""
    inside = [
        (pl.col("chromosome") == row["chromosome"]) & pl.col("base_pair_location").is_between(row["low"], row["high"])
        for row in top.frame.iter_rows(named=True)
    ]
    frame = part.frame.with_row_index(ROW) if part.arrays else part.frame
    return part.with_frame(frame.filter(pl.any_horizontal(pl.lit(value=False), *inside)))
