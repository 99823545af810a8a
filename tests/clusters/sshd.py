"""An ssh server of our own on 127.0.0.1, with keys made for a test, and a Python for those who come in by it."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clusters.running import free_port

ROOT = Path(__file__).parents[2]
SSHD = shutil.which("sshd") or next((path for path in ("/usr/sbin/sshd", "/usr/local/sbin/sshd") if Path(path).exists()), None)
SEPARATED = Path("/run/sshd")
CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
"""


def missing() -> str:
    """Why there can be no server; '' where there can."""
    if SSHD is None or shutil.which("ssh-keygen") is None:
        return "sshd and ssh-keygen are not installed"
    return ""


@contextmanager
def running_sshd(folder: Path) -> Iterator[dict[str, Any]]:
    """The connect options of a server that runs in the block."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.getuid() == 0:
        SEPARATED.mkdir(exist_ok=True)  # as its service does; sshd of another user asks for none
    port = free_port()
    (folder / "sshd_config").write_text(CONFIG.format(port=port, folder=folder))
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    assert SSHD is not None
    with subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr or ():
                if "Server listening" in line:
                    break
            yield {
                "port": port,
                "username": getpass.getuser(),
                "client_keys": [str(folder / "user")],
                "known_hosts": str(folder / "known"),
            }
        finally:
            server.terminate()


def python_of_hosts(folder: Path) -> str:
    """A Python that finds this checkout, as an installation on the hosts would have it."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)
