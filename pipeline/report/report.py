"""The report page of a run: one self-contained HTML file with figures, top hits, counts, timings and the job as it ran."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from pipeline.report.finding import Evidence, findings, sections
from pipeline.report.pieces import Grid, Section, bytes_text, number_text, seconds_text
from pipeline.report.reading import by_output, opened
from pipeline.report.saving import picture
from pipeline.report.tallies import tallies
from pipeline.results.manifest import Entry
from pipeline.running.executed import Executed
from pipeline.running.record import RunRecord

MOST_LINKS = 8  # of one output's files


def write_report(record: RunRecord, executed: Executed, folder: str) -> str:
    """The page as HTML text. `folder` is the run's folder or URL, which the paths of `executed.entries` are relative to."""
    document = record.document()
    notes = list[str]()
    shown = list(sections(Evidence(opened(record.plan, executed.entries, folder, notes), executed.metrics, document)))
    shown += (section for section in tallies(record) if section.blocks)
    shown += [_stages(document), _outputs(executed)]
    highlights = [(seconds_text(document["seconds"]), "wall time"), *(entry for section in shown for entry in section.highlights)]
    job = record.plan.job
    script = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")  # the only one that the page's policy lets run
    page: str = _template().render(
        title=job.raw.get("title") or job.name,  # as the record has them, secrets masked
        job=job.name,
        description=job.raw.get("description"),
        record=document,
        highlights=highlights,
        rows={name: number_text(sum(entry.rows or 0 for entry in entries)) for name, entries in by_output(executed.entries).items()},
        sections=shown,
        files={name: _links([entry.path for entry in entries]) for name, entries in by_output(executed.entries).items()},
        warnings=[*document["warnings"], *notes],
        about=_about(document),
        source=_yaml(document["job"]),
        picture=picture,
        script=script,
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page


def prepare_report() -> None:
    """Load what every page takes, before there is one to write."""
    findings()
    _template()


@cache
def _template() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, auto_reload=False
    )
    return environment.get_template("report.html.j2")


def _stages(document: Mapping[str, Any]) -> Section:
    """Inputs, stages and other tables with rows, parts, bytes and seconds."""
    accounts = [(name, a) for group in ("inputs", "stages", "tables") for name, a in document[group].items()]
    most = max((account["seconds"] for _, account in accounts), default=0) or 1
    rows = []
    for name, a in accounts:
        rows_in = a.get("rows_in")
        several = isinstance(rows_in, list) and any(n is not None for n in rows_in)
        taken = " · ".join(number_text(n) or "–" for n in rows_in) if several else "" if isinstance(rows_in, list) else number_text(rows_in)
        out = number_text(a["rows"]) if a["rows"] is not None else "fused into its reader" if name in document["stages"] else ""
        time = seconds_text(a["seconds"]) if a["seconds"] else ""
        rows.append((name, a["use"], taken, out, number_text(a["parts"]), bytes_text(a["bytes"]), time, a["seconds"] / most))
    caption = "Seconds are those of all tasks of a stage, which run side by side: together they can exceed the wall time."
    head = ("table", "made by", "rows in", "rows out", "parts", "size", "task time", "")
    return Section("Stages", [Grid(head, "llrrrrrb", rows, caption)], file="run.json")


def _outputs(executed: Executed) -> Section:
    """Every output with links to its files, which lie beside the page, and the other files of the run."""
    rows: list[tuple[str, str, str, str, list[tuple[str, str]]]] = []
    for name, files in by_output(executed.entries).items():
        total = number_text(sum(entry.rows or 0 for entry in files))
        rows.append((name, total, str(len(files)), ", ".join(sorted({_suffix(e) for e in files})), _links([e.path for e in files])))
    models = [f"models/{name}" for name in executed.files]
    others = [("models", models), ("record", ["run.json", "metrics.json", "manifest.json"])]
    rows += [(name, "", str(len(paths)), "", _links(paths)) for name, paths in others if paths]
    return Section("Outputs", [Grid(("output", "rows", "files", "format", "where"), "lrrlf", rows)])


def _links(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Addresses relative to the page and their texts; without an address how many are left out."""
    shown = [(quote(path), PurePosixPath(path).name) for path in paths[:MOST_LINKS]]
    return [*shown, ("", f"and {len(paths) - MOST_LINKS} more beside them")] if len(paths) > MOST_LINKS else shown


def _suffix(entry: Entry) -> str:
    return PurePosixPath(entry.path).suffix.lstrip(".") or "?"


def _about(document: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Tables of the page's foot: the machine, the cluster and the versions."""
    for title in ("machine", "cluster", "versions"):
        yield title, [(name.replace("_", " "), _listed(value)) for name, value in document[title].items()]


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _yaml(job: Mapping[str, Any]) -> str:
    """The job as YAML text, plain values alone."""
    from ruamel.yaml import YAML

    text, writer = io.StringIO(), YAML(typ="rt")
    writer.width, writer.default_flow_style = 110, None
    writer.dump(json.loads(json.dumps(job, default=str)), text)
    return text.getvalue()
