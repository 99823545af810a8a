"""Dask's dashboards: nobody pays for one that nobody looks at, and whoever asks has it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from tests.small import write_small_job

RUN = """
import sys
from pipeline.run import main
assert main(["job.yaml", "--quiet"]) == 0
sys.exit("bokeh was imported" if "bokeh" in sys.modules else 0)
"""


def page(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.process
def test_run__that_nobody_watches_imports_no_bokeh(tmp_path: Path) -> None:
    write_small_job(tmp_path)
    ended = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_dashboard__comes_up_for_several_who_ask_at_once_and_stays() -> None:
    with open_cluster(Local(threads=1), "cpu") as cluster, ThreadPoolExecutor(3) as asking:
        assert cluster.dashboard is not None
        pages = [*asking.map(page, [cluster.dashboard] * 3), page(cluster.dashboard.replace("status", "workers"))]
        assert all("bokeh" in text for text in pages)
        with pytest.raises(HTTPError, match="404"):
            page(cluster.dashboard.replace("status", "nothing"))


@pytest.mark.process
@pytest.mark.parametrize("workers", [None, 2])
def test_dashboards_of_workers__come_up_for_who_asks(workers: int | None) -> None:
    with open_cluster(Local(workers=workers, threads=1), "cpu") as cluster:
        told = cluster.client.scheduler_info(n_workers=-1)["workers"].values()
        pages = [page(f"http://127.0.0.1:{worker['services']['dashboard']}/status") for worker in told]
        assert len(pages) == (workers or 1)
        assert all("bokeh" in text for text in pages)


def test_dashboard__that_is_off_is_not_served() -> None:
    with open_cluster(Local(threads=1, dashboard=False), "cpu") as cluster:
        port = cluster.client.scheduler_info(n_workers=0)["services"]["dashboard"]
        with pytest.raises(HTTPError, match="404"):
            page(f"http://127.0.0.1:{port}/status")
