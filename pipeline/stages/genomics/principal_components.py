"""Axes of ancestry: principal components of the genetic relationship matrix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from operator import itemgetter
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError
from pipeline.genome.chromosomes import autosomes_of, is_haploid
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.randomized_pca import Krylov, krylov_start, krylov_step, relationship_product, ritz_pairs
from pipeline.kernels.relationship import GrmSums, grm, principal_components, residuals, shared_variants
from pipeline.kernels.relationship_tiles import leading_axes
from pipeline.kernels.standardized import standard_values, variant_products
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import genotypes_in
from pipeline.stages.genomics._relationships import (
    MOST_IN_TILES,
    WHOLE,
    PlacedTile,
    frequency_of,
    matrix_work,
    number_of,
    of_tiles,
    placed,
    product_of,
    refuse_apart,
    refuse_apart_in,
    summed,
    varying_of,
)
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

MOST_ON_GPU = 20_000  # sums of 4.8 GB
_PRODUCTS = 3e-7  # seconds a pair of some 300 products with the matrix
LOADED = (*VARIANT, "alt_frequency")  # what describes a variant beside its loadings


class _Solved(NamedTuple):
    """The axes and eigenvalues as tables, the numbers of variants and people, which method ran, and how many copies a call is of."""

    axes: Part
    eigenvalues: Part
    counts: dict[str, int]
    metrics: dict[str, Any]
    copies: int


class PrincipalComponents(Whole, name="principal_components", version=3):
    """Give every person their place on the main axes of ancestry.

    Calls, or dosages where the table has them, are standardized by 2f and sqrt(2f(1-f)). `exact` takes the eigenvectors of the relationship
    matrix, where each pair's sum is divided by the variants that both have (PLINK's --pca); of more than 5,000 people tiles of it lie on
    local disk (4 bytes times the square of the people). `randomized` makes no matrix: a missing call counts as its mean (PLINK's --pca
    approx), and axes that stand out are exact to rounding, while axes of noise, whose eigenvalues lie close together, may be mixed.
    Autosomes alone unless told otherwise; in a haploid genome calls vary by f(1 - f), so eigenvalues are half.

    A row per person: sample_id, pc1, pc2 ... NAME.eigenvalues has each axis' eigenvalue and its residual, |Gv - value v| / value, nearly
    0 where exact. NAME.loadings has a row per variant, with which project_components places other people; it costs nothing where nothing
    reads it.

    Example:
        {use: principal_components, from: passed, as: ancestry, components: 10}
    """

    roles = ("genotypes",)
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {"variants_used": Count("variants used"), "people": Count("people")}

    components: int = Field(10, ge=1, le=1_000, description="Number of axes.")
    method: Literal["exact", "randomized"] = Field("exact", description="The whole relationship matrix, or a few passes over the calls.")
    passes: int = Field(10, ge=2, le=100, description="Passes over the calls of the randomized method.")
    all_chromosomes: bool = Field(False, description="Use the variants beyond the autosomes too.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """sample_id and the axes; the eigenvalues; the loadings."""
        need_genotypes(schemas["genotypes"], VARIANT, dosages=True)
        axes = {f"pc{i}": pl.Float64() for i in range(1, self.components + 1)}
        eigenvalues = {"component": pl.Int64(), "eigenvalue": pl.Float64(), "residual": pl.Float64()}
        variant = dtypes_of(LOADED)
        people = {"sample_id": pl.String(), **axes}
        return {
            name: Schema(pl.Schema(columns))
            for name, columns in (("", people), ("eigenvalues", eigenvalues), ("loadings", {**variant, **axes}))
        }

    def of_pairs(self, rows: int, labels: int) -> str:
        """How long the relationships of pairs take, and where they lie."""
        return matrix_work(labels, rows, 8, _PRODUCTS) if self.method == "exact" else "pairs: none, by the randomized method"

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels, and SciPy's solvers."""
        for name in ("pipeline.kernels.compiled.standardize", "scipy.linalg", "scipy.sparse.linalg"):
            import_module(name)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Sums over the parts and one eigenvalue problem, or passes over the parts."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        people = people_of(genotypes)
        used = varying_of(genotypes, people, all_chromosomes=self.all_chromosomes)
        solved = (self.exact if self.method == "exact" else self.randomized)(used, people, context)
        axes, eigenvalues, counts, metrics = (submit(itemgetter(place), solved, stage=name) for place in range(4))
        return Outcome(
            {
                "": Table.of(context.session, name, [axes]),
                "eigenvalues": Table.of(context.session, name, [eigenvalues]),
                "loadings": used.map_parts(_loadings, solved),
            },
            counts=counts,
            metrics=metrics,
        )

    def exact(self, used: Table, people: Any, context: Context) -> Any:
        """A future of what the relationship matrix gives: sums grow side by side, each over neighbouring parts, and are added in order.

        How many there are depends on the parts alone: so do the last digits, wherever it runs. On GPUs it is one each, as their memory is
        short. One that is there is added before the next begins, if it can be, so that no more are held than tasks run at once.
        """
        submit, name, parts = context.session.submit, context.name, used.futures()
        on_gpu = context.session.backend == "gpu"
        most, what = MOST_ON_GPU if on_gpu else MOST_IN_TILES, "exact principal components are"
        number = context.session.value(submit(number_of, people, most, what, "Use method: randomized.", stage=name))
        if number > WHOLE and not on_gpu:
            return submit(self.solve_tiles, people, *of_tiles(placed, parts, number, context), stage=name)
        total = summed(parts, people, context)
        return submit(self.solve, people, total, stage=name)

    def solve_tiles(self, people: Part, *tiles: PlacedTile) -> _Solved:
        """As `solve`, from tiles of the matrix on disk, which are read once for every product."""
        variants = tiles[0].variants
        self._check(variants, people)
        refuse_apart_in(((tile.places, tile.apart) for tile in tiles), people.frame["sample_id"])
        product = partial(product_of, tiles)
        values, vectors = leading_axes(product, people.frame.height, self.components)
        return self._solved(people, (values, vectors, residuals(product(vectors), vectors, values)), variants)

    def solve(self, people: Part, total: GrmSums) -> _Solved:
        """The leading eigenvectors. Raises DataError where there are too few variants or people."""
        self._check(total.variants, people)
        shared = shared_variants(total)
        refuse_apart(to_host((shared <= 0).sum(axis=0)), people.frame["sample_id"])
        relationships = grm(total, shared)
        values, vectors = principal_components(relationships, self.components)
        found = values, vectors, residuals(relationships @ vectors, vectors, values)
        return self._solved(people, found, total.variants)

    def randomized(self, used: Table, people: Any, context: Context) -> Any:
        """A future of what so many passes give. All passes are submitted at once; nothing is waited for."""
        submit, name = context.session.submit, context.name
        state = submit(self.start, people, context.seed, stage=name)
        total: Any = None
        for _ in range(self.passes):
            total = used.reduce(_multiplied, _added, people, state)
            state = submit(self.step, people, state, total, stage=name)
        return submit(self.ritz, people, state, total, stage=name)

    def start(self, people: Part, seed: int) -> Krylov:
        """Random vectors, the same for the same seed."""
        return krylov_start(people.frame.height, self.components, seed)

    def step(self, people: Part, state: Krylov, total: tuple[Any, int]) -> Krylov:
        """The basis after one more pass. Raises DataError where there are too few variants or people, or somebody has no calls."""
        product, variants = total
        if not state.products:
            self._check(variants, people)
            empty = to_host((product == 0).all(axis=1))
            if empty.any():
                who = people.frame["sample_id"][int(empty.argmax())]
                raise DataError(f"{who!r} has no called variant that varies. Remove people with a low call rate first (sample_qc).")
        return krylov_step(state, product / variants)

    def ritz(self, people: Part, state: Krylov, total: tuple[Any, int]) -> _Solved:
        """The axes that the basis holds."""
        return self._solved(people, ritz_pairs(state, self.components), total[1])

    def _check(self, variants: int, people: Part) -> None:
        if variants == 0:
            raise DataError("no autosomal variant varies among these people; for other chromosomes set all_chromosomes: true")
        if self.components > people.frame.height:
            raise DataError(f"{self.components} components of {people.frame.height} people; ask for at most as many as people")

    def _solved(self, people: Part, found: tuple[Any, Any, Any], variants: int) -> _Solved:
        values, vectors, residual = (to_host(array) for array in found)
        axes = [pl.Series(f"pc{i + 1}", np.ascontiguousarray(vectors[:, i])) for i in range(self.components)]
        copies = 1 if is_haploid(autosomes_of(people.frame)) else 2
        eigenvalues = {"component": np.arange(1, self.components + 1), "eigenvalue": values * copies / 2, "residual": residual}
        metrics = {"method": self.method} | ({"passes": self.passes} if self.method == "randomized" else {})
        counts = {"variants_used": variants, "people": people.frame.height}
        return _Solved(Part(people.frame.select("sample_id").hstack(axes)), Part(pl.DataFrame(eigenvalues)), counts, metrics, copies)


def _multiplied(part: Part, people: Part, state: Krylov) -> tuple[Any, int]:
    return relationship_product(genotypes_in(part), people.frame.height, frequency_of(part), state.bases[-1]), part.frame.height


def _added(values: list[tuple[Any, int]]) -> tuple[Any, int]:
    return sum((product for product, _ in values[1:]), start=values[0][0]), sum(variants for _, variants in values)


def _loadings(part: Part, solved: _Solved) -> Part:
    """Per variant what one standard deviation of its calls adds to each axis: Z u / (m value); null for an axis of no variance."""
    axes, values = solved.axes.frame.drop("sample_id"), solved.eigenvalues.frame["eigenvalue"].to_numpy() * 2 / solved.copies
    genotypes, frequency = genotypes_in(part), frequency_of(part)
    products = variant_products(genotypes, axes.height, standard_values(frequency), array_module(genotypes).asarray(axes.to_numpy()))
    loadings = to_host(products) / np.where(values > 1e-9 * values[0], values, np.nan) / solved.counts["variants_used"]
    columns = [pl.Series(name, np.ascontiguousarray(loadings[:, i])).fill_nan(None) for i, name in enumerate(axes.columns)]
    return Part(part.frame.select(LOADED).hstack(columns))
