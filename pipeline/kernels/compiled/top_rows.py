"""The least values of each group, kept in order as rows come by, and the rows that may be among them: two looks at every row."""

from __future__ import annotations

from typing import Any

from pipeline.kernels.compiled.jit import compiled


@compiled
def keep_least(groups: Any, values: Any, there: Any, least: Any, counts: Any) -> None:
    """Fills `least: like values [g, n]` with each group's n least, from the left up, and `counts: int64[g]`, of 0, with how many those are.

    Of the row r `groups: int64[m]` has the group, `values: int64 or float64 [m]` the value, where `there: bool[m]` says that it has one.
    """
    last = least.shape[1] - 1
    for row in range(len(groups)):
        if not there[row]:
            continue
        group, value = groups[row], values[row]
        at = counts[group]
        if at <= last:
            counts[group] = at + 1
        elif value < least[group, last]:
            at = last
        else:
            continue
        while at > 0 and least[group, at - 1] > value:
            least[group, at] = least[group, at - 1]
            at -= 1
        least[group, at] = value


@compiled
def near(groups: Any, values: Any, there: Any, least: Any, counts: Any, found: Any) -> None:
    """Puts into `found: bool[m]` whether a row's value is among its group's least, or ties with the last; all rows of a group of fewer."""
    last = least.shape[1] - 1
    for row in range(len(groups)):
        group = groups[row]
        found[row] = counts[group] <= last or (there[row] and values[row] <= least[group, last])
