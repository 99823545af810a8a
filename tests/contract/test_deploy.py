"""The commands that deploy/ starts on hosts with GPUs are those of dask-cuda."""

from __future__ import annotations

import pytest

from tests.deployed import commands, understood

pytestmark = pytest.mark.contract

OF_GPUS = [(where, rest) for where, words in commands() for program, rest in [understood(words)] if program == "dask cuda worker"]


def test_gpus__have_workers_in_containers_and_on_kubernetes() -> None:
    assert [where for where, _ in OF_GPUS] == ["compose worker.gpu", "kubernetes worker"]


@pytest.mark.parametrize("rest", [pytest.param(rest, id=where) for where, rest in OF_GPUS])
def test_commands__are_understood_by_dask_cuda(rest: list[str]) -> None:
    cli = pytest.importorskip("dask_cuda.cli")
    given = cli.worker.make_context("worker", rest).params
    assert given["preload_argv"] == (), "an option that dask-cuda does not know"
    assert (given["scheduler"][:6], given["protocol"], given["dashboard_address"]) == ("tls://", "tls", "127.0.0.1:0")
