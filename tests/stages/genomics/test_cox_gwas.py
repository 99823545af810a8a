"""cox_gwas: the same for any parts, with predictions and without, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.cox_gwas import CoxGwas
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import Tables, plan_stage
from tests import example_tables as examples
from tests.kernels.test_cox_scan import PRINTED
from tests.kernels.times import PEOPLE, VARIANTS, times_cohort
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts, small_cohort, small_sheet
from tests.stages.genomics.test_predicted_scan import small_predictions

TRAITS = {"death": {"time": "years", "event": "died"}, "illness": {"time": "age", "event": "ill"}}
FOLLOWED: Tables = {
    "genotypes": examples.GENOTYPES,
    "samples": examples.SHEET.with_columns(years=pl.col("age") / 2, died=pl.col("ldl") > 1, ill=(pl.col("height") > 0).cast(pl.Int8)),
}
TWO_TIMES: dict[str, Any] = {"traits": TRAITS, "covariates": ["height"]}
EXAMPLES = [
    StageExample(CoxGwas(**TWO_TIMES), FOLLOWED, examples.AXES, dict.fromkeys(examples.SCAN, 1e-7)),
    StageExample(
        CoxGwas(**TWO_TIMES, method="firth_approximate", screen=0.5, max_p=0.9), FOLLOWED, examples.AXES, dict.fromkeys(examples.SCAN, 1e-7)
    ),
    StageExample(
        CoxGwas(**TWO_TIMES, method="firth_approximate", screen=0.5),
        {**FOLLOWED, "predictions": examples.PREDICTIONS.with_columns(pl.col("trait").replace({"ldl": "death", "height": "illness"}))},
        examples.AXES,
        dict.fromkeys(examples.SCAN, 1e-6),
    ),
]


def gwas(**given: Any) -> CoxGwas:
    return CoxGwas(**{"traits": TRAITS, "covariates": ("sex",), "method": "firth_approximate", "screen": 0.5, **given})


def data(*, predictions: bool = False) -> dict[str, Cohort | pl.DataFrame]:
    """Two traits, one with ties and a time missing, and what is predicted of them."""
    rng, sheet = np.random.default_rng(3), small_sheet()
    rows = sheet.with_columns(
        years=pl.Series(rng.integers(1, 12, sheet.height).astype(float)),
        died=pl.Series(rng.integers(0, 2, sheet.height)),
        ill=pl.Series(rng.integers(0, 2, sheet.height).astype(bool)),
    ).with_columns(years=pl.when(pl.col("sample_id") != "p9").then("years"))
    told = small_predictions().with_columns(pl.col("trait").replace({"height": "death", "score": "illness"}))
    tables: dict[str, Cohort | pl.DataFrame] = {"genotypes": small_cohort(), "samples": rows}
    return {**tables, "predictions": told} if predictions else tables


@pytest.mark.parametrize("predictions", [False, True])
def test_cox_gwas__is_the_same_for_any_parts(predictions: bool, workers: ClusterSession) -> None:
    found = same_for_any_parts(gwas(), data(predictions=predictions), workers)[""]
    assert found.counts["audited"] > 8
    assert "audited_off" not in found.counts
    assert (found.counts["people_death"], found.counts["people_illness"]) == ((38, 39) if predictions else (39, 40))
    assert set(found.frame["test"]) == {"score", "firth_approximate"}


def test_cox_gwas__gives_what_regenie_printed() -> None:
    given = times_cohort()
    ids = [f"p{i}" for i in range(PEOPLE)]
    variants = pl.DataFrame(
        {"chromosome": ["1"] * VARIANTS, "base_pair_location": range(VARIANTS), "variant_id": [f"v{i}" for i in range(VARIANTS)]}
    )
    frame = variants.with_columns(ref=pl.lit("A"), alt=pl.lit("G"))
    samples = pl.DataFrame(
        {"sample_id": ids, "months": abs(given.signed), "event": given.signed > 0, "a": given.covariates[:, 0], "b": given.covariates[:, 1]}
    )
    predictions = pl.DataFrame({"trait": "T", "sample_id": ids, "chromosome": "1", "prediction": given.predictions})
    tables: dict[str, Cohort | pl.DataFrame] = {
        "genotypes": Cohort(Part(frame, {"calls": pack(given.calls)}), pl.DataFrame({"sample_id": ids})),
        "samples": samples,
    }
    stage = CoxGwas(traits={"T": {"time": "months", "event": "event"}}, covariates=("a", "b"))
    for kind, read in (("alone", tables), ("predicted", {**tables, "predictions": predictions})):
        found = run(stage, read)[""].frame
        np.testing.assert_allclose(found["statistic"] ** 2, [row[2] for row in PRINTED[kind, "score"]], rtol=4e-4, atol=1e-6)
        assert found["trait"].unique().to_list() == ["T"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("years", -2.0, "trait 'death': the time 'years' has the value -2; it must be 0 or more, at sample"),
        ("years", float("inf"), "trait 'death': the time 'years' has the value inf"),
        ("died", 3, r"trait 'death': the event 'died' has the value 3; it must be 1 \(event\) or 0 \(none\)"),
    ],
)
def test_cox_gwas__says_which_time_or_event_is_wrong(column: str, value: float, message: str) -> None:
    tables = data()
    rows = tables["samples"]
    assert isinstance(rows, pl.DataFrame)
    at_one = pl.when(pl.col("sample_id") == "p4").then(value).otherwise(column).alias(column)
    with pytest.raises(DataError, match=message):
        run(gwas(), {**tables, "samples": rows.with_columns(at_one)})


def test_cox_gwas__refuses_columns_that_are_not_there_and_names_that_are_taken() -> None:
    tables: dict[str, Any] = {"genotypes": small_cohort().rows, "samples": data()["samples"]}
    axes = {"calls": small_cohort().people}
    with pytest.raises(StageError, match="weeks"):
        plan_stage(gwas(traits={"death": {"time": "weeks", "event": "died"}}), tables, axes)
    with pytest.raises(StageError, match="'height' has the name of another column"):
        plan_stage(gwas(traits={"height": {"time": "years", "event": "died"}}), tables, axes)
    with pytest.raises(ValidationError, match="traits"):
        gwas(traits={"death": {"time": "years"}})
