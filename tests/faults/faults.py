"""Random faults: a job runs, something dies, stands still, is cut off, is full or slow; what is published must be whole and right."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.clusters.hosts import published_bytes
from tests.faults.driving import LIMIT_S, Case, Driver
from tests.faults.places import PLACES, Ground, command
from tests.faults.reading import Reader

SLOW = ("fsync", "fdatasync", "rename", "mkdir", "symlink", "unlink", "link")  # what goes to a disk and waits for it

KINDS: Mapping[str, tuple[str, ...]] = {
    "driver killed": ("process", "workers", "scheduler"),
    "driver frozen for a while": ("process", "workers", "scheduler"),
    "worker killed": ("workers", "scheduler"),
    "worker frozen": ("workers", "scheduler"),
    "worker frozen for a while": ("workers", "scheduler"),
    "host cut off": ("hosts",),
    "host cut off for a while": ("hosts",),
    "disk full": ("process", "workers", "scheduler"),
    "disk slow": ("process", "workers"),
}


@dataclass(frozen=True)
class Fault:
    """One fault: of which kind, in which job and place, and when: a share of the job's usual time.

    `size` is how long, large or slow it is, as a share of what there can be.
    """

    number: int
    kind: str
    job: str
    place: str
    moment: float
    size: float


@dataclass
class Ended:
    """What came of a fault: how the disturbed command ended, what it said, how long it took, and what was wrong."""

    fault: Fault
    outcome: str = ""
    code: int | None = None
    said: list[str] = field(default_factory=list)
    seconds: float = 0.0
    struck: bool = True
    again: bool = False
    looks: int = 0
    wrong: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self.fault), **{name: value for name, value in asdict(self).items() if name != "fault"}}


def drawn(number: int, seed: int, jobs: list[str], kinds: list[str]) -> Fault:
    """The fault of that number: the same for the same seed, whichever others are asked for."""
    dice = random.Random(f"{seed} {number}")
    kind = dice.choice(kinds)
    return Fault(number, kind, dice.choice(jobs), dice.choice(KINDS[kind]), round(dice.random(), 4), round(dice.random(), 4))


def missing(kind: str) -> str:
    """Why a kind of fault cannot be made on this machine; '' where it can."""
    if kind.startswith("host") and (shutil.which("ip") is None or os.geteuid() != 0):
        return "network namespaces need root and iproute2"
    if kind == "disk full" and (sys.platform != "linux" or os.geteuid() != 0):
        return "only root of a Linux machine mounts a small disk"
    return "strace, which delays what goes to the disk, is not here" if kind == "disk slow" and shutil.which("strace") is None else ""


def suffered(fault: Fault, case: Case, scratch: Path) -> Ended:
    """Run the job with the fault, run it again where that did not end well, and say what came of it."""
    ended = Ended(fault)
    out = scratch / "out"
    with PLACES[fault.place](scratch) as ground, _disk(fault, case, out) as (prefix, mend):
        with Reader(out, case.bytes) as reader:
            words = command(ground, case.job, out, case.new)
            with Driver([*ground.prefix, *prefix, *words[len(ground.prefix) :]], scratch / "first.log") as driver:
                ended.struck = _struck(fault, case, ground, driver)
                ended.code, ended.seconds = driver.wait(), round(time.monotonic() - driver.began, 1)
                _judge(ended, driver, out)
            if ended.code != 0:
                mend()
                if ground.cable is not None:
                    ground.cable("up")
                with Driver(words, scratch / "second.log") as again:
                    ended.again = True
                    if (code := again.wait()) != 0:
                        ended.wrong.append(f"run again, it ended with {code}: {again.errors()[-800:]}")
        ended.wrong += sorted(set(reader.torn))
        ended.looks = reader.looks
        if published_bytes(out) != case.bytes[0]:
            ended.wrong.append("in the end other bytes are published than those of an undisturbed run")
    return ended


def _judge(ended: Ended, driver: Driver, out: Path) -> None:
    """How the disturbed command ended, and what is wrong with that."""
    said = driver.errors()
    ended.said = said.strip().splitlines()[:3]
    killed = ended.fault.kind == "driver killed" and ended.code is not None and ended.code < 0
    if ended.code == 0:
        ended.outcome = "finished by itself"
    elif killed:
        ended.outcome, ended.said = "killed", []
    else:
        ended.outcome = "hung" if ended.code is None else "failed in a line"
        if ended.code is None:
            ended.wrong.append(f"it hung for {LIMIT_S} s")
        elif ended.code not in (1, 2) or len(said.strip().splitlines()) > 3 or not said.startswith("error: "):
            ended.wrong.append(f"it ended with {ended.code}, and not with one clear line: {said[-800:]}")
    if "Traceback" in said and not killed:
        ended.wrong.append(f"a traceback: {said[-1500:]}")
    if ended.fault.kind == "disk full" and ended.code and str(out) not in said:
        ended.wrong.append(f"it does not name the disk that is full: {said[-800:]}")
    ended.wrong += driver.left() if ended.code is not None else []


def _struck(fault: Fault, case: Case, ground: Ground, driver: Driver) -> bool:
    """Wait for the moment and do it; False where the run had ended before, or where the fault is there from the beginning."""
    if fault.kind.startswith("disk"):
        return True
    moment = fault.moment * case.seconds
    if fault.kind != "driver killed":  # which may be killed before it has begun
        driver.wait_for(driver.has_begun)
        moment = time.monotonic() - driver.began + fault.moment * (case.seconds - case.begins)
    driver.wait_for(lambda: time.monotonic() >= driver.began + moment)
    if driver.process.poll() is not None:
        return False
    if fault.kind.startswith("host"):
        assert ground.cable is not None
        ground.cable("down")
        _after(fault, driver, lambda: ground.cable and ground.cable("up"))
        return True
    victims = [driver.process.pid]
    if fault.kind.startswith("worker"):
        driver.wait_for(lambda: ground.workers(driver.process.pid))
        victims = ground.workers(driver.process.pid)
    if not victims:
        return False
    victim = victims[int(fault.size * 1e4) % len(victims)]
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL if fault.kind.endswith("killed") else signal.SIGSTOP)
        _after(fault, driver, lambda: os.kill(victim, signal.SIGCONT))
    return True


def _after(fault: Fault, driver: Driver, heal: Callable[[], Any]) -> None:
    """Put right what lasts for a while only: up to 30 seconds."""
    if fault.kind.endswith("for a while"):
        until = time.monotonic() + 30 * fault.size
        driver.wait_for(lambda: time.monotonic() >= until)
        with suppress(ProcessLookupError):
            heal()


@contextmanager
def _disk(fault: Fault, case: Case, out: Path) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """The results folder with the former result in it; what the command begins with, and what makes the disk large enough."""
    if fault.kind != "disk full":
        shutil.copytree(case.former, out, symlinks=True)
        delay = int(1e6 * 0.2 * fault.size**2)  # microseconds: up to a fifth of a second each time
        slow = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", f"trace={','.join(SLOW)}"]
        yield [*slow, "-e", f"inject={','.join(SLOW)}:delay_enter={delay}"] if fault.kind == "disk slow" else [], lambda: None
        return
    out.mkdir()
    own = sum(-(-path.stat().st_size // 4096) * 4096 for path in case.former.rglob("*") if path.is_file() and not path.is_symlink())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={int(own * (1.02 + 1.2 * fault.size)) // 1024}k", "tmpfs", str(out)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        shutil.copytree(case.former, out, symlinks=True, dirs_exist_ok=True)
        yield [], lambda: _enlarge(out)
    finally:
        subprocess.run(["umount", "-l", str(out)], check=False, capture_output=True)


def _enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=256m", str(disk)], check=True, capture_output=True)


def tally(all_ended: list[Ended]) -> dict[str, Any]:
    """How many ended how, by kind, and how many were wrong."""
    rows: dict[str, dict[str, int]] = {}
    for ended in all_ended:
        row = rows.setdefault(ended.fault.kind, {})
        for name in (ended.outcome, *(["run again"] if ended.again else []), *([] if ended.struck else ["came too late"])):
            row[name] = row.get(name, 0) + 1
    result: dict[str, Any] = json.loads(json.dumps(rows, sort_keys=True))
    return result
