"""Calls of children that cannot come of their parents'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, StageError
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import PARENTS, check_sex, refuse_haploid, sexes
from pipeline.kernels.genotypes import Array
from pipeline.kernels.mendel import ANY, DAUGHTER, SON, MendelSums, mendel_sums
from pipeline.kernels.variant_quality import MALE
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import calls_in, special_rows
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table

PLACE = ("chromosome", "base_pair_location", "variant_id")
TRIO: dict[str, pl.DataType] = {
    "sample_id": pl.String(), **{name: pl.String() for name in PARENTS}, "mendel_errors": pl.Int64(), "called": pl.Int64(),
}  # fmt: skip


@dataclass(frozen=True)
class Trios:
    """Children of two parents who are there: all their ids, their places `int[t, 3]` (father, mother, child), and who is a son."""

    ids: pl.DataFrame
    places: NDArray[np.int64]
    sons: NDArray[np.bool_]

    @classmethod
    def of(cls, people: pl.DataFrame) -> Trios:
        """Of a genotype table's people. Raises DataError where there are none."""
        refuse_haploid(people, "nobody has two parents' alleles", "Leave the stage out.")
        places = people.select("sample_id").with_row_index("place")
        numbered = people.select("sample_id", *(pl.col(name).cast(pl.String) for name in PARENTS)).with_row_index("child")
        for name in PARENTS:
            numbered = numbered.join(
                places.rename({"sample_id": name, "place": f"{name}_place"}), on=name, how="inner", maintain_order="left"
            )
        if not numbered.height:
            raise DataError("nobody has a father and a mother (father_id, mother_id) who are both among the people: there is no trio")
        where = numbered.select(*(f"{name}_place" for name in PARENTS), "child").to_numpy().astype(np.int64)
        own = sexes(people)
        sons = np.zeros(numbered.height, bool) if own is None else own[where[:, 2]] == MALE
        return cls(numbered.select("sample_id", *PARENTS), where, sons)

    def sums(self, calls: Array, kind: str) -> MendelSums:
        """Errors of calls on chromosomes of a kind: x, or any other that everyone has two of."""
        kinds = np.where(self.sons, SON, DAUGHTER) if kind == "x" else np.full(len(self.sons), ANY)
        return mendel_sums(calls, self.places, kinds)


class MendelErrors(Whole, name="mendel_errors", version=1):
    """Count, for every child whose parents are both among the people, the calls that cannot come of theirs, as PLINK 1.9's --mendel.

    A row a trio: the child, its parents (father_id, mother_id), `mendel_errors`, and in how many variants all three are called.
    NAME.variants has a row a variant of the autosomes, the pseudoautosomal regions and X: its errors, and trios of which all are called;
    leave poor ones out by a filter of it and a semi join. A parent without a call may have given either allele. On X a son has his mother's
    allele, and heterozygous calls of men are none; who is of unknown sex counts as a daughter. Of dosages, calls are the nearest ones.

    Example: {use: mendel_errors, from: cohort, as: mendel}
    """

    roles = ("genotypes",)
    counts: ClassVar[Mapping[str, Count]] = {"trios": Count("trios"), "errors": Count("Mendelian errors", always=True)}

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a trio; a row a variant. Raises StageError where nobody's parents are known."""
        schema = schemas["genotypes"]
        axis = need_genotypes(schema, PLACE, dosages=True)
        check_sex(axis)
        for name in PARENTS:
            if axis.get(name, pl.Null()) != pl.String:
                raise StageError(
                    f"the people of the genotypes have no column {name!r} of names, so there are no trios: read a .fam with parents"
                )
        columns = {name: schema.columns[name] for name in PLACE} | {"mendel_errors": pl.Int64(), "trios_called": pl.Int64()}
        return {"": Schema(pl.Schema(TRIO)), "variants": Schema(pl.Schema(columns))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A reduction for the trios, and a map for the variants."""
        genotypes, submit, name = tables["genotypes"], context.session.submit, context.name
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(name)
        trios = submit(_trios, people_of(genotypes), stage=name)
        of_trios = genotypes.reduce(_of_trios, _added, trios, people_of(genotypes))
        told = submit(_told, trios, of_trios, stage=name)
        variants = genotypes.map_parts(_of_variants, trios, people_of(genotypes))
        return Outcome({"": Table.of(context.session, name, [told]), "variants": variants}, counts=submit(_tally, told, stage=name))


def _trios(people: Part) -> Trios:
    return Trios.of(people.frame)


def _sums(part: Part, trios: Trios, people: Part) -> list[tuple[NDArray[np.int64], MendelSums]]:
    """Of the variants that are looked at: their rows and errors."""
    special, calls = special_rows(part.frame, people.frame), calls_in(part)
    rest = np.setdiff1d(np.arange(part.rows), np.concatenate([np.empty(0, np.int64), *special.values()]))
    return [(rows, trios.sums(take(calls, rows), kind)) for kind, rows in (("", rest), ("x", special.get("x", rest[:0])))]


def _of_trios(part: Part, trios: Trios, people: Part) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = np.sum(
        [np.stack([to_host(one.errors_of_trios), to_host(one.called_of_trios)]) for _, one in _sums(part, trios, people)], axis=0
    )
    return whole


def _of_variants(part: Part, trios: Trios, people: Part) -> Part:
    """A row for each variant that is looked at, in their order."""
    found = _sums(part, trios, people)
    rows = np.concatenate([where for where, _ in found])
    order = rows.argsort()
    columns = {"mendel_errors": "errors_of_variants", "trios_called": "called_of_variants"}
    made = [pl.Series(name, np.concatenate([to_host(getattr(one, of)) for _, one in found])[order]) for name, of in columns.items()]
    return Part(part.frame.select(PLACE)[rows[order]].hstack(made))


def _added(sums: list[Any]) -> Any:
    return sum(sums[1:], start=sums[0])


def _told(trios: Trios, sums: NDArray[np.int64]) -> Part:
    return Part(trios.ids.with_columns(mendel_errors=pl.Series(sums[0]), called=pl.Series(sums[1])))


def _tally(told: Part) -> dict[str, int]:
    return {"trios": told.frame.height, "errors": int(told.frame["mendel_errors"].sum())}
