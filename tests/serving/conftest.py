"""One published model for all tests of the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import polars as pl
import pytest

from pipeline.serving.place import model_path
from pipeline.serving.served import Served
from tests.serving.serving import published, serving


@dataclass(frozen=True)
class Model:
    """A results folder with a model, and what training predicted, by id."""

    results: Path
    predictions: pl.DataFrame

    @property
    def path(self) -> str:
        """The model's JSON file."""
        return model_path(str(self.results))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("served")
    predictions = published(folder)
    return Model(folder / "trained", predictions)


@pytest.fixture(scope="module")
def client(model: Model) -> Iterator[httpx.Client]:
    with serving(Served(model.path)) as found:
        yield found
