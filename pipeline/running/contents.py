"""Digests of what files hold, remembered by path, size and time of change, so that a file that has not changed is read once."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from pipeline.backend.threads import cores
from pipeline.files import absolute, stamp
from pipeline.pieces import open_pieces
from pipeline.results.at_url import Store

SEGMENT_BYTES = 64 << 20  # what one thread hashes at a time
SETTLED_NS = 2 * 10**9  # a file that changed within this time may change again without its time showing it


class Contents:
    """Digests of files, remembered in the file `name` of a results place."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name

    def digests(self, files: Sequence[str]) -> list[str]:
        """Digest of each file's content; those of files that have not changed since are remembered."""
        known, found = self._known(), list[str]()
        for file in files:
            path, now = absolute(file), stamp(file)
            mark = f"{now.size} {now.etag or now.changed}"
            of_file = known.get(path, {}).get(mark) or content_digest(file)
            known.pop(path, None)
            if now.changed < time.time_ns() - SETTLED_NS:
                known[path] = {mark: of_file}
            found.append(of_file)
        self.store.make(str(PurePosixPath(self.name).parent))
        self.store.write(self.name, json.dumps(known, indent=1).encode())
        return found

    def _known(self) -> dict[str, dict[str, str]]:
        """What is remembered; nothing where it is not there or damaged, which costs no more than another reading."""
        try:
            known = json.loads(self.store.read(self.name))
        except (FileNotFoundError, ValueError):
            return {}
        return known if isinstance(known, dict) and all(isinstance(entry, dict) for entry in known.values()) else {}


def content_digest(path: str) -> str:
    """Digest of a file's bytes: of the digests of its segments, which threads compute."""

    def segment(start: int) -> bytes:
        """The digest of one segment."""
        with open_pieces(path) as file:
            file.seek(start)
            return hashlib.blake2b(file.read(SEGMENT_BYTES), digest_size=32).digest()

    size = stamp(path).size
    with ThreadPoolExecutor(cores()) as pool:
        digests = list(pool.map(segment, range(0, size, SEGMENT_BYTES)))
    return hashlib.blake2b(b"".join(digests) + str(size).encode(), digest_size=16).hexdigest()
