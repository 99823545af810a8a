"""Energy of a run: the sensors looked at in a thread while it runs, and what they say attributed to stages by their tasks' times.

The driving process looks, so what is measured are the workers of this machine. A moment's energy goes to the stages whose tasks ran in it,
by their tasks' seconds; what was used while none ran is its own entry.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.sensors import GpuLook, Gpus, Rapl, SensorError
from pipeline.clusters.in_use import Cluster
from pipeline.running.record import Account
from pipeline.tables.keys import key_prefix, prefix_of

INTERVAL_S = 0.5
MOST_LOOKS = 4_000  # beyond it every second look is dropped, and the interval doubled
POINTS = 240  # of the series in run.json
NOT_MEASURED = "not measured: "

Floats = NDArray[np.float64]
Note = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Look:
    """What all sensors said at a time (seconds since 1970): each GPU, and joules of the processors since the first look."""

    at: float
    gpus: tuple[GpuLook, ...] = ()
    cpu_joules: float = 0.0


@dataclass(frozen=True)
class Task:
    """When a task of a stage computed, in seconds since 1970."""

    stage: str
    start: float
    stop: float


@dataclass
class Meter:
    """The sensors that there are, why the others are not, and what they said so far."""

    gpus: Gpus | None
    rapl: Rapl | None
    missing: dict[str, str]
    looks: list[Look] = field(default_factory=list)

    @staticmethod
    def of_this_machine(*, elsewhere: bool = False) -> Meter:
        """The sensors of this machine; none where the workers are on others."""
        if elsewhere:
            return Meter(None, None, dict.fromkeys(("gpu", "cpu"), "the workers are on other machines"))
        missing: dict[str, str] = {}
        return Meter(_opened("gpu", Gpus, missing), _opened("cpu", Rapl, missing), missing)

    @property
    def measures(self) -> bool:
        """Whether there is a sensor at all."""
        return self.gpus is not None or self.rapl is not None

    def look(self) -> None:
        """Look once at all sensors. One that fails is missing from now on, and what it said before with it."""
        gpus, joules = tuple[GpuLook, ...](), 0.0
        try:
            gpus = self.gpus.read() if self.gpus else ()
        except SensorError as error:
            self.gpus, self.missing["gpu"] = None, str(error)
        try:
            joules = self.rapl.read() if self.rapl else 0.0
        except SensorError as error:
            self.rapl, self.missing["cpu"] = None, str(error)
        self.looks.append(Look(time.time(), gpus, joules))

    def sample(self, ended: threading.Event) -> None:
        """Look every so often until the run has ended."""
        pause = INTERVAL_S
        while not ended.wait(pause):
            self.look()
            if len(self.looks) > MOST_LOOKS:
                self.looks, pause = self.looks[::2], 2 * pause

    def document(self, tasks: Sequence[Task], accounts: Mapping[str, Account]) -> dict[str, Any]:
        """What run.json has of it, from the tasks' times and the stages' rows."""
        found: dict[str, Any] = {f"{kind}_power": f"{NOT_MEASURED}{why}" for kind, why in self.missing.items()}
        kinds = {kind: watts for kind, watts in _watts(self.looks).items() if kind not in self.missing}
        if len(self.looks) < 2 or not kinds:
            return found
        times = np.array([look.at for look in self.looks])
        joules = {kind: watts * np.diff(times) for kind, watts in kinds.items()}
        stages, between = shared(times, joules, tasks)
        every = sum(kinds.values(), np.zeros(len(times) - 1))
        found |= {f"{kind}_joules": round(float(values.sum()), 3) for kind, values in joules.items()}
        found |= {"joules": round(sum(float(values.sum()) for values in joules.values()), 3), "most_watts": round(float(every.max()), 1)}
        if "gpu" in kinds:
            found["gpus"] = [_of_gpu(times, [look.gpus[i] for look in self.looks]) for i in range(len(self.looks[0].gpus))]
        found["stages"] = {name: _of_stage(used, accounts.get(name)) for name, used in stages.items()}
        return found | {"between_tasks": {kind: round(value, 3) for kind, value in between.items()}, "series": self._series(times, kinds)}

    def _series(self, times: Floats, kinds: Mapping[str, Floats]) -> dict[str, list[float]]:
        """Power over time in at most so many points, means of what lies between; with GPUs their memory and how busy they are."""
        pieces = np.array_split(np.arange(len(times) - 1), min(POINTS, len(times) - 1))
        drawn = {f"{kind}_watts": watts for kind, watts in kinds.items()}
        if "gpu" in kinds:
            drawn["gpu_bytes"] = np.array([float(sum(gpu.bytes for gpu in look.gpus)) for look in self.looks[1:]])
            drawn["gpu_busy"] = np.array([float(np.mean([gpu.busy for gpu in look.gpus])) for look in self.looks[1:]])
        middle = (times[1:] + times[:-1]) / 2 - times[0]
        return {name: [round(float(values[piece].mean()), 3) for piece in pieces] for name, values in {"seconds": middle, **drawn}.items()}


def _of_gpu(times: Floats, said: Sequence[GpuLook]) -> dict[str, float]:
    """What one GPU used, and the most that it had in use."""
    watts, busy = np.array([look.watts for look in said]), np.array([look.busy for look in said])
    joules = float(((watts[1:] + watts[:-1]) / 2) @ np.diff(times))
    peaks = {"most_watts": round(float(watts.max()), 1), "most_bytes": max(look.bytes for look in said)}
    return {"joules": round(joules, 3), **peaks, "mean_busy": round(float(busy.mean()), 3)}


def _opened(kind: str, sensor: Callable[[], Any], missing: dict[str, str]) -> Any:
    try:
        return sensor()
    except SensorError as error:
        missing[kind] = str(error)
        return None


def _watts(looks: Sequence[Look]) -> dict[str, Floats]:
    """Power between looks: of all GPUs, the mean of what they said at both ends; of the processors, by their counters."""
    times = np.diff([look.at for look in looks])
    gpus = np.array([float(sum(gpu.watts for gpu in look.gpus)) for look in looks])
    counted = np.diff([look.cpu_joules for look in looks])
    return {"gpu": (gpus[1:] + gpus[:-1]) / 2, "cpu": counted / np.maximum(times, 1e-9)}


def shared(times: Floats, joules: Mapping[str, Floats], tasks: Sequence[Task]) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Joules by stage and kind, and those of moments in which no task ran: `joules[kind]` are those between each two of `times`."""
    stages = sorted({task.stage for task in tasks})
    seconds = np.array([np.diff(_computed(times, [task for task in tasks if task.stage == stage])) for stage in stages])
    seconds = seconds.reshape(len(stages), len(times) - 1)
    every = seconds.sum(axis=0)
    shares = np.divide(seconds, every, out=np.zeros_like(seconds), where=every > 0)
    used = {kind: shares @ values for kind, values in joules.items()}
    found = {stage: {kind: float(values[i]) for kind, values in used.items()} for i, stage in enumerate(stages)}
    return found, {kind: float(values[every <= 0].sum()) for kind, values in joules.items()}


