"""The HTTP app of a served model: POST /predict, GET /health, /model and /metrics. Errors are JSON: {"error": what is wrong}."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import polars as pl
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.errors import DataError, PipelineError
from pipeline.serving.batches import Batches, BusyError
from pipeline.serving.measures import Measures
from pipeline.serving.rows import WIRES, BadRequestError, Wire
from pipeline.serving.served import Served

HEARD = 8  # times the most bytes of a body that are read before a client is cut off
LARGE = 65_536  # bytes of a body that is read in a thread, so that others are answered meanwhile


@dataclass(frozen=True)
class Limits:
    """Most bytes of a body, rows that the model predicts at once, and rows that may wait for it."""

    body_bytes: int = 32 << 20
    batch_rows: int = 16_384
    waiting_rows: int = 262_144


class _App:
    """The endpoints, which share the model, its batches and what is counted."""

    def __init__(self, served: Served, limits: Limits) -> None:
        self.served, self.limits, self.measures = served, limits, Measures()
        more = {"most_rows": limits.batch_rows, "waiting_rows": limits.waiting_rows}
        self.batches = Batches(served.answers, seen=self.measures.batch, **more)

    async def predict(self, request: Request) -> Response:
        """The predictions of the rows in the body, in the form in which they came."""
        started, rows = time.perf_counter(), 0
        wire = WIRES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
        answer: Response
        try:
            if wire is None:
                answer = _refused(415, f"the content type must be one of: {', '.join(WIRES)}")
            else:
                predicted = await self._predicted(wire, await self._body(request))
                answer, rows = (
                    Response(await _spread(wire.write, predicted, predicted.height), media_type=wire.content_type),
                    predicted.height,
                )
        except HTTPException as error:
            answer = _refused(error.status_code, error.detail)
        except BusyError as error:
            answer = _refused(503, error.text, {"retry-after": "1"})
        except BadRequestError as error:
            answer = _refused(400, error.text)
        except PipelineError as error:
            answer = _refused(422, error.text)
        except pl.exceptions.PolarsError as error:
            answer = _refused(422, f"the rows are not as the model's stages take them: {' '.join(str(error).split())[:500]}")
        self.measures.answered(answer.status_code, rows, time.perf_counter() - started)
        return answer

    async def _body(self, request: Request) -> bytes:
        """The body. Raises HTTPException where it is larger than it may be, or its client is gone.

        What is too large is still heard out for a while, and not kept: a client that is cut off while it sends never reads why.
        """
        most, read, size = self.limits.body_bytes, bytearray(), 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size <= most:
                    read += chunk
                elif size > HEARD * most:
                    break
        except ClientDisconnect as error:
            raise HTTPException(400, "the body ended before its end") from error
        if size > most:
            raise HTTPException(413, f"the body has more than {most:,} bytes. Send fewer rows at once.")
        return bytes(read)

    async def _predicted(self, wire: Wire, body: bytes) -> pl.DataFrame:
        rows = await _spread(wire.read, body, len(body))
        if rows.height == 0:
            raise DataError("there is no row")
        return await self.batches.ask(rows if wire.typed else self.served.typed(rows))

    async def health(self, _request: Request) -> Response:
        """That the server answers."""
        return JSONResponse({"status": "ok"})

    async def model(self, _request: Request) -> Response:
        """What the model takes and gives."""
        return Response(json.dumps(self.served.description(), indent=1, default=str), media_type="application/json")

    async def metrics(self, _request: Request) -> Response:
        """What was counted, for Prometheus."""
        return Response(self.measures.text(self.batches.rows_waiting), media_type="text/plain; version=0.0.4")

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """The model answers while the app lives; the server has waited for requests before it ends."""
        running = asyncio.create_task(self.batches.run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def make_app(served: Served, limits: Limits) -> Starlette:
    """The app of a model."""
    app = _App(served, limits)
    routes = [
        Route("/predict", app.predict, methods=["POST"]),
        Route("/health", app.health),
        Route("/model", app.model),
        Route("/metrics", app.metrics),
    ]
    handlers: dict[Any, Any] = {HTTPException: _http_error, Exception: _fault}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=app.lifespan)


async def _spread(work: Any, given: Any, size: int) -> Any:
    """Reading or writing: at once where it is little, else in a thread."""
    return work(given) if size <= LARGE else await asyncio.to_thread(work, given)


def _refused(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)


async def _http_error(_request: Request, error: HTTPException) -> Response:
    return _refused(error.status_code, error.detail, dict(error.headers or {}))


async def _fault(_request: Request, _error: Exception) -> Response:
    return _refused(500, "a fault of the server's; its log says more", {"connection": "close"})  # as uvicorn does after a fault
