"""One small example, or a few, of every stage: the contract tests translate them for cuDF, the GPU tests run them on both backends.

A new stage is one more entry in EXAMPLES.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from pipeline.kernels.genotypes import MISSING, pack
from pipeline.registry import stage_class
from pipeline.stage import Stage
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import Session
from tests.harness import Tables, cut, even_sizes, height, run_parts

EXACT, SUMS, P_VALUES, EIGENVECTORS = 0.0, 1e-12, 1e-9, 1e-8
LEAST_CORRELATION = 0.99
VARIANTS, PEOPLE, ROWS = 60, 48, 600


@dataclass(frozen=True)
class StageExample:
    """A stage with its parameters, the tables that it reads by role, and the axes of their arrays.

    `tolerances` are relative, by column; a float column that is not named there has SUMS, every other column is exact. `modelled` are
    columns that only correlate between backends, as trees may split elsewhere. `ordered`: the rows' order is part of the result.
    """

    stage: str
    parameters: Mapping[str, Any]
    tables: Tables
    axes: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=dict)
    modelled: tuple[str, ...] = ()
    ordered: bool = False
    needs: str | None = None

    def made(self) -> Stage:
        """The stage."""
        return stage_class(self.stage).model_validate(dict(self.parameters))

    def run(self, session: Session, parts: int = 1, place: Any = None) -> dict[str, Part]:
        """The tables that the stage gives, by name, each as one part; `place` is put over every part given (to move arrays, say)."""
        pieces = {role: cut(data, even_sizes(height(data), parts)) for role, data in self.tables.items()}
        given = {role: [place(part) for part in cuts] if place else cuts for role, cuts in pieces.items()}
        return {name: concat_parts(found) for name, found in run_parts(self.made(), given, session, self.axes).items()}

    def check(self, found: Mapping[str, pl.DataFrame], expected: Mapping[str, pl.DataFrame]) -> None:
        """Assert that every table found is the one expected, within the tolerances."""
        assert found.keys() == expected.keys()
        for name in expected:
            assert_alike(found[name], expected[name], self.tolerances, modelled=self.modelled, ordered=self.ordered)


def assert_alike(
    found: pl.DataFrame,
    expected: pl.DataFrame,
    tolerances: Mapping[str, float] | None = None,
    *,
    modelled: Sequence[str] = (),
    ordered: bool = False,
) -> None:
    """Assert that two frames hold the same rows: floats within their tolerance (SUMS where it is not given), all else exact."""
    assert found.schema == expected.schema, f"schemas differ: {found.schema}, not {expected.schema}"
    loose = [name for name, dtype in expected.schema.items() if dtype.is_float()]
    if not ordered:
        order = [*(name for name in expected.columns if name not in loose), *(name for name in loose if name not in modelled)]
        found, expected = found.sort(order, nulls_last=True), expected.sort(order, nulls_last=True)
    assert_frame_equal(found.drop(loose), expected.drop(loose))
    for name in loose:
        if name in modelled:
            assert_correlated(found[name].to_numpy(), expected[name].to_numpy())
            continue
        limit = (tolerances or {}).get(name, SUMS)
        assert_frame_equal(found.select(name), expected.select(name), rel_tol=limit, abs_tol=limit)


def assert_correlated(found: Any, expected: Any) -> None:
    """Assert that two columns of a model's answers go together; two that do not vary must be equal."""
    if np.ptp(expected) == 0:
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        together = np.corrcoef(found, expected)[0, 1]
        assert together > LEAST_CORRELATION, f"answers differ: their correlation is {together}"


