"""A finished run as Python reads it: its tables, metrics, record and report."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.errors import RunError, near
from pipeline.results.manifest import RunView
from pipeline.results.store import open_store


@dataclass(frozen=True)
class Run:
    """A finished run: its tables, metrics, record and report."""

    path: str
    view: RunView

    def table(self, output: str) -> Result:
        """An output of the run. Raises RunError, with a near name, where there is none."""
        paths = [path for path in self.view.paths(output) if Path(path).suffix]
        if not paths or output.startswith("models"):
            raise RunError(f"{self.path}: there is no output {output!r}.{near(output, self.outputs)}")
        return Result(output, tuple(paths))

    @property
    def outputs(self) -> list[str]:
        """Names of the output tables."""
        return sorted({entry.path.split("/")[0] for entry in self.view.files if entry.rows is not None})

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Metrics per model stage and split."""
        return self._json("metrics.json")

    @cached_property
    def record(self) -> dict[str, Any]:
        """run.json."""
        return self._json("run.json")

    @property
    def report(self) -> Path:
        """The report page."""
        return Path(self.path) / "report.html"

    def _json(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(open_store(self.path).read(name))
        return document

    def _repr_html_(self) -> str:
        rows = {name: sum(entry.rows or 0 for entry in self.view.files if entry.path.startswith(f"{name}/")) for name in self.outputs}
        cells = "".join(f"<tr><td>{html.escape(name)}</td><td>{count:,}</td></tr>" for name, count in rows.items())
        about = f"run {html.escape(self.view.id)}, {self.record['seconds']} s"
        return f"<p>{about}</p><table><tr><th>output</th><th>rows</th></tr>{cells}</table>"


@dataclass(frozen=True)
class Result:
    """One output table, read when it is asked for."""

    name: str
    paths: tuple[str, ...]

    def to_lazy(self) -> pl.LazyFrame:
        """As a lazy Polars query over the output's files."""
        files: list[Any] = [_bytes_of(path) if "://" in path else path for path in self.paths]
        return pl.scan_csv(files) if self._is_text() else pl.scan_parquet(files)

    def to_polars(self) -> pl.DataFrame:
        """As a Polars frame."""
        return self.to_lazy().collect()

    def to_pandas(self) -> Any:
        """As a pandas frame (pandas comes with the notebook extra)."""
        return self.to_polars().to_pandas()

    def to_arrow(self) -> Any:
        """As an Arrow table."""
        return self.to_polars().to_arrow()

    def to_dask(self) -> Any:
        """As a Dask DataFrame, one partition a file."""
        import dask.dataframe as dd

        if self._is_text():
            return dd.read_csv(list(self.paths), blocksize=None)
        return dd.read_parquet(list(self.paths), blocksize=None, split_row_groups=False)

    def _is_text(self) -> bool:
        """Whether the files are CSV, and not Parquet. Raises RunError for another format."""
        suffix = Path(self.paths[0]).suffix
        if suffix not in {".csv", ".parquet"}:
            raise RunError(f"output {self.name!r} is written as {suffix}; read its files: {', '.join(self.paths[:3])}")
        return suffix == ".csv"


def _bytes_of(url: str) -> bytes:
    folder, _, name = url.rpartition("/")
    return open_store(folder).read(name)
