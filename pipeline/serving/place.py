"""Which published model is meant by a folder: a run's, or the champion or the current run of a results folder."""

from __future__ import annotations

from pipeline.errors import InputError, PlaceError, near
from pipeline.files import beside
from pipeline.results.champion import read_champion
from pipeline.results.manifest import run_path, whole_run
from pipeline.results.store import open_store


def model_path(place: str, name: str | None = None) -> str:
    """The JSON file of a model: `place` is that file itself, a run's folder, or a results folder, whose champion counts before its current.

    Raises PlaceError where there is no run, InputError where the run has no model, several and no name, or none of that name.
    """
    if place.endswith(".json"):
        return place
    champion = read_champion(place)
    folder = whole_run(place, champion.run).path if champion else run_path(place)
    models = models_of(folder)
    if not models:
        raise InputError(f"{folder}: this run has no model. Give one whose job trains a model.")
    if name is None and len(models) > 1:
        raise InputError(f"{folder}: this run has several models. Choose one by --model: {', '.join(models)}.")
    if name is not None and name not in models:
        raise InputError(f"{folder}: this run has no model {name!r}.{near(name, models)}")
    return beside(beside(folder, "models"), f"{name or models[0]}.json")


def models_of(folder: str) -> list[str]:
    """The names of the models of a run. Raises PlaceError where the folder cannot be read."""
    try:
        names = open_store(folder).sizes("models")
    except OSError as error:
        raise PlaceError(f"{folder}: {error}. Give a run's folder or a results folder.") from error
    return sorted(name.rpartition("/")[2].removesuffix(".json") for name in names if name.endswith(".json"))
