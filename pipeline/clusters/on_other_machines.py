"""What clusters share whose workers this process has started on other machines: their keys, their certificates, and who is waited for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import Field

from pipeline.clusters.encryption import (
    INSECURE,
    Tls,
    certificates_in_settings,
    check_tls,
    encryption_required,
    refuse_plain,
    security_of,
)
from pipeline.clusters.kind import ClusterKind, Size
from pipeline.clusters.scaling import Count, Scaling
from pipeline.errors import PlaceError

MADE_FOR_A_RUN = "Certificates of files, or true, made for the run: what it is where not given, unless insecure is true."

COMPRESSED = {"DASK_DISTRIBUTED__COMM__COMPRESSION": "auto"}
"""What workers on several machines send one another goes through lz4, where it is installed: benchmarks/communication.py has why."""


class OtherMachines(ClusterKind):
    """The keys of clusters whose workers this process starts elsewhere."""

    ignores: ClassVar[frozenset[str]] = frozenset({"protocol"})
    elsewhere: ClassVar[bool] = True
    shares_our_folder: ClassVar[bool] = False
    extra: ClassVar[tuple[str, str]]  # the module that starts them, and this project's extra that has it

    workers: Count | Scaling | None = Field(None, description="Worker processes in all; one where not given.")
    threads: int | None = Field(None, ge=1, le=10_000, description="Threads of each worker.")
    memory_limit: Size | None = Field(None, description="Memory of each worker, such as 8GB; beyond it parts spill to disk.")
    tls: Tls | None = Field(None, description=MADE_FOR_A_RUN)
    insecure: bool = INSECURE
    wait_s: float = Field(600.0, gt=0, description="Seconds to wait for the workers before the run is refused.")

    def check(self) -> None:
        """Raise PlaceError where the library that starts workers is missing, or certificates that are asked for cannot be had."""
        module, extra = self.extra
        if find_spec(module) is None:
            raise PlaceError(f"cluster {self.kind}: {module} is not installed here. Install it with: pip install '.[{extra}]'")
        if not self.insecure or encryption_required():
            check_tls(self.kind, self.tls or (None if certificates_in_settings() else True))

    def security(self) -> Any:
        """Dask's Security of this cluster; None where it is to talk in plain text."""
        if self.tls is None and certificates_in_settings():
            return security_of(None)
        return None if self.insecure and self.tls is None else security_of(self.tls or True)

    @contextmanager
    def joined(self, start: Callable[[], Any], workers: int) -> Iterator[Any]:
        """A client of a cluster that is started, once so many workers are there; all of it is closed at the end.

        Raises PlaceError where it cannot be started, or fewer workers come in `wait_s`.
        """
        from distributed import Client

        try:
            cluster = start()
        except Exception as error:
            raise PlaceError(
                f"cluster {self.kind}: it could not be started: {' '.join(str(error).split()) or type(error).__name__}"
            ) from error
        with closing(cluster), closing(Client(cluster)) as client:
            try:
                client.wait_for_workers(workers, timeout=self.wait_s)
            except TimeoutError as error:
                there = len(client.scheduler_info(n_workers=-1)["workers"])
                text = f"{there} of {workers} workers came in {math.ceil(self.wait_s)} s. {self.why_none()}"
                raise PlaceError(f"cluster {self.kind}: {text}") from error
            refuse_plain(self.kind, client.scheduler_info(n_workers=-1)["workers"], insecure=self.insecure)
            yield client

    def why_none(self) -> str:
        """Where to look when workers do not come."""
        return "Wait longer (wait_s), or ask for fewer."
