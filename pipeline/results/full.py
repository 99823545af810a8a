"""A disk that is full, told from other faults, and what is said of it: which, how much was free, and what helps."""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import PipelineError, RunError
from pipeline.files import is_url

NUMBERS = {errno.ENOSPC, errno.EDQUOT} if hasattr(errno, "EDQUOT") else {errno.ENOSPC}
SAID = re.compile(r"No space left on device|[Qq]uota exceeded|os error (28|122)\b|not enough space on the disk")
RESULTS = "Make room there, or choose another place with --out."
SPILLED = "Make room there, or let DASK_TEMPORARY_DIRECTORY name a larger disk for what workers spill."
TEMPORARY = "Make room there, or let TMPDIR name a larger disk for temporary files."


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it came of, is of a disk without room; libraries say it by number or in words."""
    while error is not None:
        if (isinstance(error, OSError) and error.errno in NUMBERS) or SAID.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def full_text(place: str, remedy: str) -> str:
    """What is said of the disk of a folder that is full."""
    return f"the disk of {place} is full{_room(place)}. {remedy}"


@contextmanager
def on_disk_of(place: str, remedy: str = RESULTS) -> Iterator[None]:
    """What is written inside is written to that folder, or to one in it; raises RunError where its disk is full."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        if is_full(error):
            raise RunError(full_text(place, remedy)) from error
        raise


def fault_text(error: Exception, scratch: str | None = None) -> str:
    """An error that is not our own, in words; `scratch` is the folder that its worker spills to."""
    if not is_full(error):
        return f"{type(error).__name__}: {error}"
    places = [(tempfile.gettempdir(), TEMPORARY), *([(scratch, SPILLED)] if scratch else [])]
    return full_text(*min(places, key=lambda place: shutil.disk_usage(place[0]).free))


def _room(place: str) -> str:
    if is_url(place):
        return ""
    folder = next((folder for folder in (Path(place), *Path(place).parents) if folder.exists()), Path("/"))
    usage = shutil.disk_usage(folder)
    return f" ({_size(usage.free)} of {_size(usage.total)} are free)"


def _size(number: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
