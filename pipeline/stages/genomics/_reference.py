"""The reference that a stage's parameter names: its sequences, and which file of this machine holds them. Not a stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import cast

from isal import igzip, igzip_lib
from pydantic import Field

from pipeline.errors import DataError, InputError, near
from pipeline.files import Stamp, stamp
from pipeline.genome.fasta import need_fasta, reference_path
from pipeline.pieces import open_pieces

_IsalError = cast("type[Exception]", igzip_lib.IsalError)
_LOCK = Lock()


def reference_field() -> str:
    """The parameter of a stage that reads a reference."""
    text = "The reference genome, a FASTA file (plain, gzip or bgzip) at a path that every worker sees."
    found: str = Field(min_length=1, description=text)
    return found


@dataclass(frozen=True)
class Reference:
    """A FASTA file by its path, and what it was known by when the plan looked."""

    path: str
    known: Stamp

    @staticmethod
    def at(given: str) -> Reference:
        """The file at a path. Raises InputError for a URL, for a folder, where there is none, and for what is no FASTA."""
        path = reference_path(given)
        need_fasta(path)
        return Reference(path, stamp(path))

    def sequences(self) -> Mapping[str, bytes]:
        """Bases of each sequence in capitals, by name, in the file's order; held by the process. InputError for what is no FASTA."""
        with _LOCK:
            return _sequences(self.path, self.known)

    def need(self, names: Iterable[str]) -> None:
        """Raise DataError for the first name that is of no sequence."""
        known = self.sequences()
        for name in names:
            if name not in known:
                what = f"alignments lie on {name!r}, and {self.path} has no such sequence.{near(name, known)}"
                raise DataError(f"{what} Give the reference that was aligned to.")

    def lengths(self) -> dict[str, int]:
        """Bases of each sequence, in the file's order."""
        return {name: len(bases) for name, bases in self.sequences().items()}


@lru_cache(maxsize=2)
def _sequences(path: str, _known: Stamp) -> Mapping[str, bytes]:
    try:
        with open_pieces(path) as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            text: bytes = igzip.open(file, "rb").read() if packed else file.read()
    except (OSError, EOFError, _IsalError) as error:
        raise InputError(f"{path}: cannot be read ({error}); copy or download it again") from error
    before, *records = text.replace(b"\r", b"").split(b">")
    if before.strip() or not records:
        raise InputError(f"{path}: is no FASTA: it begins with {text[:20]!r}, and a sequence with >NAME")
    found = dict[str, bytes]()
    for record in records:
        title, _, lines = record.partition(b"\n")
        name = (title.split() or [b""])[0].decode(errors="replace")
        if not name or name in found:
            raise InputError(f"{path}: {f'the sequence {name!r} comes twice' if name else 'a sequence has no name'}. Name each once.")
        found[name] = lines.replace(b"\n", b"").upper()
    return found
