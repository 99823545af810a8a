"""What moving parts between two hosts costs, by transport, compression and size: python benchmarks/communication.py [--ucx PYTHON].

The hosts are network namespaces of this machine (it needs root and iproute2), joined by a cable as fast as memory or, by tc, of one
gigabit a second. Rows of the loans job's performance table are exchanged by a hash of the loan, which sends half of them to the other
host; `--ucx` names a Python that has distributed-ucxx (that of the contract, say). The hosts share two cores, so what a transport computes
(encryption, compression) is taken from the work itself: on machines of their own it would partly be hidden. The same rows, and genotypes,
go to a disk and back as Dask spills them, by compression; the disk is the system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, write_result
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import ClusterSession
from pipeline.tables.table import Table
from pipeline.tables.wire import register_with_dask
from tests.clusters.hosts import Host, cluster_over, two_hosts

DATA = ROOT / "data" / "loans" / "performance"
COMPRESSIONS, SIZES_MB, TIMES = ("none", "lz4", "zstd"), (4, 16, 64), 3
UCX = {"UCX_TLS": "tcp", "UCX_WARN_UNUSED_ENV_VARS": "n", "DASK_DISTRIBUTED_UCXX__PROGRESS_MODE": "blocking"}


@dataclass(frozen=True)
class Work:
    """One way of moving parts."""

    protocol: str = "tcp"
    compression: str = "none"
    part_mb: int = 16
    gigabit: bool = False
    connections: int = 50  # at once from a worker; with one, nothing is sent while something else is
    total_mb: int = 192

    def environment(self) -> dict[str, str]:
        """Dask's settings for it."""
        compression = "null" if self.compression == "none" else self.compression
        return {
            "PYTHONPATH": str(ROOT),
            "POLARS_MAX_THREADS": "1",
            "DASK_DISTRIBUTED__COMM__COMPRESSION": compression,
            "DASK_DISTRIBUTED__WORKER__CONNECTIONS__OUTGOING": str(self.connections),
            "DASK_DISTRIBUTED__WORKER__CONNECTIONS__INCOMING": str(self.connections),
            **(UCX if self.protocol == "ucxx" else {}),
        }


def works(ucx: bool) -> list[Work]:
    """What is measured: transports, compression, sizes of parts, and sending one thing at a time, on both cables."""
    found = list[Work]()
    for gigabit in (False, True):
        found += [Work(protocol, gigabit=gigabit) for protocol in ("tcp", "tls", *(["ucxx"] if ucx else []))]
        found += [Work(compression=name, gigabit=gigabit) for name in COMPRESSIONS[1:]]
        found += [Work(part_mb=size, gigabit=gigabit) for size in SIZES_MB if size != Work.part_mb]
        found += [Work(connections=1, gigabit=gigabit)]
    return found


