"""Nothing is told in plain text beyond this machine unless a job says so, and TLS is by files, by Dask's settings or made for the run."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest

import pipeline.clusters.encryption
from pipeline.clusters.auto import Auto
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.cuda import Cuda, cuda_options
from pipeline.clusters.encryption import TlsFiles, is_here, plain_text_note, security_of
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler
from pipeline.clusters.ssh import Ssh
from pipeline.errors import PlaceError
from tests.clusters.certificates import certificate_files

pytest.importorskip("cryptography", reason="certificates are made by cryptography, which is not installed")
FAR = "tcp://192.0.2.1:8786"  # an address of no machine
HERE = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return certificate_files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def encrypted(files: TlsFiles) -> Iterator[str]:
    """The address of a scheduler that talks TLS, with a worker; both are this process."""
    from distributed import LocalCluster

    with LocalCluster(processes=False, n_workers=1, threads_per_worker=1, protocol="tls", security=security_of(files), **HERE) as running:
        yield running.scheduler_address


def own_addresses() -> list[str]:
    return ["tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:8786", "127.3.2.1:1", "inproc://10.0.0.1/1/1", "unix:///tmp/x"]


@pytest.mark.parametrize("address", own_addresses())
def test_is_here__is_every_address_of_this_machine(address: str) -> None:
    assert is_here(address)


def test_is_here__knows_this_machines_name_and_no_other() -> None:
    own = socket.gethostname()
    try:
        socket.getaddrinfo(own, None)
    except OSError:
        pytest.skip(f"this machine's own name, {own}, is not known to it")
    assert is_here(f"tcp://{own}:8786")
    assert not any(map(is_here, (FAR, "tcp://nowhere.invalid:8786", "tcp://[2001:db8::1]:1", "tls://192.0.2.1:1", "192.0.2.1:1", "tcp://")))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"address": FAR}, r"tcp://192\.0\.2\.1:8786 is beyond this machine and in plain text, so whoever reaches it reads the data and"),
        ({"address": "192.0.2.1:8786"}, r"tcp://192\.0\.2\.1:8786 is beyond this machine and in plain text"),
        ({"address": "ucx://192.0.2.1:8786"}, r"ucx://192\.0\.2\.1:8786 is beyond this machine and in plain text"),
        ({"address": "tls://192.0.2.1:8786"}, r"tls://192\.0\.2\.1:8786 needs certificates: give tls: \{ca, certificate, key\}"),
    ],
)
def test_scheduler__is_refused_in_plain_text_and_without_certificates(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(PlaceError, match=f"^cluster scheduler: {told}"):
        Scheduler(**spec).check()


def test_scheduler__takes_plain_text_where_a_job_says_so() -> None:
    Scheduler(address=FAR, insecure=True).check()
    Scheduler(address="ucx://192.0.2.1:8786", insecure=True).check()


def test_a_cluster_in_use__says_what_of_it_is_plain_text() -> None:
    (said,) = plain_text_note("scheduler", [FAR, "tls://192.0.2.1:1", "ucx://192.0.2.1:2"])
    assert said.startswith(f"cluster scheduler: {FAR} and 1 more talk in plain text, so whoever reaches them over the network can read")
    assert plain_text_note("ssh", ["tls://192.0.2.1:1", "inproc://x"]) == []


def test_ssh__names_options_that_start_programs_and_shows_none() -> None:
    plain = {"username": "ana", "port": 22, "client_keys": ["k"], "known_hosts": None}
    assert Ssh(hosts=["a"], connect_options=plain).commands() == []
    assert "hunter2" not in repr(Ssh(hosts=["a"], connect_options={**plain, "password": "hunter2"}))
    found = Ssh(hosts=["a"], connect_options={**plain, "proxy_command": "x", "config": "y"}).commands()
    assert found == ["connect_options.proxy_command", "connect_options.config"]


def test_scheduler__refuses_what_contradicts_certificates(files: TlsFiles) -> None:
    with pytest.raises(PlaceError, match=r"tcp://127\.0\.0\.1:1 is plain text, and tls is given\. Write tls://HOST:PORT"):
        Scheduler(address="tcp://127.0.0.1:1", tls=files).check()
    for protocol in ("ucx", "ucxx"):
        with pytest.raises(PlaceError, match=r"^cluster scheduler: UCX has no encryption, and tls is given\. Use TCP with TLS"):
            Scheduler(address=f"{protocol}://127.0.0.1:1", tls=files, insecure=True).check()
    missing = files.model_copy(update={"key": "nowhere.pem"})
    with pytest.raises(PlaceError, match=r"cluster scheduler: tls\.key: there is no file nowhere\.pem"):
        Scheduler(address="127.0.0.1:1", tls=missing).check()


def test_required_encryption__refuses_ucx(monkeypatch: pytest.MonkeyPatch) -> None:
    with dask.config.set({"distributed.comm.require-encryption": True}):
        with pytest.raises(PlaceError, match=r"UCX has no encryption, and Dask's setting distributed\.comm\.require-encryption is on"):
            Scheduler(address="ucx://127.0.0.1:1").check()
        with pytest.raises(PlaceError, match=r"^cluster cuda: UCX has no encryption"):
            cuda_options(Cuda(protocol="ucx"), 2)
        monkeypatch.setattr("pipeline.clusters.cuda.find_spec", lambda _name: "found")
        assert cuda_options(Cuda(), 2)["protocol"] == "tls"
    assert cuda_options(Cuda(), 2)["protocol"] == "ucx"


def test_scheduler__by_certificates_of_files_is_reached_and_by_others_is_not(
    encrypted: str, files: TlsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in (encrypted, encrypted.removeprefix("tls://")):
        with open_cluster(Scheduler(address=address, tls=files), "cpu") as cluster:
            assert cluster.client.submit(sum, [1, 2]).result() == 3
            assert {address[:6] for address in cluster.client.nthreads()} == {"tls://"}
    monkeypatch.setattr("pipeline.clusters.scheduler.CONNECT_TIMEOUT_S", 0.5)
    unknown = Scheduler(address=encrypted, tls=certificate_files(tmp_path))
    with pytest.raises(PlaceError, match="Is it running, does it know our certificate, and does a firewall"), open_cluster(unknown, "cpu"):
        raise AssertionError


def test_scheduler__takes_certificates_of_dasks_settings(encrypted: str, files: TlsFiles) -> None:
    settings = {"ca-file": files.ca, "client.cert": files.certificate, "client.key": files.key}
    spec = Scheduler(address=encrypted.removeprefix("tls://"))
    with dask.config.set({f"distributed.comm.tls.{name}": path for name, path in settings.items()}), open_cluster(spec, "cpu") as cluster:
        assert cluster.workers == 1


def test_scheduler__here_whose_worker_is_elsewhere_in_plain_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    with LocalCluster(processes=False, n_workers=1, threads_per_worker=1, protocol="tcp", **HERE) as running:
        spec, (worker,) = Scheduler(address=running.scheduler_address), running.workers.values()
        monkeypatch.setattr(pipeline.clusters.encryption, "is_here", lambda address: address != worker.address)
        with pytest.raises(PlaceError, match=f"{worker.address} is beyond this machine and in plain text"), open_cluster(spec, "cpu"):
            raise AssertionError


def test_local__says_what_makes_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.clusters.encryption, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"^cluster local: certificates for a run are made by cryptography.*pip install '\.\[tls\]'"):
        Local(workers=2, tls=True).check()


def test_cuda__by_certificates_made_for_the_run_is_encrypted_and_never_ucx() -> None:
    options = cuda_options(Cuda(tls=True), 4)
    assert options["protocol"] == "tls"
    assert options["security"].require_encryption
    with pytest.raises(PlaceError, match=r"cluster cuda: UCX has no encryption, and tls is given"):
        cuda_options(Cuda(tls=True, protocol="ucx"), 4)
    assert Auto(tls=True).for_backend("gpu") == Cuda(tls=True)
