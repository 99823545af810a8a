"""A small cohort of both and of unknown sexes with what PLINK 2.00a3.5 printed for it, also where some people have parents named."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pipeline.kernels.genotypes import pack
from pipeline.tables.part import Part
from tests.stages.genomics.cohorts import Cohort

SEX = "022122121112102122122110110211021121122220222121121122210122"
CHILDREN = range(40, 48)
# Chromosome, calls; ALT_CTS, OBS_CT, HWE P, mid-p of everyone; the same without the children; MISSING_CT, OBS_CT of everyone.
VARIANTS: list[Any] = [
    ("1", "321220212122122232222121122123121222212213221222222311111122",
     (89, 110, 0.666054, 0.525445), (77, 96, 0.663142, 0.509574), (5, 60)),
    ("X", "222223212202032011002222001120210220021122212022210022103022",
     (61, 89, 0.00589699, 0.00566135), (49, 75, 0.0187847, 0.0179764), (3, 60)),
    ("X", "013010000000331000010000001000030310000000000000210010000010",
     (10, 87, 0.310962, 0.274342), (10, 73, 0.193427, 0.147205), (5, 60)),
    ("X", "011011010300001000201031200102000000303013102001010300000001",
     (18.5, 87, 0.536077, 0.509547), (14, 75, 0.502586, 0.47194), (6, 60)),
    ("Y", "122332222322222212121222122122212211112100221222222321212111", (19, 22, None, None), (17, 20, None, None), (3, 25)),
    ("Y", "113322202232211212211111201222211012101222012101312222211021", (15.5, 22, None, None), (14.5, 20, None, None), (3, 25)),
    ("XY", "111122112211113111112022000111121222221121100312212012002001",
     (66, 116, 1.0, 0.896022), (59, 102, 1.0, 0.886725), (2, 60)),
    ("MT", "222221222222222222222222112223112222222221332222122121122222", (52, 57, None, None), (46.5, 51, None, None), (3, 60)),
    ("MT", "102221211112302211021222121021110230211111131211120111301223", (33, 55, None, None), (29, 48, None, None), (5, 60)),
]  # fmt: skip
# F of these people over the variants, and with the frequencies of founders; their MISSING_CT and OBS_CT.
PEOPLE = [
    (0, -1.03879, -1.05045, 1, 7), (1, -0.250918, -0.241945, 0, 7), (2, -1.50184, -1.48389, 1, 7), (3, -0.250918, -0.241945, 2, 9),
    (5, 1, 1, 1, 7), (41, -1.03879, -1.05045, 2, 7), (45, 1, 1, 1, 9), (59, -0.250918, -0.241945, 1, 7),
]  # fmt: skip


def sexed_cohort(*, families: bool = False) -> Cohort:
    """The cohort; with `families` the people have father_id and mother_id, and the children's are known."""
    calls = np.array([list(variant[1]) for variant in VARIANTS]).astype(np.uint8)
    rows = len(VARIANTS)
    frame = pl.DataFrame(
        {
            "chromosome": [variant[0] for variant in VARIANTS],
            "base_pair_location": range(100, 100 + rows),
            "variant_id": [f"v{row}" for row in range(rows)],
            "ref": ["C"] * rows,
            "alt": ["A"] * rows,
        }
    )
    number = pl.int_range(len(SEX))
    people = pl.select(sample_id=pl.format("I{}", number), sex=pl.Series(list(SEX)).cast(pl.Int8))
    people = people.with_columns(sex=pl.when(pl.col("sex") > 0).then("sex"))
    if families:
        child = number.is_in(list(CHILDREN))
        father = pl.when(child & (number % 2 == 1)).then(pl.lit("I1")).otherwise(pl.lit("0"))
        people = people.with_columns(father_id=father, mother_id=pl.when(child).then(pl.lit("I2")))
    return Cohort(Part(frame, {"calls": pack(calls)}), people)