def made(number: int, size_mb: int) -> Part:
    """A part of the performance table, of loans that no other part has."""
    frame = pl.concat([pl.read_parquet(file) for file in sorted(DATA.glob("*.parquet"))])
    size = int(frame.estimated_size())
    times = -(-size_mb * 1_000_000 // size)
    many = pl.concat([frame.with_columns(pl.col("loan_id") + (number * 1_000 + i) * 10_000_000) for i in range(times)])
    return Part(many.head(size_mb * 1_000_000 * frame.height // size))


def computed(part: Part) -> int:
    """Work on a part that takes about as long as sending it."""
    return part.frame.group_by("loan_id").agg(pl.all().mean()).height


def measured(work: Work, address: str, tls: Mapping[str, str]) -> dict[str, Any]:
    """On the first host: seconds of an exchange, of computing on its parts, and of both together."""
    from distributed import Client
    from distributed.security import Security

    files = {"tls_ca_file": tls["ca"], "tls_client_cert": tls["certificate"], "tls_client_key": tls["key"]} if tls else {}
    with Client(address, security=Security(**files, require_encryption=bool(tls))) as client:
        client.wait_for_workers(2)
        client.run(register_with_dask)
        register_with_dask()
        workers = sorted(client.scheduler_info()["workers"])
        count = max(2, work.total_mb // work.part_mb)
        parts = [client.submit(made, i, work.part_mb, pure=False, workers=[workers[i % 2]]) for i in range(count)]
        schema = Schema(parts[0].result().frame.schema)
        session = ClusterSession(client, "cpu", 2, 1)
        table = Table.of(session, "given", parts, schema=schema)
        apart, alone, both = list[float](), list[float](), list[float]()
        for _ in range(TIMES + 1):
            started = time.perf_counter()
            there = table.shuffled(["loan_id"], count).futures()
            done(client, there)
            moved = time.perf_counter()
            client.gather(client.map(computed, there, pure=False))
            ended = time.perf_counter()
            del there
            apart.append(moved - started)
            alone.append(ended - moved)
            started = time.perf_counter()
            client.gather(client.map(computed, table.shuffled(["loan_id"], count).futures(), pure=False))
            both.append(time.perf_counter() - started)
    exchange, compute, together = (round(statistics.median(some[1:]), 3) for some in (apart, alone, both))
    return {"exchange_s": exchange, "compute_s": compute, "both_s": together, "overlapped": round(1 - together / (exchange + compute), 3)}


def done(client: Any, futures: list[Any]) -> None:
    """Wait, and raise what failed."""
    from distributed import wait

    wait(futures)
    client.gather(client.map(lambda part: part.frame.height, futures, pure=False))


def spilled(kind: str, compression: str, total_mb: int) -> dict[str, Any]:
    """Seconds of spilling parts and of having them back, and their megabytes in memory and on the disk."""
    from dask import config
    from distributed.spill import SpillBuffer

    count = max(2, total_mb // Work.part_mb)
    setting = None if compression == "none" else compression
    there, back = list[float](), list[float]()
    for _ in range(TIMES):
        with tempfile.TemporaryDirectory() as place, config.set({"distributed.worker.memory.spill-compression": setting}):
            buffer = SpillBuffer(place, target=100 * total_mb * 1_000_000)
            for i in range(count):
                buffer[f"part-{i}"] = made(i, Work.part_mb) if kind == "rows" else genotypes(i, Work.part_mb)
            size = sum(part.nbytes for part in buffer.fast.values())
            started = time.perf_counter()
            while buffer.fast:
                buffer.evict()
            ended, disk = time.perf_counter(), buffer.spilled_total.disk
            for i in range(count):
                buffer[f"part-{i}"]
            there.append(ended - started)
            back.append(time.perf_counter() - ended)
    out_s, in_s = (round(statistics.median(some), 3) for some in (there, back))
    return {"spilled": kind, "compression": compression, "out_s": out_s, "in_s": in_s, "mb": size // 10**6, "disk_mb": disk // 10**6}


def genotypes(number: int, size_mb: int) -> Part:
    """Calls of 2,000 people, two bits each, of variants whose rarer allele is rare more often than not."""
    rng, people = np.random.default_rng(number), 2_000
    variants = size_mb * 1_000_000 * 4 // people
    calls = rng.binomial(2, rng.beta(0.3, 2.0, variants)[:, None], (variants, people)).astype(np.uint8)
    packed = calls[:, 0::4] | calls[:, 1::4] << 2 | calls[:, 2::4] << 4 | calls[:, 3::4] << 6
    return Part(pl.DataFrame({"base_pair_location": np.arange(variants)}), {"calls": packed})


def certificates(place: Path) -> dict[str, str]:
    """A certificate for all, which is its own authority."""
    from distributed.security import Security

    told = Security.temporary()
    for name, text in (("ca", told.tls_ca_file), ("certificate", told.tls_client_cert), ("key", told.tls_client_key)):
        (place / f"{name}.pem").write_text(text, encoding="ascii")
        (place / f"{name}.pem").chmod(0o600)
    return {name: str(place / f"{name}.pem") for name in ("ca", "certificate", "key")}


def over_hosts(work: Work, hosts: tuple[Host, Host], python: str) -> dict[str, Any]:
    """What a process on the first host measures."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tls = certificates(place) if work.protocol == "tls" else {}
        options = ["--tls-ca-file", tls["ca"], "--tls-cert", tls["certificate"], "--tls-key", tls["key"]] if tls else []
        environment = work.environment()
        with cluster_over(hosts, work.protocol, place, *options, environment=environment, python=python) as (address, _):
            words = (
                python,
                str(Path(__file__).resolve()),
                "--measure",
                json.dumps(asdict(work)),
                "--address",
                address,
                "--tls",
                json.dumps(tls),
            )
            told = subprocess.run(
                hosts[0].command(*words), env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True, check=False
            )
    if told.returncode:
        raise RuntimeError(f"{work}: {told.stderr[-2_000:]}")
    return dict(json.loads(told.stdout.splitlines()[-1]))


def shaped(hosts: tuple[Host, Host], gigabit: bool) -> None:
    """Have what goes from host to host go at one gigabit a second, or as fast as it can."""
    for host in hosts:
        if gigabit:
            rate = ("root", "tbf", "rate", "1gbit", "burst", "256kb", "latency", "50ms")
            subprocess.run(host.command("tc", "qdisc", "replace", "dev", host.device, *rate), check=True)


def between_hosts(ucx: str | None, total_mb: int) -> list[dict[str, Any]]:
    """What is measured between two hosts; `ucx` is a Python that has distributed-ucxx."""
    rows = list[dict[str, Any]]()
    with two_hosts() as hosts:
        for work in works(ucx is not None):
            work = replace(work, total_mb=total_mb)
            shaped(hosts, work.gigabit)
            found = over_hosts(work, hosts, ucx if ucx and work.protocol == "ucxx" else sys.executable)
            rows.append({**asdict(work), **found})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure all of it and write benchmarks/results/communication-TIME.json."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--ucx", metavar="PYTHON", help="a Python that has distributed-ucxx")
    options.add_argument("--total-mb", type=int, default=Work.total_mb)
    options.add_argument("--spilled", action="store_true", help="what spilling costs, and nothing of hosts")
    options.add_argument("--measure", help=argparse.SUPPRESS)
    options.add_argument("--address", help=argparse.SUPPRESS)
    options.add_argument("--tls", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(measured(Work(**json.loads(chosen.measure)), chosen.address, json.loads(chosen.tls))))
        return
    register_with_dask()
    rows = [spilled(kind, compression, chosen.total_mb) for kind in ("rows", "calls") for compression in COMPRESSIONS]
    print(*rows, sep="\n", flush=True)
    if not chosen.spilled:
        rows += between_hosts(chosen.ucx, chosen.total_mb)
    left = ["what goes between hosts"] if chosen.spilled else [] if chosen.ucx else ["ucxx: --ucx was not given"]
    write_result("communication", rows, {"load": round(os.getloadavg()[0], 1), "not measured": left})


if __name__ == "__main__":
    main()
