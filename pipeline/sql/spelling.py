"""What Polars' parser does not know, written so that it does: a coalesce whose first value is a name that nobody can type."""

from __future__ import annotations

from collections.abc import Collection, Sequence

MARK = "\x01"  # how such a name begins; texts that hold a control character are refused before


def respelled(pieces: Sequence[tuple[str, str]], own: Collection[str]) -> str:
    """The text of these pieces, by kind, with the functions in `own` as calls that Polars' parser takes."""
    texts = [piece for _, piece in pieces]
    there = [i for i, (kind, _) in enumerate(pieces) if kind != "space"]
    for place, i in enumerate(there[:-2]):
        name = texts[i].strip('"`').lower()
        if pieces[i][0] in {"word", "quoted"} and name in own and texts[there[place + 1]] == "(":
            texts[i] = "coalesce"
            texts[there[place + 1]] = f"('{MARK}{name}'" + ("" if texts[there[place + 2]] == ")" else ",")
    return "".join(texts)
