"""jobs/images.yaml: it reads digits as well as a support vector machine, shapes far better, and shows what it took for what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline import api
from pipeline.formats.images import ImagesInput
from pipeline.registry import stage_class
from pipeline.stages.models.score import Score
from pipeline.testing.formats import read_table
from pipeline.testing.stages import run_stage
from tests.report.pages import Page

pytestmark = pytest.mark.long  # JAX compiles its programs

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data" / "images"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped, its files found from anywhere."""
    places = {"digits": "digits", "shapes": "shapes", "answers": "shapes.csv"}
    paths: dict[str, Any] = {f"inputs__{name}__path": str(DATA / place) for name, place in places.items()}
    return api.load(ROOT / "jobs" / "images.yaml", results=str(tmp_path_factory.mktemp("images")), cluster__dashboard=False, **paths).run()


def by_support_vectors(rows: pl.DataFrame, target: str, folder: Path, mode: str, side: int) -> float:
    """The test accuracy of scikit-learn's machine, of the same rows' files as Pillow has them."""
    from PIL import Image, ImageOps
    from sklearn.svm import SVC

    images = [ImageOps.pad(Image.open(folder / name).convert(mode), (side, side)) for name in rows["image"]]
    pixels, truth = np.stack([np.asarray(image).ravel() / 255 for image in images]), rows[target].to_numpy()
    train, test = ((rows["split"] == split).to_numpy() for split in ("train", "test"))
    return float(SVC(C=10).fit(pixels[train], truth[train]).score(pixels[test], truth[test]))


def test_digits__are_read_as_well_as_by_support_vectors_and_shapes_far_better(shipped: api.Run) -> None:
    digits, shapes = shipped.table("digits").to_polars(), shipped.table("shapes").to_polars()
    assert (digits.height, shapes.height) == (400, 240)
    assert (digits["label"] == digits["image"].str.head(1)).all()
    accuracy = {name: shipped.metrics[name]["test"]["accuracy"] for name in ("read", "seen")}
    assert accuracy["read"] >= by_support_vectors(digits, "label", DATA / "digits", "L", 8) - 0.02
    assert accuracy["seen"] >= by_support_vectors(shapes, "shape", DATA / "shapes", "RGB", 24) + 0.2
    assert accuracy["seen"] > 0.9


def test_the_page__shows_confusions_and_what_was_mistaken(shipped: api.Run) -> None:
    text = (Path(shipped.path) / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert {"Predictions: digits", "Mistakes: digits_mistakes", "Predictions: shapes", "Mistakes: shapes_mistakes"} <= {*page.headings}
    assert page.text.count("columns by the likeliest class") == 2
    mistakes = shipped.table("digits_mistakes").to_polars().height + shipped.table("shapes_mistakes").to_polars().height
    assert text.count('href="data:image/png;base64,') == mistakes > 0
    assert len(text) < 300_000


def test_the_model__reads_images_without_labels_as_it_did(shipped: api.Run) -> None:
    reader = ImagesInput.model_validate({"path": str(DATA / "digits" / "*" / "*.png"), "height": 8, "width": 8})
    score = Score(model=str(Path(shipped.path) / "models" / "read.json")).opened(stage_class)
    found = run_stage(score, {"rows": read_table(reader).frame}, 3)[""].sort("image")
    expected = shipped.table("digits").to_polars().with_columns(pl.col("image").str.slice(2)).sort("image")
    assert_frame_equal(found.select(pl.col("^prediction_.*$")), expected.select(pl.col("^prediction_.*$")), check_exact=True)
