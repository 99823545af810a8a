"""OpenLineage's events of a run: what began and how it ended, for the job and each of its stages, with columns and what they come from.

A stage is a job of its own below the run's, as Marquez and others show them; its tables are data sets `JOB.TABLE`. Stages run mixed up with
one another, so all have the times of the run. Ids follow from the run's: told twice, an event is the same event.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from pipeline.errors import PlaceError, RunError
from pipeline.files import absolute, is_url
from pipeline.provenance.origins import INDIRECT, Column, through
from pipeline.provenance.told import SOFTWARE, Columns, Told, library
from pipeline.urls import hidden

EXTRA = "provenance"
KEY = "OPENLINEAGE_API_KEY"
PRODUCER = f"https://{SOFTWARE}.invalid"  # OpenLineage wants a URL, and the project has no page of its own
_ENDS = {"done": "COMPLETE", "interrupted": "ABORT"}


class Events:
    """The events of one run; `namespace` is that of its jobs and of the tables between stages."""

    def __init__(self, told: Told, columns: Columns, namespace: str) -> None:
        self._told, self._columns, self._namespace = told, columns, namespace
        self._inputs = through(columns.origins)
        self._base = library("openlineage.client.event_v2", EXTRA)
        self._facets = library("openlineage.client.facet_v2", EXTRA)
        self._facets.set_producer(PRODUCER)

    def all(self) -> list[Any]:
        """START of the job and its stages, then how each ended."""
        record, stages = self._told.record, [stage["as"] for stage in self._told.job["stages"]]
        end = _ENDS.get(record["status"], "FAIL")
        began = [self._event("START", record["started"], name) for name in ("", *stages)]
        if record["status"] == "running":
            return began
        return began + [self._event(end, record["finished"] or record["started"], name) for name in (*stages, "")]

    def _event(self, kind: str, time: str, stage: str) -> Any:
        """One event of a stage, or of the whole job ('')."""
        ended = kind == "COMPLETE"
        reads = self._told.reads[stage].values() if stage else self._told.job["inputs"]
        inputs = [self._input(table) for table in dict.fromkeys(reads)]
        outputs = self._outputs(stage) if ended else []
        job = self._base.Job(self._namespace, self._job_name(stage), self._job_facets(stage))
        run = self._base.Run(self._run_id(stage), self._run_facets(kind, stage))
        state = getattr(self._base.RunState, kind)
        return self._base.RunEvent(eventTime=time, run=run, job=job, eventType=state, inputs=inputs, outputs=outputs, producer=PRODUCER)

    def _outputs(self, stage: str) -> list[Any]:
        """A stage's tables and what was published of them; of the job what was published, with columns by those of its inputs."""
        tables = [name for name in self._columns.schemas if name.split(".")[0] == stage] or ([stage] if stage else [])
        made = [self._output((self._namespace, f"{self._told.name}.{table}"), table, whole=False) for table in tables]
        for name, output in self._told.job["outputs"].items():
            if not stage or output["from"].split(".")[0] == stage:
                made.append(self._output(self._place(name), output["from"], whole=not stage, output=name))
        return made

    def _output(self, place: tuple[str, str], table: str, *, whole: bool, output: str = "") -> Any:
        listed = self._told.record["outputs"].get(output, {}).get("columns")
        found = listed or {name: str(dtype) for name, dtype in self._columns.schemas.get(table, {}).items()}
        facets = self._schema(found)
        if table in self._columns.origins:
            facets["columnLineage"] = self._lineage(table, found, whole=whole)
        files = self._told.written(output) if output else []
        account = self._told.record["stages"].get(table) or self._told.record["tables"].get(table) or {}
        rows = sum(entry.rows or 0 for entry in files) if output else account.get("rows")
        size = sum(entry.bytes for entry in files) if output else account.get("bytes")
        statistics = self._facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rows, size, len(files) or None)
        return self._base.OutputDataset(*place, outputFacets={"outputStatistics": statistics}, facets=facets)

    def _input(self, table: str) -> Any:
        account = self._told.record["inputs"].get(table) or self._told.record["stages"].get(table) or {}
        files = self._told.certificate.get("inputs", {}).get(table, [])
        size = sum(file["bytes"] for file in files) or account.get("bytes")
        quality = self._facets.data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
            {}, rowCount=account.get("rows"), bytes=size, fileCount=len(files) or None
        )
        facets = self._schema({name: str(dtype) for name, dtype in self._columns.schemas.get(table, {}).items()})
        return self._base.InputDataset(*self._data_set(table), inputFacets={"dataQualityMetrics": quality}, facets=facets)

    def _lineage(self, table: str, names: Iterable[str], *, whole: bool) -> Any:
        """What columns of a table come from: of the tables that its stage reads, or of the `whole` job's inputs."""
        kind, origins = self._facets.column_lineage_dataset, (self._inputs if whole else self._columns.origins)[table]
        fields = {name: kind.Fields([self._field(*each) for each in sorted(origins.columns[name].items())]) for name in names}
        return kind.ColumnLineageDatasetFacet(fields, [self._field(column, INDIRECT) for column in sorted(origins.rows)])

    def _field(self, column: Column, how: str) -> Any:
        kind = self._facets.column_lineage_dataset
        told = kind.Transformation(INDIRECT) if how == INDIRECT else kind.Transformation("DIRECT", how)
        return kind.InputField(*self._data_set(column[0]), column[1], [told])

    def _schema(self, columns: Mapping[str, str]) -> dict[str, Any]:
        kind = self._facets.schema_dataset
        fields = [kind.SchemaDatasetFacetFields(name, dtype, ordinal_position=i + 1) for i, (name, dtype) in enumerate(columns.items())]
        return {"schema": kind.SchemaDatasetFacet(fields)} if fields else {}

    def _job_facets(self, stage: str) -> dict[str, Any]:
        kinds = self._facets
        given = next((each for each in self._told.job["stages"] if each["as"] == stage), self._told.job)
        facets = {
            "jobType": kinds.job_type_job.JobTypeJobFacet("BATCH", SOFTWARE.upper(), "TASK" if stage else "JOB"),
            "sourceCode": kinds.source_code_job.SourceCodeJobFacet("json", json.dumps(given, indent=1)),
        }
        if stage and given["use"] == "sql":
            facets["sql"] = kinds.sql_job.SQLJobFacet(given["query"])
        return facets

    def _run_facets(self, kind: str, stage: str) -> dict[str, Any]:
        kinds, record = self._facets, self._told.record
        engine = kinds.processing_engine_run.ProcessingEngineRunFacet(version(SOFTWARE), SOFTWARE, version("openlineage-python"))
        facets: dict[str, Any] = {"processing_engine": engine}
        if stage:
            parent = kinds.parent_run
            facets["parent"] = parent.ParentRunFacet(parent.Run(self._run_id("")), parent.Job(self._namespace, self._told.name))
        if kind in {"FAIL", "ABORT"}:
            facets["errorMessage"] = kinds.error_message_run.ErrorMessageRunFacet(record["error"] or record["status"], "PYTHON")
        return facets

    def _job_name(self, stage: str) -> str:
        return f"{self._told.name}.{stage}".rstrip(".")

    def _run_id(self, stage: str) -> str:
        return str(uuid5(NAMESPACE_URL, f"{PRODUCER}/{self._told.record['run']}/{stage}"))

    def _data_set(self, table: str) -> tuple[str, str]:
        """Namespace and name: of an input where its files are, of other tables the job's."""
        given = self._told.job["inputs"].get(table.split(".")[0], {})
        if "path" not in given:
            return self._namespace, f"{self._told.name}.{table}"
        return _named(given["path"] if isinstance(given["path"], str) else given["path"][0])

    def _place(self, output: str) -> tuple[str, str]:
        """A published output: by the results folder, so that one who reads it there is its reader."""
        return _named(f"{self._told.path.partition('/runs/')[0]}/current/{output}")


