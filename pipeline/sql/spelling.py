"""What Polars' parser does not know, written so that it does: a coalesce whose first value is a name that nobody can type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import ExpressionError

MARK = "\x01"  # how such a name begins; texts that hold a control character are refused before
ZONE = "at time zone"
BRACKETS = {")": "(", "]": "["}
RESERVED = set(re.findall(r"\w+", "and or not xor in like ilike between is when then else case from for distinct interval"))
HOW = f"write x {ZONE} 'Europe/Berlin', and brackets around x where it is more than a name, a function or a cast"


def respelled(pieces: Sequence[tuple[str, str]], functions: Mapping[str, str]) -> str:
    """The text of these pieces, by kind, as Polars' parser takes it: each of the functions by its other name, those without one marked."""
    texts = [piece for _, piece in pieces]
    there = [i for i, (kind, _) in enumerate(pieces) if kind != "space"]
    words = _Words([pieces[i][0] for i in there], [texts[i].lower() if pieces[i][0] == "word" else texts[i] for i in there])
    for place, (at, until) in words.zones().items():
        texts[there[at]] = f"coalesce('{MARK}{ZONE}', " + texts[there[at]]
        texts[there[place]], texts[there[place + 1]], texts[there[place + 2]] = ",", "", ""
        texts[there[until]] += ")"
    for i, after, then in zip(there, there[1:], there[2:], strict=False):
        name = pieces[i][1].strip('"`').lower()
        if pieces[i][0] in {"word", "quoted"} and name in functions and pieces[after][1] == "(":
            texts[i] = texts[i].removesuffix(pieces[i][1]) + (functions[name] or "coalesce")
            if not functions[name]:
                texts[after] = f"('{MARK}{name}'" + ("" if pieces[then][1] == ")" else ",")
    return "".join(texts)


@dataclass(frozen=True)
class _Words:
    """The pieces of a text without white space: their kinds, and what they are."""

    kinds: list[str]
    words: list[str]

    def zones(self) -> dict[int, tuple[int, int]]:
        """Where `at time zone` stands: the first piece of the value before each, and the zone behind it."""
        found = dict[int, tuple[int, int]]()
        for i in range(len(self.words) - 2):
            if self.words[i : i + 3] == ZONE.split():
                if i + 3 == len(self.words) or self.kinds[i + 3] != "text":
                    raise ExpressionError(f"`{ZONE}` takes the name of a zone, a text in quotes: {HOW}")
                found[i] = (self._start(i - 1), i + 3)
        return found

    def _start(self, i: int) -> int:
        """The first piece of the value that ends at a piece: a name, a text, a function, brackets, or a cast or `at time zone` of one."""
        if i >= 0 and self.words[i] in BRACKETS:
            i = self._opening(i)
            if self.words[i] == "[" or self._is_name(i - 1):
                return self._start(i - 1)
            return i
        if i < 0 or self.kinds[i] not in {"word", "quoted", "text"} or self.words[i] == "end":
            raise ExpressionError(f"`{ZONE}` has no value before it: {HOW}")
        before = self.words[i - 1] if i else ""
        if before in {"::", "."}:
            return self._start(i - 2)
        if self.kinds[i] == "text" and self.words[max(i - 3, 0) : i] == ZONE.split():
            return self._start(i - 4)
        return i - 1 if self.kinds[i] == "text" and before in {"timestamp", "date"} else i

    def _opening(self, i: int) -> int:
        """Where the bracket that ends here begins."""
        closing, opening, open_ones = self.words[i], BRACKETS[self.words[i]], 0
        for place in range(i, -1, -1):
            open_ones += (self.words[place] == closing) - (self.words[place] == opening)
            if not open_ones:
                return place
        raise ExpressionError(f"a {closing!r} closes what nothing opens")

    def _is_name(self, i: int) -> bool:
        """Whether a piece before a bracket is a function or a type, and no word such as `and`."""
        return i >= 0 and self.kinds[i] in {"word", "quoted"} and self.words[i] not in RESERVED
