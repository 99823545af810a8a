"""What the tests of the server share: a model that a job published, rows to ask for, and a server in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import polars as pl
import uvicorn

import pipeline
from pipeline.serving.app import Limits, make_app
from pipeline.serving.served import Served
from tests.small import inside
from tests.stages.models.test_score import raw_rows, training_job

ARROW = "application/vnd.apache.arrow.stream"


def published(folder: Path) -> pl.DataFrame:
    """Publish the model of two classes of `training_job` under folder/trained; what training predicted, by id."""
    raw_rows().write_parquet(folder / "rows.parquet", row_group_size=90)
    (folder / "train.yaml").write_text(training_job("high", "binary"))
    with inside(folder):
        trained = pipeline.load("train.yaml").run().table("predictions").to_polars()
    return trained.select("id", "prediction").sort("id")


def asked_rows() -> pl.DataFrame:
    """Raw rows as a client has them."""
    return raw_rows().drop("level", "high", "third")


@contextmanager
def serving(served: Served, limits: Limits | None = None) -> Iterator[httpx.Client]:
    """A client of a server on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(make_app(served, limits or Limits()), log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
                while not server.started:
                    time.sleep(0.01)
                yield client
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def arrow(rows: pl.DataFrame) -> bytes:
    """An IPC stream."""
    from io import BytesIO

    rows.write_ipc_stream(written := BytesIO())
    return written.getvalue()
