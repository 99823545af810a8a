"""Axes of ancestry: principal components of the genetic relationship matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend import to_host
from pipeline.columns import autosome_number
from pipeline.errors import DataError
from pipeline.kernels.genotypes import alt_frequency, call_counts
from pipeline.kernels.relationship import grm, grm_sums, principal_components
from pipeline.part import ROW, Part, Schema
from pipeline.stage import Context, Outcome, Whole, need_array, need_columns
from pipeline.table import Table

MOST_PEOPLE = 20_000  # the matrix of so many takes 3.2 GB, and a task holds three


class PrincipalComponents(Whole, name="principal_components", version=1):
    """Give every person their place on the main axes of ancestry.

    Exact: eigenvectors of the relationship matrix (2f and sqrt(2f(1-f)) standardized, divided by the variants that both of a pair have), as
    PLINK's --pca. Autosomes alone unless told otherwise. A row per person: sample_id, pc1, pc2 ...; NAME.eigenvalues has the eigenvalues.

    Example:
        {use: principal_components, from: passed, as: ancestry, components: 10}
    """

    roles = ("genotypes",)

    components: int = Field(10, ge=1, le=1_000, description="Number of axes.")
    all_chromosomes: bool = Field(False, description="Use the variants beyond the autosomes too.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """sample_id and the axes; the eigenvalues."""
        need_array(schemas["genotypes"], "calls", "genotypes")
        need_columns(schemas["genotypes"], ("chromosome",), "genotypes")
        axes = {f"pc{i}": pl.Float64() for i in range(1, self.components + 1)}
        eigenvalues = pl.Schema({"component": pl.Int64(), "eigenvalue": pl.Float64()})
        return {"": Schema(pl.Schema({"sample_id": pl.String(), **axes})), "eigenvalues": Schema(eigenvalues)}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A sum over the parts, then one eigenvalue problem."""
        genotypes = tables["genotypes"].named(context.name)
        people, submit, name = genotypes.axes["calls"].value(), context.session.submit, context.name
        used = genotypes if self.all_chromosomes else genotypes.map(_autosomes, writes=frozenset())
        sums = used.reduce(_summed, _added, people)
        solved = submit(self.solve, name, sums, people, stage=name)
        first, second = (submit(_item, solved, index, stage=name) for index in (0, 1))
        tables = {"": Table.of(context.session, name, [first]), "eigenvalues": Table.of(context.session, name, [second])}
        return Outcome(tables, counts=submit(_item, solved, 2, stage=name))

    def solve(self, stage: str, sums: tuple[Any, Any, int], people: Part) -> tuple[Part, Part, dict[str, int]]:
        """Axes, eigenvalues, and the number of variants used. Raises DataError where there are too few variants or people."""
        if sums[2] == 0:
            raise DataError(
                f"stage {stage}: no autosomal variant varies among these people; for other chromosomes set all_chromosomes: true"
            )
        if self.components > people.frame.height:
            raise DataError(
                f"stage {stage}: {self.components} components of {people.frame.height} people; ask for at most as many as people"
            )
        _check_pairs(stage, sums[1], people.frame["sample_id"])
        values, vectors = principal_components(grm(sums[0], sums[1]), self.components)
        values, vectors = to_host(values), to_host(vectors)
        axes = [pl.Series(f"pc{i + 1}", np.ascontiguousarray(vectors[:, i])) for i in range(self.components)]
        eigenvalues = pl.DataFrame({"component": np.arange(1, self.components + 1), "eigenvalue": values})
        return (
            Part(people.frame.select("sample_id").hstack(axes)),
            Part(eigenvalues),
            {"variants_used": sums[2], "people": people.frame.height},
        )


def _autosomes(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.filter(autosome_number().is_not_null()).select(*([ROW] if ROW in rows.collect_schema() else []), "chromosome")


def _summed(part: Part, people: Part) -> tuple[Any, Any, int]:
    n = people.frame.height
    if n > MOST_PEOPLE:
        raise DataError(f"exact principal components of {n:,} people would need {3 * 8 * n * n / 2**30:.0f} GiB; at most {MOST_PEOPLE:,}")
    frequency = to_host(alt_frequency(call_counts(part.arrays["calls"], n)))
    return *grm_sums(part.arrays["calls"], n), int(((frequency > 0) & (frequency < 1)).sum())


def _added(sums: list[tuple[Any, Any, int]]) -> tuple[Any, Any, int]:
    products, counts, used = sums[0][0].copy(), sums[0][1].copy(), sums[0][2]
    for more in sums[1:]:
        products += more[0]
        counts += more[1]
        used += more[2]
    return products, counts, used


def _check_pairs(stage: str, shared: Any, people: pl.Series) -> None:
    """DataError, with the person who lacks most, where two people have no variant in common; `shared` counts those of each pair."""
    apart = to_host((shared <= 0).sum(axis=0))
    if apart.any():
        worst = int(apart.argmax())
        raise DataError(
            f"stage {stage}: {people[worst]!r} shares no called variant that varies with {apart[worst]} of {len(people)} people, so their "
            "relationship is unknown. Remove people with a low call rate first (sample_qc), or use more variants."
        )


def _item(values: tuple[Any, ...], index: int) -> Any:
    return values[index]
