"""Tables larger than memory under a hard limit: python benchmarks/beyond_memory.py --data FOLDER [--workers N] [--only WORK ...].

Each work is a whole process in a group of processes that the system gives so much memory and no more (a cgroup, which needs root): ours
with record, report and manifest, DuckDB's as its users write it with its own memory_limit at three quarters of that; in turn. The answers
are compared, every row of them. Polars, in the same group, is run once: where the system ends it, that is what is recorded.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.beyond_loans import measured_loans
from benchmarks.beyond_texts import FILES as TEXTS
from benchmarks.beyond_texts import measured_texts
from benchmarks.harness import python, timed, write_result

GROUPS = Path("/sys/fs/cgroup")
FILES, ROW_GROUP = 8, 250_000
LOANS = {"loans": True, "loans of as many trees": False}


@dataclass(frozen=True)
class Work:
    """What is asked, in our stages and in SQL, of tables in millions of rows; `order` where rows have one."""

    limit_mb: int
    stages: str
    sql: str
    polars: str
    order: str = ""


WORKS = {
    "join of two tables": Work(
        2_000,
        "- {use: join, from: {left: left, right: right}, as: both, on: k, how: inner}\n"
        "  - {use: aggregate, from: both, as: answer, by: b, compute: {rows: size(), a: sum(a)}}",
        "select b, count(*) as rows, sum(a) as a from left_ join right_ using (k) group by b",
        "left.join(right, on='k').group_by('b').agg(rows=pl.len(), a=pl.col('a').sum())",
    ),
    "join with a hot key": Work(
        2_000,
        "- {use: join, from: {left: right, right: left}, as: both, on: {hot: k}, how: inner}\n"
        "  - {use: aggregate, from: both, as: answer, by: b, compute: {rows: size(), a: sum(a)}}",
        "select b, count(*) as rows, sum(a) as a from right_ join left_ on right_.hot = left_.k group by b",
        "right.join(left, left_on='hot', right_on='k').group_by('b').agg(rows=pl.len(), a=pl.col('a').sum())",
    ),
    "distinct keys": Work(
        2_000,
        "- {use: aggregate, from: right, as: answer, by: k, compute: {rows: size(), b: sum(b)}}",
        "select k, count(*) as rows, sum(b)::bigint as b from right_ group by k",
        "right.group_by('k').agg(rows=pl.len(), b=pl.col('b').sum())",
    ),
    "duplicates dropped": Work(
        2_000,
        "- {use: drop_duplicates, from: right, as: answer, columns: [hot], order_by: [k]}",
        "select k, b, hot from (select *, row_number() over (partition by hot order by k) as n from right_) where n = 1",
        "right.sort('k').unique('hot', keep='first')",
    ),
    "windows": Work(
        2_000,
        "- {use: window, from: right, as: answer, by: [b], order: [k], compute: {number: row_number(), total: cum_sum(hot)}}",
        "select *, row_number() over w as number, (sum(hot) over w)::bigint as total from right_ window w as (partition by b order by k)",
        "right.sort('k').with_columns(number=pl.int_range(1, pl.len() + 1).over('b'), total=pl.col('hot').cum_sum().over('b'))",
    ),
    "windows with a hot key": Work(
        2_000,
        "- {use: window, from: right, as: answer, by: [hot], order: [k], compute: {number: row_number(), total: cum_sum(b)}}",
        "select *, row_number() over w as number, (sum(b) over w)::bigint as total from right_ window w as (partition by hot order by k)",
        "right.sort('k').with_columns(number=pl.int_range(1, pl.len() + 1).over('hot'), total=pl.col('b').cum_sum().over('hot'))",
    ),
    "rolling windows with a hot key": Work(
        2_000,
        "- {use: window, from: right, as: answer, by: [hot], order: [k], compute: {last: 'rolling_sum(b, 100)', before: lag(b)}}",
        "select *, (sum(b) over (w rows 99 preceding))::bigint as last, lag(b) over (w) as before "
        "from right_ window w as (partition by hot order by k)",
        "right.sort('k').with_columns(last=pl.col('b').rolling_sum(100).over('hot'), before=pl.col('b').shift().over('hot'))",
    ),
    "shares with a hot key": Work(
        2_000,
        "- {use: window, from: right, as: answer, by: [hot], compute: {share: share(b), rows: size()}}",
        "select *, case when sum(b) over w <> 0 then b / sum(b) over w end as share, count(*) over w as rows "
        "from right_ window w as (partition by hot)",
        "right.with_columns(share=pl.col('b') / pl.col('b').sum().over('hot'), rows=pl.len().over('hot'))",
    ),
    "a median and distinct values of all rows": Work(
        2_000,
        "- {use: aggregate, from: right, as: answer, by: [], compute: {middle: median(k), kinds: n_unique(hot)}}",
        "select median(k) as middle, count(distinct hot) as kinds from right_",
        "right.select(middle=pl.col('k').median(), kinds=pl.col('hot').n_unique())",
    ),
    "sort": Work(
        2_000,
        "- {use: sort, from: wide, as: answer, by: [k]}",
        "select * from wide_ order by k",
        "wide.sort('k')",
        order="k",
    ),
}


def make(folder: Path, millions: float) -> None:
    """`left` (k, a) and `right` (k, b, hot) of so many rows, k in any order, 0.3 of `hot` 0; `wide` (k, a, c) of two thirds more."""
    random, rows = np.random.default_rng(20261123), int(millions * 1e6)
    keys = random.permutation(rows)
    _write(folder / "left", rows, lambda at: {"k": keys[at], "a": np.round(random.normal(size=at.stop - at.start), 3)})
    keys = random.permutation(rows)

    def right(at: slice) -> dict[str, Any]:
        """Some rows of it."""
        size = at.stop - at.start
        hot = np.where(random.random(size) < 0.3, 0, keys[at])
        return {"k": keys[at], "b": random.integers(0, 1000, size).astype(np.int32), "hot": hot}

    _write(folder / "right", rows, right)

    def wide(at: slice) -> dict[str, Any]:
        """Some rows of it."""
        size = at.stop - at.start
        return {
            "k": random.integers(0, 1 << 60, size),
            "a": random.normal(size=size),
            "c": random.integers(0, 100, size).astype(np.int32),
        }

    _write(folder / "wide", rows * 5 // 3, wide)


def _write(folder: Path, rows: int, columns: Any) -> None:
    folder.mkdir(parents=True)
    for number in range(FILES):
        at = slice(rows * number // FILES, rows * (number + 1) // FILES)
        pl.DataFrame(columns(at)).write_parquet(folder / f"part-{number:03d}.parquet", row_group_size=ROW_GROUP)


@contextmanager
def limited(megabytes: int) -> Iterator[list[str]]:
    """What stands before a command, so that it and what it starts have so much memory and no more. Raises OSError where that cannot be."""
    old = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if old else GROUPS) / f"beyond-{secrets.token_hex(4)}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(f"{megabytes}000000")
        yield ["sh", "-c", f'echo $$ > {group / "cgroup.procs"} && exec "$@"', "sh"]
    finally:
        group.rmdir()


def our_job(work: Work, data: Path, folder: Path, workers: int = 1) -> list[str]:
    """The command of the job, which is written to the folder: in one process, or on so many workers that share the memory."""
    inputs = "".join(f"  {name}: {{format: parquet, path: {data / name}}}\n" for name in ("left", "right", "wide") if name in work.stages)
    text = f"job: beyond\nresults: {folder / 'ours'}\ninputs:\n{inputs}stages:\n  {work.stages}\noutputs:\n  answer: {{from: answer}}\n"
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    several = ("--set", f"cluster={{kind: local, workers: {workers}}}") if workers > 1 else ()
    return python("-m", "pipeline.run", str(folder / "job.yaml"), "--quiet", "--fresh", *several)


def tables(data: Path, text: str) -> str:
    """The tables' names in SQL as their files."""
    for name in ("left", "right", "wide"):
        text = text.replace(f" {name}_ ", f" '{data / name}/*.parquet' {name}_ ")
        text = text.replace(f" {name}_)", f" '{data / name}/*.parquet' {name}_)")
    return text


