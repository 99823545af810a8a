"""A text table larger than memory under a hard limit: one CSV, the same gzipped, JSON by lines; works of beyond_memory.py.

Sorted by a text key of which 0.3 of the rows have the same and 0.02 none; DuckDB's answer has the same rows in the same order.
"""

from __future__ import annotations

import gzip
import shutil
import statistics
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.harness import python, timed

ROWS, LIMIT_MB = 20_000_000, 1_000
FILES = {"one CSV": "rows.csv", "one CSV, gzipped": "rows.csv.gz", "one file of JSON by lines": "rows.jsonl"}
TYPES = {"s": "string", "u": "int64", "t": "float64", "d": "date", "n": "int64"}
SQL_TYPES = {"string": "varchar", "int64": "bigint", "float64": "double", "date": "date"}

Limited = Callable[[int], AbstractContextManager[list[str]]]


def measured_texts(name: str, data: Path, runs: int, limited: Limited) -> dict[str, Any]:
    """Ours and DuckDB's in turn, each in a group of its own. Raises ValueError where the answers differ."""
    file = _made(data / "texts") / FILES[name]
    seconds: dict[str, list[float]] = {"ours": [], "duckdb": []}
    memory: dict[str, list[float]] = {"ours": [], "duckdb": []}
    with tempfile.TemporaryDirectory(dir=data) as scratch:
        folder = Path(scratch)
        commands = {"ours": _ours(file, folder), "duckdb": _duckdbs(file, folder)}
        for _ in range(runs):
            for who, command in commands.items():
                (folder / "duckdb.parquet").unlink(missing_ok=True) if who == "duckdb" else None
                with limited(LIMIT_MB) as before:
                    took = timed([*before, *command])
                seconds[who].append(round(took.seconds, 2))
                memory[who].append(round(took.peak_mb))
        answer = _compared(folder)
    ratio = round(statistics.median(seconds["ours"]) / statistics.median(seconds["duckdb"]), 3)
    print(f"{name}: ours {seconds['ours']} s, {max(memory['ours'])} MB; DuckDB {seconds['duckdb']} s; ratio {ratio}; {answer}", flush=True)
    return {
        "work": f"sort of {name}", "limit_mb": LIMIT_MB, "rows": ROWS, "file_mb": round(file.stat().st_size / 1e6),
        "ours_s": seconds["ours"], "duckdb_s": seconds["duckdb"], "ratio": ratio,
        "ours_peak_mb": memory["ours"], "duckdb_peak_mb": memory["duckdb"], "answer": answer,
    }  # fmt: skip


def _made(folder: Path) -> Path:
    if (folder / FILES["one file of JSON by lines"]).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    random, keys = np.random.default_rng(20261130), pl.Series("s", random_keys(ROWS)).cast(pl.String).str.zfill(8)
    chance = random.random(ROWS)
    rows = pl.DataFrame(
        {
            "s": "key-" + keys + "-é",
            "u": random.integers(-(2**62), 2**62, ROWS),
            "t": np.round(random.normal(0, 1e3, ROWS), 3),
            "d": pl.Series(random.integers(0, 20_000, ROWS)).cast(pl.Int32).cast(pl.Date),
            "n": random.integers(0, 50, ROWS),
        }
    )
    hot, none = pl.Series(chance < 0.3), pl.Series(chance > 0.98)
    rows = rows.with_columns(s=pl.when(none).then(None).when(hot).then(pl.lit("the hot key of them all")).otherwise("s"))
    rows.write_csv(folder / FILES["one CSV"])
    with (folder / FILES["one CSV"]).open("rb") as plain, gzip.open(folder / FILES["one CSV, gzipped"], "wb", compresslevel=1) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    rows.write_ndjson(folder / FILES["one file of JSON by lines"])
    return folder


def random_keys(rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Keys of four rows each on average, in any order."""
    return np.random.default_rng(20261201).integers(0, rows // 4, rows)


def _ours(file: Path, folder: Path) -> list[str]:
    """Our command; the job is written to the folder."""
    kind, types = ("jsonl" if file.suffix == ".jsonl" else "csv"), ", ".join(f"{name}: {dtype}" for name, dtype in TYPES.items())
    (folder / "job.yaml").write_text(
        f"job: texts\nresults: {folder / 'ours'}\ninputs:\n  rows: {{format: {kind}, path: {file}, columns: {{{types}}}}}\n"
        "stages:\n  - {use: sort, from: rows, as: answer, by: [-s, u]}\noutputs:\n  answer: {from: answer}\n",
        encoding="utf-8",
    )
    return python("-m", "pipeline.run", str(folder / "job.yaml"), "--quiet", "--fresh")


def _duckdbs(file: Path, folder: Path) -> list[str]:
    """DuckDB's command, with its types stated as ours are."""
    types = ", ".join(f"'{name}': '{SQL_TYPES[dtype]}'" for name, dtype in TYPES.items())
    read = f"read_json('{file}', format = 'newline_delimited'," if file.suffix == ".jsonl" else f"read_csv('{file}', header = true,"
    query = f"from {read} columns = {{{types}}}) order by s desc nulls last, u"
    text = f"""
import duckdb
at = duckdb.connect()
at.execute("set memory_limit = '{LIMIT_MB * 3 // 4}MB'; set temp_directory = '{folder / "spilled"}'")
at.execute(\"\"\"copy ({query}) to '{folder / "duckdb.parquet"}' (compression zstd)\"\"\")
"""
    return python("-c", text)


def _compared(folder: Path) -> str:
    """That both answers have the same rows in the same order. Raises ValueError where not."""
    ours, at = pl.scan_parquet(sorted((folder / "ours" / "current" / "answer").glob("*.parquet"))), 0
    theirs = pl.scan_parquet(folder / "duckdb.parquet")
    found, wanted = (int(rows.select(pl.len()).collect().item()) for rows in (ours, theirs))
    while at < max(found, wanted):
        one, two = (rows.slice(at, ROWS // 10).collect().cast({"d": pl.Date}) for rows in (ours, theirs))
        if not one.equals(two):
            raise ValueError(f"the answers differ in rows {at:,} to {at + ROWS // 10:,}, of {found:,} and {wanted:,}")
        at += ROWS // 10
    return f"{found:,} rows alike, in one order"