def _named(path: str) -> tuple[str, str]:
    """OpenLineage's namespace and name of a file: of this machine's the whole path."""
    if not is_url(path):
        return "file", absolute(path)
    parts = urlsplit(hidden(path))
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")


def send(events: Iterable[Any], to: str) -> None:
    """Write the events to a file, one a line, or send them to a service of OpenLineage (its key from OPENLINEAGE_API_KEY).

    Raises PlaceError for a file that cannot be written, RunError where the service does not take them.
    """
    if not to.startswith(("http://", "https://")):
        serde = library("openlineage.client.serde", EXTRA).Serde
        try:
            Path(to).write_text("".join(f"{serde.to_json(event)}\n" for event in events))
        except OSError as error:
            raise PlaceError(f"{to}: {error}. Give a file in a folder that is there.") from error
        return
    http = library("openlineage.client.transport.http", EXTRA)
    key = os.environ.get(KEY)
    told = {"url": to, "retry": {"total": 2}, **({"auth": {"type": "api_key", "apiKey": key}} if key else {})}
    transport = http.HttpTransport(http.HttpConfig.from_dict(told))
    try:
        for event in events:
            transport.emit(event)
    except OSError as error:  # what requests raises is one
        raise RunError(f"{hidden(to)} does not take the events: {error}") from error
    finally:
        transport.close()
