"""Which model a folder means, and the command line that serves it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from pipeline import serve
from pipeline.errors import InputError, PlaceError
from pipeline.results.champion import promote
from pipeline.results.manifest import run_path
from pipeline.serving.place import model_path
from pipeline.serving.served import Served
from tests.serving.conftest import Model
from tests.serving.serving import ARROW, arrow, asked_rows


def test_a_model__is_found_by_its_run_its_results_folder_or_its_file(model: Model) -> None:
    run = run_path(str(model.results))
    expected = f"{run}/models/model.json"
    for place, name in ((str(model.results), None), (run, None), (run, "model"), (expected, None)):
        assert Path(model_path(place, name)).samefile(expected)


def test_a_model__of_the_champion_counts_before_the_current_one(model: Model, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(model.results, results, symlinks=True)
    first = Path(run_path(str(results))).resolve().name
    promote(str(results), first)
    shutil.copytree(results / "runs" / first, results / "runs" / "20991231T000000Z-aaaaaa")
    (results / "current").unlink()
    (results / "current").symlink_to("runs/20991231T000000Z-aaaaaa")
    assert first in model_path(str(results))


def test_a_model__that_is_not_there_or_not_the_only_one_is_refused(model: Model, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_path(str(model.results)), run)
    with pytest.raises(InputError, match=r"this run has no model 'modle'\. Did you mean 'model'"):
        model_path(str(run), "modle")
    shutil.copy(run / "models" / "model.json", run / "models" / "other.json")
    with pytest.raises(InputError, match=r"this run has several models\. Choose one by --model: model, other"):
        model_path(str(run))
    shutil.rmtree(run / "models")
    with pytest.raises(InputError, match=r"this run has no model\. Give one whose job trains a model"):
        model_path(str(run))
    with pytest.raises(PlaceError, match="nowhere"):
        model_path(str(tmp_path / "nowhere"))


def test_a_model__of_arrays_cannot_be_served(model: Model, tmp_path: Path) -> None:
    told = json.loads(Path(model.path).read_text())
    (tmp_path / "m.json").write_text(json.dumps({**told, "arrays": ["dosages"]}))
    shutil.copy(Path(model.path).with_name(told["model"]), tmp_path / told["model"])
    with pytest.raises(InputError, match="the model takes dosages beside its columns, which no request brings"):
        Served(str(tmp_path / "m.json"))


@pytest.mark.parametrize("module", ["starlette", "uvicorn"])
def test_serve__says_what_to_install(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == module else True)
    assert serve.main(["results"]) == 2
    assert capsys.readouterr().err == f"error: {module} is not installed. Install it with: pip install '.[serve]'\n"


def test_serve__refuses_a_folder_without_results_and_a_port_that_is_taken(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.main([str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve.main([str(model.results), "--port", str(port)]) == 2
    assert f"127.0.0.1:{port} cannot be listened at" in capsys.readouterr().err


@pytest.mark.process
def test_serve__answers_until_sigterm_and_ends_with_what_was_asked_answered(model: Model) -> None:
    command = [sys.executable, "-m", "pipeline.serve", str(model.results), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as server:
        assert server.stdout
        assert server.stderr
        path, said = server.stdout.readline().strip(), server.stdout.readline()
        assert path == os.path.realpath(model.path)
        address = said.split()[0]
        rows, found = asked_rows(), list[Any]()
        many = pl.concat([rows] * 500)

        def ask() -> None:
            answer = httpx.post(f"{address}/predict", content=arrow(many), headers={"content-type": ARROW}, timeout=60)
            found.append(pl.read_ipc_stream(answer.content))

        assert httpx.get(f"{address}/health").json() == {"status": "ok"}
        asking = threading.Thread(target=ask)
        asking.start()
        while "rows_waiting 0" in (text := httpx.get(f"{address}/metrics").text) and 'batch_rows_bucket{le="+Inf"} 0' in text:
            time.sleep(0.001)
        server.send_signal(signal.SIGTERM)
        asking.join(60)
        assert server.wait(60) == 0
        assert server.stderr.read() == ""
    assert found[0].equals(pl.concat([model.predictions] * 500))
