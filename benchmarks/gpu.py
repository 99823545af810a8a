"""The same work on a GPU and on this machine's cores: python benchmarks/gpu.py [--only WORK] [--runs N] [--samples N] [--variants N] ...

Works: the genomics and the loans job (whole processes in turn, start-up included), and the kernels on simulated calls (in this process,
arrays in place, each after one run that does not count). `ours` is the GPU, the peer is the CPU. Writes benchmarks/results/gpu-TIME.json
with the card's name and all versions, and for kernels that read every call once the share of the memory's bandwidth. Refuses where there is
no GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks.harness import compare, python, timed, write_result
from pipeline.backend.arrays import to_device, to_host
from pipeline.backend.devices import Backend, choose_backend, device_names
from pipeline.errors import PlaceError
from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import alt_frequency, call_counts, packed_width, sample_counts
from pipeline.kernels.hardy_weinberg import hwe_exact
from pipeline.kernels.linear_regression import associate
from pipeline.kernels.p_values import t_test_p_values
from pipeline.kernels.relationship import grm, grm_sums, principal_components, shared_variants

SEED = 20261121
WORKS = ("genomics", "loans", "kernels")
COVARIATES = 10
CPU: Backend = "cpu"
GPU: Backend = "gpu"
Kernel = Callable[[Backend], Any]


def job(name: str, arguments: list[str], runs: int, scratch: Path) -> dict[str, Any]:
    """A shipped job on the GPU beside the same on the CPU, whole processes in turn."""
    commands = [
        python("-m", "pipeline.run", f"jobs/{name}.yaml", "--quiet", "--backend", backend, "--out", str(scratch / backend), *arguments)
        for backend in (GPU, CPU)
    ]
    return compare(f"{name} job", commands[0], "the same job on the CPU", commands[1], runs)


def loans(rows: int, runs: int, scratch: Path) -> dict[str, Any]:
    """The loans job at a scale."""
    data = scratch / "loans"
    timed(python("data/make_loans.py", "--scale", str(rows), "--out", str(data)))
    arguments = [f"--set=inputs.{table}.path={data}/{table}" for table in ("loans", "performance")]
    return {**job("loans", arguments, runs, scratch), "work": f"loans job, {rows:,} loans"}


def simulated(samples: int, variants: int) -> np.ndarray[Any, Any]:
    """Packed calls of unrelated people, `uint8[variants, width]`, 0.4 % of them missing."""
    rng = np.random.default_rng(SEED)
    frequency = rng.uniform(0.05, 0.5, (variants, 1)).astype(np.float32)
    calls = np.zeros((variants, packed_width(samples)), np.uint8)
    for field in range(4):
        members = -(-(samples - field) // 4)
        drawn = rng.random((2, variants, members), np.float32) < frequency
        codes = drawn.sum(axis=0, dtype=np.uint8)
        codes[rng.random((variants, members), np.float32) < 0.004] = 3
        calls[:, :members] |= codes << np.uint8(2 * field)
    return calls


def kernels(samples: int, variants: int) -> dict[str, Kernel]:
    """Each main kernel as a function of where its arrays lie; they are put there before the clock starts."""
    host = simulated(samples, variants)
    rng = np.random.default_rng(SEED)
    design = Design.build(rng.normal(size=(samples, COVARIATES)), rng.normal(size=(samples, 1)))
    counts, t = call_counts(host, samples), rng.normal(size=(variants, 1)) * 5
    calls = {backend: to_device(host, backend) for backend in (CPU, GPU)}
    tallies = {backend: to_device(counts, backend) for backend in (CPU, GPU)}
    statistics_ = {backend: to_device(t, backend) for backend in (CPU, GPU)}
    frequencies = {backend: alt_frequency(tallies[backend]) for backend in (CPU, GPU)}
    sums = {backend: grm_sums(calls[backend], samples, frequencies[backend]) for backend in (CPU, GPU)}
    related = {backend: grm(sums[backend], shared_variants(sums[backend])) for backend in (CPU, GPU)}
    return {
        "call counts per variant": lambda at: call_counts(calls[at], samples),
        "call counts per sample": lambda at: sample_counts(calls[at], samples),
        "Hardy-Weinberg exact test": lambda at: hwe_exact(*tallies[at].T[:3]),
        "relationship matrix": lambda at: grm_sums(calls[at], samples, frequencies[at]),
        "10 principal components, exact": lambda at: principal_components(related[at], 10),
        "linear GWAS, 1 trait": lambda at: associate(GenotypeBlock(calls[at], None, samples), design),
        "p-values of t": lambda at: t_test_p_values(statistics_[at], np.float64(samples - COVARIATES - 2)),
    }


def seconds(kernel: Kernel, backend: Backend) -> float:
    """Seconds of one run, until its results are there."""
    started = time.perf_counter()
    kernel(backend)
    if backend == GPU:
        to_host(to_device(np.zeros(1), GPU))  # one stream: this comes after all that was asked before
    return time.perf_counter() - started


# Kernels that read every packed call once: for them the share of the memory's bandwidth says how far they are from the best.
READ_ONCE = ("call counts per variant", "call counts per sample", "linear GWAS, 1 trait")


def bandwidth() -> float:
    """Bytes a second that the GPU's memory gives, by copying half a GiB ten times within it (read and written: counted twice)."""
    source = to_device(np.zeros(1 << 29, np.uint8), GPU)
    source.copy()
    to_host(source[:1])
    started = time.perf_counter()
    for _ in range(10):
        copied = source.copy()
    to_host(copied[:1])
    return float(20 * source.nbytes) / (time.perf_counter() - started)


