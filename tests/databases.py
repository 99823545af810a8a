"""A PostgreSQL server on this machine for tests, of an ordinary user (it refuses root), behind a socket and a password."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "made-up-password"
DEBIAN = Path("/usr/lib/postgresql")
SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=", "max_connections=50")


def postgres_programs() -> Path | None:
    """The folder of initdb and pg_ctl: of the newest version that Debian has here, else of the PATH; None where there is none."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _ordinary(folder: Path) -> list[str]:
    """What a command is put behind so that it runs as a user who is not root, whose the folder is then."""
    if os.geteuid() != 0:
        return []
    shutil.chown(folder, "nobody", "nogroup")
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


@contextmanager
def postgres_server(programs: Path) -> Iterator[str]:
    """A server; the URL of its database, with the password."""
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        user, data = _ordinary(folder), str(folder / "data")

        def call(program: str, *arguments: str) -> None:
            command = [*user, str(programs / program), *arguments]
            subprocess.run(
                command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"]}
            )

        call("initdb", "-D", data, "-U", "tester", "-A", "scram-sha-256", f"--pwfile={folder}/password", "-E", "UTF8", "--locale=C", "-N")
        options = " ".join(f"-c {setting}" for setting in (*SETTINGS, f"unix_socket_directories={folder}"))
        call("pg_ctl", "-D", data, "-w", "-t", "60", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"postgresql://tester:{PASSWORD}@/postgres?host={folder}"
        finally:
            call("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
