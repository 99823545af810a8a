"""Who may read what a run writes: the user alone, unless the environment says otherwise."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import PlaceError

VARIABLE, PRIVATE = "PIPELINE_UMASK", "077"


def file_mask() -> int:
    """The rights that files and folders are made without, by PIPELINE_UMASK; raises PlaceError where it is no such number."""
    text = os.environ.get(VARIABLE) or PRIVATE
    if re.fullmatch("0?[0-7]{3}", text) is None:
        raise PlaceError(
            f"{VARIABLE} is {text!r}; three octal digits are needed: 077 (the user alone), 027 (the group reads) or 022 (all read)."
        )
    return int(text, 8)


@contextmanager
def private() -> Iterator[None]:
    """What this process, and those that it starts, write in the block is made so."""
    before = os.umask(file_mask())
    try:
        yield
    finally:
        os.umask(before)
