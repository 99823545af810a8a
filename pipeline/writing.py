"""The task that writes one part of an output."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.errors import RunError
from pipeline.format import OutputFormat
from pipeline.part import Part, Schema
from pipeline.session import describe


@dataclass(frozen=True)
class WriteTask:
    """Writes one part under a name that is this attempt's own: Dask may run a task twice, and the manifest decides what counts."""

    writer: OutputFormat
    path: str
    expected: Schema | None
    arrays: tuple[str, ...]

    def __call__(self, part: Part, *axes: Part) -> dict[str, Any]:
        """Path, rows and bytes of the file written. Raises RunError where the part is not what the plan said it would be."""
        if self.expected is not None and part.frame.schema != self.expected.columns:
            raise RunError(f"{self.path}: the plan said {self.expected}, and the run gave {Schema(part.frame.schema)}. Please report this.")
        path = f"{self.path.removesuffix(self.writer.suffix)}{secrets.token_hex(2)}{self.writer.suffix}"
        labels = {name: axis.frame for name, axis in zip(self.arrays, axes, strict=True)}
        if "://" not in path:
            self.writer.write(part, labels, path)
        else:
            self._upload(part, labels, path)
        return {"path": path, **describe(part)}

    def _upload(self, part: Part, labels: Mapping[str, pl.DataFrame], path: str) -> None:
        import fsspec

        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / "part"
            self.writer.write(part, labels, str(local))
            with fsspec.open(path, "wb") as target:
                target.write(local.read_bytes())
