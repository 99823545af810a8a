"""Who may read what the processes of a cluster tell one another: TLS by certificates of files, of Dask's settings or made for a run.

Whoever reaches a plain-text scheduler reads the data and runs code on its workers: beyond this machine there is none unless a job says so.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import PlaceError

ENCRYPTED, OF_ONE_PROCESS, UCX = ("tls", "wss"), ("inproc", "unix"), ("ucx", "ucxx")
ROLES = ("client", "scheduler", "worker")
INSECURE = Field(
    False, description="Whether processes of several machines may talk in plain text; whoever reaches them then reads and runs all."
)


class TlsFiles(BaseModel):
    """Certificates of files in PEM; every process of the cluster shows one that `ca` has signed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    ca: str = Field(min_length=1, description="File with the certificate of who signs all others.")
    certificate: str = Field(min_length=1, description="File with our certificate.")
    key: str | None = Field(None, min_length=1, description="File with its key; where not given, it stands in the certificate's file.")


Tls = TlsFiles | Literal[True]


def check_tls(kind: str, tls: Tls | None) -> None:
    """Raise PlaceError where a file is missing, or what makes certificates is not installed."""
    if tls is True and find_spec("cryptography") is None:
        what = "certificates for a run are made by cryptography, which is not installed here"
        raise PlaceError(f"cluster {kind}: {what}. Install it with: pip install '.[tls]', or name files: tls: {{ca, certificate, key}}")
    if isinstance(tls, TlsFiles):
        for key, path in tls:
            if path is not None and not Path(path).is_file():
                raise PlaceError(f"cluster {kind}: tls.{key}: there is no file {path}. Name the PEM file, as this machine sees it.")


def security_of(tls: Tls | None) -> Any:
    """Dask's Security: of files, made for the run, or of Dask's own settings."""
    from distributed import Security

    if tls is True:
        return Security.temporary()
    if tls is None:
        return Security()
    certificate, key = (str(Path(path).absolute()) for path in (tls.certificate, tls.key or tls.certificate))
    ours = {f"tls_{role}_cert": certificate for role in ROLES} | {f"tls_{role}_key": key for role in ROLES}
    return Security(require_encryption=True, tls_ca_file=str(Path(tls.ca).absolute()), **ours)


@contextmanager
def in_files(security: Any, folder: str) -> Iterator[Any]:
    """The same, with certificates that were made for a run in files that only the user reads, below a folder and for the block."""
    with TemporaryDirectory(prefix=".certificates-", dir=folder) as place:
        told = copy(security)
        for name in ("tls_ca_file", *(f"tls_{role}_{what}" for role in ROLES for what in ("cert", "key"))):
            if security is not None and "\n" in str(getattr(security, name)):
                file = Path(place, f"{name}.pem")
                file.write_text(getattr(security, name), encoding="ascii")
                setattr(told, name, str(file))
        yield told


def certificates_in_settings() -> bool:
    """Whether Dask's own settings have certificates for who connects (DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on)."""
    return _setting("tls.ca-file") is not None and _setting("tls.client.cert") is not None


def encryption_required() -> bool:
    """Whether Dask's own settings want encryption of all."""
    return bool(_setting("require-encryption"))


def _setting(name: str) -> Any:
    from dask import config

    return config.get(f"distributed.comm.{name}", None)


def refuse_ucx(kind: str, *, encrypted: bool) -> None:
    """Raise PlaceError where UCX is to carry what is to be encrypted: it would go in plain text, and Dask would say nothing."""
    if encrypted or encryption_required():
        asked = "tls is given" if encrypted else "Dask's setting distributed.comm.require-encryption is on"
        raise PlaceError(f"cluster {kind}: UCX has no encryption, and {asked}. Use TCP with TLS (tls://), or UCX without it.")


def refuse_plain(kind: str, addresses: Iterable[str], *, insecure: bool) -> None:
    """Raise PlaceError for an address beyond this machine whose protocol does not encrypt."""
    for address in sorted(set(addresses)):
        if not insecure and not is_encrypted(address) and not is_here(address):
            raise PlaceError(
                f"cluster {kind}: {address} is beyond this machine and in plain text, so whoever reaches it reads the data and runs code. "
                "Start it with TLS and give tls://HOST:PORT and tls: {ca, certificate, key}; or, in a trusted network, say insecure: true"
            )


def is_encrypted(address: str) -> bool:
    """Whether what goes to an address is encrypted."""
    return address.partition("://")[0] in ENCRYPTED


def plain_text_note(kind: str, addresses: Iterable[str]) -> list[str]:
    """What is said of a cluster in use some of whose processes talk in plain text, the first of them by name; nothing where none does."""
    safe = tuple(f"{name}://" for name in ENCRYPTED + OF_ONE_PROCESS)
    plain = [address for address in dict.fromkeys(addresses) if not address.startswith(safe)]
    if not plain:
        return []
    whoever = "whoever is on this machine" if all(map(is_here, plain)) else "whoever reaches them over the network"
    which = f"{plain[0]} and {len(plain) - 1} more talk" if len(plain) > 1 else f"{plain[0]} talks"
    return [f"cluster {kind}: {which} in plain text, so {whoever} can read the data and run code. TLS: docs/clusters.md"]


def is_here(address: str) -> bool:
    """Whether an address is of this machine."""
    protocol, _, rest = address.rpartition("://")
    return protocol in OF_ONE_PROCESS or _is_own(urlsplit(f"//{rest}").hostname or "")


@cache
def _is_own(host: str) -> bool:
    """Whether a host's addresses are all of this machine: those that a socket can be bound to."""
    try:
        found = {(family, where[0]) for family, _, _, _, where in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ip_address(str(where).partition("%")[0]).is_loopback or _binds(family, str(where)) for family, where in found)


def _binds(family: int, host: str) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True
