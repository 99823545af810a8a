"""The tables of a run until their last reader has them: while a stage waits for tasks others are still to be submitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pipeline.tables.table import Table


class UntilRead(dict[str, Table]):
    """Tables by their names; one leaves when it was read as often as there are `uses` of it."""

    def __init__(self, uses: Mapping[str, int]) -> None:
        super().__init__()
        self._left = Counter(uses)

    def read(self, inputs: Mapping[str, str]) -> dict[str, Table]:
        """The tables of a stage's roles, by the roles."""
        found = {role: self[name] for role, name in inputs.items()}
        self._left.subtract(inputs.values())
        for name in {*inputs.values()}:
            if self._left[name] == 0:
                del self[name]
        return found
