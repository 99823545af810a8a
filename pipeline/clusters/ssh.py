"""Workers on hosts that ssh reaches, by Dask's SSHCluster; the first host has the scheduler, too."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from itertools import cycle, islice
from typing import Any, ClassVar, Literal

from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.threads import worker_environment
from pipeline.clusters.frozen import OWN_LIMIT
from pipeline.clusters.on_other_machines import COMPRESSED, OtherMachines
from pipeline.clusters.on_this_machine import HOST, tasks_at_once
from pipeline.clusters.scaling import Count

STARTS = ("proxy_command", "config", "pkcs11_provider", "command")  # of asyncssh: programs, libraries, and files that name them


class Ssh(OtherMachines):
    """Hosts that ssh reaches: workers on each, started and ended by this process."""

    rank: ClassVar[int] = 4
    implied_by: ClassVar[frozenset[str]] = frozenset({"hosts"})
    extra: ClassVar[tuple[str, str]] = ("asyncssh", "ssh")

    kind: Literal["ssh"] = Field("ssh", description="Hosts that ssh reaches.")
    workers: Count | None = Field(None, description="Worker processes in all; one a host where not given.")
    hosts: list[str] = Field(min_length=1, description="Hosts of the workers, filled in turn; the first has the scheduler, too.")
    connect_options: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="How ssh connects, as asyncssh.connect has it: username, port, client_keys, known_hosts.",
    )
    python: str | None = Field(None, min_length=1, description="Python of the hosts, with this project; this one's path where not given.")
    interface: str | None = Field(None, min_length=1, description="Network interface of the hosts, such as ib0; the address that ssh has.")

    def open(self, backend: Backend) -> AbstractContextManager[Any]:
        """A client of workers on the hosts, which are ended with it."""
        workers = self.workers or len(self.hosts)
        return self.joined(partial(self._started, workers, backend), workers)

    def commands(self) -> list[str]:
        """Options of ssh that start programs or load code here."""
        return [f"connect_options.{name}" for name in self.connect_options if name in STARTS]

    def _started(self, workers: int, backend: Backend) -> Any:
        from distributed.deploy.spec import SpecCluster

        from pipeline.clusters._over_ssh import Scheduler, Worker

        security = self.security()
        common = {"connect_options": self.connect_options, "remote_python": self.python, "security": security, "interface": self.interface}
        options = {"dashboard": self.dashboard, "dashboard_address": f"{HOST}:0", "port": 0, "protocol": "tls" if security else "tcp"}
        options |= OWN_LIMIT
        scheduler = {"cls": Scheduler, "options": {"address": self.hosts[0], "kwargs": options, **common}}
        spec = {
            number: {"cls": Worker, "options": {"address": host, "kwargs": self._worker_options(backend), **common}}
            for number, host in enumerate(islice(cycle(self.hosts), workers))
        }
        return SpecCluster(spec, scheduler, security=security, name="ssh")

    def _worker_options(self, backend: Backend) -> dict[str, Any]:
        """What Dask's Nanny is called with."""
        options: dict[str, Any] = {"dashboard_address": f"{HOST}:0", "memory_limit": self.memory_limit or "auto", "env": COMPRESSED}
        if self.threads:
            threads = tasks_at_once(self.threads, 1, backend)
            options |= {"nthreads": threads, "env": COMPRESSED | worker_environment(threads)}
        return options

    def dashboard_of(self, client: Any, port: int) -> str:
        """It listens on the first host, for those who are there."""
        return f"http://{HOST}:{port}/status (on {self.hosts[0]})"

    def why_none(self) -> str:
        """Where to look when workers do not come."""
        return "Do the hosts reach one another by the address that ssh has of them? If not, name their network: interface: eth0"
