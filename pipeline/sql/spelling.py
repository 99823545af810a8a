"""What Polars' parser does not know, written so that it does: a coalesce whose first value is a name that nobody can type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import ExpressionError

MARK = "\x01"  # how such a name begins; texts that hold a control character are refused before
ZONE = "at time zone"
BRACKETS = {")": "(", "]": "["}
RESERVED = set(re.findall(r"\w+", "and or not xor in like ilike between is when then else case from for distinct interval"))
HOW = f"write x {ZONE} 'Europe/Berlin', and brackets around x where it is more than a name, a function or a cast"

NO_TABLE = "a column has no table before it: write its name alone, in double quotes where it holds a dot"
NO_VALUE = {
    ZONE: f"`{ZONE}` has no value before it: {HOW}",
    ".": NO_TABLE,
    "[": "'[' has no meaning in an expression but in l[1], of a list",
}


def respelled(pieces: Sequence[tuple[str, str]], functions: Mapping[str, str]) -> str:
    """The text of these pieces, by kind, as Polars' parser takes it: each of the functions by its other name, those without one marked.

    `x at time zone 'UTC'`, `x[1]` and `x.y` are marked functions as well.
    """
    texts = [piece for _, piece in pieces]
    there = [i for i, (kind, _) in enumerate(pieces) if kind != "space"]
    words = _Words([pieces[i][0] for i in there], [texts[i] for i in there])
    for name, start, changed in words.behind():
        for place, text in changed.items():
            texts[there[place]] = text
        texts[there[start]] = f"coalesce('{MARK}{name}', " + texts[there[start]]
    for i, after, then in zip(there, there[1:], there[2:], strict=False):
        name = _name(pieces[i][1]).lower()
        if pieces[i][0] in {"word", "quoted"} and name in functions and pieces[after][1] == "(":
            texts[i] = texts[i].removesuffix(pieces[i][1]) + (functions[name] or "coalesce")
            if not functions[name]:
                texts[after] = f"('{MARK}{name}'" + ("" if pieces[then][1] == ")" else ",")
    return "".join(texts)


def _name(word: str) -> str:
    """A name without its quotes."""
    return word[1:-1].replace('""', '"') if word[:1] in {'"', "`"} else word


@dataclass(frozen=True)
class _Words:
    """The pieces of a text without white space: their kinds, and what they are."""

    kinds: list[str]
    words: list[str]

    def behind(self) -> Iterator[tuple[str, int, dict[int, str]]]:
        """What stands behind a value and makes another of it: its name, the value's first piece, and how the pieces read as a call."""
        for i, word in enumerate(self.words):
            if self._is_zone(i):
                if i + 3 == len(self.words) or self.kinds[i + 3] != "text":
                    raise ExpressionError(f"`{ZONE}` takes the name of a zone, a text in quotes: {HOW}")
                yield ZONE, self._start(i - 1, ZONE), {i: ",", i + 1: "", i + 2: "", i + 3: self.words[i + 3] + ")"}
            elif word == "[":
                yield "list_extract", self._start(i - 1, word), {i: ",", self._closing(i): ")"}
            elif word == ".":
                if i + 1 == len(self.words) or self.kinds[i + 1] not in {"word", "quoted"}:
                    raise ExpressionError(NO_TABLE)
                field = _name(self.words[i + 1]).replace("'", "''")
                yield word, self._start(i - 1, word), {i: ",", i + 1: f"'{field}')"}

    def _is_zone(self, i: int) -> bool:
        return [word.lower() for word in self.words[max(i, 0) : i + 3]] == ZONE.split()

    def _start(self, i: int, behind: str) -> int:
        """The first piece of the value that ends at a piece: a name, a text, a function, brackets, or what stands behind such a value."""
        word = self.words[i].lower() if i >= 0 else ""
        if word in BRACKETS:
            opening = self._opening(i)
            called = opening > 0 and self.kinds[opening - 1] in {"word", "quoted"} and self.words[opening - 1].lower() not in RESERVED
            return self._start(opening - 1, behind) if called or word == "]" else opening
        if i < 0 or self.kinds[i] not in {"word", "quoted", "text"} or word in RESERVED | {"end"}:
            raise ExpressionError(NO_VALUE[behind])
        before = self.words[i - 1].lower() if i else ""
        if before in {"::", "."}:
            return self._start(i - 2, behind)
        if self.kinds[i] == "text" and self._is_zone(i - 3):
            return self._start(i - 4, behind)
        return i - 1 if self.kinds[i] == "text" and before in {"timestamp", "date"} else i

    def _opening(self, i: int) -> int:
        """Where the bracket that ends here begins."""
        opening, open_ones = BRACKETS[self.words[i]], 0
        for place in range(i, -1, -1):
            open_ones += (self.words[place] == self.words[i]) - (self.words[place] == opening)
            if not open_ones:
                return place
        raise ExpressionError(f"{self.words[i]!r} closes what nothing opens")

    def _closing(self, i: int) -> int:
        """Where the [ that begins here ends."""
        open_ones = 0
        for place in range(i, len(self.words)):
            open_ones += (self.words[place] == "[") - (self.words[place] == "]")
            if not open_ones:
                return place
        raise ExpressionError("'[' has no end: write l[1]")
