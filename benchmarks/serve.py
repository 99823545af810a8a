"""How fast a served model answers: python benchmarks/serve.py [--seconds N].

The model of jobs/loans.yaml, served by a process of its own; clients are threads of this one, over kept-alive connections: both share the
machine. Every answer is compared with what training published.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, python, timed, write_result

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
KEY = "loan_id"


@dataclass(frozen=True)
class Load:
    """So many clients, each of which asks for so many rows at a time, one request after another."""

    name: str
    clients: int
    rows: int
    content_type: str


LOADS = (
    Load("one client, a row of JSON", 1, 1, JSON),
    Load("one client, a row of Arrow", 1, 1, ARROW),
    Load("16 clients, a row of JSON each", 16, 1, JSON),
    Load("16 clients, 20 rows of JSON each", 16, 20, JSON),
    Load("4 clients, 1,000 rows of JSON each", 4, 1_000, JSON),
    Load("4 clients, 1,000 rows of Arrow each", 4, 1_000, ARROW),
)


@contextmanager
def served(results: Path) -> Iterator[int]:
    """The port of a server of the model."""
    command = python("-m", "pipeline.serve", str(results), "--port", "0")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield int(process.stdout.readline().split()[0].rpartition(":")[2])
        finally:
            process.terminate()
            process.wait(60)


def requests_of(rows: pl.DataFrame, expected: pl.DataFrame, load: Load, most: int = 200) -> list[tuple[bytes, pl.DataFrame]]:
    """Bodies that clients send in turn, with what must come back."""
    found = []
    for start in range(0, min(rows.height - load.rows + 1, most * load.rows), load.rows):
        piece = rows[start : start + load.rows]
        if load.content_type == ARROW:
            piece.write_ipc_stream(written := io.BytesIO())
            body = written.getvalue()
        else:
            body = json.dumps(piece.to_dicts(), default=str).encode()
        found.append((body, expected[start : start + load.rows]))
    return found


def read_answer(load: Load, content: bytes) -> pl.DataFrame:
    """The rows of an answer."""
    if load.content_type == ARROW:
        return pl.read_ipc_stream(content)
    return pl.DataFrame(json.loads(content), schema_overrides={"prediction": pl.Float32})


def measured(port: int, load: Load, bodies: list[tuple[bytes, pl.DataFrame]], seconds: float) -> dict[str, Any]:
    """Latencies and throughput of one load, after a second that does not count. Raises RuntimeError for a wrong answer."""
    latencies: list[float] = []
    wrong: list[str] = []
    begin, end = time.perf_counter() + 1, time.perf_counter() + 1 + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        at = number
        while (started := time.perf_counter()) < end and not wrong:
            body, expected = bodies[at % len(bodies)]
            connection.request("POST", "/predict", body, {"content-type": load.content_type})
            answer = connection.getresponse()
            content = answer.read()
            took = time.perf_counter() - started
            if answer.status != 200 or not read_answer(load, content).equals(expected):
                wrong.append(f"{answer.status}: {content[:300]!r}")
            if started >= begin:
                latencies.append(took)
            at += load.clients
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(load.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise RuntimeError(f"{load.name}: {wrong[0]}")
    p50, p99 = (1000 * float(value) for value in np.quantile(latencies, [0.5, 0.99]))
    rate = len(latencies) / seconds
    row = {"work": load.name, "requests": len(latencies), "p50_ms": round(p50, 2), "p99_ms": round(p99, 2)}
    row |= {"requests_a_second": round(rate, 1), "rows_a_second": round(rate * load.rows)}
    print(f"{load.name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {rate:,.0f} requests/s, {rate * load.rows:,.0f} rows/s", flush=True)
    return row


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10, help="of each load")
    seconds = options.parse_args().seconds
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch) / "results"
        timed(python("-m", "pipeline.run", "jobs/loans.yaml", "--out", str(results), "--set", "outputs.asked={from: divided}", "--quiet"))
        published = results / "current"
        rows = pl.read_parquet(published / "asked" / "*.parquet").sort(KEY)
        expected = pl.read_parquet(published / "predictions" / "*.parquet").sort(KEY).select(KEY, "prediction")
        rows = rows.drop("split", "label", "origination_date", "originated", "rows_second", "days_late_second")
        with served(results) as port:
            found = [measured(port, load, requests_of(rows, expected, load), seconds) for load in LOADS if load.rows <= rows.height]
    write_result("serve", found, {"seconds": seconds, "load_average_before": os.getloadavg()[0], "model": "jobs/loans.yaml, as shipped"})


if __name__ == "__main__":
    main()
