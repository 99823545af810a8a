"""The HTTP app: what it answers is what was published, in kind; what it refuses it refuses as score does, in JSON."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.serving.app import Limits
from pipeline.serving.served import Answer, Served
from tests.serving.conftest import Model
from tests.serving.serving import ARROW, arrow, asked_rows, serving

ROWS = asked_rows()


class Late(Served):
    """Answers once its gate is open."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.gate = threading.Event()

    def answers(self, requests: Sequence[pl.DataFrame]) -> list[Answer]:
        self.gate.wait(60)
        return super().answers(requests)


class Faulty(Served):
    """Fails once, as no error of ours does."""

    failed = False

    def answers(self, requests: Sequence[pl.DataFrame]) -> list[Answer]:
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError("a secret of the machine")
        return super().answers(requests)


def ask_json(client: httpx.Client, rows: Any) -> httpx.Response:
    body = rows if isinstance(rows, bytes) else json.dumps(rows.to_dicts() if isinstance(rows, pl.DataFrame) else rows)
    return client.post("/predict", content=body, headers={"content-type": "application/json"})


def ask_arrow(client: httpx.Client, rows: pl.DataFrame | bytes) -> httpx.Response:
    return client.post("/predict", content=rows if isinstance(rows, bytes) else arrow(rows), headers={"content-type": ARROW})


