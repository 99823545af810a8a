"""Whether a file may be a reference: FASTA on a disk, plain or packed."""

from __future__ import annotations

from typing import cast

from isal import igzip, igzip_lib

from pipeline.errors import InputError
from pipeline.files import is_folder, is_url, local_path
from pipeline.pieces import open_pieces, why_unreadable

_IsalError = cast("type[Exception]", igzip_lib.IsalError)
_HEAD_BYTES = 4096


def reference_path(given: str) -> str:
    """The path of a reference, without file://. InputError for a URL."""
    path = local_path(given)
    if is_url(path):
        text = f"{path}: a reference is read from a disk. Copy it to a folder that every worker sees, and give that path."
        raise InputError(text, key="reference")
    return path


def need_fasta(path: str) -> None:
    """Raise InputError for what is not there, is a folder, or does not begin as FASTA does."""
    if is_folder(path):
        raise InputError(f"{path}: is a folder. Give the FASTA file in it.", key="reference")
    try:
        head = _head(path)
    except (EOFError, _IsalError) as error:
        raise InputError(f"{path}: cannot be read ({error}); copy or download it again", key="reference") from error
    except OSError as error:
        raise InputError(f"{path}: {why_unreadable(path, error)}", key="reference") from error
    if not head.lstrip().startswith(b">"):
        what = "These are reads (FASTQ): the genome that they are aligned to is wanted." if head.startswith(b"@") else ""
        raise InputError(f"{path}: is no FASTA: it begins with {head[:20]!r}, and a sequence with >NAME. {what}".rstrip(), key="reference")


def _head(path: str) -> bytes:
    with open_pieces(path) as file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            return file.read(_HEAD_BYTES)
        with igzip.open(file, "rb") as text:
            return cast("bytes", text.read(_HEAD_BYTES))
