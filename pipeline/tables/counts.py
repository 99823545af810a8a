"""What a count says: stages and formats count rows by plain names, and declare the words for each beside the work that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ANY = "*"
ONCE = "@"  # NAME@ROWS is of these rows, and counts once where several tasks find it


@dataclass(frozen=True)
class Count:
    """The words of a count in a report.

    `always`: it is shown where it is 0, too. `aside`: it was noticed and kept, and so is no step between what went in (`rows_in`) and what
    came out (`rows_out`).
    """

    text: str
    always: bool = False
    aside: bool = False


def count_of(name: str, declared: Mapping[str, Count]) -> Count:
    """What is declared for a count, by its name or by what it begins with (`kept_*`, whose text has * for the rest); else plain words."""
    for pattern, count in declared.items():
        rest = name.removeprefix(pattern.removesuffix(ANY)) if pattern.endswith(ANY) else ""
        if name == pattern or (rest and rest != name):
            return Count(count.text.replace(ANY, rest), count.always, count.aside)
    return Count(name.replace("_", " "))


def is_once(name: str) -> bool:
    """Whether a count is of rows that it names, so that the same one found again adds nothing."""
    return ONCE in name


def unseen(name: str, count: int, seen: dict[str, int]) -> tuple[str, int]:
    """The plain name of a count, and how much of it was not among those `seen` before, which it joins."""
    if not is_once(name):
        return name, count
    before = seen.get(name, 0)
    seen[name] = max(before, count)
    return name.partition(ONCE)[0], seen[name] - before
