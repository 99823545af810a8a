"""Whether the files of inputs are still those that the plan saw: what is read, counted and published is of one state of them."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.errors import DataError, StageError
from pipeline.files import Stamp, local_path, stamp
from pipeline.format import InputFormat
from pipeline.pieces import why_unreadable
from pipeline.stage import Stage

Stamps = Mapping[str, Stamp]
"""What every file of an input is known by, companions too."""


def stamps_of(reader: InputFormat) -> Stamps:
    """The files that an input's rows come from, as they are now."""
    return {file: stamp(file) for file in reader.content()}


def stamps_of_stage(stage: Stage) -> Stamps:
    """The files that a stage reads itself. Raises StageError, with the parameter that names it, for one that is not there."""
    found = dict[str, Stamp]()
    for file in stage.files():
        try:
            found[file] = stamp(file)
        except OSError as error:
            key = next((name for name, value in stage if isinstance(value, str) and local_path(value) == file), "")
            raise StageError(f"{file}: {why_unreadable(file, error)}", key=key) from error
    return found


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
