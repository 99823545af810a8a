"""The command line for published models: python -m pipeline.models RESULTS.

A results folder is a registry of models: every run in it has its own, with their metrics. One of them may be the champion, the run that is
in use: `RESULTS/champion/models/NAME.json` is what `score` is told. A new run is a challenger until it is promoted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from pipeline.errors import PipelineError, PlaceError
from pipeline.results.champion import Champion, promote, read_champion, roll_back
from pipeline.results.manifest import RunView, current_id, whole_run
from pipeline.results.store import open_store


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    options = argparse.ArgumentParser(prog="python -m pipeline.models", description="The models of a results folder, and which is used.")
    options.add_argument("results", metavar="RESULTS", help="a results folder, such as results/loans")
    doing = options.add_mutually_exclusive_group()
    doing.add_argument("--promote", metavar="RUN", help="make a run the champion: its id, or `current`")
    doing.add_argument("--roll-back", action="store_true", help="make the champion before this one the champion again")
    options.add_argument("--why", default="promoted by hand", help="what champion.json says of it")
    options.add_argument("--json", action="store_true", help="answer as JSON")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 or 2 with the error's text on stderr."""
    options = parser().parse_args(arguments)
    try:
        if options.promote or options.roll_back:
            found = roll_back(options.results) if options.roll_back else promote(options.results, options.promote, options.why)
            told = json.dumps({"champion": found.run, "since": found.since})
            print(told if options.json else f"{options.results}/champion is {found.run}")
            return 0
        lines, champion = models_of(options.results), read_champion(options.results)
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        print(json.dumps(lines, indent=1))
    else:
        print("\n".join(_said(options.results, lines, champion)))
    return 0


def models_of(place: str) -> list[dict[str, Any]]:
    """The complete runs of a results folder that have models, the newest first: id, when it finished, marks, models, metrics.

    Raises PlaceError for a folder that cannot be read.
    """
    store, champion = open_store(place), read_champion(place)
    try:
        current, names = current_id(store), sorted(store.folders("runs"), reverse=True)
    except OSError as error:
        raise PlaceError(f"{place}: {error}. Give a results folder.") from error
    lines = []
    for name in names:
        if (view := _whole(place, name)) is None or not (models := _models(view)):
            continue
        marks = [mark for mark, run in (("champion", champion and champion.run), ("current", current)) if run == name]
        metrics = json.loads(open_store(view.path).read("metrics.json"))
        lines.append(
            {"run": name, "finished": view.finished, "marks": marks, "models": {model: metrics.get(model, {}) for model in models}}
        )
    return lines


def _whole(place: str, name: str) -> RunView | None:
    """None for one that was never finished, or is damaged: it cannot be used."""
    try:
        return whole_run(place, name)
    except PlaceError:
        return None


def _models(view: RunView) -> list[str]:
    return sorted(
        entry.path.removeprefix("models/").removesuffix(".json")
        for entry in view.files
        if entry.path.startswith("models/") and entry.path.endswith(".json")
    )


def _said(place: str, lines: list[dict[str, Any]], champion: Champion | None) -> list[str]:
    if not lines:
        return [f"{place}: no run there has a model. Run a job that trains one."]
    said = []
    for line in lines:
        said.append("  ".join([line["run"], line["finished"], *line["marks"]]))
        said += [f"    {model}: {_metrics(metrics)}" for model, metrics in line["models"].items()]
    if champion is None:
        said.append(f"no champion yet: python -m pipeline.models {place} --promote current")
    return said


def _metrics(metrics: Mapping[str, Any]) -> str:
    """Those of the last split that has some: test, else validation, else train."""
    for split in ("test", "validation", "train"):
        if isinstance(found := metrics.get(split), Mapping):
            figures = (f"{name} {value:.4g}" for name, value in found.items() if isinstance(value, int | float))
            return f"{split} " + ", ".join(figures)
    return "no metrics by split"


if __name__ == "__main__":
    sys.exit(main())
