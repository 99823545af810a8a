"""network on images: better than a perceptron on digits, scored and exported as it was trained, and what it takes for an image."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.registry import stage_class
from pipeline.serving.rows import read_json, write_json
from pipeline.serving.served import Served
from pipeline.stages.models.export import Export
from pipeline.stages.models.network import Network
from pipeline.stages.models.score import Score
from pipeline.testing.stages import even_sizes, plan_stage, run_stage
from tests.stages.models.test_network import Result, train

pytestmark = pytest.mark.long  # JAX compiles its programs

LEARNED: dict[str, Any] = {
    "target": "digit", "key": "id", "objective": "multiclass", "classes": range(10), "image": {"column": "pixels", "height": 8, "width": 8},
    "layers": [64], "rounds": 20, "batch_size": 64, "learning_rate": 0.005, "schedule": "cosine",
}  # fmt: skip
TINY: dict[str, Any] = {"convolutions": [{"filters": 4}], "layers": [8], "rounds": 2}


def stage_for(**more: Any) -> Network:
    """A network of the digits."""
    return Network.model_validate({**LEARNED, **more})


@cache
def digits() -> pl.DataFrame:
    """Written digits of 8 x 8 pixels, 0 to 16 (scikit-learn's, of the UCI repository)."""
    from sklearn.datasets import load_digits

    found, rng = load_digits(), np.random.default_rng(20261122)
    pixels = pl.Series(found.data.astype(np.uint8).tolist(), dtype=pl.List(pl.UInt8))
    split = rng.choice(["train", "validation", "test"], len(pixels), p=[0.6, 0.1, 0.3])
    return pl.DataFrame({"id": np.arange(len(pixels)), "pixels": pixels, "digit": found.target, "split": split})


@cache
def trained() -> Result:
    return train(stage_for(), digits())


def test_digits__are_read_better_than_by_scikit_learns_perceptron() -> None:
    from sklearn.neural_network import MLPClassifier

    rows = {name[0]: part for name, part in digits().partition_by("split", as_dict=True).items()}
    pixels = {name: np.stack(part["pixels"].to_list()) / 16 for name, part in rows.items()}
    other = MLPClassifier((64,), max_iter=300, tol=1e-3, random_state=1).fit(pixels["train"], rows["train"]["digit"])
    assert trained().metrics["test"]["accuracy"] >= max(other.score(pixels["test"], rows["test"]["digit"]), 0.97)
    history = trained().tables["history"].filter(pl.col("split") == "train")["value"].to_list()
    assert history[-1] < 0.1 * history[0]


def test_importance__of_an_image_is_told_pixel_by_pixel() -> None:
    found = trained().tables["importance"]
    assert found.height == 64
    influence = dict(found.iter_rows())
    assert min(influence[f"pixels[{row},{column}]"] for row in (2, 3, 4, 5) for column in (2, 3, 4, 5)) > influence["pixels[0,0]"]


def test_mistakes__are_rows_of_another_class_the_surest_first() -> None:
    found, rows = trained().tables["mistakes"], digits()
    wrong = trained().tables[""].filter(pl.col("split") != "train")
    guessed = wrong.select(pl.col("^prediction.*$")).to_numpy().argmax(axis=1)
    expected = wrong.with_columns(guess=pl.Series(guessed)).filter(pl.col("guess") != pl.col("digit"))
    assert sorted(found["row"]) == sorted(expected["id"].cast(pl.String))
    assert 0 < found.height < 24
    assert found["probability"].is_sorted(descending=True)
    first = found.row(0, named=True)
    assert first["pixels"] == rows["pixels"][int(first["row"])].to_list()
    assert first["truth"] == str(rows["digit"][int(first["row"])]) != first["predicted"]


def test_score__of_images_is_what_training_gave(tmp_path: Path) -> None:
    score = Score(model=str(trained().published(tmp_path))).opened(stage_class)
    expected = trained().tables[""].drop("split", "digit")
    assert_frame_equal(run_stage(score, {"rows": digits().select("id", "pixels")}, 7)[""], expected, check_exact=True)
    with pytest.raises(StageError, match=r"column 'pixels' is List\(Int64\), and was List\(UInt8\) in training"):
        plan_stage(score, {"rows": digits().with_columns(pl.col("pixels").cast(pl.List(pl.Int64)))})


def test_serving__takes_images_as_lists_of_json(tmp_path: Path) -> None:
    served = Served(str(trained().published(tmp_path)))
    rows = digits().head(20)
    (found,) = served.answers([served.typed(read_json(write_json(rows.select("pixels"))))])
    assert isinstance(found, pl.DataFrame)
    expected = trained().tables[""].head(20).select(pl.col("^prediction.*$"))
    assert_frame_equal(found, expected, check_exact=True)
    with pytest.raises(DataError, match="column 'pixels' has 256, and was UInt8 in training"):
        served.typed(read_json(b'[{"pixels": [1, 256]}]'))


def test_lists_arrays_and_bytes__are_the_same_images_and_missing_ones_count_as_the_mean() -> None:
    rows = digits().head(300)
    values = np.stack(rows["pixels"].to_list()).astype(np.uint8)
    kinds = {
        "list": rows["pixels"],
        "array": pl.Series(values, dtype=pl.Array(pl.UInt8, 64)),
        "square": pl.Series(values.reshape(-1, 8, 8).astype(np.float32), dtype=pl.Array(pl.Float32, (8, 8))),
        "bytes": pl.Series([one.tobytes() for one in values], dtype=pl.Binary),
    }
    found = {kind: train(stage_for(**TINY), rows.with_columns(pixels=pixels)) for kind, pixels in kinds.items()}
    assert {result.model for result in found.values()} == {found["list"].model}
    lists = [None, [None, *values[1][1:].tolist()], *values[2:].tolist()]
    missing = train(stage_for(**TINY), rows.with_columns(pixels=pl.Series(lists, dtype=pl.List(pl.Float64))))
    assert missing.counts["missing_values"] == 65
    assert np.isfinite(missing.tables[""].select(pl.col("^prediction.*$")).to_numpy()).all()


def test_augment__changes_what_is_learned_from_and_no_prediction_by_parts() -> None:
    rows, given = digits().head(300), {**TINY, "augment": {"mirror": True, "degrees": 10, "shift": 0.1, "brightness": 0.2}}
    one, parts = train(stage_for(**given), rows), train(stage_for(**given), rows.reverse(), even_sizes(300, 7))
    assert (parts.model, parts.metrics) == (one.model, one.metrics)
    assert one.model != train(stage_for(**TINY), rows).model
    still = train(stage_for(**{**TINY, "augment": {}}), rows)
    assert still.model == train(stage_for(**TINY), rows).model
    asynchronous = train(stage_for(**given, parallel={"asynchronous": 2}), rows)
    assert_frame_equal(asynchronous.tables[""], one.tables[""], rel_tol=2e-3, abs_tol=1e-4)


def test_augment__without_an_image_is_refused() -> None:
    given = {"image": None, "augment": {"degrees": 5}, "target": "digit", "features": ["id"], "key": "row"}
    rows = digits().with_row_index("row")
    with pytest.raises(StageError, match="images are augmented, and there is none"):
        plan_stage(stage_for(**given), {"rows": rows})


@pytest.mark.soak
def test_parallel__trains_on_images_as_one_device_does() -> None:
    rows, given = digits().head(500), {**TINY, "dropout": 0.2, "rounds": 3}
    one = train(stage_for(**given), rows)
    parts = train(stage_for(**given), rows.reverse(), even_sizes(500, 7))
    assert (parts.model, parts.metrics) == (one.model, one.metrics)
    for parallel in ({"data": 8}, {"data": 2, "model": 4}, {"pipeline": 2}):
        several = train(stage_for(**given, parallel=parallel), rows)
        assert_frame_equal(several.tables["history"], one.tables["history"], rel_tol=1e-4)
        assert_frame_equal(several.tables[""], one.tables[""], rel_tol=2e-3, abs_tol=1e-4)


@pytest.mark.parametrize("activation", ["relu", pytest.param("gelu", marks=pytest.mark.soak)])
def test_export__of_convolutions_predicts_what_they_do(activation: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    images = rng.uniform(0, 255, (300, 6 * 7 * 3)).astype(np.float32)
    rows = digits().head(300).with_columns(
        pixels=pl.Series(images, dtype=pl.Array(pl.Float32, 126)), x=pl.Series(rng.normal(size=300)),
        code=pl.Series(rng.integers(0, 4, 300)), label=pl.Series((images[:, 10] > 128).astype(np.int8)),
    )  # fmt: skip
    more = {
        "target": "label", "objective": "binary", "classes": [], "exclude": ["digit"], "categorical": ["code"], "activation": activation,
        "image": {"column": "pixels", "height": 6, "width": 7, "channels": 3}, "rounds": 2,
        "convolutions": [{"filters": 5, "size": 2, "pool": 1}, {"filters": 4, "size": 3, "pool": 2}],
    }  # fmt: skip
    given = train(stage_for(**more), rows)
    compared = run_stage(Export(model=str(given.published(tmp_path))).opened(stage_class), {"rows": rows}, 2)[""]
    assert compared["rows"].to_list() == [300]
    assert np.ptp(given.tables[""]["prediction"].to_numpy()) > 1e-3


def test_export__of_digits_predicts_every_class(tmp_path: Path) -> None:
    export = Export(model=str(trained().published(tmp_path))).opened(stage_class)
    assert run_stage(export, {"rows": digits()})[""]["largest_difference"].to_numpy().max() < 1e-5


@pytest.mark.parametrize(
    ("image", "more", "said"),
    [
        ({"column": "digit"}, {}, "'digit' is no feature"),
        ({"column": "pixel"}, {}, "no column 'pixel'. Did you mean 'pixels'"),
        ({"column": "words"}, {}, r"'words' is List\(String\), and an image is a list or an array of numbers, or bytes"),
        ({"column": "cut"}, {}, r"'cut' is Array\(UInt8, shape=\(4,\)\), and images of 8 x 8 x 1 are 64 numbers"),
        ({}, {"convolutions": [{"filters": 2, "pool": 4}, {"filters": 2, "pool": 4}]}, "nothing is left of the image after 2 of them"),
    ],
)
def test_network__refuses_images_that_are_none(image: dict[str, Any], more: dict[str, Any], said: str) -> None:
    words = pl.Series([["a"]] * digits().height)
    rows = digits().with_columns(words=words, cut=pl.Series(np.zeros((digits().height, 4), np.uint8), dtype=pl.Array(pl.UInt8, 4)))
    chosen = {"column": "pixels", "height": 8, "width": 8, **image}
    with pytest.raises(StageError, match=said):
        plan_stage(stage_for(image=chosen, features=[{"digit": "pixels"}.get(chosen["column"], chosen["column"])], **more), {"rows": rows})


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ([1.0] * 63, "'pixels' has an image of 63 numbers, and images of 8 x 8 x 1 are 64"),
        ([1e39] * 64, "'pixels' has infinite values, or some beyond the model's numbers"),
    ],
)
def test_network__refuses_images_of_another_size_or_without_end(last: list[float], said: str) -> None:
    rows = digits().head(60).with_columns(pl.col("pixels").cast(pl.List(pl.Float64)))
    odd = rows.with_columns(pixels=pl.Series([*rows["pixels"].to_list()[:-1], last], dtype=pl.List(pl.Float64)))
    with pytest.raises(DataError, match=said):
        train(stage_for(**TINY), odd)
