"""certificate.json: what a result rests on, by content: the job, the code, the versions, every input file and every published one.

Files at URLs are named by their size and tag; reading them a second time would cost as much as the run. A file of this machine is hashed by
a thread beside the run, or has the checksum of an earlier run's certificate where its size and time of change are the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

from pipeline.clusters.alike import code_fingerprint
from pipeline.files import Stamp, is_url
from pipeline.job.spec import Output
from pipeline.plan.fingerprints import digest
from pipeline.plan.plan import Plan
from pipeline.plan.versions import versions
from pipeline.results.at_url import Store
from pipeline.results.manifest import Entry, current_id
from pipeline.running.contents import SETTLED_NS
from pipeline.running.record import RunRecord

CERTIFICATE = "certificate.json"
VERSION = 1
BLOCK = 1 << 20
ATTEMPT = re.compile(r"-[0-9a-f]{12}(?=\.)")
OF_A_RESULT = ("inputs", "stages", "outputs", "seed")  # keys of a job that its result depends on

Known = Mapping[tuple[str, int, int], str]
"""Checksums of files, by path, bytes and time of change."""


class InputDigests:
    """SHA-256 of every local file that a plan reads, taken beside the run; `with` ends the thread, also where the run fails."""

    def __init__(self, plan: Plan, known: Known) -> None:
        self._stamps, self._known, self._stop = plan.stamps, known, Event()
        self._pool = ThreadPoolExecutor(1, "input-digests")
        self._found: dict[str, Future[str]] = {}

    def __enter__(self) -> InputDigests:
        for stamps in self._stamps.values():
            for file, stamp in stamps.items():
                if not is_url(file) and file not in self._found:
                    self._found[file] = self._pool.submit(self._digest, file, stamp)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)

    def document(self) -> dict[str, list[dict[str, Any]]]:
        """The files of every input, and of stages that read files themselves; waits for what is still being hashed. Raises OSError."""
        return {name: [self._file(file, stamp) for file, stamp in sorted(stamps.items())] for name, stamps in self._stamps.items()}

    def _file(self, file: str, stamp: Stamp) -> dict[str, Any]:
        by_content = {"sha256": self._found[file].result(), "changed": stamp.changed} if file in self._found else {"etag": stamp.etag}
        return {"path": file, "bytes": stamp.size} | by_content

    def _digest(self, file: str, stamp: Stamp) -> str:
        return self._known.get((file, stamp.size, stamp.changed)) or sha256_of(Path(file), self._stop)


def sha256_of(path: Path, stop: Event) -> str:
    """SHA-256 of a file, in hexadecimal; '' where `stop` was set before its end."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while not stop.is_set() and (block := file.read(BLOCK)):
            found.update(block)
    return "" if stop.is_set() else found.hexdigest()


def known_digests(store: Store) -> Known:
    """What the certificate of the place's current run says of files that had settled; nothing where there is none, or a damaged one."""
    try:
        document = json.loads(store.read(f"runs/{current_id(store)}/{CERTIFICATE}"))
        began = datetime.fromisoformat(document["started"]).timestamp() * 1e9
        files = [file for files in document["inputs"].values() for file in files if file.get("changed", began) < began - SETTLED_NS]
        return {(file["path"], file["bytes"], file["changed"]): file["sha256"] for file in files}
    except (OSError, ValueError, KeyError, TypeError):  # they are hashed again
        return {}


def certificate(record: RunRecord, inputs: Mapping[str, Any], files: Sequence[Entry]) -> dict[str, Any]:
    """The certificate of a run: `inputs` as `InputDigests` has them, `files` the tables and models that it wrote, with their checksums."""
    plan = record.plan
    return {
        "version": VERSION,
        "run": record.run,
        "started": record.started.isoformat(timespec="milliseconds"),
        "job": plan.job.name,
        "plan": plan_digest(plan),
        "seed": plan.job.seed,
        "backend": plan.backend,
        "stages": {stage.spec.name: f"{stage.spec.use} {stage.spec.stage.version}" for stage in plan.stages},
        "code": code_fingerprint(),
        "versions": versions(),
        "cluster": {key: value for key, value in record.cluster.items() if key in ("kind", "workers", "threads_per_worker")},
        "parts": {name: account.parts for name, account in record.accounts.items() if account.parts is not None},
        "inputs": inputs,
        "outputs": {stable_name(entry.path, record.run): {"rows": entry.rows, "sha256": entry.sha256} for entry in files},
    }


def certified(output: Output, plan: Plan) -> Output:
    """The output, whose writer knows what of the certificate is known before the run, and is the same for each: files stay the same."""
    return replace(output, writer=output.writer.made_by({"plan": plan_digest(plan)}))


def plan_digest(plan: Plan) -> str:
    """A digest of what a job's result depends on, as it is written there, and of its stages' versions.

    Comments, clusters, and into how many parts an input is cut do not count.
    """
    inputs = {name: {key: value for key, value in given.items() if key != "parts"} for name, given in plan.job.raw["inputs"].items()}
    asked = {key: plan.job.raw.get(key) for key in OF_A_RESULT} | {"inputs": inputs}
    return digest([json.dumps(asked, default=str), [[stage.spec.use, stage.spec.stage.version] for stage in plan.stages]])


def stable_name(path: str, run: str) -> str:
    """The name of a run's file without what tells attempts and runs apart."""
    return ATTEMPT.sub("", path).replace(f"-{run}", "")
