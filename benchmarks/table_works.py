"""The works of benchmarks/tables.py: how the data of each are made, how we are called, and how every peer is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from benchmarks.harness import python, timed
from benchmarks.shortened import job_of

PEERS = "benchmarks/peers"

Make = Callable[[Path, float], None]
Words = tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """One work: `size` is what its data are made of, `small` what is enough to see that all of it runs.

    {data} in a command is the folder of the data; `ours` are the words of our command behind `VARIABLE={data}`, a peer is a program of
    `peers/` and its words. `limits` says what multiple of a peer's time ours may take, `best` of the quicker one of Polars and DuckDB.
    `tables` are outputs of ours that peers give, too: floats are the same to `relative`, and predictions to `PREDICTED`.
    """

    size: float
    small: float
    data: str
    make: Make
    ours: Words
    peers: Mapping[str, Words]
    tables: Words
    limits: Mapping[str, float] = field(default_factory=dict)
    best: float | None = None
    memory: float | None = None  # what multiple of Polars' memory ours may take
    variable: str = "TABLES"
    relative: float = 1e-9

    def our_command(self, data: Path, out: Path) -> list[str]:
        """How we are called."""
        words = [word.replace("{data}", str(data)) for word in self.ours]
        always = ["--fresh", "--quiet", "--set=backend=cpu", "--out", str(out)]
        return ["env", f"{self.variable}={data}", *python("-m", "pipeline.run", *words, *always)]

    def peer_command(self, peer: str, data: Path, out: Path, interpreter: str) -> list[str]:
        """How a peer is."""
        program, *words = (word.replace("{data}", str(data)) for word in self.peers[peer])
        return [interpreter, f"{PEERS}/{program}", *words, "--out", str(out)]


def by_program(name: str, *more: str, count: str = "--scale") -> Make:
    """Data that data/make_NAME.py makes."""

    def make(folder: Path, size: float) -> None:
        """Have it made."""
        timed(python(f"data/make_{name}.py", count, f"{size:g}" if size < 1 else str(int(size)), "--out", str(folder), *more))

    return make


def make_loans(*more: str) -> Make:
    """Loans, and the chain of the shipped job that is written by hand, too: up to the model."""

    def make(folder: Path, size: float) -> None:
        """Have them made."""
        by_program("loans", *more)(folder, size)
        (folder / "loans.yaml").write_text(job_of("jobs/loans.yaml", ("features", "predictions")), encoding="utf-8")

    return make


def make_market(folder: Path, rows: float) -> None:
    """Prices of shares over up to 5,000 days of trade, and the shipped job up to its walk forward."""
    days = int(min(5_000, max(300, rows // 100)))
    timed(python("data/make_market.py", "--shares", str(int(rows) // days), "--days", str(days), "--out", str(folder)))
    (folder / "market.yaml").write_text(job_of("jobs/market.yaml", ("features", "walk")), encoding="utf-8")


def make_rows(folder: Path, rows: float) -> None:
    """A small file of CSV."""
    folder.mkdir(parents=True)
    numbers = pl.int_range(int(rows), eager=True)
    frame = pl.DataFrame({"id": numbers, "x": numbers * 0.5}).with_columns(k=pl.lit("k") + (pl.col("id") % 7).cast(pl.String))
    frame.write_csv(folder / "rows.csv")


def loans(size: int, limit: float, *, files: int = 8, memory: float | None = None) -> Work:
    """So many loans, in so many files of each table."""
    ours = ("{data}/loans.yaml", "--set=inputs.loans.path={data}/loans", "--set=inputs.performance.path={data}/performance")
    hand = ("loans_polars.py", "--loans", "{data}/loans/*.parquet", "--performance", "{data}/performance/*.parquet")
    spread = ("--files", str(files), "--spread") if files > 8 else ()
    peers, tables = {"polars": hand}, ("features", "predictions")
    return Work(size, 5_000, f"loans-{size}-{files}", make_loans(*spread), ours, peers, tables, {"polars": limit}, memory=memory)


def h2o(word: str, tables: Words) -> Work:
    """H2O.ai's questions or joins of ten million rows."""
    programs = ("h2o_polars.py", "sql_duckdb.py", "h2o_pandas.py", "h2o_dask.py", "h2o_pyspark.py")
    named = zip(("polars", "duckdb", "pandas", "dask", "pyspark"), programs, strict=True)
    peers = {peer: (program, word, "--data", "{data}") for peer, program in named}
    make, job = by_program("h2o", count="--rows"), (f"benchmarks/jobs/h2o_{word}.yaml",)
    return Work(10_000_000, 50_000, "h2o", make, job, peers, tables, {"dask": 0.7, "pyspark": 0.25}, best=1.3)


def tpch(scale: int, limits: Mapping[str, float], ours: Words = (), duckdb: Words = ()) -> Work:
    """The 22 queries, one after the other in one process."""
    queries = tuple(f"q{number:02}" for number in range(1, 23))
    peers = {"duckdb": ("sql_duckdb.py", "tpch", "--data", "{data}", *duckdb), "polars": ("tpch_polars.py", "--data", "{data}")}
    job = ("jobs/tpch.yaml", *ours)
    return Work(scale, 0.01, f"tpch-{scale}", by_program("tpch"), job, peers, queries, limits, variable="TPCH")


WORKS = {
    "one_filter": Work(
        1_000,
        1_000,
        "rows",
        make_rows,
        ("benchmarks/jobs/one_filter.yaml",),
        {"polars": ("h2o_polars.py", "filter", "--data", "{data}"), "pandas": ("h2o_pandas.py", "filter", "--data", "{data}")},
        ("kept",),
    ),
    "loans_100k": loans(100_000, 1.2),
    "loans_1m": loans(1_000_000, 0.9, memory=0.8),
    "loans_1m_monthly": loans(1_000_000, 1.0, files=24),
    "traffic_20m": Work(
        20_000_000,
        200_000,
        "traffic",
        by_program("traffic", count="--readings"),
        ("jobs/traffic.yaml", "--set=inputs.readings.path={data}/readings", "--set=inputs.holidays.path={data}/holidays.csv"),
        {"polars": ("traffic_polars.py", "--data", "{data}")},
        ("flows", "events", "sensors", "forecasts", "measures", "predictions"),
        {"polars": 1.0},
    ),
    "market_10m": Work(
        10_000_000,
        40_000,
        "market",
        make_market,
        ("{data}/market.yaml",),
        {"polars": ("market_polars.py", "--data", "{data}")},
        ("features", "walk"),
        {"polars": 1.0},
        variable="MARKET",
    ),
    "tpch_1": tpch(1, {"polars": 1.1, "duckdb": 1.3}),
    "tpch_10": tpch(10, {"duckdb": 1.5}, ("--set=cluster.memory_limit=8GB",), ("--memory", "8GB")),
    "h2o_groups": h2o("groups", tuple(f"g{number:02}" for number in range(1, 11))),
    "h2o_join": h2o("join", tuple(f"j{number:02}" for number in range(1, 6))),
}
