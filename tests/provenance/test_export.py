"""Runs told to others: RO-Crates as their library reads them, OpenLineage's events, what stands in the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pipeline import export
from pipeline.provenance import told
from tests.small import inside, run_main

JOB = """\
job: sums
title: Sums by key
seed: 3
results: results
inputs:
  rows: {format: csv, path: rows.csv}
stages:
  - {use: filter, from: rows, as: kept, where: y > 0}
  - {use: aggregate, from: kept, as: sums, by: [k], compute: {x: sum(x)}}
  - {use: sql, from: {sums: sums}, as: doubled, query: "select k, x * 2 as twice from sums"}
outputs:
  doubled: {from: doubled, format: csv}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job that has run."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.yaml").write_text(JOB)
    (folder / "rows.csv").write_text("k,x,y\na,1.5,1\nb,2.25,2\na,4,3\n")
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
    return folder


@pytest.fixture
def within(folder: Path) -> Iterator[Path]:
    """That folder, which the test works in."""
    with inside(folder):
        yield folder


def events_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def inputs_of(field: Any) -> list[tuple[str, str, str]]:
    return [(Path(each["name"]).name, each["field"], each["transformations"][0]["type"]) for each in field["inputFields"]]


@pytest.mark.parametrize("place", ["crate", "crate.zip"])
def test_ro_crate__says_of_a_run_what_it_read_and_made(within: Path, tmp_path: Path, place: str) -> None:
    rocrate = pytest.importorskip("rocrate.rocrate", reason="rocrate, which reads RO-Crates, is not installed")
    assert export.main(["results", "--ro-crate", str(tmp_path / place), "--copy"]) == 0
    crate = rocrate.ROCrate(tmp_path / place)
    profiles = {profile.id for profile in crate.root_dataset["conformsTo"]}
    assert {f"https://w3id.org/ro/wfrun/{name}/0.5" for name in ("process", "workflow")} <= profiles
    assert (crate.name, crate.mainEntity.id) == ("Sums by key", "job.json")
    (done,) = [entity for entity in crate.get_entities() if entity.type == "CreateAction"]
    record = json.loads((within / "results/current/run.json").read_text())
    assert (done["instrument"], done["startTime"], done["endTime"]) == (crate.mainEntity, record["started"], record["finished"])
    read, made = next(each for each in done["object"] if "sha256" in each), done["result"]
    made = made if isinstance(made, list) else [made]
    assert (read["sha256"], read["contentSize"]) == (hashlib.sha256((within / "rows.csv").read_bytes()).hexdigest(), "29")
    assert [(each["exampleOfWork"].id, each["encodingFormat"]) for each in made] == [("#output-doubled", "text/csv")]
    if place == "crate":
        assert (tmp_path / place / made[0].id).read_text() == "k,twice\na,11.0\nb,4.5\n"
        assert {"run.json", "certificate.json", "report.html"} <= {path.name for path in (tmp_path / place).iterdir()}


@pytest.mark.usefixtures("within")
def test_ro_crate__names_files_that_are_not_copied_by_their_place(tmp_path: Path) -> None:
    pytest.importorskip("rocrate", reason="rocrate, which writes RO-Crates, is not installed")
    assert export.main(["results", "--ro-crate", str(tmp_path / "crate")]) == 0
    document = json.loads((tmp_path / "crate/ro-crate-metadata.json").read_text())
    places = [entity["@id"] for entity in document["@graph"] if entity["@id"].startswith("file://")]
    assert [Path(place).name.split("-")[0] for place in places] == ["rows.csv", "part"]
    assert not (tmp_path / "crate/doubled").exists()


