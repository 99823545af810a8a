"""A job file as a tree of values that know where they stand, and the problems found in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import JobError, Problem


@dataclass(frozen=True, order=True)
class Place:
    """Line and column in the job file, both from 1; or `given`, the text of the override that a value came from."""

    line: int
    column: int
    given: str = ""

    def __str__(self) -> str:
        return self.given or f"{self.line}:{self.column}"

    def within(self, path: str) -> str:
        """The place with the file's path before it: jobs/x.yaml:17:12; of an override its text alone."""
        return self.given or f"{path}:{self}"


@dataclass
class Node:
    """A value and its place: a scalar, a list of nodes or a mapping of text to nodes.

    `keys` are the places of a mapping's keys, `plain` is a scalar without quotes, `source` a text before ${NAME} in it was replaced.
    """

    value: Any
    place: Place
    keys: dict[str, Place] = field(default_factory=dict)
    plain: bool = False
    source: str | None = None

    def data(self) -> Any:
        """The value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: child.data() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.data() for child in self.value]
        return self.value

    def children(self) -> Iterator[tuple[str, Node]]:
        """Keys and nodes of a mapping, indices and nodes of a list; nothing below a scalar."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        if isinstance(self.value, list):
            yield from ((str(index), child) for index, child in enumerate(self.value))

    def child(self, key: str | int) -> Node | None:
        """The node below, by key or index; None where there is none."""
        if isinstance(self.value, dict):
            found: Node | None = self.value.get(key)
            return found
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            return self.value[key] if isinstance(self.value[key], Node) else None
        return None


def node_of(value: Any, place: Place) -> Node:
    """Plain Python data as nodes that all stand at one place."""
    if isinstance(value, Mapping):
        return Node({str(key): node_of(child, place) for key, child in value.items()}, place, {str(key): place for key in value})
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return Node([node_of(child, place) for child in value], place)
    return Node(os.fspath(value) if isinstance(value, os.PathLike) else value, place)


class Problems:
    """Problems of one job, collected so that all are told in one go."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[tuple[Place, Problem]] = []

    def add(self, place: Place, key: str, what: str) -> None:
        """Note a problem; the same one twice is one."""
        problem = (place, Problem(place.within(self.path), key, what))
        if problem not in self.found:
            self.found.append(problem)

    def check(self) -> None:
        """Raise JobError with all problems found so far, in the order of the file and overrides last; nothing where there are none."""
        if self.found:
            ranked = sorted(self.found, key=lambda pair: (bool(pair[0].given), pair[0]))
            raise JobError([problem for _, problem in ranked])


def found_text(value: Any) -> str:
    """A value as a message shows it: short, and as YAML writes it."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:70]} ... ({len(text)} characters)"
