"""Results and inputs that lie in one another: refused before a run would read what it writes."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Callable, Iterable
from pathlib import Path

from pipeline.errors import PlaceError

OWN_NAMES = ("runs", "current", "current.json", "checkpoints", "imports", "lock")


def refuse_output_inside_input(place: str, inputs: Iterable[str]) -> None:
    """Raise PlaceError where an input (file, folder, pattern or URL) is or holds the results folder, or reaches what is written in it.

    A pattern counts by what it could match: `data/*.csv` leaves `data/results` free, `data/*` and `data/**/*.csv` do not.
    """
    folder = _pieces(place)
    for path in inputs:
        wild = glob.has_magic(path) and not Path(path).exists()
        if _reaches(_pieces(path), folder, fnmatch.fnmatchcase if wild else str.__eq__):
            remedy = "Choose another place with --out, or an input path that does not reach it."
            raise PlaceError(f"{place}: this results folder and the input {path} overlap: results would be read as input. {remedy}")


def _pieces(path: str) -> list[str]:
    """The pieces of a URL, or of a local path made absolute with its links resolved (pieces with wildcards exist nowhere and stay)."""
    scheme, _, rest = path.partition("://")
    if rest and scheme not in ("file", "local"):
        return [scheme, *filter(None, rest.split("/"))]
    return list(Path(rest or path).resolve().parts)


def _reaches(pattern: list[str], folder: list[str], fits: Callable[[str, str], bool]) -> bool:
    """Whether the pattern could match the folder, one above it, or what a run writes in it."""
    for depth, piece in enumerate(pattern):
        names = folder[depth : depth + 1] or OWN_NAMES
        if piece != "**" and not any(fits(name, piece) for name in names):
            return False
        if piece == "**" or depth >= len(folder):
            return True
    return True