@pytest.mark.usefixtures("within")
def test_ro_crate__is_not_written_over_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rocrate", reason="rocrate, which writes RO-Crates, is not installed")
    (tmp_path / "mine").write_text("")
    assert export.main(["results", "--ro-crate", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.usefixtures("within")
def test_openlineage__has_events_of_the_job_and_its_stages_with_column_lineage(tmp_path: Path) -> None:
    pytest.importorskip("openlineage.client", reason="openlineage-python, which makes events, is not installed")
    file = tmp_path / "events.jsonl"
    assert export.main(["results", "--openlineage", str(file)]) == 0
    events = events_of(file)
    names = ["sums", "sums.kept", "sums.sums", "sums.doubled"]
    assert [(event["eventType"], event["job"]["name"]) for event in events] == [
        *(("START", name) for name in names),
        *(("COMPLETE", name) for name in (*names[1:], names[0])),
    ]
    *stages, whole = events[4:]
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in stages} == {whole["run"]["runId"]}
    assert stages[2]["job"]["facets"]["sql"]["query"] == "select k, x * 2 as twice from sums"
    (output,) = whole["outputs"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert [field["name"] for field in output["facets"]["schema"]["fields"]] == ["k", "twice"]
    lineage = output["facets"]["columnLineage"]
    assert inputs_of(lineage["fields"]["twice"]) == [("rows.csv", "x", "DIRECT")]
    assert ("rows.csv", "y", "INDIRECT") in inputs_of({"inputFields": lineage["dataset"]})
    assert export.main(["results", "--openlineage", str(file)]) == 0
    assert events_of(file) == events


@pytest.mark.usefixtures("within")
def test_openlineage__goes_to_a_service_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openlineage.client", reason="openlineage-python, which sends events, is not installed")
    taken: list[tuple[str, str | None]] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            taken.append((body["eventType"], self.headers["Authorization"]))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("OPENLINEAGE_API_KEY", "told-to-none")
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            assert export.main(["results", "--openlineage", f"http://127.0.0.1:{server.server_port}"]) == 0
        finally:
            server.shutdown()
            thread.join()
    assert taken == [(kind, "Bearer told-to-none") for kind in ("START", "COMPLETE") for _ in range(4)]


def test_openlineage__of_a_failed_run_says_so(tmp_path: Path) -> None:
    pytest.importorskip("openlineage.client", reason="openlineage-python, which makes events, is not installed")
    failing = JOB.replace("x: sum(x)", "x: sum(cast(x * 4e18 as bigint))")
    (tmp_path / "job.yaml").write_text(failing)
    (tmp_path / "rows.csv").write_text("k,x,y\na,1.5,1\na,1.5,1\n")
    with inside(tmp_path):
        assert run_main("job.yaml", "--quiet").code == 1
        (run,) = (tmp_path / "results/runs").iterdir()
        assert export.main([str(run), "--openlineage", "events.jsonl"]) == 0
    whole = events_of(tmp_path / "events.jsonl")[-1]
    assert (whole["eventType"], "the sum is beyond" in whole["run"]["facets"]["errorMessage"]["message"], whole["outputs"]) == (
        "FAIL",
        True,
        [],
    )


def test_openlineage__without_the_inputs_has_no_columns_and_says_why(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openlineage.client", reason="openlineage-python, which makes events, is not installed")
    with inside(tmp_path):
        assert export.main([str(folder / "results"), "--openlineage", "events.jsonl"]) == 0
    assert "no column lineage: the job cannot be planned again" in capsys.readouterr().err
    assert "columnLineage" not in (tmp_path / "events.jsonl").read_text()


@pytest.mark.usefixtures("within")
def test_export__names_the_library_that_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def lacking(module: str) -> Any:
        raise ModuleNotFoundError(module, name=module.split(".")[0])

    monkeypatch.setattr(told, "import_module", lacking)
    for option, remedy in (("--ro-crate", "[provenance]"), ("--openlineage", "[provenance]"), ("--mlflow", "[mlflow]")):
        assert export.main(["results", option, "there"]) == 2
        assert f"is not installed. Install it with: pip install '.{remedy}'" in capsys.readouterr().err


def test_export__needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main([str(tmp_path), "--openlineage", "x"]) == 2
    assert "no run has been published there" in capsys.readouterr().err
