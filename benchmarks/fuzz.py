"""Fuzzing: files of every format, job files and expressions, spoiled by chance, are refused in words or give a right answer.

    python benchmarks/fuzz.py --cases 500              # of each kind
    python benchmarks/fuzz.py --seconds 60 --kinds orc,parquet --seed 7

Cases run in processes of their own, with bounded memory and time: what kills one is found as well. Prints the seed, and each fault with
its case: `--kinds KIND --seed SEED --first CASE --cases 1` runs it again. Ends with 1 where there are faults.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.fuzz_files import CHECKED, FRAME, KINDS, expression, from_schema, spoiled
from benchmarks.harness import ROOT, write_result
from pipeline.job.load import load_text
from pipeline.sql.expression import value_of
from pipeline.testing.formats import read_table

MEMORY_BYTES = 6 << 30  # of addresses; libraries map two of them before they do anything
CASE_S = 20
OTHERS = ("jobs", "schema", "expressions")


class Hang(BaseException):
    """A case took longer than it may."""


class Case:
    """One case: what came of it, whatever was raised, within its time."""

    def __init__(self, place: str = "") -> None:
        self.place, self.outcome = place, ""

    def __enter__(self) -> Self:
        signal.alarm(CASE_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        from polars.exceptions import PolarsError

        from pipeline.errors import PipelineError

        signal.alarm(0)
        if isinstance(error, PipelineError):
            self.outcome = "refused" if str(error) and self.place in str(error) else f"fault: no place: {error}"
        elif isinstance(error, PolarsError) and not self.place:
            self.outcome = "failed in the query"  # which a task says by its stage
        elif error is not None:
            self.outcome = _fault(error)
        return not isinstance(error, KeyboardInterrupt)


def reader_cases(kind: str, seed: int, first: int, count: int) -> Iterator[str]:
    """Read spoiled files of a kind; what came of each: refused, the same rows, others, or a fault."""
    kind_of, make = KINDS[kind]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = make(folder)
        whole = {file: (folder / file).read_bytes() for file in names}
        given: dict[str, Any] = {"path": str(folder / names[0])}
        wanted = read_table(kind_of.model_validate(given))
        for number in range(first, first + count):
            chance = random.Random(f"{seed}:{kind}:{number}")
            target = chance.choice(names)
            for file, content in whole.items():
                (folder / file).write_bytes(spoiled(content, chance) if file == target else content)
            with Case(str(folder)) as case:
                found = read_table(kind_of.model_validate({**given, **({"parts": 3} if chance.random() < 0.3 else {})}))
                arrays = {key: array.tobytes() for key, array in wanted.arrays.items()}
                same = found.frame.equals(wanted.frame) and arrays == {key: array.tobytes() for key, array in found.arrays.items()}
                unsaid = kind in CHECKED and not same
                case.outcome = "fault: other rows, though there are checksums" if unsaid else "the same rows" if same else "other rows"
            yield case.outcome


def job_cases(kind: str, seed: int, first: int, count: int) -> Iterator[str]:
    """Load job files: mangled bytes of the repository's own, and values of the schema."""
    texts = [path.read_bytes() for path in sorted((ROOT / "jobs").glob("*.yaml"))]
    schema = json.loads((ROOT / "jobs" / "schema.json").read_text())
    for number in range(first, first + count):
        chance = random.Random(f"{seed}:{kind}:{number}")
        if kind == "jobs":
            text = spoiled(chance.choice(texts), chance).decode(errors=chance.choice(("replace", "surrogateescape")))
        else:
            text = json.dumps(from_schema(schema, schema, chance))
        with Case() as case:
            load_text(text)
            case.outcome = "taken"
        yield case.outcome


def expression_cases(kind: str, seed: int, first: int, count: int) -> Iterator[str]:
    """Check expressions, and compute those that are taken."""
    for number in range(first, first + count):
        text = expression(random.Random(f"{seed}:{kind}:{number}"))
        with Case() as case:
            FRAME.lazy().select(value_of(text, FRAME.schema).expr).collect()
            case.outcome = "taken"
        yield case.outcome + (f" {text[:200]!r}" if case.outcome.startswith("fault") else "")


def _fault(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/pipeline/" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"fault: {type(error).__name__}: {' '.join(str(error).split())[:200]} ({place})"


def child(kind: str, seed: int, first: int, count: int) -> None:
    """Run cases of a kind, or of several, and print what came of each, a line a case."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _hang)
    for one in kind.split(","):
        cases = job_cases if one in {"jobs", "schema"} else expression_cases if one == "expressions" else reader_cases
        for outcome in cases(one, seed, first, count):
            print(f"case {json.dumps(outcome)}", flush=True)


def _hang(_number: int, _frame: object) -> None:
    raise Hang(f"longer than {CASE_S} s")


def fuzz(kind: str, seed: int, first: int, cases: int, until: float) -> tuple[Counter[str], list[str]]:
    """What came of the cases of a kind, and its faults; a process that dies costs its case, and another goes on."""
    outcomes, faults, case = Counter[str](), list[str](), first
    while case < first + cases and time.monotonic() < until:
        command = [
            sys.executable,
            __file__,
            "--child",
            kind,
            "--seed",
            str(seed),
            "--first",
            str(case),
            "--cases",
            str(first + cases - case),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ""
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("case "):
                continue
            outcome = json.loads(line.removeprefix("case "))
            outcomes[outcome.split(":")[0]] += 1
            if outcome.startswith("fault"):
                faults.append(f"{kind} --first {case}: {outcome}")
            case += 1
            if time.monotonic() > until:
                process.kill()
                break
        _, said = process.communicate()
        if process.returncode and time.monotonic() < until:
            last = said.strip().splitlines()[-1:] or [""]
            faults.append(f"{kind} --first {case}: fault: the process died ({process.returncode}) {last[0][:200]}")
            outcomes["fault"] += 1
            case += 1
    return outcomes, faults


def main() -> int:
    """Fuzz the kinds that are asked for, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of each kind, at most")
    parser.add_argument("--kinds", default=",".join((*KINDS, *OTHERS)))
    parser.add_argument("--write", action="store_true", help="keep the results in benchmarks/results")
    parser.add_argument("--child")
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.seed, asked.first, asked.cases)
        return 0
    rows, found = list[dict[str, Any]](), list[str]()
    print(f"seed {asked.seed}")
    for kind in asked.kinds.split(","):
        outcomes, faults = fuzz(kind, asked.seed, asked.first, asked.cases, time.monotonic() + asked.seconds)
        print(
            f"{kind}: {sum(outcomes.values())} cases: {', '.join(f'{count} {name}' for name, count in outcomes.most_common())}", flush=True
        )
        print("".join(f"  {fault}\n" for fault in faults), end="", flush=True)
        rows.append({"kind": kind, "cases": sum(outcomes.values()), **outcomes})
        found += faults
    if asked.write:
        write_result("fuzz", rows, {"seed": asked.seed, "faults": found})
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
