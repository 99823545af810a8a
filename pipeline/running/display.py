"""What a user sees while a job runs: a live line per stage on a terminal, plain lines elsewhere, JSON events, or nothing."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Literal, Protocol

from pipeline.running.progress import Progress
from pipeline.tables.rounds import Round

PAUSE_S = 1.0  # between two lines of a task's rounds

Mode = Literal["live", "plain", "json", "quiet"]


class Display(Protocol):
    """Told about a run as it goes."""

    def started(self, run: str, place: str, dashboard: str | None, stages: list[str]) -> None:
        """The run has its folder and its cluster."""

    def progress(self, progress: Progress) -> None:
        """Tasks done and submitted, several times a second."""

    def finished(self, summary: dict[str, Any]) -> None:
        """The run is over: `status`, `path`, `seconds`, and `outputs` with rows or `error`."""


class Quiet:
    """Says nothing."""

    def started(self, run: str, place: str, dashboard: str | None, stages: list[str]) -> None:
        """Nothing."""

    def progress(self, progress: Progress) -> None:
        """Nothing."""

    def finished(self, summary: dict[str, Any]) -> None:
        """Nothing."""


class Plain:
    """One line when a stage is done, and one for a new round of a task that says its rounds, a second apart at least."""

    def __init__(self) -> None:
        self.done: set[str] = set()
        self.rounds: dict[str, tuple[float, Round]] = {}  # when a stage's last round was said, and which

    def started(self, run: str, place: str, dashboard: str | None, stages: list[str]) -> None:
        """The run's name, its place and the dashboard's address."""
        _say(f"run {run} -> {place}")
        if dashboard:
            _say(f"dashboard {dashboard}")

    def progress(self, progress: Progress) -> None:
        """A line for each stage that is newly done or has come to another round."""
        for stage, last in progress.rounds.items():
            before = self.rounds.get(stage)
            if before is None or (before[1] != last and time.monotonic() >= before[0] + PAUSE_S):
                self.rounds[stage] = (time.monotonic(), last)
                _say(f"  {stage}: {last}")
        for stage in progress.finished:
            if stage not in self.done:
                self.done.add(stage)
                _say(f"  {stage}: {progress.tasks[stage][1]} tasks, {progress.seconds.get(stage, 0):.2f} s")

    def finished(self, summary: dict[str, Any]) -> None:
        """The result's place and its main figures."""
        for line in figures(summary):
            _say(line)


class Events:
    """One JSON object a line."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[int, int]] = {}
        self.rounds: dict[str, Round] = {}

    def started(self, run: str, place: str, dashboard: str | None, stages: list[str]) -> None:
        """The event `started`."""
        _say(json.dumps({"event": "started", "run": run, "place": place, "dashboard": dashboard, "stages": stages}))

    def progress(self, progress: Progress) -> None:
        """An event `stage` for every stage whose counts have changed, an event `round` for every one that has come to another round."""
        for stage, last in progress.rounds.items():
            if self.rounds.get(stage) != last:
                self.rounds[stage] = last
                _say(json.dumps({"event": "round", "stage": stage, "round": last.at, "rounds": last.of, **last.figures}))
        for stage, (done, total) in progress.tasks.items():
            if self.last.get(stage) != (done, total):
                self.last[stage] = (done, total)
                seconds = round(progress.seconds.get(stage, 0), 3)
                _say(json.dumps({"event": "stage", "stage": stage, "done": done, "tasks": total, "seconds": seconds}))

    def finished(self, summary: dict[str, Any]) -> None:
        """The event `finished`."""
        _say(json.dumps({"event": "finished", **summary}))


class Live:
    """A bar per stage, redrawn in place."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        fields = (TextColumn("{task.fields[seconds]:.2f} s"), TextColumn("{task.fields[round]}"))
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *fields)
        self.bars = Bars(*columns)
        self.tasks: dict[str, Any] = {}

    def started(self, run: str, place: str, dashboard: str | None, stages: list[str]) -> None:
        """The run's name, its place and the dashboard's address, then the bars."""
        self.bars.console.print(f"run [bold]{run}[/bold] -> {place}", highlight=False)
        if dashboard:
            self.bars.console.print(f"dashboard {dashboard}", highlight=False)
        self.bars.start()

    def progress(self, progress: Progress) -> None:
        """Move the bars."""
        for stage, (done, total) in progress.tasks.items():
            if stage not in self.tasks:
                self.tasks[stage] = self.bars.add_task(stage, total=total, seconds=0.0, round="")
            seconds, last = progress.seconds.get(stage, 0), str(progress.rounds.get(stage, ""))
            self.bars.update(self.tasks[stage], completed=min(done, total), total=total, seconds=seconds, round=last)

    def finished(self, summary: dict[str, Any]) -> None:
        """The bars' last state, then the result's place and its main figures."""
        self.bars.stop()
        for line in figures(summary):
            self.bars.console.print(line, highlight=False)


def make_display(mode: Mode | None = None) -> Display:
    """The display of that mode; by default live on a terminal and plain elsewhere."""
    chosen = mode or ("live" if sys.stdout.isatty() else "plain")
    displays: dict[str, type[Display]] = {"live": Live, "plain": Plain, "json": Events, "quiet": Quiet}
    return displays[chosen]()


def figures(summary: dict[str, Any]) -> list[str]:
    """The end of a run in a few lines: where the result is, rows per output, metrics."""
    warned = [f"  warning: {text}" for text in summary.get("warnings", ())]
    if summary["status"] not in {"done", "unchanged"}:
        return warned
    there = f"nothing to do, run {summary['run']} has all of it (--fresh runs it again): {summary['current']}"
    lines = [f"done in {summary['seconds']:.1f} s: {summary['current']}" if summary["status"] == "done" else there]
    lines += [f"  {name}: {rows:,} rows" for name, rows in summary["outputs"].items()]
    for stage, metrics in summary["metrics"].items():
        shown = ", ".join(f"test {name} {value:.3f}" for name, value in metrics.get("test", {}).items() if value is not None)
        lines += [f"  {stage}: {shown}"] if shown else []
    return lines + warned + ([f"  report: {summary['report']}"] if summary.get("report") else [])


def _say(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        silence()


def silence() -> None:
    """Send what is still to be said nowhere: whoever read it has gone (`| head -1`), and that is no reason to lose a run."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
