"""sex_check: what PLINK 1.9 prints, whatever the parts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.sex_check import SexCheck
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts
from tests.stages.genomics.sexed import sexed_cohort

SEXED = sexed_cohort()
EXAMPLES = [StageExample(SexCheck(), {"genotypes": SEXED.rows}, {"calls": SEXED.people})]

# F, SNPSEX and YCOUNT of plink 1.90b6.24 --check-sex ycount for `cohort()`.
F = [
    0.9655, 1.0, -0.1186, 1.0, 0.9642, -0.2756, 0.1607, 1.0, -0.0009243, 0.9631, 0.8964, 1.0, 0.1582, 0.9304, 0.9653, 0.9645, 0.9655,
    1.0, 1.0, 0.2245, 0.9294, 0.102, -0.1188, 1.0, 1.0, 1.0, 0.9637, 0.05839, 0.965, 0.1464, -0.0824, -0.15, 0.9296, 1.0, 0.1017, 1.0,
    0.02571, -0.03648, 0.07487, 0.9648, 0.05536, 0.08291, -0.3041, 1.0, 1.0, 0.2055, 1.0, 1.0, 1.0, -0.1013, 0.9655, 0.000345, 0.8923,
    0.9646, -0.01758, 0.0214, -0.07104, 0.08939, 0.9639, 0.9655,
]  # fmt: skip
SEX_OF_X = "112112212111211111101221111212221121222122211011121211222211"
PROBLEMS = ["i0", "i1", "i2", "i3", "i10", "i19", "i45"]
CALLS_ON_Y = 10
"""Of those whose genotypes are men's; others have none."""


def cohort() -> Cohort:
    """Sixty people, ten of them children of two others, with 80 variants on X and 10 on Y.

    Four people's sex is the other one, one's is not known; a hundredth of the men's calls on X are heterozygous, 3 % of all are missing.
    """
    random, people, variants = np.random.default_rng(5), 60, 80
    sex = random.integers(1, 3, people)
    own = sex.copy()
    own[:4] = 3 - own[:4]
    frequency = random.uniform(0.05, 0.95, variants)
    given, rows = sex.copy(), []
    given[10] = 0
    for share in frequency:
        men, women = 2 * (random.random(people) < share), (random.random(people) < share).astype(int) + (random.random(people) < share)
        calls = np.where((own == 1) & (random.random(people) < 0.01), 1, np.where(own == 1, men, women))
        calls[random.random(people) < 0.03] = 3
        rows.append(calls)
    rows += [np.where(own == 1, 2 * (random.random(people) < 0.4), 3) for _ in range(10)]
    frame = pl.DataFrame({"chromosome": ["X"] * variants + ["Y"] * 10, "variant_id": [f"v{at}" for at in range(90)]})
    child = pl.int_range(people) >= 50
    father, mother = (f"i{int(np.flatnonzero(sex[:40] == one)[0])}" for one in (1, 2))
    ids = {"sample_id": [f"i{at}" for at in range(people)], "sex": pl.Series(given, dtype=pl.Int8)}
    parents = {"father_id": pl.when(child).then(pl.lit(father)), "mother_id": pl.when(child).then(pl.lit(mother))}
    return Cohort(Part(frame, {"calls": pack(np.array(rows).astype(np.uint8))}), pl.DataFrame(ids).with_columns(**parents))


def test_sex_check__is_what_plink_printed(workers: ClusterSession) -> None:
    found = same_for_any_parts(SexCheck(), {"genotypes": cohort()}, workers)[""]
    frame = found.frame
    np.testing.assert_allclose(frame["x_inbreeding"], F, atol=6e-5)
    assert "".join(map(str, frame["sex_of_x"])) == SEX_OF_X
    assert frame["y_calls"].to_list() == [CALLS_ON_Y * (one == "1") for one in SEX_OF_X]
    assert frame.filter(status="problem")["sample_id"].to_list() == PROBLEMS
    assert found.counts["problems"] == len(PROBLEMS)


def test_sex_check__without_sexes_tells_them_all_the_same() -> None:
    whole = cohort()
    found = run(SexCheck(), {"genotypes": Cohort(whole.rows, whole.people.drop("sex"))})[""].frame
    assert found["sex"].unique().to_list() == [0]
    assert found["status"].unique().to_list() == ["problem"]
    assert np.mean(found["sex_of_x"].to_numpy() == np.array(list(SEX_OF_X)).astype(int)) > 0.85  # frequencies count men twice


def test_sex_check__needs_calls_on_x_and_limits_in_order() -> None:
    whole = cohort()
    on_y = Part(whole.rows.frame[80:], {"calls": whole.rows.arrays["calls"][80:]})
    with pytest.raises(DataError, match="nobody has a call on X outside the pseudoautosomal regions"):
        run(SexCheck(), {"genotypes": Cohort(on_y, whole.people)})
    with pytest.raises(ValidationError, match=r"max_female 0\.8 must be below min_male 0\.8"):
        SexCheck(max_female=0.8)
