"""Small tables that the examples of several stages share, and how far floats may be apart between backends."""

from __future__ import annotations

import numpy as np
import polars as pl

from pipeline.kernels.genotypes import MISSING, pack, unpack
from pipeline.tables.part import Part

P_VALUES, EIGENVECTORS = 1e-9, 1e-8
VARIANTS, SAMPLES, ROWS = 60, 48, 600
SCAN = {"p_value": P_VALUES, "neg_log_10_p_value": P_VALUES, "beta": P_VALUES, "standard_error": P_VALUES, "statistic": P_VALUES}
IMPORTANCE = ("gain", "weight", "cover")  # columns of a model's importances, which only correlate between backends

MIXED = pl.DataFrame(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "key": ["a", "b", "a", None, "c", "b"],
        "x": [0.5, None, 2.5, 3.5, 4.5, 5.5],
        "n": pl.Series([1, 2, None, 4, 5, 6], dtype=pl.Int32),
        "flag": [True, False, None, True, False, True],
        "text": ["1", "2", "3", "4", None, "6"],
        "day": ["2020-01-01", "2020-01-02", None, "2020-02-29", "2021-01-01", "2020-01-01"],
    }
)


def cohort() -> tuple[Part, pl.DataFrame, pl.DataFrame]:
    """A genotype table of three populations with missing calls and an X chromosome, its people, and a sheet in another order."""
    rng = np.random.default_rng(20261121)
    population = np.arange(SAMPLES) % 3
    frequency = np.clip(rng.uniform(0.1, 0.9, (VARIANTS, 1)) + rng.normal(0, 0.15, (VARIANTS, 3)), 0.05, 0.95)
    dosages = rng.binomial(2, frequency[:, population]).astype(np.uint8)
    dosages[rng.random(dosages.shape) < 0.02] = MISSING
    dosages[-1] = 0
    frame = pl.DataFrame(
        {
            "chromosome": ["1"] * 30 + ["chr2"] * 20 + ["X"] * 10,
            "base_pair_location": np.arange(1_000, 1_000 + VARIANTS),
            "variant_id": [f"rs{i}" for i in range(VARIANTS)],
            "ref": ["A"] * VARIANTS,
            "alt": ["C"] * VARIANTS,
        }
    )
    people = pl.DataFrame({"sample_id": [f"s{i}" for i in range(SAMPLES)]})
    sheet = people.with_columns(
        age=pl.Series(rng.uniform(20, 80, SAMPLES)),
        sex=pl.Series(rng.integers(1, 3, SAMPLES).astype(np.int8)),
        ldl=pl.Series(rng.normal(size=SAMPLES) + dosages[3]),
        height=pl.Series(rng.normal(size=SAMPLES)),
    ).with_columns(pl.when(pl.col("sample_id") == "s5").then(None).otherwise("height").alias("height"))
    return Part(frame, {"calls": pack(dosages)}), people, sheet.reverse()


def imputed(genotypes: Part) -> Part:
    """The same variants as dosages: most within a tenth of the calls, some uncertain."""
    calls = unpack(genotypes.arrays["calls"], SAMPLES, np.float32, missing=float("nan"))
    variant, sample = np.indices(calls.shape)
    away = np.where((3 * sample + variant) % 17 == 0, 13, (7 * sample + 5 * variant) % 4) / 32
    return Part(genotypes.frame, {"alt_dosages": abs(calls - away).astype(np.float32)})


GENOTYPES, PEOPLE, SHEET = cohort()
AXES = {"calls": PEOPLE}
IMPUTED = imputed(GENOTYPES)
IMPUTED_AXES = {"alt_dosages": PEOPLE}
PREDICTIONS = (
    pl.DataFrame({"trait": ["ldl", "height"]})
    .join(pl.DataFrame({"chromosome": ["1", "2", "X"]}), how="cross")
    .join(PEOPLE, how="cross")
    .with_columns(prediction=pl.int_range(pl.len()).cast(pl.Float64).sin() / 3)
)
LOADINGS = GENOTYPES.frame.with_columns(
    alt_frequency=pl.Series(np.linspace(0.1, 0.9, VARIANTS)),
    pc1=pl.Series(np.sin(np.arange(VARIANTS))),
    pc2=pl.Series(np.cos(np.arange(VARIANTS))),
)


def modelled_rows() -> pl.DataFrame:
    """Rows to train on: two numbers with gaps, a code, a binary label, three classes, and a split."""
    rng = np.random.default_rng(20261121)
    x, y, code = rng.normal(size=ROWS), rng.normal(size=ROWS), rng.integers(0, 4, ROWS)
    score = 2 * x - y + (code == 2)
    frame = pl.DataFrame({"id": np.arange(ROWS), "x": x, "y": y, "code": code.astype(np.int32), "value": score})
    return frame.with_columns(
        x=pl.when(pl.col("id") % 11 == 0).then(None).otherwise("x"),
        label=pl.Series((score > 0).astype(np.int8)),
        group=pl.Series(np.array(["low", "middle", "high"])[np.digitize(score, [-1, 1])]),
        split=pl.Series(rng.choice(["train", "validation", "test"], ROWS, p=[0.6, 0.2, 0.2])),
    )
