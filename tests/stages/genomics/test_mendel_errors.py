"""mendel_errors: what PLINK 1.9 prints of every trio and variant, whatever the parts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.mendel_errors import MendelErrors
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts
from tests.stages.genomics.sexed import sexed_cohort

FAMILIES = sexed_cohort(families=True)
EXAMPLES = [StageExample(MendelErrors(), {"genotypes": FAMILIES.rows}, {"calls": FAMILIES.people})]

# Errors by child and by variant of plink 1.90b6.24 --mendel for `cohort()`.
OF_CHILDREN = [17, 29, 21, 28, 23, 32, 32, 40, 25, 28, 27]
OF_VARIANTS = "22202223320132374212351110201231233120510215022163440312320253682452563334037425423445541533434314624044432123"


def cohort() -> Cohort:
    """Twelve fathers, twelve mothers and twelve children who are not theirs, at 60 variants of chromosome 1, 40 of X, 10 of Y and 10 of XY.

    Two children have the same parents, one a mother who is not there, one no known sex; a twentieth of men's calls on X are heterozygous,
    and one of all calls is missing.
    """
    random, people = np.random.default_rng(7), 36
    chromosomes = ["1"] * 60 + ["X"] * 40 + ["Y"] * 10 + ["XY"] * 10
    sex = np.array([1] * 12 + [2] * 12 + [1, 2] * 5 + [0, 1])
    father, mother = ([None] * 24 + [f"i{first + at}" for at in range(12)] for first in (0, 12))
    father[25], mother[25], mother[35] = "i0", "i12", "nobody"
    rows = []
    for name in chromosomes:
        share = random.uniform(0.1, 0.9)
        calls = random.binomial(2, share, people)
        if name in ("X", "Y"):
            calls = np.where((sex == 1) & (random.random(people) < 0.95), 2 * (random.random(people) < share), calls)
        calls[random.random(people) < 0.05] = 3
        rows.append(calls)
    ids = [f"v{at}" for at in range(len(rows))]
    frame = pl.DataFrame({"chromosome": chromosomes, "base_pair_location": [1000 * (at + 1) for at in range(len(ids))], "variant_id": ids})
    names = {"sample_id": [f"i{at}" for at in range(people)], "father_id": father, "mother_id": mother}
    return Cohort(
        Part(frame, {"calls": pack(np.array(rows).astype(np.uint8))}), pl.DataFrame({**names, "sex": pl.Series(sex, dtype=pl.Int8)})
    )


def test_mendel_errors__are_those_that_plink_printed(workers: ClusterSession) -> None:
    found = same_for_any_parts(MendelErrors(), {"genotypes": cohort()}, workers)
    trios, variants = found[""].frame, found["variants"].frame
    assert trios["sample_id"].to_list() == [f"i{at}" for at in range(24, 35)]
    assert trios["mendel_errors"].to_list() == OF_CHILDREN
    assert "".join(map(str, variants["mendel_errors"])) == OF_VARIANTS
    assert variants["chromosome"].unique(maintain_order=True).to_list() == ["1", "X", "XY"]
    whole = cohort()
    called = np.stack([(whole.codes[:, [0, 12, at]] < 3).all(axis=1) for at in (24, 25)], axis=1)  # of the first two children
    looked = whole.rows.frame["chromosome"].ne("Y").to_numpy()
    assert trios["called"][:2].to_list() == called[looked].sum(axis=0).tolist()
    assert found[""].counts["errors"] == sum(OF_CHILDREN)


def test_mendel_errors__of_people_who_are_their_parents_children_are_none() -> None:
    random = np.random.default_rng(2)
    parents = random.binomial(1, 0.4, (50, 2, 2))
    child = parents[:, 0, 0] + parents[:, 1, 0]
    calls = np.column_stack([parents.sum(axis=2), child]).astype(np.uint8)
    frame = pl.DataFrame({"chromosome": ["7"] * 50, "base_pair_location": range(50), "variant_id": [f"v{at}" for at in range(50)]})
    people = pl.DataFrame({"sample_id": ["f", "m", "c"], "father_id": ["0", "0", "f"], "mother_id": ["", None, "m"]})
    found = run(MendelErrors(), {"genotypes": Cohort(Part(frame, {"calls": pack(calls)}), people)})
    assert found[""].frame.rows() == [("c", "f", "m", 0, 50)]
    assert found["variants"].frame["mendel_errors"].sum() == 0


def test_mendel_errors__needs_parents_who_are_there() -> None:
    whole = cohort()
    with pytest.raises(StageError, match="have no column 'father_id' of names, so there are no trios"):
        plan_stage(MendelErrors(), {"genotypes": whole.rows}, {"calls": whole.people.drop("father_id")})
    orphans = whole.people.with_columns(mother_id=pl.lit("nobody"))
    with pytest.raises(DataError, match=r"nobody has a father and a mother .* there is no trio"):
        run(MendelErrors(), {"genotypes": Cohort(whole.rows, orphans)})
