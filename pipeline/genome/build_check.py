"""Which genome build every table's positions come from: tables of different builds never meet in a stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Lineage:
    """Builds of tables, from the inputs on; a table made of several has the builds of all of them."""

    def __init__(self) -> None:
        self._builds: dict[str, dict[str, str]] = {}  # table -> build -> the input that it comes from

    def add_input(self, name: str, build: str | None) -> None:
        """Note an input's build; None where neither the job nor the file says it."""
        self._builds[name] = {build: name} if build else {}

    def add_stage(self, name: str, inputs: Mapping[str, str]) -> str | None:
        """Note a stage's tables, by the tables that it reads in each role; returns what is wrong where builds would meet, else None."""
        found: dict[str, str] = {}
        for table in inputs.values():
            found.update(self._builds.get(table.split(".")[0], {}))
        self._builds[name] = found
        return _conflict(found.items()) if len(found) > 1 else None


def _conflict(builds: Iterable[tuple[str, str]]) -> str:
    sides = " and ".join(f"{build} (input {source!r})" for build, source in builds)
    return (
        f"the tables are of different genome builds, {sides}, so the same position is another place. Give inputs of one build (bcftools "
        "+liftover, CrossMap or UCSC liftOver move positions), or correct the input's `build`."
    )
