"""Certificates in files, as a user has them, made by the library that makes those of a run."""

from __future__ import annotations

from pathlib import Path

from distributed import Security

from pipeline.clusters.encryption import TlsFiles


def certificate_files(folder: Path) -> TlsFiles:
    """A certificate that signs itself, and its key."""
    made = Security.temporary()
    paths = {name: folder / f"{name}.pem" for name in ("ca", "certificate", "key")}
    for (_, path), text in zip(paths.items(), (made.tls_ca_file, made.tls_client_cert, made.tls_client_key), strict=True):
        path.write_text(text)
        path.chmod(0o600)
    return TlsFiles(**{name: str(path) for name, path in paths.items()})
