"""What deploy/ says, taken apart for tests: its page's commands by host, its files, and the commands that they start."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
BLOCK = re.compile(r"^```sh\n# on (alpha|beta)(, left running)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDED = re.compile(r"\\\n\s*")


@dataclass(frozen=True)
class Block:
    """Commands of the page for one host; `stays` says that they are left running."""

    host: str
    stays: bool
    commands: str


def page() -> list[Block]:
    """The page's commands, in its order."""
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    return [Block(host, bool(stays), commands) for host, stays, commands in BLOCK.findall(text)]


def documents(name: str) -> list[Any]:
    """The documents of a YAML file of deploy/."""
    return list(YAML(typ="safe").load_all(DEPLOY / name))


def compose() -> dict[str, Any]:
    """compose.yaml, and over its services what compose.gpu.yaml says, as SERVICE.gpu."""
    (plain,), (gpu,) = documents("compose.yaml"), documents("compose.gpu.yaml")
    over = {f"{name}.gpu": {**plain["services"][name], **more} for name, more in gpu["services"].items()}
    return {**plain, "services": {**plain["services"], **over}}


def exec_start(unit: str) -> list[str]:
    """The command of a unit, its specifiers and variables as they stand."""
    (command,) = re.findall(r"^ExecStart=(.*)$", FOLDED.sub("", (DEPLOY / unit).read_text(encoding="utf-8")), re.MULTILINE)
    return shlex.split(command)


def pods() -> dict[str, Any]:
    """The pod specifications of the Kubernetes files, by what they are for."""
    cluster, _ = documents("daskcluster.yaml")
    (job,) = documents("kubernetes-job.yaml")
    return {**{part: cluster["spec"][part]["spec"] for part in ("scheduler", "worker")}, "job": job["spec"]["template"]["spec"]}


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command that a file starts and Dask or this project is to understand: where it stands, and its words."""
    for name, service in compose()["services"].items():
        yield f"compose {name}", [*service.get("entrypoint", []), *(service.get("command") or ["jobs/loans.yaml"])]
    for unit in sorted(DEPLOY.glob("*.service")):
        yield unit.name, exec_start(unit.name)
    for name, pod in pods().items():
        yield f"kubernetes {name}", pod["containers"][0]["args"]
    for number, block in enumerate(page()):
        for line in FOLDED.sub("", block.commands).split("\n.venv"):
            if " -m " in line and "venv .venv" not in line:
                yield f"page {number}", shlex.split(line)


def understood(words: list[str]) -> tuple[str, list[str]]:
    """What a command starts (dask scheduler, dask cuda worker, pipeline.run) and its further words."""
    words = words[words.index("-m") + 1 :] if "-m" in words else words
    for program in (["dask", "scheduler"], ["dask", "worker"], ["dask", "cuda", "worker"], ["pipeline.run"]):
        if words[: len(program)] == program:
            return " ".join(program), words[len(program) :]
    raise AssertionError(f"no program of ours: {words}")
