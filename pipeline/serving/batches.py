"""Requests that come while the model is busy are answered together; none waits for company where the model is free."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from pipeline.errors import RunError

Answers = Callable[[Sequence[pl.DataFrame]], Sequence[pl.DataFrame | Exception]]


class BusyError(RunError):
    """More rows wait than may."""


@dataclass(frozen=True)
class Waiting:
    """A request's rows, and where its answer goes."""

    rows: pl.DataFrame
    answer: asyncio.Future[pl.DataFrame]


class Batches:
    """Asks a model for one batch after another, in a thread of its own.

    A batch has up to `most_rows`, or one larger request; where `waiting_rows` wait already, further ones are refused. `seen` is told the
    requests and the rows of every batch.
    """

    def __init__(self, answers: Answers, *, most_rows: int, waiting_rows: int, seen: Callable[[int, int], None]) -> None:
        self._answers, self._seen = answers, seen
        self._most_rows, self._waiting_rows = most_rows, waiting_rows
        self._waiting: deque[Waiting] = deque()
        self._arrived = asyncio.Event()
        self.rows_waiting = 0

    async def ask(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The answer to some rows. Raises BusyError, or what the model raises for them."""
        if self.rows_waiting and self.rows_waiting + rows.height > self._waiting_rows:
            raise BusyError(f"{self.rows_waiting:,} rows wait already, and {self._waiting_rows:,} may. Ask again in a moment.")
        answer: asyncio.Future[pl.DataFrame] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(rows, answer))
        self.rows_waiting += rows.height
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Answer for ever; ends when its task is cancelled."""
        with ThreadPoolExecutor(1, thread_name_prefix="model") as thread:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while batch := self._next():
                    asked = asyncio.get_running_loop().run_in_executor(thread, self._answers, [one.rows for one in batch])
                    await asyncio.wait([asked])
                    self._hand_out(batch, asked)

    def _next(self) -> list[Waiting]:
        """The requests that are answered next, those first that came first; none of clients that are gone."""
        batch: list[Waiting] = []
        size = 0
        while self._waiting and (not batch or size + self._waiting[0].rows.height <= self._most_rows):
            one = self._waiting.popleft()
            self.rows_waiting -= one.rows.height
            if not one.answer.done():
                batch.append(one)
                size += one.rows.height
        if batch:
            self._seen(len(batch), size)
        return batch

    def _hand_out(self, batch: Sequence[Waiting], asked: asyncio.Future[Sequence[pl.DataFrame | Exception]]) -> None:
        """Give every request what was found for it; a fault of the model's goes to all."""
        fault = asked.exception()
        found = [fault] * len(batch) if fault is not None else asked.result()
        for one, answer in zip(batch, found, strict=True):
            if one.answer.done():
                continue
            if isinstance(answer, pl.DataFrame):
                one.answer.set_result(answer)
            else:
                one.answer.set_exception(answer)