def _computed(times: Floats, tasks: Iterable[Task]) -> Floats:
    """Seconds that some tasks had computed, together, up to each time."""
    rows = np.array([(task.start, task.stop) for task in tasks])
    total = np.zeros(len(times))
    for column, sign in ((0, 1.0), (1, -1.0)):
        ordered = np.sort(rows[:, column])
        before = np.searchsorted(ordered, times)
        total += sign * (before * times - np.append(0.0, np.cumsum(ordered))[before])
    return total


def _of_stage(used: Mapping[str, float], account: Account | None) -> dict[str, float | None]:
    """A stage's joules by kind and together, and those a million of its rows."""
    total = sum(used.values())
    rows = account.rows if account else None
    million = round(total / rows * 1e6, 3) if rows else None
    return {
        **{f"{kind}_joules": round(value, 3) for kind, value in used.items()},
        "joules": round(total, 3),
        "joules_per_million_rows": million,
    }


@contextmanager
def metered(cluster: Cluster, names: Sequence[str], accounts: Mapping[str, Account], note: Note) -> Iterator[None]:
    """Measure while the block runs; `note` is given what run.json has of it, also of a run that fails (then of no stage).

    `names` are those of stages and inputs, whose tasks they name. Where there is no sensor nothing runs besides.
    """
    meter = Meter.of_this_machine(elsewhere=cluster.spec.elsewhere)
    if not meter.measures:
        note(meter.document((), accounts))
        yield
        return
    started = time.time()
    cluster.client.get_task_stream(count=1)  # from now on the scheduler remembers when tasks ran
    try:
        with _sampled(meter):
            yield
    except BaseException:
        note(meter.document((), accounts))
        raise
    note(meter.document(task_times(cluster.client.get_task_stream(start=started), names), accounts))


@contextmanager
def _sampled(meter: Meter) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=meter.sample, args=(ended,), name="energy", daemon=True)
    meter.look()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        meter.look()


def task_times(stream: Iterable[Mapping[str, Any]], names: Sequence[str]) -> list[Task]:
    """When tasks of stages computed, from Dask's stream of tasks; a task's key begins with its stage."""
    named = {prefix_of(key_prefix(name)): name for name in names}
    found = []
    for entry in stream:
        stage = named.get(prefix_of(str(entry["key"])))
        times = [(step["start"], step["stop"]) for step in entry["startstops"] if step["action"] == "compute"]
        found += [Task(stage, start, stop) for start, stop in times if stage is not None]
    return found
