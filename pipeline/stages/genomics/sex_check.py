"""Whether people's sex is what their sex chromosomes tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.people import check_sex, counted_people, refuse_haploid, sexes
from pipeline.kernels.sex_checks import sex_sums
from pipeline.kernels.variant_quality import FEMALE, MALE
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._genotypes import calls_in, special_rows
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table

SCHEMA: dict[str, pl.DataType] = {
    "sample_id": pl.String(), "sex": pl.Int8(), "sex_of_x": pl.Int8(), "status": pl.String(), "x_inbreeding": pl.Float64(),
    "x_calls": pl.Int64(), "y_calls": pl.Int64(),
}  # fmt: skip


class SexCheck(Whole, name="sex_check", version=1):
    """Compare everyone's sex with what their calls on X tell, as PLINK 1.9's --check-sex.

    A row a person: the sex that is given (1 male, 2 female, 0 unknown), `sex_of_x`, which is female below `max_female` of F on X and male
    above `min_male`, else 0, and `status`: ok where both are known and alike, else problem. F, `x_inbreeding`, is 1 less the heterozygous
    calls over those expected by the founders' frequencies, null for who has no call there; `x_calls` and `y_calls` say how many calls there
    are. The pseudoautosomal regions must be named apart (XY, as --split-x does), and variants should be pruned: F leans on the rare ones.

    Leave the people out by keep_people with a filter of this table. Of dosages, calls are the nearest ones.

    Example: {use: sex_check, from: pruned, as: sexes}
    """

    roles = ("genotypes",)
    counts: ClassVar[Mapping[str, Count]] = {
        "people": Count("people"),
        "problems": Count("people whose sex is unknown, or is not that of X", always=True),
    }

    max_female: float = Field(0.2, ge=-1, le=1, description="F on X below which X is a woman's.")
    min_male: float = Field(0.8, ge=-1, le=1, description="F on X above which X is a man's.")
    founders_only: bool = Field(True, description="Frequencies of those with no parent named, as PLINK; false: of everyone.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_female >= self.min_male:
            raise ValueError(f"max_female {self.max_female:g} must be below min_male {self.min_male:g}")
        return self

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a person."""
        check_sex(need_genotypes(schemas["genotypes"], ("chromosome",), dosages=True))
        return {"": Schema(pl.Schema(SCHEMA))}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        none = np.zeros((1, 1), np.uint8)
        sex_sums(none, none, counted_people(pl.DataFrame({"sample_id": ["one"]}), founders_only=False))

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A reduction over the parts."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        people = people_of(genotypes)
        sums = genotypes.reduce(self.summed, _added, people)
        checked = submit(self.checked, sums, people, stage=name)
        return Outcome({"": Table.of(context.session, name, [checked])}, counts=submit(_tally, checked, stage=name))

    def summed(self, part: Part, people: Part) -> NDArray[np.float64]:
        """What one part's variants on X and Y add to everyone's sums."""
        refuse_haploid(people.frame, "nobody has a sex", "Leave the stage out.")
        places, calls = special_rows(part.frame, people.frame), calls_in(part)
        on_x, on_y = (take(calls, places.get(kind, np.empty(0, np.int64))) for kind in ("x", "y"))
        return np.asarray(to_host(sex_sums(on_x, on_y, counted_people(people.frame, self.founders_only))))

    def checked(self, sums: NDArray[np.float64], people: Part) -> Part:
        """Everyone's row. Raises DataError where nobody has a call on X."""
        het, called, expected, on_y = sums
        if not called.any():
            raise DataError("nobody has a call on X outside the pseudoautosomal regions, which alone tells sexes. Read the X chromosome.")
        share = np.where(expected > 0, 1 - het / np.where(expected > 0, expected, 1), np.nan)
        found = np.where(share < self.max_female, FEMALE, np.where(share > self.min_male, MALE, 0)).astype(np.int8)
        own = sexes(people.frame)
        given = np.zeros(len(found), np.int8) if own is None else own
        columns = {
            "sample_id": people.frame["sample_id"], "sex": given, "sex_of_x": found,
            "status": np.where((given > 0) & (given == found), "ok", "problem"), "x_inbreeding": pl.Series(share, nan_to_null=True),
            "x_calls": called, "y_calls": on_y,
        }  # fmt: skip
        return Part(pl.DataFrame(columns).cast(pl.Schema(SCHEMA)))


def _added(sums: list[Any]) -> Any:
    return sum(sums[1:], start=sums[0])


def _tally(checked: Part) -> dict[str, int]:
    return {"people": checked.frame.height, "problems": int((checked.frame["status"] != "ok").sum())}
