"""A finished run as Python reads it: its tables, metrics, record and report."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.errors import RunError, near
from pipeline.files import is_url, within
from pipeline.results.manifest import RunView
from pipeline.results.store import open_store

Scan = Callable[[Any, str], pl.LazyFrame | None]
"""The rows of an output's file: of its path or bytes, and its name after the output's; None for a file that is no table."""


@dataclass(frozen=True)
class Run:
    """A finished run: its tables, metrics, record and report. `scan_of` gives the way to read an output, as the record describes it."""

    path: str
    view: RunView
    scan_of: Callable[[Mapping[str, Any]], Scan] = field(repr=False, compare=False)

    def table(self, output: str) -> Result:
        """An output of the run. Raises RunError, with a near name, where there is none."""
        paths = [path for path in self.view.paths(output) if Path(path).suffix]
        if not paths or output.startswith("models"):
            raise RunError(f"{self.path}: there is no output {output!r}.{near(output, self.outputs)}")
        described = self.record.get("outputs", {}).get(output) or _by_suffix(output, Path(paths[0]).suffix)
        rows = {f"{self.path}/{entry.path}": entry.rows for entry in self.view.files}
        known = [rows.get(path) for path in paths]
        whole = sum(count or 0 for count in known) if any(count is not None for count in known) else None
        return Result(output, tuple(paths), self.scan_of(described), whole)

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
    def report(self) -> Path | str:
        """The report page: its path, or its address where the run lies at a URL."""
        return f"{self.path}/report.html" if is_url(self.path) else Path(self.path) / "report.html"

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
    """One output table, read when it is asked for, as it was written."""

    name: str
    paths: tuple[str, ...]
    scan: Scan = field(repr=False, compare=False)
    rows: int | None = None

    def to_lazy(self) -> pl.LazyFrame:
        """As a lazy Polars query over the output's files. Raises RunError where their format is none that is read back."""
        found = [rows for path in self.paths if (rows := _rows(self.scan, self.name, path)) is not None]
        if not found:
            listed = ", ".join(self.paths[:3])
            raise RunError(f"output {self.name!r} is written as {Path(self.paths[0]).suffix}; read its files: {listed}")
        return pl.concat(found) if len(found) > 1 else found[0]

    def to_polars(self) -> pl.DataFrame:
        """As a Polars frame. Raises RunError where the files hold other rows than the manifest says."""
        found = self.to_lazy().collect()
        if self.rows not in (None, found.height):
            what = f"output {self.name!r}: its files hold {found.height:,} rows, and the manifest says {self.rows:,}"
            raise RunError(f"{what}. They are damaged: run the job again (--verify says which).")
        return found

    def to_pandas(self) -> Any:
        """As a pandas frame (pandas comes with the notebook extra)."""
        return self.to_polars().to_pandas()

    def to_arrow(self) -> Any:
        """As an Arrow table."""
        return self.to_polars().to_arrow()

    def to_dask(self) -> Any:
        """As a Dask DataFrame, one partition a file."""
        import dask.dataframe as dd

        in_folders = any("=" in within(path, self.name) for path in self.paths)
        if Path(self.paths[0]).suffix == ".parquet" and not in_folders:
            return dd.read_parquet(list(self.paths), blocksize=None, split_row_groups=False)
        return dd.from_map(partial(_pandas, self.scan, self.name), list(self.paths))


def _by_suffix(output: str, suffix: str) -> Mapping[str, Any]:
    """How the files of an earlier release are read, whose record does not say it. Raises RunError for those that are no tables."""
    if suffix not in {".csv", ".parquet"}:
        raise RunError(f"output {output!r} is written as {suffix}; read its files")
    return {"format": suffix[1:], "settings": {}, "columns": {}}


def _rows(scan: Scan, name: str, path: str) -> pl.LazyFrame | None:
    return scan(_bytes_of(path) if "://" in path else path, within(path, name).removeprefix(name))


def _pandas(scan: Scan, name: str, path: str) -> Any:
    rows = _rows(scan, name, path)
    assert rows is not None, f"{path} is no table"
    return rows.collect().to_pandas()


def _bytes_of(url: str) -> bytes:
    folder, _, name = url.rpartition("/")
    return open_store(folder).read(name)
