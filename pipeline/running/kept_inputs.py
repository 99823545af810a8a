"""Imports: an input's table kept as Parquet, made once and found again by the content of the input's files.

    PLACE/imports/KEY/part-00000-*.parquet    one import (results/keyed.py)
    PLACE/imports/known.json                  digests of files (running/contents.py)

KEY is a digest of the files' bytes and of how they are read, so a file that is copied, moved or touched has the import it had, and one that
changed gets another. Any job with the same results folder finds it. Nothing removes an import but its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import DataError, PlaceError
from pipeline.files import stamp
from pipeline.format import InputFormat
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.job.spec import Job
from pipeline.plan.fingerprints import digest, fields_of
from pipeline.results.keyed import Keyed, Made
from pipeline.results.names import attempt_name
from pipeline.results.store import open_store
from pipeline.running.contents import Contents
from pipeline.running.writing import WriteTask, Written
from pipeline.tables.part import Part, Schema, added_counts
from pipeline.tables.session import Session
from pipeline.tables.steps import Source, Step, evaluate

VERSION = 1
"""Of what an import holds; a new one makes all imports anew."""

FOLDER = "imports"

Write = Callable[[str], Sequence[Written]]
"""Writes an input's parts into a folder, and gives what `WriteTask` says of each."""


@dataclass(frozen=True)
class Kept:
    """An import: its files, its rows, and what was counted while it was made."""

    files: tuple[str, ...]
    rows: int
    counts: Mapping[str, int]

    def reader(self, parts: int | None) -> ParquetInput:
        """What reads it."""
        return ParquetInput(path=self.files, parts=parts, partitions={})


def check_imports(job: Job) -> None:
    """Raise PlaceError where an input is to be kept, and results do not go where that can be."""
    kept = [entry.name for entry in job.inputs.values() if entry.reader.keeps_table()]
    if kept and not open_store(job.results).keeps:
        what = f"input {kept[0]!r} says import: true, and imports are kept in a folder or a bucket of S3"
        raise PlaceError(f"{job.results}: {what}; give one with --out")


class Imports:
    """The imports of one results folder."""

    def __init__(self, place: str) -> None:
        store = open_store(place)
        self.folders, self.contents = Keyed(store, FOLDER, VERSION), Contents(store, f"{FOLDER}/known.json")

    def of(self, reader: InputFormat, write: Write) -> Kept:
        """The import of what `reader` reads: the one that is there, else a new one that `write` fills.

        Raises DataError where the files changed meanwhile, RunError where the import cannot be put in its place.
        """
        files = reader.content()
        before = [stamp(file) for file in files]

        def make(folder: str) -> Made:
            """Write the parts of files that stay as they are meanwhile."""
            written = write(folder)
            if [stamp(file) for file in files] != before:
                raise DataError(f"{', '.join(files[:3])}: changed while it was imported. Run again when its writing is done.")
            return _made(written, files)

        found = self.folders.get(self._key(reader, files), make)
        return Kept(found.files, int(found.note["rows"]), found.note["counts"])

    def _key(self, reader: InputFormat, files: Sequence[str]) -> str:
        """Digest of the files' content and of how they are read."""
        return digest([VERSION, reader.name, fields_of(reader, reader.asides), self.contents.digests(files)])


def _made(written: Sequence[Written], files: Sequence[str]) -> Made:
    """What the parts' tasks wrote: their files, and the rows and counts of all."""
    counts = added_counts([{name.partition(":")[2]: count for name, count in part.measured.counts.items()} for part in written])
    note = {"of": list(files), "rows": sum(part.measured.rows for part in written), "counts": counts}
    return Made([Path(path).name for part in written for path, _ in part.files], note)


def submit_import(session: Session, name: str, reader: InputFormat, schema: Schema, folder: str) -> list[Any]:
    """Submit one task a part that reads it and writes it into the folder; futures of what `WriteTask` gives, in order."""
    axes = reader.axes()
    labels, writer = [Part(frame) for frame in axes.values()], ParquetOutput(calls=True)
    futures = []
    for number, source in enumerate(reader.sources(session.workers * session.readers)):
        path = f"{folder}/{attempt_name(f'part-{number:05d}', writer.suffix)}"
        task = WriteTask(writer, path, schema, tuple(axes))
        futures.append(session.submit(convert, name, source, task, labels, stage=name, on_host=True))
    return futures


def convert(name: str, source: Source, task: WriteTask, labels: Sequence[Part]) -> Written:
    """Read one part and write it: one task, so that no more parts are held than tasks run."""
    return task(evaluate(Step("read", name, source=source), "cpu"), labels)
