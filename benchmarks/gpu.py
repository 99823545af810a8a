"""What a GPU does with our work, in one command: python benchmarks/gpu.py [--part kernels|tables] [--only TEXT] [--stand-in] ...

`kernels` needs NumPy, SciPy and CuPy alone. Parity with the CPU comes first; then each kernel runs on simulated calls that lie on the
card, once to warm up and --runs times: medians, the memory's peak, the share of the best bandwidth and of the best products of matrices,
which are measured before. Where numba is installed the CPU's compiled kernels run beside them on all cores, on fewer variants where all
would take long. `tables` needs RAPIDS: stages, Parquet, training and whole jobs, beside the CPU.

Writes gpu-TIME.json into benchmarks/results (or --out) after every row, with the card and the versions. Ends with 1 where a row failed or
a kernel is not what it is on the CPU, with 2 where there is no GPU. `--stand-in` runs all of it without a GPU on tiny sizes, on
tests/standin, to find mistakes of typing before a GPU's first minute is spent on them: its times mean nothing, and its file says so.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gpu_beside import beside
from benchmarks.gpu_kernels import OF_PAIRS, OF_VARIANTS, Cohort, Work, many
from benchmarks.gpu_parity import TOLERANCE, answer, difference, oracle, works
from benchmarks.gpu_timing import RESULTS, Results, best, card, timed

LARGE = ("calls per variant", "calls per sample", "linear GWAS, 1 trait", "linear GWAS, 100 traits", "linear GWAS, 2,048 traits")
COHORTS: dict[tuple[int, int], tuple[str, ...]] = {
    (2_500, 200_000): (*OF_VARIANTS, *OF_PAIRS),
    (50_000, 200_000): (*LARGE, "pruning", "a pass of principal components", "relationship sums"),
}
"""Kernels by the people and variants that they are timed on."""
TINY: dict[tuple[int, int], tuple[str, ...]] = {(60, 40): (*OF_VARIANTS, *OF_PAIRS), (101, 30): LARGE}
FEW = 5_000
"""More people than that are not paired on the CPU: each core would hold a matrix of all pairs."""


def kernels(results: Results, options: argparse.Namespace) -> None:
    """Parity on a small cohort, what the card reaches, and every kernel at each size."""
    import cupy

    expected = oracle()
    for name, work in works(cupy.asarray):
        if chosen(name, options):
            results.measure(f"parity: {name}", partial(parity, name, work, expected[name]))
    reached = best(1 << (20 if options.stand_in else 32))
    results.document["best"] = {name: float(f"{value:.4g}") for name, value in reached.items()}
    for (samples, variants), names in (TINY if options.stand_in else COHORTS).items():
        cohort = Cohort(many(variants, samples, cupy), samples)
        for name in names:
            if chosen(name, options):
                results.measure(f"{name}, {samples:,} x {variants:,}", partial(kernel, name, cohort, reached, options.runs))


def parity(name: str, work: Work, expected: list[Any]) -> dict[str, Any]:
    """How far a kernel is from the CPU. Raises ArithmeticError where that is more than rounding."""
    apart = difference(answer(name, work), expected)
    if not apart <= TOLERANCE:
        raise ArithmeticError(f"{apart:.3g} of the largest number apart from the CPU, and at most {TOLERANCE} is rounding")
    return {"apart": apart}


def kernel(name: str, cohort: Cohort, reached: dict[str, float], runs: int) -> dict[str, Any]:
    """A kernel on the card, what it reached of the best, and the same on the CPU where that is compiled."""
    made = (OF_VARIANTS | OF_PAIRS)[name]
    work = made(cohort)
    found = timed(work.run, runs)
    taken = statistics.median(found["gpu_s"])
    found["bandwidth_share"] = round(work.moved / taken / reached["bytes"], 4)
    if work.flops:
        found["fp64_share"] = round(work.flops / taken / reached["float64"], 4)
    if find_spec("numba") and (name in OF_VARIANTS or cohort.samples <= FEW):
        found |= beside(made, cohort.samples, cohort.variants, cohort.designs)
        found["times"] = round(found["cpu_s"][0] / taken, 2)
    return found


def tables(results: Results, options: argparse.Namespace) -> None:
    """Stages, Parquet, training and jobs."""
    module = import_module("benchmarks.gpu_tables")  # it needs more than a bare machine has
    sizes = module.Sizes(runs=options.runs, loans=tuple(options.loans), rows=options.rows)
    if options.stand_in:
        sizes = module.Sizes(rows=2_000, rounds=3, loans=(500,), cpu_rows=2_000, cluster="local", runs=0)
    else:
        import_module("pipeline.backend.allocator").share_memory()
    for name, row in module.rows_of(sizes):
        if chosen(name, options):
            results.measure(name, row)


def chosen(name: str, options: argparse.Namespace) -> bool:
    """Whether a row is asked for."""
    return options.only.lower() in name.lower()


def arguments() -> argparse.Namespace:
    """What the command line says."""
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--part", choices=["all", *PARTS], default="all", help="one part alone")
    known.add_argument("--only", default="", metavar="TEXT", help="only rows that have this in their name")
    known.add_argument("--runs", type=int, default=5, help="runs that count")
    known.add_argument("--rows", type=int, default=10_000_000, help="rows of the tables of stages, Parquet and training")
    known.add_argument("--loans", type=int, nargs="*", default=[1_000_000, 10_000_000, 100_000_000], help="loans of the loans job")
    known.add_argument("--out", type=Path, default=RESULTS, help="the folder of the result file")
    known.add_argument("--stand-in", action="store_true", help="without a GPU, to find mistakes: the times mean nothing")
    return known.parse_args()


def no_gpu() -> str | None:
    """Why nothing can run here; None where a GPU answers."""
    if find_spec("cupy") is None:
        return "CuPy is not installed."
    import cupy

    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "CuPy sees no GPU."
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU: {error}."


def stand_in() -> AbstractContextManager[Any]:
    """A machine with a GPU that is none; with RAPIDS the tables run, too."""
    if find_spec("cudf_polars") is None:
        return cast("AbstractContextManager[Any]", import_module("tests.standin.modules").installed())
    return cast("AbstractContextManager[Any]", import_module("tests.standin.machine").gpu())


def main() -> int:
    """Run what is asked for and write the result file."""
    options = arguments()
    with stand_in() if options.stand_in else nullcontext():
        reason = None if options.stand_in else no_gpu()
        if reason:
            print(f"benchmarks/gpu.py times a GPU. {reason} Without one, --stand-in tries all of it on tiny sizes.", file=sys.stderr)
            return 2
        results = Results(options.out, {"stand_in": options.stand_in, "card": card()})
        print(f"on {results.document['card']['name']}{', whose times mean nothing' if options.stand_in else ''}", flush=True)
        for part, run in PARTS.items():
            if options.part not in ("all", part):
                continue
            if part == "tables" and find_spec("cudf_polars") is None:
                print("tables: RAPIDS is not installed, so they are left out.", flush=True)
                continue
            run(results, options)
        results.write()
    print(f"{results.path}{f': {len(results.failed)} rows failed: {results.failed}' if results.failed else ''}")
    return 1 if results.failed else 0


PARTS: dict[str, Callable[[Results, argparse.Namespace], None]] = {"kernels": kernels, "tables": tables}

if __name__ == "__main__":
    sys.exit(main())
