"""A run as an RO-Crate of the Workflow Run profile: the job as workflow, the run as the action that made the results.

Inputs are told of by name, size and checksum, and stay where they are; so do tables and models, unless they are copied. The job (secrets
masked), the record, the certificate, metrics and the report are always in the crate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from pipeline.errors import PlaceError
from pipeline.files import is_url
from pipeline.provenance.told import SOFTWARE, Told, library
from pipeline.results.manifest import MANIFEST, RECORD
from pipeline.results.store import open_store
from pipeline.urls import hidden

EXTRA = "provenance"
RO_CRATE = "1.1"  # the version that the profiles below are of
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
TERMS = "https://w3id.org/ro/terms/workflow-run/context"
SHA256 = "https://w3id.org/ro/terms/workflow-run#sha256"
JOB = "job.json"
NO_LICENSE = "None has been stated: ask whoever published this run."
STATUS = {"done": "CompletedActionStatus", "running": "ActiveActionStatus"}
KINDS = {
    ".avro": "application/avro",
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".parquet": "application/vnd.apache.parquet",
    ".svg": "image/svg+xml",
    ".tsv": "text/tab-separated-values",
}


class Crate:
    """The crate of one run, put together in memory; `copied`: with the tables and models that the run wrote."""

    def __init__(self, told: Told, *, copied: bool, license_text: str = "") -> None:
        self._told, self._copied = told, copied
        self._store = open_store(told.path)
        self.crate = library("rocrate.rocrate", EXTRA).ROCrate(version=RO_CRATE)
        self._entity = library("rocrate.model.contextentity", EXTRA).ContextEntity
        self._describe(license_text or NO_LICENSE)
        self._act(self._workflow())

    def write(self, to: str) -> None:
        """Write the crate as a folder, or as one file where the name ends in .zip. Raises PlaceError for a place that is taken."""
        path = Path(to)
        if path.exists() and (path.is_file() or any(path.iterdir())):
            raise PlaceError(f"{to} is there already. Give a folder or a .zip that is not.")
        try:
            (self.crate.write_zip if path.suffix == ".zip" else self.crate.write)(path)
        except OSError as error:
            raise PlaceError(f"{to}: {error}. Give a place that can be written to.") from error

    def _describe(self, license_text: str) -> None:
        told, root = self._told, self.crate.root_dataset
        self.crate.metadata.extra_contexts.append(TERMS)
        title = str(told.job.get("title") or told.name)
        self.crate.name, self.crate.license = title, license_text
        self.crate.description = f"Run {told.record['run']} of the job {told.name}: {title}."
        self.crate.datePublished = told.record["finished"] or told.record["started"]
        root["conformsTo"] = [
            self._add(iri, {"@type": "CreativeWork", "name": name, "version": iri.rpartition("/")[2]}) for iri, name in PROFILES.items()
        ]

    def _workflow(self) -> Any:
        """The job, with what it reads and gives, the language that it is in, and what it needs."""
        told = self._told
        text = BytesIO(json.dumps(told.job, indent=1).encode())
        spoken = {"name": f"Jobs of {SOFTWARE}", "url": {"@id": "https://yaml.org/"}, "version": version(SOFTWARE)}
        of_languages = library("rocrate.model.computerlanguage", EXTRA).ComputerLanguage
        language = self.crate.add(of_languages(self.crate, "#job-language", properties=spoken))
        properties = {"name": f"Job {told.name}", "encodingFormat": KINDS[".json"], "description": "The job as it was run, secrets masked."}
        properties["version"] = str(told.certificate.get("plan") or told.record["fingerprints"])
        workflow = self.crate.add_workflow(text, JOB, main=True, lang=language, properties=properties)
        workflow["input"] = [self._parameter("input", name) for name in told.job["inputs"]]
        workflow["output"] = [self._parameter("output", name) for name in told.job["outputs"]]
        workflow["softwareRequirements"] = [self._software(*each) for each in self._versions().items()]
        return workflow

    def _act(self, workflow: Any) -> None:
        """The run itself: when, by what, of which files, with which results."""
        told, record = self._told, self._told.record
        properties: dict[str, Any] = {
            "@type": "CreateAction",
            "name": f"Run {record['run']} of {told.name}",
            "description": f"{len(told.job['stages'])} stages, on {record['backend']}, in {record['seconds']} s",
            "startTime": record["started"],
            "actionStatus": {"@id": f"http://schema.org/{STATUS.get(record['status'], 'FailedActionStatus')}"},
        }
        properties |= {"endTime": record["finished"]} if record["finished"] else {}
        properties |= {"error": record["error"]} if record["error"] else {}
        settings = [self._setting("backend", record["backend"]), self._setting("seed", told.job.get("seed", 0))]
        done = self.crate.add_action(
            workflow, f"#run-{record['run']}", object=[*self._inputs(), *settings], result=list(self._results()), properties=properties
        )
        self.crate.root_dataset["mentions"] = done
        for name in self._about():
            self._file(name, self._store.read(name), {"about": done, "name": name})

    def _inputs(self) -> Iterator[Any]:
        """Files by where they are, or were; of inputs that no certificate has files of (databases, a failed run's) what the job says."""
        for name, given in self._told.job["inputs"].items():
            files = self._told.certificate.get("inputs", {}).get(name, [])
            for file in files:
                yield self._elsewhere(file["path"], file["bytes"], file.get("sha256", ""), f"input-{name}")
            if not files:
                yield self._setting(f"input {name}", json.dumps(given), f"input-{name}")

    def _results(self) -> Iterator[Any]:
        """Tables and models, the report."""
        for entry in self._told.files:
            if entry.path in self._about():
                continue
            name = entry.path.split("/")[0]
            parameter = f"output-{name}" if name in self._told.job["outputs"] else ""
            if self._copied:
                more = {"contentSize": str(entry.bytes), "sha256": entry.sha256}
                found = self._file(entry.path, self._store.read(entry.path), more)
                yield self._example(found, parameter)
            else:
                yield self._elsewhere(self._store.path(entry.path), entry.bytes, entry.sha256, parameter)

    def _about(self) -> list[str]:
        """What is told of the run and is no result of its job."""
        listed = [entry.path for entry in self._told.files if "/" not in entry.path] or [RECORD]
        return [name for name in listed if name != MANIFEST and PurePosixPath(name).suffix in KINDS]

    def _elsewhere(self, path: str, size: int, sha256: str, parameter: str) -> Any:
        place = hidden(path) if is_url(path) else Path(path).absolute().as_uri()
        found = self.crate.dereference(place) or self.crate.add_file(place, properties=_file_properties(path))
        found["contentSize"] = str(size)
        if sha256:
            found["sha256"] = sha256
        return self._example(found, parameter)

    def _file(self, name: str, content: bytes, more: dict[str, Any]) -> Any:
        return self.crate.add_file(BytesIO(content), quote(name), properties=_file_properties(name) | more)

    def _example(self, entity: Any, parameter: str) -> Any:
        """An entity, as that of a parameter of the workflow."""
        if parameter:
            entity["exampleOfWork"] = self.crate.dereference(f"#{parameter}")
        return entity

    def _setting(self, name: str, value: Any, parameter: str = "") -> Any:
        found = self._add(f"#setting-{quote(name)}", {"@type": "PropertyValue", "name": name, "value": str(value)})
        return self._example(found, parameter)

    def _parameter(self, kind: str, name: str) -> Any:
        return self.crate.add_formal_parameter(name, "File", identifier=f"#{kind}-{name}", valueRequired=True)

    def _software(self, name: str, number: str) -> Any:
        more = {"@type": "SoftwareApplication", "name": name, "softwareVersion": number}
        if name == SOFTWARE:
            return self._add(f"#{name}", more)
        url = f"https://www.python.org/downloads/release/python-{number.replace('.', '')}/"
        url = url if name == "python" else f"https://pypi.org/project/{name}/{number}/"
        return self._add(url, more | {"url": {"@id": url}})

    def _versions(self) -> dict[str, str]:
        return {SOFTWARE: version(SOFTWARE), **self._told.record["versions"]}

    def _add(self, identifier: str, properties: Mapping[str, Any]) -> Any:
        return self.crate.add(self._entity(self.crate, identifier, properties=dict(properties)))


def _file_properties(path: str) -> dict[str, Any]:
    name = PurePosixPath(path)
    kind = KINDS.get(name.suffix)
    return {"name": name.name} | ({"encodingFormat": kind} if kind else {})
