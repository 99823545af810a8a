"""How many workers a cluster has: a number, or as many as there is work for between two, and fixed while a model trains over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_WORKERS = 10_000

Count = Annotated[int, Field(ge=1, le=MOST_WORKERS)]


class Scaling(BaseModel):
    """So many workers as there is work for: tables are divided for `maximum`, whatever number there is, so results do not show it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    minimum: Count = Field(description="Workers that are always there.")
    maximum: Count = Field(description="Workers where there is work for as many, and while a model trains over them.")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum: {self.minimum} is more than maximum: {self.maximum}")
        return self


def at_first(workers: int | Scaling | None) -> int:
    """Workers that a run begins with."""
    return workers.minimum if isinstance(workers, Scaling) else workers or 1


def at_most(workers: int | Scaling | None) -> int:
    """Workers that may come to be there."""
    return workers.maximum if isinstance(workers, Scaling) else workers or 1


class Scaled:
    """A cluster of Dask whose number of workers follows the work, unless it is fixed."""

    def __init__(self, client: Any, scaling: Scaling, wait_s: float) -> None:
        self._client, self._scaling, self._wait_s = client, scaling, wait_s
        self._lock, self._trainings = Lock(), 0
        self._limit(scaling.minimum, scaling.maximum)

    @contextmanager
    def fixed(self) -> Iterator[str]:
        """As many workers as there may be at most, until the block ends; what to say where fewer come in time, '' where all do."""
        with self._lock:
            self._trainings += 1
            missing = self._gathered() if self._trainings == 1 else ""
        try:
            yield missing
        finally:
            with self._lock:
                self._trainings -= 1
                if self._trainings == 0 and self._client.status == "running":
                    self._limit(self._scaling.minimum, self._scaling.maximum)

    def _gathered(self) -> str:
        most = self._scaling.maximum
        self._limit(most, most)
        try:
            self._client.wait_for_workers(most, timeout=self._wait_s)
        except TimeoutError:
            there = max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))
            self._limit(there, there)
            return f"{there} of {most} workers came in {self._wait_s:g} s: how many they are shows in the last digits of a model"
        return ""

    def _limit(self, minimum: int, maximum: int) -> None:
        self._client.cluster.adapt(minimum=minimum, maximum=maximum)
