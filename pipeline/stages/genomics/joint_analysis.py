"""Variants of a scan's loci given one another: COJO from associations and a panel's linkage."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import DataError
from pipeline.genome.columns import VOCABULARY, dtypes_of, need_known
from pipeline.kernels.joint_effects import Given, Marginal, conditional_effects, joint_effects, selected
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._loci import COUNTS, NEEDED, Found, Locus, each_locus, joined, need_loci
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

GIVEN = ("beta", "standard_error", "p_value", "neg_log_10_p_value")


class JointAnalysis(Whole, name="joint_analysis", version=1):
    """Choose the variants of a scan's loci that act beside one another, and give all effects in one regression.

    GCTA's COJO (Yang et al. 2012) from associations and a panel's linkage: step by step the variant of the least p beside those chosen
    joins them while p is at most `max_p`, and those leave whose p in the joint regression is above it. `loci` is any table with chromosome
    and base_pair_location, such as clump's; the `kb` on either side count, and overlapping ones are one locus. With a table `given`
    (variant_id) nothing is chosen: its variants are those. r is of the founders' calls in `genotypes`: the scan's own people, or some
    thousand of their ancestry. A variant's variance is taken from its standard error and n, not from its frequency.

    A row a chosen variant, with beta_joint and the like; NAME.conditional has the other variants of each locus, each beside the chosen ones
    (beta_conditional; without a value where these explain more than `collinearity` of its variance).

    Example:
        {use: joint_analysis, from: {associations: gwas, genotypes: passed, loci: hits}, as: joint, max_p: 5e-8}
    """

    roles = ("associations", "genotypes", "loci", "given")
    optional = frozenset({"given"})
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        **COUNTS,
        "chosen": Count("variants chosen"),
    }

    max_p: float = Field(5e-8, gt=0, lt=1, description="Greatest p-value, beside the others, of a variant that is chosen.")
    kb: float = Field(500, gt=0, le=10_000, description="Thousands of base pairs on either side of a locus.")
    collinearity: float = Field(0.9, gt=0, lt=1, description="Share of a variant's variance that others may explain.")
    max_variants: int = Field(5_000, ge=1, le=50_000, description="Variants of a locus at most: linkage takes 8 bytes times their square.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a chosen variant; a row for each of the others."""
        need_loci(schemas)
        if "given" in schemas:
            need_known(schemas["given"], ("variant_id",), "given")
        return {name: Schema(columns) for name, columns in zip(("", "conditional"), _columns(schemas["associations"]), strict=True)}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """What lies around the loci is gathered, and loci are analysed task by task."""
        session, name = context.session, context.name
        given = tables["given"].named(name).map(lambda rows: rows.select("variant_id")).value() if "given" in tables else None
        lanes = each_locus(tables, context, int(self.kb * 1000), self.max_variants, self.analysed, given)
        schema = tables["associations"].schema
        assert schema is not None
        found = session.submit(joined, _columns(schema), *lanes, stage=name)
        own, others, counts = (session.submit(itemgetter(place), found, stage=name) for place in range(3))
        return Outcome({"": Table.of(session, name, [own]), "conditional": Table.of(session, name, [others])}, counts=counts)

    def analysed(self, locus: Locus, given: Part | None) -> Found:
        """The chosen variants of a locus, and the others beside them. Raises DataError for given ones that are sums of one another."""
        rows = locus.rows.with_columns(locus=pl.lit(locus.place.name))
        marginal = Marginal(locus.z, rows["n"].cast(pl.Float64).to_numpy(), locus.r)
        if given is None:
            chosen = selected(marginal, self.max_p, self.collinearity)
        else:
            chosen = rows["variant_id"].is_in(given.frame["variant_id"].implode()).arg_true().to_numpy().astype(np.int64)
        try:
            joint = joint_effects(marginal, chosen)
        except np.linalg.LinAlgError:
            names = ", ".join(rows["variant_id"].gather(chosen).head(9))
            raise DataError(
                f"the given variants of locus {locus.place.name} ({names}) cannot all stand beside one another: one of them tells what "
                "others tell. Leave it out."
            ) from None
        others = np.setdiff1d(np.arange(rows.height), chosen)
        beside = conditional_effects(marginal, chosen)
        unit = locus.sign * rows["standard_error"].cast(pl.Float64).to_numpy() * np.sqrt(marginal.t**2 + marginal.n - 2)
        apart = beside.tolerance >= 1 - self.collinearity
        counts = {**locus.counts, "loci": 1, "chosen": len(chosen)}
        return Found(
            _with(rows[chosen], joint, unit[chosen], "joint", np.arange(len(chosen)), np.ones(len(chosen), np.bool_)),
            _with(rows[others], beside, unit[others], "conditional", others, apart[others]),
            counts,
        )


def _columns(associations: Schema) -> tuple[pl.Schema, pl.Schema]:
    trait = {"trait": VOCABULARY["trait"].dtype} if "trait" in associations.columns else {}
    own = {"locus": pl.String(), **dtypes_of(NEEDED), **trait}
    first, second = (pl.Schema({**own, **{f"{name}_{what}": pl.Float64() for name in GIVEN}}) for what in ("joint", "conditional"))
    return first, second


def _with(rows: pl.DataFrame, found: Given, unit: NDArray[np.float64], what: str, at: Any, sound: NDArray[np.bool_]) -> pl.DataFrame:
    """Rows with effects in units of the trait per effect allele; `at` are their places in what was found."""
    numbers = (found.effect[at] * unit, found.error[at] * abs(unit), found.p_value[at], found.neg_log_10[at])
    columns = (
        pl.Series(f"{name}_{what}", np.where(sound, values, np.nan), nan_to_null=True) for name, values in zip(GIVEN, numbers, strict=True)
    )
    return rows.with_columns(columns)