def read_predictions(answer: httpx.Response) -> pl.DataFrame:
    """The answer's rows, of JSON with the types of training."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == ARROW:
        return pl.read_ipc_stream(BytesIO(answer.content))
    return pl.DataFrame(answer.json(), schema_overrides={"prediction": pl.Float32})


@pytest.mark.parametrize("ask", [ask_json, ask_arrow])
def test_predict__answers_in_kind_what_training_published(ask: Any, client: httpx.Client, model: Model) -> None:
    assert_frame_equal(read_predictions(ask(client, ROWS)), model.predictions, check_exact=True)
    for at in (0, 17, 399):
        assert_frame_equal(read_predictions(ask(client, ROWS[at : at + 1])), model.predictions[at : at + 1], check_exact=True)


def test_predict__needs_no_key_and_leaves_out_columns_that_it_is_not_asked_for(client: httpx.Client, model: Model) -> None:
    rows = ROWS.drop("id").with_columns(note=pl.lit("x")).head(5)
    found = read_predictions(ask_json(client, rows))
    assert_frame_equal(found, model.predictions.drop("id").head(5), check_exact=True)


def test_predict__of_json_takes_whole_numbers_for_floats_and_gaps(client: httpx.Client) -> None:
    as_floats = read_predictions(ask_arrow(client, pl.DataFrame({"income": [1.0, None], "age": [40, None], "town": ["Bonn", None]})))
    found = read_predictions(ask_json(client, [{"income": 1, "age": 40, "town": "Bonn"}, {}]))
    assert found["prediction"].to_list() == as_floats["prediction"].to_list()
    alone = read_predictions(ask_json(client, [{"income": None, "age": None, "town": None}]))
    assert alone["prediction"].to_list() == as_floats["prediction"].to_list()[1:]


def test_predict__of_json_refuses_a_fraction_where_training_had_whole_numbers(model: Model, tmp_path: Path) -> None:
    told = json.loads(Path(model.path).read_text())
    told["fitted"] = [step for step in told["fitted"] if step["use"] == "categorify"]
    told["types"]["age"] = "Int8"
    (tmp_path / "m.json").write_text(json.dumps(told))
    shutil.copy(Path(model.path).with_name(told["model"]), tmp_path / told["model"])
    with serving(Served(str(tmp_path / "m.json"))) as client:
        assert ask_json(client, [{"income": 1, "age": 40, "town": "Bonn"}]).status_code == 200
        for age in (40.5, 300):
            answer = ask_json(client, [{"income": 1, "age": age, "town": "Bonn"}])
            assert answer.status_code == 422
            assert answer.json() == {"error": f"column 'age' has {age}, and was Int8 in training, which has no such value"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROWS.drop("age").head(2), "no column 'age'"),
        (ROWS.with_columns(town=pl.lit(1.5)).head(2), "column 'town' is Float64, and categories are text"),
        (ROWS.with_columns(age=pl.lit("old")).head(2), "'age' is String"),
    ],
)
@pytest.mark.parametrize("ask", [ask_json, ask_arrow])
def test_predict__refuses_what_score_refuses(ask: Any, rows: pl.DataFrame, said: str, client: httpx.Client) -> None:
    answer = ask(client, rows)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    assert said in answer.json()["error"]


def test_predict__refuses_bodies_types_methods_and_paths_with_json(client: httpx.Client) -> None:
    refused = [
        (400, "the body is no JSON", ask_json(client, b"{")),
        (400, "the body is no Arrow IPC stream", ask_arrow(client, b"nonsense")),
        (422, "there is no row", ask_json(client, [])),
        (
            415,
            "the content type must be one of: application/json",
            client.post("/predict", content=b"a", headers={"content-type": "text/csv"}),
        ),
        (415, "the content type must be one of", client.post("/predict", content=b"[]")),
        (405, "Method Not Allowed", client.get("/predict")),
        (404, "Not Found", client.get("/predictions")),
    ]
    for status, said, answer in refused:
        assert answer.status_code == status
        assert said in answer.json()["error"]
        assert "Traceback" not in answer.text


def test_bodies__that_are_too_large_are_refused_with_and_without_their_length(model: Model) -> None:
    with serving(Served(model.path), Limits(body_bytes=1000)) as small:
        body = json.dumps(ROWS.head(50).to_dicts()).encode()
        for content in (body, iter([body[:600], body[600:]])):
            answer = small.post("/predict", content=content, headers={"content-type": "application/json"})
            assert answer.status_code == 413
            assert answer.json() == {"error": "the body has more than 1,000 bytes. Send fewer rows at once."}
        assert ask_json(small, ROWS.head(2)).status_code == 200


def test_a_bad_request__does_not_spoil_those_that_it_is_answered_with(model: Model) -> None:
    served = Late(model.path)
    wrong = ROWS.head(1).with_columns(age=pl.lit(2**62), income=pl.lit(1e300))
    found: dict[int, httpx.Response] = {}
    with serving(served) as client:
        frames = [ROWS[:1], ROWS[1:3], wrong, ROWS[3:6], ROWS[6:9]]
        threads = [threading.Thread(target=lambda at=at: found.update({at: ask_arrow(client, frames[at])})) for at in range(5)]
        threads[0].start()
        while _measure(client, "batch_requests_count") < 1:  # it is with the model, and the others wait for the gate
            time.sleep(0.01)
        for thread in threads[1:]:
            thread.start()
        while _measure(client, "rows_waiting") < 9:
            time.sleep(0.01)
        served.gate.set()
        for thread in threads:
            thread.join(60)
        assert _measure(client, 'batch_requests_bucket{le="1"}') < _measure(client, "batch_requests_count")
    assert {found[at].status_code for at in (0, 1, 3, 4)} == {200}
    assert found[2].status_code == 422
    assert "'income' has infinite values" in found[2].json()["error"]
    expected = model.predictions[3:6]
    assert_frame_equal(read_predictions(found[3]), expected, check_exact=True)


def test_rows__beyond_what_may_wait_are_refused_for_now(model: Model) -> None:
    served = Late(model.path)
    statuses = list[int]()
    with serving(served, Limits(waiting_rows=10)) as client:
        threads = [threading.Thread(target=lambda: statuses.append(ask_arrow(client, ROWS.head(8)).status_code)) for _ in range(2)]
        threads[0].start()
        while _measure(client, "batch_requests_count") < 1:
            time.sleep(0.01)
        threads[1].start()  # the first is with the model and waits no more
        while _measure(client, "rows_waiting") < 8:
            time.sleep(0.01)
        answer = ask_arrow(client, ROWS.head(8))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json() == {"error": "8 rows wait already, and 10 may. Ask again in a moment."}
        served.gate.set()
        for thread in threads:
            thread.join(60)
    assert statuses == [200, 200]


def test_a_fault_of_the_model__is_an_error_without_its_traceback_and_the_server_goes_on(model: Model) -> None:
    with serving(Faulty(model.path)) as client:
        answer = ask_arrow(client, ROWS.head(1))
        assert answer.status_code == 500
        assert answer.json() == {"error": "a fault of the server's; its log says more"}
        assert ask_arrow(client, ROWS.head(1)).status_code == 200


def _measure(client: httpx.Client, name: str) -> float:
    found = re.search(rf"^pipeline_serve_{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])


def test_metrics__count_requests_rows_errors_and_batches(model: Model) -> None:
    with serving(Served(model.path)) as client:
        for rows in (1, 2, 30):
            ask_json(client, ROWS.head(rows))
        ask_json(client, b"{")
        text = client.get("/metrics")
        assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
        for name, value in {
            'requests_total{status="200"}': 3,
            'requests_total{status="400"}': 1,
            "errors_total": 1,
            "rows_total": 33,
            "rows_waiting": 0,
            "request_seconds_count": 4,
            'request_seconds_bucket{le="+Inf"}': 4,
            'batch_rows_bucket{le="1"}': 1,
            'batch_rows_bucket{le="2"}': 2,
            'batch_rows_bucket{le="20"}': 2,
            'batch_rows_bucket{le="50"}': 3,
            "batch_rows_sum": 33,
            "batch_requests_sum": 3,
        }.items():
            assert _measure(client, name) == value, name
        assert 0 < _measure(client, "request_seconds_sum") < 60


def test_health_and_model__say_what_is_served(client: httpx.Client, model: Model) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    told = client.get("/model").json()
    assert (told["use"], told["objective"], told["target"], told["key"]) == ("xgboost", "binary", "high", "id")
    assert told["types"] == {"income": "Float64", "age": "Float64", "town": "Int32"}
    assert told["predicts"] == {"prediction": "Float32"}
    assert [step["use"] for step in told["behind"]] == ["fill_missing", "standardize", "categorify"]
    assert told["model"] == model.path


def test_a_thousand_requests_at_once__are_each_answered_as_published(client: httpx.Client, model: Model) -> None:
    random = np.random.default_rng(3)
    spans = [(int(start), int(start + random.integers(1, 9))) for start in random.integers(0, 390, 1000)]
    wrong = list[Any]()

    def work(number: int) -> None:
        for at in range(number, len(spans), 8):
            start, end = spans[at]
            found = read_predictions((ask_json if at % 3 else ask_arrow)(client, ROWS[start:end]))
            if not found.equals(model.predictions[start:end]):
                wrong.append((start, end))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert wrong == []
    assert _measure(client, "batch_requests_sum") > _measure(client, "batch_requests_count")
