"""A Dask cluster that runs already, found by its scheduler's address or file; it is left running."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, WithJsonSchema, model_validator

from pipeline.backend.devices import Backend
from pipeline.clusters.encryption import (
    ENCRYPTED,
    INSECURE,
    UCX,
    TlsFiles,
    certificates_in_settings,
    check_tls,
    refuse_plain,
    refuse_ucx,
    security_of,
)
from pipeline.clusters.kind import ClusterKind
from pipeline.errors import PlaceError

ADDRESS = re.compile(r"[a-z]+://\S+|[A-Za-z0-9_.-]+:[0-9]+|\[[0-9a-fA-F:]+\]:[0-9]+")
CONNECT_TIMEOUT_S = 10

T = TypeVar("T")


class Scheduler(ClusterKind):
    """A running cluster."""

    rank: ClassVar[int] = 3
    implied_by: ClassVar[frozenset[str]] = frozenset({"address", "scheduler_file"})
    ignores: ClassVar[frozenset[str]] = frozenset({"protocol"})
    elsewhere: ClassVar[bool] = True
    shares_our_folder: ClassVar[bool] = False  # its workers may have been started in another

    kind: Annotated[Literal["scheduler"], WithJsonSchema({"enum": ["scheduler", "auto"]})] = Field(
        "scheduler", description="A running cluster."
    )
    address: str | None = Field(None, pattern=r"^[a-z]+://\S+$|^\S+:[0-9]+$", description="Of a running scheduler: tls://HOST:8786.")
    scheduler_file: str | None = Field(None, min_length=1, description="The file that a running scheduler wrote.")
    tls: TlsFiles | None = Field(None, description="Certificates that its processes know; Dask's own settings where not given.")
    insecure: bool = INSECURE

    @model_validator(mode="after")
    def _is_found(self) -> Self:
        if (self.address is None) == (self.scheduler_file is None):
            raise ValueError("kind: scheduler needs one of address: tls://HOST:PORT and scheduler_file: PATH")
        return self

    @classmethod
    def of_text(cls, text: str) -> dict[str, Any] | None:
        """Its name, or an address."""
        return super().of_text(text) if ADDRESS.fullmatch(text) is None else {"kind": "scheduler", "address": text}

    @classmethod
    def refusal(cls, owners: Mapping[str, str]) -> str:
        """What is said of keys that only a cluster of our own has."""
        return f"{', '.join(owners)}: a running cluster has its own; leave them out"

    def check(self) -> None:
        """Raise PlaceError for a scheduler file that is none, certificates that are missing, and what would go in plain text."""
        address, encrypted = self._found_address(), self.tls is not None
        protocol = address.partition("://")[0]
        check_tls(self.kind, self.tls)
        if protocol in UCX:
            refuse_ucx(self.kind, encrypted=encrypted)
        elif protocol in ENCRYPTED and not self._has_certificates:
            what = "needs certificates: give tls: {ca, certificate, key}, or Dask's settings (DASK_DISTRIBUTED__COMM__TLS__CA_FILE ...)"
            raise PlaceError(f"cluster scheduler: {address} {what}")
        elif protocol not in ENCRYPTED and encrypted:
            raise PlaceError(f"cluster scheduler: {address} is plain text, and tls is given. Write tls://HOST:PORT, or leave tls out.")
        refuse_plain(self.kind, [address], insecure=self.insecure)

    @contextmanager
    def open(self, backend: Backend) -> Iterator[Any]:
        """A client, closed at the end. Raises PlaceError where no scheduler answers, or one that has no worker."""
        address = self._found_address()
        with closing(self._connected(address)) as client:
            yield client

    @property
    def _has_certificates(self) -> bool:
        return self.tls is not None or certificates_in_settings()

    def _connected(self, address: str) -> Any:
        from distributed.versions import VersionMismatchWarning

        try:
            _within(
                CONNECT_TIMEOUT_S, lambda: asyncio.run(_answer(address, security_of(self.tls)))
            )  # a notebook has a loop of its own here
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VersionMismatchWarning)  # what differs is refused, in one line
                client = _within(3 * CONNECT_TIMEOUT_S, lambda: self._client(address))
        except (OSError, ValueError) as error:
            given = f" (of {self.scheduler_file})" if self.scheduler_file else ""
            known = ", does it know our certificate" if address.startswith("tls") else ""
            raise PlaceError(
                f"cluster scheduler: no Dask scheduler answers at {address}{given} within {CONNECT_TIMEOUT_S} s. "
                f"Is it running{known}, and does a firewall let this machine reach it?"
            ) from error
        return client

    def _client(self, address: str) -> Any:
        """A client whose scheduler has a worker."""
        from distributed import Client

        client = Client(address, timeout=CONNECT_TIMEOUT_S, security=security_of(self.tls))
        try:
            client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
            refuse_plain(self.kind, client.scheduler_info(n_workers=-1)["workers"], insecure=self.insecure)
        except TimeoutError as error:
            client.close()
            raise PlaceError(f"cluster scheduler: {address} has no worker. Start one with: dask worker {address}") from error
        except PlaceError:
            client.close()
            raise
        return client

    def _found_address(self) -> str:
        """The scheduler's address. Dask itself would wait for a missing scheduler file without an end."""
        if self.scheduler_file is None:
            assert self.address is not None
            protocol = "tls" if self._has_certificates else "tcp"
            return self.address if "://" in self.address else f"{protocol}://{self.address}"
        remedy = f"Start a scheduler that writes it: dask scheduler --scheduler-file {self.scheduler_file}"
        try:
            return str(json.loads(Path(self.scheduler_file).read_text(encoding="utf-8"))["address"])
        except OSError as error:
            raise PlaceError(f"cluster scheduler: {self.scheduler_file}: {error.strerror}. {remedy}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise PlaceError(f"cluster scheduler: {self.scheduler_file}: not the file of a Dask scheduler. {remedy}") from error


def _within(seconds: float, function: Callable[[], T]) -> T:
    """What it gives, or raises. TimeoutError where it does neither in time: it is left to itself, in a thread that nobody waits for."""
    ended: Future[T] = Future()

    def work() -> None:
        """Have it end with what the function gives or raises."""
        with _Raised(ended):
            ended.set_result(function())

    Thread(target=work, daemon=True).start()
    return ended.result(seconds)


class _Raised:
    """What is raised inside is raised where the future is waited for."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is not None:
            self._future.set_exception(error)
        return error is not None


async def _answer(address: str, security: Any) -> None:
    """Raise TimeoutError where a scheduler is frozen: the system takes its connections, and a client of Dask would wait without an end."""
    from distributed.core import rpc

    async with rpc(address, timeout=CONNECT_TIMEOUT_S, connection_args=security.get_connection_args("client")) as scheduler:
        await asyncio.wait_for(scheduler.identity(n_workers=0), CONNECT_TIMEOUT_S)