def duckdbs(work: Work, data: Path, folder: Path) -> list[str]:
    """DuckDB's command."""
    query = tables(data, f"{work.sql} ".replace("\n", " "))
    kept = "" if work.order else "set preserve_insertion_order = false;"
    text = f"""
import duckdb
at = duckdb.connect()
at.execute("set memory_limit = '{work.limit_mb * 3 // 4}MB'; set temp_directory = '{folder / "spilled"}'; {kept}")
at.execute(\"\"\"copy ({query}) to '{folder / "duckdb.parquet"}' (compression zstd)\"\"\")
"""
    return python("-c", text)


def polars_own(work: Work, data: Path, folder: Path) -> list[str]:
    """Polars' command."""
    scans = "; ".join(f"{name} = pl.scan_parquet('{data / name}/*.parquet')" for name in ("left", "right", "wide"))
    return python("-c", f"import polars as pl; {scans}; {work.polars}.sink_parquet('{folder / 'polars.parquet'}')")


def compared(work: Work, folder: Path) -> str:
    """That both answers have the same rows, and are in order where they have one. Raises ValueError where not."""
    ours = sorted((folder / "ours" / "current" / "answer").glob("*.parquet"))
    found, wanted = _digest(ours), _digest([folder / "duckdb.parquet"])
    if found != wanted:
        raise ValueError(f"the answers differ: {found} and {wanted}")
    before = None
    for path in ours if work.order else ():
        column = pl.read_parquet(path, columns=[work.order])[work.order]
        if not column.is_sorted() or (before is not None and len(column) and column[0] < before):
            raise ValueError(f"{path} is not in order")
        before = column[-1] if len(column) else before
    return f"{found[0]:,} rows alike"


