"""Memory that is freed: whether the system has to find pages for what is asked for next."""

from __future__ import annotations

import ctypes
import json
import resource
import subprocess
import sys
from typing import Any

import pytest

from pipeline.backend import glibc

LARGE = 48 << 20  # more than glibc keeps by itself
PROGRAM = f"""\
import ctypes, json, resource

from pipeline.backend.glibc import freed_stays

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes, libc.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]


def pages() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    place = libc.malloc({LARGE})
    libc.memset(place, 1, {LARGE})
    libc.free(place)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()


found, small = {{"before": [pages() for _ in range(3)]}}, resident()
with freed_stays():
    with freed_stays():
        found["within"] = [pages() for _ in range(3)]
    found["still"], found["held"] = [pages()], resident() - small
found["given_back"] = resident() - small
found["after"] = [pages() for _ in range(3)]
print(json.dumps(found))
"""


def _run(**variables: str) -> dict[str, Any]:
    started = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=variables, check=True)
    found: dict[str, Any] = json.loads(started.stdout)
    return found


pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the system's allocator is not glibc's"),
]


def test_freed_stays__with_the_process_until_the_last_block_ends() -> None:
    found = _run()
    page, half = LARGE // resource.getpagesize() // 2, LARGE // 2
    assert min(*found["before"], *found["after"], found["within"][0]) > page
    assert max(*found["within"][1:], *found["still"]) < page // 10
    assert found["held"] > half > found["given_back"]


@pytest.mark.parametrize("name", [*glibc.THRESHOLDS, "GLIBC_TUNABLES"])
def test_freed_stays__leaves_what_a_user_set(name: str) -> None:
    value = "glibc.malloc.mmap_threshold=1048576" if name == "GLIBC_TUNABLES" else str(1 << 20)
    found = _run(**{name: value})
    assert found["held"] < LARGE // 2


def test_freed_stays__is_nothing_where_the_allocator_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    with glibc.freed_stays():
        pass
    assert glibc._blocks == 0