FRAME = pl.DataFrame(
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
LAST = {"function": "last", "of": "x", "order_by": "n"}
FUNCTIONS = ("sum", "mean", "min", "max", "count", "n_unique", "std", "var", "median")
COMPUTED = {
    **{f"{function}_{column}": f"{function}({column})" for function in FUNCTIONS for column in ("x", "n", "flag")},
    **{f"{function}_text": f"{function}(text)" for function in ("min", "max", "count", "n_unique")},
    "rows": "size()",
    "late": {"function": "size", "where": "x > 1"},
    "some": {"function": "mean", "of": "x * 2", "where": "flag"},
}
PICKED = {
    "last": LAST,
    "first": {**LAST, "function": "first", "of": "text", "order_by": "x"},
    "sure": {**LAST, "ties": "none"},
    "soon": {**LAST, "function": "first", "ties": "none", "where": "flag"},
    "total": "sum(n)",
    "mean": "mean(x)",
}
CHOSEN = {"x": {"method": "median"}, "key": {"method": "most_frequent"}, "flag": {"method": "most_frequent"}}
PAIR: Tables = {"left": FRAME, "right": FRAME.select("key", "n", z=pl.col("x"))}
ONE: Tables = {"rows": FRAME}
TEXTS = {"text": "int8", "day": "datetime", "x": "int16", "flag": "int8", "id": "uint64", "key": "boolean"}


def _plain(stage: str, parameters: dict[str, Any], tables: Tables = ONE, *, ordered: bool = False) -> StageExample:
    return StageExample(stage, parameters, tables, ordered=ordered)


RELATIONAL = [
    _plain("select", {"columns": ["x", "id"]}),
    _plain("select", {"drop": ["x"]}),
    _plain("rename", {"columns": {"x": "y", "id": "x"}}),
    _plain("filter", {"where": "x > 1 and lower(trim(key)) in ('a', 'b')"}),
    _plain("derive", {"columns": {"r": "x / n", "c": "case when r > 1 then 1 else 0 end", "s": "coalesce(text, 'none')"}}),
    _plain("cast", {"columns": {"text": "int64", "day": "date", "n": "int8", "x": "float32", "flag": "string", "id": "boolean"}}),
    _plain("cast", {"columns": TEXTS, "strict": False}),
    _plain("cast", {"columns": {"text": "float32", "n": "string", "id": "uint8"}}),
    _plain("join", {"on": "key"}, PAIR),
    _plain("join", {"on": ["key", "n"], "how": "left", "validate": "one_to_one"}, PAIR),
    _plain("join", {"on": "key", "how": "semi"}, PAIR),
    _plain("join", {"on": {"id": "id"}, "how": "anti"}, {"left": FRAME, "right": FRAME}),
    _plain("aggregate", {"by": ["key"], "compute": COMPUTED}),
    _plain("aggregate", {"by": ["key", "flag"], "compute": PICKED}),
    _plain("sort", {"by": ["-x", "key"]}, ordered=True),
    _plain("sort", {"by": ["key", "-id"], "limit": 3}, ordered=True),
    _plain("drop_duplicates", {"columns": ["key"], "order_by": ["-n"]}),
    _plain("union", {}, {"a": FRAME, "b": FRAME.select(reversed(FRAME.columns))}),
    _plain("sample", {"fraction": 0.5, "key": ["id", "n"]}),
    _plain("sample", {"fraction": 0.5, "key": ["key", "flag"]}),
]
FEATURES = [
    _plain("split", {"key": "id"}),
    _plain("split", {"key": ["key", "n"]}),
    _plain("fill_missing", {"columns": ["x", "n"], "method": "mean", "indicator": True, "fit_where": "id < 5"}),
    _plain("fill_missing", {"columns": CHOSEN}),
    _plain("fill_missing", {"columns": {"x": {"value": 1}, "key": {"value": "none"}, "n": {"method": "zero"}}}),
    _plain("categorify", {"columns": ["key", "n", "flag"], "min_count": 1}),
    _plain("standardize", {"columns": ["x", "n"]}),
]


def cohort() -> tuple[Part, pl.DataFrame, pl.DataFrame]:
    """A genotype table of three populations with missing calls and an X chromosome, its people, and a sheet in another order."""
    rng = np.random.default_rng(20261121)
    population = np.arange(PEOPLE) % 3
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
    people = pl.DataFrame({"sample_id": [f"s{i}" for i in range(PEOPLE)]})
    sheet = people.with_columns(
        age=pl.Series(rng.uniform(20, 80, PEOPLE)),
        sex=pl.Series(rng.integers(1, 3, PEOPLE).astype(np.int8)),
        ldl=pl.Series(rng.normal(size=PEOPLE) + dosages[3]),
        height=pl.Series(rng.normal(size=PEOPLE)),
    ).with_columns(pl.when(pl.col("sample_id") == "s5").then(None).otherwise("height").alias("height"))
    return Part(frame, {"calls": pack(dosages)}), people, sheet.reverse()


GENOTYPES, PEOPLE_FRAME, SHEET = cohort()
AXES = {"calls": PEOPLE_FRAME}
SEXED = {"calls": PEOPLE_FRAME.with_columns(sex=pl.Series(np.arange(PEOPLE) % 3, dtype=pl.Int8))}
SCAN = {"p_value": P_VALUES, "neg_log_10_p_value": P_VALUES, "beta": P_VALUES, "standard_error": P_VALUES, "statistic": P_VALUES}
SCANNED: Tables = {"genotypes": GENOTYPES, "samples": SHEET}
CHOSEN_VARIANTS: Tables = {"genotypes": GENOTYPES, "variants": GENOTYPES.frame.filter(pl.col("base_pair_location") % 7 == 0)}
LOADINGS = GENOTYPES.frame.with_columns(
    alt_frequency=pl.Series(np.linspace(0.1, 0.9, VARIANTS)),
    pc1=pl.Series(np.sin(np.arange(VARIANTS))),
    pc2=pl.Series(np.cos(np.arange(VARIANTS))),
)
SCORED: Tables = {
    "genotypes": GENOTYPES,
    "weights": LOADINGS[::2].select("variant_id", effect_allele=pl.when(pl.col("pc1") > 0).then("alt").otherwise("ref"), weight="pc2"),
}
REFITTED = dict.fromkeys(SCAN, 1e-7)
DIAGNOSED: Tables = {"genotypes": GENOTYPES, "samples": SHEET.with_columns(ill=pl.col("ldl") > 1, tall=(pl.col("height") > 0) + 1)}
BINARY = {"traits": ["ill", "tall"], "covariates": ["age"]}
COVARIATES = {"traits": ["ldl", "height"], "covariates": ["age", "sex"]}
GENES = pl.DataFrame({"chromosome": ["chr1", "1", "chrX"], "start": [5, 11, 2], "end": [8, 20, 4], "gene_name": ["A", "B", "C"]})
HITS = GENOTYPES.frame.select(
    "chromosome", "base_pair_location", "variant_id", effect_allele="alt", other_allele="ref", trait=pl.lit("ldl"),
    p_value=pl.col("base_pair_location").cast(pl.Float64) % 13 / 20 + 0.001,
)  # fmt: skip
GENOMICS = [
    StageExample("ld_prune", {"window_variants": 10, "step": 3, "r2": 0.05}, {"genotypes": GENOTYPES}, AXES, ordered=True),
    StageExample("ld_prune", {"window_kb": 0.02, "r2": 0.02}, {"genotypes": GENOTYPES}, AXES, ordered=True),
    StageExample(
        "clump",
        {"p1": 0.3, "p2": 0.6, "r2": 0.02, "kb": 0.02},
        {"associations": HITS, "genotypes": GENOTYPES},
        AXES,
        {"r2": P_VALUES},
        ordered=True,
    ),
    StageExample("sample_qc", {"min_call_rate": 0.95}, {"genotypes": GENOTYPES}, AXES),
    StageExample(
        "variant_qc",
        {"min_call_rate": 0.9, "min_maf": 0.01, "min_hwe_p": 1e-4},
        {"genotypes": GENOTYPES},
        AXES,
        {"hwe_p_value": P_VALUES},
    ),
    StageExample("variant_qc", {"hwe": "midp"}, {"genotypes": GENOTYPES}, SEXED, {"hwe_p_value": P_VALUES}),
    StageExample("relatedness", {"max_kinship": 0.1, "min_kinship": -0.5}, {"genotypes": GENOTYPES}, AXES),
    StageExample(
        "principal_components",
        {"components": 2},
        {"genotypes": GENOTYPES},
        AXES,
        {"pc1": EIGENVECTORS, "pc2": EIGENVECTORS, "eigenvalue": P_VALUES},
    ),
    StageExample(
        "principal_components",
        {"components": 2, "method": "randomized"},
        {"genotypes": GENOTYPES},
        AXES,
        {"pc1": EIGENVECTORS, "pc2": EIGENVECTORS, "eigenvalue": P_VALUES, "residual": EIGENVECTORS},
    ),
    StageExample("project_components", {}, {"genotypes": GENOTYPES, "loadings": LOADINGS}, AXES, {"pc1": P_VALUES, "pc2": P_VALUES}),
    StageExample("polygenic_score", {}, SCORED, AXES, {"score_sum": P_VALUES, "score_average": P_VALUES}),
    StageExample("polygenic_score", {"missing": "ignore"}, SCORED, AXES, {"score_sum": P_VALUES, "score_average": P_VALUES}),
    StageExample("linear_gwas", COVARIATES, SCANNED, AXES, SCAN),
    StageExample("linear_gwas", {**COVARIATES, "missing": "mean"}, SCANNED, AXES, SCAN),
    StageExample("linear_gwas", {**COVARIATES, "coding": "recessive", "max_p": 0.5, "sex": "sex"}, SCANNED, AXES, SCAN),
    StageExample("logistic_gwas", {**BINARY, "screen": 0.5}, DIAGNOSED, AXES, REFITTED),
    StageExample("logistic_gwas", {**BINARY, "method": "wald", "screen": 1, "max_p": 0.9}, DIAGNOSED, AXES, REFITTED),
    StageExample("genotype_features", {}, CHOSEN_VARIANTS, AXES),
    StageExample("annotate_genes", {"max_distance": 3}, {"variants": GENOTYPES, "genes": GENES}, AXES, ordered=True),
]


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


TRAINED: Tables = {"rows": modelled_rows()}
LEARN = {"key": "id", "features": ["x", "y", "code"], "categorical": ["code"], "rounds": 20, "max_depth": 3}
CLASSES = ["low", "middle", "high"]
IMPORTANCE = ("gain", "weight", "cover")


def _model(parameters: dict[str, Any], *answers: str) -> StageExample:
    return StageExample("xgboost", {**LEARN, **parameters}, TRAINED, modelled=(*answers, *IMPORTANCE), needs="xgboost")


MODELS = [
    _model({"target": "value", "objective": "regression"}, "prediction"),
    _model({"target": "label", "objective": "binary", "early_stopping_rounds": 5, "class_weight": "balanced"}, "prediction"),
    _model({"target": "group", "objective": "multiclass", "classes": CLASSES}, *(f"prediction_{name}" for name in CLASSES)),
]
EXAMPLES = [*RELATIONAL, *FEATURES, *GENOMICS, *MODELS]
IDS = [f"{example.stage}-{number}" for number, example in enumerate(EXAMPLES)]
