"""Which marks (the genome build of positions, say) every table has from its inputs: tables of two values never meet in a stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from pipeline.format import Mark


class Lineage:
    """Marks of tables, from the inputs on; a table made of several has the marks of all of them."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[Mark, str]] = {}  # table -> mark -> the input that it comes from

    def add_input(self, name: str, marks: Iterable[Mark]) -> None:
        """Note an input's marks, those that are known."""
        self._marks[name] = dict.fromkeys(marks, name)

    def add_stage(self, name: str, inputs: Mapping[str, str], unmarks: Set[str] = frozenset()) -> str | None:
        """Note a stage's tables, by the tables that it reads in each role; returns what is wrong where two values would meet, else None.

        They lose marks of the kinds in `unmarks`.
        """
        found: dict[Mark, str] = {}
        for table in inputs.values():
            found.update(self._marks.get(table.split(".")[0], {}))
        self._marks[name] = {mark: source for mark, source in found.items() if mark.kind not in unmarks}
        kinds = [mark.kind for mark in found]
        twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
        return _conflict({mark: source for mark, source in found.items() if mark.kind == twice}) if twice else None


def _conflict(marks: Mapping[Mark, str]) -> str:
    sides = " and ".join(f"{mark.value} (input {source!r})" for mark, source in marks.items())
    first = next(iter(marks))
    return f"the tables are of different {first.kind}, {sides}, {first.remedy}"