def _digest(files: Sequence[Path]) -> tuple[int, ...]:
    """How many rows, and sums of a hash of each row, whatever their order; the last digits of floats do not count."""
    rows = pl.scan_parquet(list(files))
    names = sorted(rows.collect_schema().items())
    values = [(pl.col(name).round(6) if dtype.is_float() else pl.col(name).cast(pl.Int64)).alias(name) for name, dtype in names]
    of_row = pl.struct(values).hash(1)
    sums = [pl.len().alias("rows"), (of_row // (1 << 32)).sum().alias("high"), (of_row % (1 << 32)).sum().alias("low")]
    return tuple(map(int, rows.select(sums).collect(engine="streaming").row(0)))


def measured(name: str, work: Work, data: Path, runs: int, workers: int) -> dict[str, Any]:
    """Ours and DuckDB's in turn, each in a group of its own; then Polars' once."""
    seconds: dict[str, list[float]] = {"ours": [], "duckdb": []}
    memory: dict[str, list[float]] = {"ours": [], "duckdb": []}
    with tempfile.TemporaryDirectory(dir=data) as scratch:
        folder = Path(scratch)
        commands = {"ours": our_job(work, data, folder, workers), "duckdb": duckdbs(work, data, folder)}
        for _ in range(runs):
            for who, command in commands.items():
                (folder / "duckdb.parquet").unlink(missing_ok=True) if who == "duckdb" else None
                with limited(work.limit_mb) as before:
                    took = timed([*before, *command])
                seconds[who].append(round(took.seconds, 2))
                memory[who].append(round(took.peak_mb))
        answer = compared(work, folder)
        try:
            with limited(work.limit_mb) as before:
                polars: Any = round(timed([*before, *polars_own(work, data, folder)]).seconds, 2)
        except RuntimeError as error:
            polars = str(error).partition(":\n")[0].rpartition(" ended ")[1:][-1]
    ratio = round(statistics.median(seconds["ours"]) / statistics.median(seconds["duckdb"]), 3)
    print(f"{name}: ours {seconds['ours']} s, {max(memory['ours'])} MB; DuckDB {seconds['duckdb']} s; ratio {ratio}; {answer}", flush=True)
    each = [round(a / b, 3) for a, b in zip(seconds["ours"], seconds["duckdb"], strict=True)]
    return {
        "work": name, "limit_mb": work.limit_mb, "workers": workers,
        "ours_s": seconds["ours"], "duckdb_s": seconds["duckdb"], "ratio": ratio,
        "ratio_spread": [min(each), max(each)], "ours_peak_mb": memory["ours"], "duckdb_peak_mb": memory["duckdb"],
        "polars": polars, "answer": answer,
    }  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Run the works asked for and write a result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder for the tables, made where they are not there")
    parser.add_argument("--rows", type=float, default=60, help="millions of rows")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="processes of ours that share the memory; texts and loans have one")
    parser.add_argument("--only", nargs="*", default=[*WORKS, *TEXTS, *LOANS], choices=[*WORKS, *TEXTS, *LOANS])
    options = parser.parse_args(words)
    data = options.data.resolve() / f"{options.rows:g}m"
    if not data.is_dir() and {*options.only} & {*WORKS}:
        make(data, options.rows)
    rows = [measured(name, WORKS[name], data, options.runs, options.workers) for name in options.only if name in WORKS]
    rows += [measured_texts(name, data.parent, options.runs, limited) for name in options.only if name in TEXTS]
    of_loans = [name for name in options.only if name in LOANS]
    rows += [measured_loans(data.parent, options.runs, limited, as_it_is=LOANS[name]) for name in of_loans]
    write_result("beyond_memory", rows, {"millions": options.rows, "duckdb": duckdb.__version__, "load": os.getloadavg()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
