"""Whether the files of inputs are still those that the plan saw: what is read, counted and published is of one state of them."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.errors import DataError
from pipeline.files import Stamp, stamp
from pipeline.format import InputFormat

Stamps = Mapping[str, Stamp]
"""What every file of an input is known by, companions too."""


def stamps_of(reader: InputFormat) -> Stamps:
    """The files that an input's rows come from, as they are now."""
    return {file: stamp(file) for file in reader.content()}


def need_unchanged(stamps: Stamps, where: str = "") -> None:
    """Raise DataError, with the file's name and where the job names it, where one is no longer what it was."""
    for file, before in stamps.items():
        if change := _change(file, before):
            error = DataError(f"{file}: {change} since the job was planned. Run again when nothing writes there.")
            error.where = where
            raise error


def _change(file: str, before: Stamp) -> str:
    try:
        now = stamp(file)
    except FileNotFoundError:
        return "was removed"
    if now.size != before.size:
        return f"has changed ({before.size:,} bytes then, {now.size:,} now)"
    return "was written anew" if now != before else ""
