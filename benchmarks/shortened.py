"""A shipped job without what a program written by hand does not do: the stages of some of its outputs alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from benchmarks.harness import ROOT


def job_of(job: str, outputs: Sequence[str]) -> str:
    """The text of a job file of this repository with these outputs, and the stages and inputs that they want."""
    from ruamel.yaml import YAML

    yaml = YAML()
    document = yaml.load((ROOT / job).read_text(encoding="utf-8"))
    document["outputs"] = {name: document["outputs"][name] for name in outputs}
    stages = {stage["as"]: stage for stage in document["stages"]}
    wanted, left = set[str](), [output["from"] for output in document["outputs"].values()]
    while left:
        name = left.pop().partition(".")[0]
        if name not in wanted:
            wanted.add(name)
            left += read_by(stages[name]["from"]) if name in stages else []
    document["stages"] = [stage for name, stage in stages.items() if name in wanted]
    document["inputs"] = {name: entry for name, entry in document["inputs"].items() if name in wanted}
    written = StringIO()
    yaml.dump(document, written)
    return written.getvalue()


def read_by(given: Any) -> Iterator[str]:
    """The tables that a stage's `from` names."""
    if isinstance(given, str):
        yield given
    else:
        for one in given.values() if isinstance(given, Mapping) else given:
            yield from read_by(one)
