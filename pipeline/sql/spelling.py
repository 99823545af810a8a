"""What Polars' parser does not know, written so that it does: a coalesce whose first value is a name that nobody can type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MARK = "\x01"  # how such a name begins; texts that hold a control character are refused before


def respelled(pieces: Sequence[tuple[str, str]], functions: Mapping[str, str]) -> str:
    """The text of these pieces, by kind, as Polars' parser takes it: each of the functions by its other name, those without one marked."""
    texts = [piece for _, piece in pieces]
    there = [i for i, (kind, _) in enumerate(pieces) if kind != "space"]
    for i, after, then in zip(there, there[1:], there[2:], strict=False):
        name = texts[i].strip('"`').lower()
        if pieces[i][0] in {"word", "quoted"} and name in functions and texts[after] == "(":
            texts[i] = functions[name] or "coalesce"
            if not functions[name]:
                texts[after] = f"('{MARK}{name}'" + ("" if texts[then] == ")" else ",")
    return "".join(texts)
