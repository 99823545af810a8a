"""The files of a run on the disk to stay, with their checksums: those that are whole already while a report is still made of them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from pipeline.results.at_url import Store
from pipeline.results.manifest import Entry

HASH_THREADS = 4


class Sealing:
    """Syncs and hashes files of a run's folder."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder, self._begun = store, folder, dict[Entry, Future[Entry]]()
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, entries: Iterable[Entry]) -> None:
        """Have files synced and hashed that are written and do not change any more, beside what else is done."""
        self._pool = self._pool or ThreadPoolExecutor(HASH_THREADS, "sealing")
        for entry in entries:
            if entry not in self._begun:
                self._begun[entry] = self._pool.submit(self._seal, entry)

    def of(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """The entries with their sizes and checksums, by name. Raises OSError where a file is gone, or has not the size that it should."""
        wanted = sorted(entries, key=lambda entry: entry.path)
        self.begin(wanted)
        begun = [self._begun.pop(entry) for entry in wanted]  # whoever asks again has them hashed again
        return tuple(one.result() for one in begun)

    def close(self) -> None:
        """Wait for what has begun, and begin nothing more."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _seal(self, entry: Entry) -> Entry:
        size, sha256 = self._store.seal(f"{self._folder}/{entry.path}", entry.sha256)
        if entry.bytes not in (-1, size):
            raise OSError(f"{entry.path} has {size} bytes where {entry.bytes} were written")
        return replace(entry, bytes=size, sha256=sha256)
