"""Dask's processes over ssh, with what the library's own lack: certificates that are sent there, one address to listen on, a sure end.

A process listens on the address by which ssh reached its host, or on the interface that is named. Certificates go over ssh into a folder
that only the user reads there, and are removed when the process is ended: no key is on a command line, which everyone on a host can read.
The folder also has the process's number: a server of ssh need not pass signals on, and does not where root comes in.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
from distributed.deploy import ssh

PATIENCE_S = 5.0
FILES = {"ca_file": "ca.pem", "cert": "certificate.pem", "key": "key.pem"}


class _Remote:
    """A process on a host, before it starts and after it ended."""

    role: str
    library: Any  # the class that this one is before
    name: Any = None
    connect_options: dict[str, Any]
    kwargs: dict[str, Any]
    remote_python: str | None
    proc: Any

    def __init__(self, *positional: Any, security: Any, interface: str | None, **options: Any) -> None:
        self.library.__init__(self, *positional, **options)
        self.host, self.security, self.interface = options["address"], security, interface
        self.access: Any = None
        self.heard: asyncio.Future[str] | None = None
        self.folder = ""

    async def start(self) -> None:
        """Send certificates and start the process. Raises RuntimeError with what the host says where it does not start."""
        try:
            self.access = await asyncssh.connect(self.host, **self.connect_options)
        except (OSError, asyncssh.Error) as error:
            raise RuntimeError(f"{self.host}: ssh does not get there: {error}") from error
        self.folder = (await self.access.run("umask 077 && mktemp -d -t pipeline-XXXXXXXX", check=True)).stdout.strip()
        peer = self.access.get_extra_info("peername")[0]
        self.kwargs = self.kwargs | ({"interface": self.interface} if self.interface else {"host": peer}) | await self._certificates()
        self.kwargs |= {} if self.name is None else {"name": self.name}  # its place in the order of workers
        python = shlex.quote(self.remote_python or sys.executable)
        self.remote_python = f'sh -c \'echo $$ > {self.folder}/pid; exec "$0" "$@"\' {python}'
        try:
            await self.library.start(self)
        except Exception as error:
            raise RuntimeError(f"{self.host}: {await self._why_not(python) or error}") from error
        self.heard = asyncio.ensure_future(self.proc.stderr.read())  # unread, it would stop the process after some megabytes

    async def close(self) -> None:
        """End the process, and remove its certificates."""
        if self.access is not None:
            with suppress(TimeoutError, asyncssh.Error):  # a host that is gone has nothing left to end
                await asyncio.wait_for(self._end(), PATIENCE_S)
            self.access.close()
        await self.library.close(self)

    async def _end(self) -> None:
        if self.heard is not None:
            await self.access.run(f"kill -TERM $(cat {self.folder}/pid)")
            await asyncio.wait([self.heard], timeout=PATIENCE_S / 2)  # what it says ends with it
            self.heard.cancel()
        await self.access.run(f"kill -KILL $(cat {self.folder}/pid); rm -rf {self.folder}")

    async def _certificates(self) -> dict[str, Any]:
        """What the process is told of its certificates, once they are there."""
        if self.security is None:
            return {}
        found = self.security.get_tls_config_for_role(self.role)
        there = {f"tls_{key if key == 'ca_file' else f'{self.role}_{key}'}": f"{self.folder}/{FILES[key]}" for key in FILES if found[key]}
        for key, name in FILES.items():
            if text := found[key]:
                content = text if "\n" in text else Path(text).read_text(encoding="ascii")
                await self.access.run(f"umask 077 && cat > {self.folder}/{name}", input=content, check=True)
        return {"security": {"require_encryption": True, **there}}

    async def _why_not(self, python: str) -> str:
        """The last line that the host's Python says when it imports what the process needs."""
        said = (await self.access.run(f"{python} -c 'import distributed.cli.dask_spec, pipeline'")).stderr
        return str(said).strip().rpartition("\n")[2]


Scheduler = type("Scheduler", (_Remote, ssh.Scheduler), {"role": "scheduler", "library": ssh.Scheduler})
Worker = type("Worker", (_Remote, ssh.Worker), {"role": "worker", "library": ssh.Worker})