def kernel_row(name: str, kernel: Kernel, size: str, runs: int) -> dict[str, Any]:
    """One kernel on both, in turn, after a run of each that does not count."""
    for backend in (GPU, CPU):
        seconds(kernel, backend)
    pairs = [(seconds(kernel, GPU), seconds(kernel, CPU)) for _ in range(runs)]
    ours_s, peer_s = [round(ours, 5) for ours, _ in pairs], [round(theirs, 5) for _, theirs in pairs]
    ours, theirs = statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
    ratios = [round(b / a, 3) for a, b in pairs]
    print(f"{name}, {size}: GPU {ours:.4f} s; CPU {theirs:.4f} s; {theirs / ours:.1f} times", flush=True)
    row = {"work": f"{name}, {size}", "ours_s": ours_s, "peer": "the same kernel on NumPy", "peer_s": peer_s}
    return row | {"ratio": round(theirs / ours, 3), "ratio_spread": [min(ratios), max(ratios)]}


def options() -> argparse.Namespace:
    """What the command line says."""
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--only", choices=WORKS, help="one work alone")
    known.add_argument("--runs", type=int, default=5, help="counted runs of each side")
    known.add_argument("--loans", type=int, default=1_000_000, help="loans of the loans job")
    known.add_argument("--samples", type=int, default=2_500, help="people of the kernels")
    known.add_argument("--variants", type=int, default=200_000, help="variants of the kernels")
    known.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another cohort for the genomics job, say")
    return known.parse_args()


def main() -> int:
    """Run the works asked for and write one result file; 2, and a message, where there is no GPU."""
    chosen = options()
    try:
        choose_backend("gpu")
    except PlaceError as error:
        print(f"benchmarks/gpu.py compares a GPU with the CPU. {error}", file=sys.stderr)
        return 2
    print(f"on {', '.join(device_names())}", flush=True)
    works, rows = [chosen.only] if chosen.only else list(WORKS), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        if "genomics" in works:
            rows.append(job("genomics", [f"--set={pair}" for pair in chosen.set], chosen.runs, Path(folder)))
        if "loans" in works:
            rows.append(loans(chosen.loans, chosen.runs, Path(folder)))
    if "kernels" in works:
        size = f"{chosen.samples:,} people x {chosen.variants:,} variants"
        made = kernels(chosen.samples, chosen.variants)
        best, calls = bandwidth(), chosen.variants * packed_width(chosen.samples)
        for name, kernel in made.items():
            row = kernel_row(name, kernel, size, chosen.runs)
            reached = {"bandwidth_share": round(calls / statistics.median(row["ours_s"]) / best, 3)} if name in READ_ONCE else {}
            rows.append(row | reached)
    write_result("gpu", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
