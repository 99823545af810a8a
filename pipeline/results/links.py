"""Links in a results folder that lead out of it: refused before anything is written or removed through one."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import PlaceError
from pipeline.files import is_url, local_path

OWN = ("lock", "runs", "imports", "remembered", "checkpoints", "current.json", "champion.json")
POINTERS = ("current", "champion")  # which are links, to a run of the same folder


def refuse_links(folder: Path, place: str) -> None:
    """Raise PlaceError where a name that a run writes in its results folder is a link, or a pointer leads elsewhere than to a run there.

    The folder itself may be one: that is its owner's choice.
    """
    for name in (*OWN, *POINTERS):
        path = folder / name
        if not path.is_symlink():
            continue
        if name in POINTERS and (folder / path.readlink()).parent.resolve() == (folder / "runs").resolve():
            continue
        text = f"{place}: {name} is a link to {path.readlink()}, and what is written here must stay here"
        raise PlaceError(f"{text}. Remove the link, or choose another place with --out.")


def refuse_root(place: str) -> None:
    """Raise PlaceError where results would go to the root of a file system, beside everything else."""
    if not is_url(place) and (folder := Path(local_path(place)).resolve()) == folder.parent:
        raise PlaceError(f"{place}: results need a folder of their own, and this is the root of the file system. Give one with --out.")
