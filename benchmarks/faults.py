"""Disturbs runs at random and looks what came of them: python benchmarks/faults.py --faults 200 --seed 20261122.

Each fault is one of a kind (a driver or worker killed or frozen, a host cut off, a disk that is full or slow), in one job and one place
(one process, two workers, a scheduler that stands, two hosts), at a random moment. Someone reads the results all the while. Where the
command did not end well it is run again. The result file has every fault; the program ends with 1 where something was wrong: a torn
result, other bytes, a traceback, no clear line, processes left behind, or more than LIMIT_S seconds.

The hosts are network namespaces (root and iproute2), the full disk a tmpfs (root), and the slow disk strace, which delays each call that
waits for the disk; a kind that cannot be had is left out, and said.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, python, write_result
from tests.faults.driving import LIMIT_S, Case
from tests.faults.faults import KINDS, Ended, Fault, drawn, missing, suffered, tally
from tests.small import replace_in

EVERY, PEOPLE = 12, 400  # of the genomics cohort: one variant in so many, and the first people
JOBS = ("genomics", "loans", "traffic")


def small_job(name: str, folder: Path) -> Path:
    """A shipped job on fewer data, written to a folder: its file."""
    job = folder / f"{name}.yaml"
    job.write_bytes((ROOT / "jobs" / f"{name}.yaml").read_bytes())
    if name == "genomics":
        data = ROOT / "data" / "genomics"
        with gzip.open(data / "cohort.vcf.gz", "rt") as whole, (folder / "cohort.vcf").open("w") as part:
            number = 0
            for line in whole:
                number += not line.startswith("#")
                if line.startswith("##"):
                    part.write(line)
                elif line.startswith("#") or number % EVERY == 0:
                    part.write("\t".join(line.rstrip("\n").split("\t")[: 9 + PEOPLE]) + "\n")
        replace_in(job, "data/genomics/cohort.vcf.gz", str(folder / "cohort.vcf"))
        replace_in(job, "path: data/genomics/samples.csv", f"path: {data / 'samples.csv'}")
        replace_in(job, "rounds: 400", "rounds: 60")
    elif name == "traffic":
        subprocess.run(python("data/make_traffic.py", "--readings", "64000", "--files", "2", "--out", str(folder)), cwd=ROOT, check=True)
        replace_in(job, "data/traffic/readings", str(folder / "readings"))
        replace_in(job, "data/traffic/holidays.csv", str(folder / "holidays.csv"))
    else:
        for table in ("loans", "performance"):
            replace_in(job, f"path: data/loans/{table}}}", f"path: {ROOT / 'data' / 'loans' / table}}}")
    return job


def main() -> int:
    """Make the faults and write the result file."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--faults", type=int, default=200)
    options.add_argument("--first", type=int, default=0, help="the number of the first")
    options.add_argument("--seed", type=int, default=20261122)
    options.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    options.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    options.add_argument("--stop", type=Path, help="end early once this file is there")
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    left_out = {kind: why for kind in chosen.kinds if (why := missing(kind))}
    for kind, why in left_out.items():
        print(f"left out: {kind}: {why}", flush=True)
    kinds = [kind for kind in chosen.kinds if kind not in left_out]
    with tempfile.TemporaryDirectory() as scratch:
        cases = {name: undisturbed(name, Path(scratch) / name) for name in chosen.jobs}
        done = list[Ended]()
        for number in range(chosen.first, chosen.first + chosen.faults):
            if chosen.stop is not None and chosen.stop.exists():
                break
            fault = drawn(number, chosen.seed, chosen.jobs, kinds)
            with tempfile.TemporaryDirectory(dir=scratch) as own:
                done.append(made(fault, cases[fault.job], Path(own)))
            said(done[-1])
        about = {"seed": chosen.seed, "asked": chosen.faults, "left_out": left_out, "limit_s": LIMIT_S}
        write_result("faults", [ended.document() for ended in done], {**about, **summary(done), "undisturbed_s": seconds(cases)})
    return int(any(ended.wrong for ended in done))


def undisturbed(name: str, folder: Path) -> Case:
    """A job and what it gives when nothing disturbs it."""
    folder.mkdir()
    case = Case.of(small_job(name, folder), folder)
    print(f"{name}: {case.seconds:.1f} s undisturbed in one process", flush=True)
    return case


def made(fault: Fault, case: Case, place: Path) -> Ended:
    """What came of a fault; one that could not be made (a cluster that did not start) is told, and is nobody's fault."""
    try:
        return suffered(fault, case, place)
    except (OSError, AssertionError, RuntimeError, subprocess.SubprocessError) as error:
        return Ended(fault, "could not be made", said=[repr(error)[:500]], struck=False)


def seconds(cases: dict[str, Case]) -> dict[str, float]:
    """How long each job takes when nothing disturbs it."""
    return {name: round(case.seconds, 1) for name, case in cases.items()}


def summary(done: list[Ended]) -> dict[str, Any]:
    """What came of all faults."""
    taken = sorted(ended.seconds for ended in done)
    return {
        "faults": len(done),
        "wrong": sum(bool(ended.wrong) for ended in done),
        "outcomes": dict(Counter(ended.outcome for ended in done)),
        "by_kind": tally(done),
        "looks_of_the_reader": sum(ended.looks for ended in done),
        "longest_s": taken[-1] if taken else None,
        "median_s": statistics.median(taken) if taken else None,
    }


def said(ended: Ended) -> None:
    """A line for each fault."""
    fault = ended.fault
    about = f"{fault.number}: {fault.kind}, {fault.job} in {fault.place}: {ended.outcome}, {ended.seconds} s"
    print(about + ("" if ended.struck else ", came too late") + (f"; {ended.said[0]}" if ended.said else ""), flush=True)
    for wrong in ended.wrong:
        print(f"   WRONG: {wrong}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
