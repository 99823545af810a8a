"""Where a name stands that is no stage and no format: parameters, their values, functions of expressions, words of a stage's page."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.job.schema import described
from pipeline.job.type_words import branches, schema_of
from pipeline.registry import STAGES, stage_class
from pipeline.sql.text import FUNCTIONS

MOST = 5  # stages that are named of one kind of place
FEW = 2  # pages of stages with a word that means something by itself
DEPTH = 6  # mappings within one another: those of search hold a stage's own
PAGE = "docs/expressions.md"


def places_of(name: str) -> str:
    """What a name is, and of which stages, as the rest of a sentence: 'a value of method in rescale'; '' where it is nowhere."""
    found: dict[str, list[str]] = defaultdict(list)
    pages: dict[str, str] = {}
    for stage in sorted(STAGES.modules):
        kind = stage_class(stage)
        schema = schema_of(kind)
        for what in dict.fromkeys(_kinds(schema, schema, name)):
            found[what].append(stage)
        if match := re.search(rf"[^.]*\b{re.escape(name)}\b[^.]*", described(kind)):
            pages[stage] = " ".join(match[0].split())
    told = [f"a function of expressions ({PAGE}), as in derive"] if name in FUNCTIONS else []
    told += [f"{what} {'of' if what == 'a parameter' else 'in'} {_listed(stages)}" for what, stages in found.items()]
    if not told and len(pages) <= FEW:
        told = [f"a word of {stage}: {sentence}" for stage, sentence in pages.items()]
    return ", and ".join(told)


def _kinds(part: Mapping[str, Any], schema: Mapping[str, Any], name: str, path: tuple[str, ...] = ()) -> Iterator[str]:
    """What a name is in a schema: a parameter, a key of one, or a value that one takes."""
    if len(path) > DEPTH:
        return
    for branch in branches([dict(part)], dict(schema)):
        if path and name in (branch.get("enum") or [branch.get("const")]):
            yield f"a value of {path[0]}"
        for key, child in branch.get("properties", {}).items():
            if key == name:
                yield f"a key of {path[0]}" if path else "a parameter"
            yield from _kinds(child, schema, name, (*path, key))
        for inner in (branch.get("items"), branch.get("additionalProperties"), *branch.get("prefixItems", [])):
            if isinstance(inner, dict):
                yield from _kinds(inner, schema, name, (*path, "*") if path else path)


def _listed(stages: list[str]) -> str:
    more = len(stages) - MOST
    return ", ".join(stages[:MOST]) + (f" and {more} more" if more > 0 else "")
