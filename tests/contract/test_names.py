"""Every name and keyword of RAPIDS and CuPy that our source uses is there, with that signature; the names are read from the source."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from pipeline.backend.engines import engine, spread_engine
from pipeline.clusters.cuda import Cuda, cuda_options
from pipeline.tables.lanes import LaneClient

pytestmark = pytest.mark.contract

PACKAGE = Path(__file__).parents[2] / "pipeline"
DEVICE_LIBRARIES = {"cudf", "cudf_polars", "cupy", "cupyx", "dask_cuda", "distributed_ucxx", "pynvml", "rmm"}
SEAM = (*(PACKAGE / "backend").glob("*.py"), PACKAGE / "clusters" / "cuda.py")
MODULES = {"array_module": "cupy", "special_module": "cupyx.scipy.special"}
UFUNC_KEYWORDS = {"out", "dtype", "casting"}


class Use(NamedTuple):
    """A name of a library as our source uses it, and the keywords it is called with (None: it is not called there)."""

    module: str
    name: str
    keywords: tuple[str, ...] | None
    positional: int


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def chain(node: ast.expr) -> tuple[ast.expr, str]:
    """What an attribute chain hangs on, and its dotted rest: `xp.linalg.eigh` is (xp, 'linalg.eigh')."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return node, ".".join(names)


def array_uses(tree: ast.AST) -> Iterator[Use]:
    """Uses of `xp.NAME`, `array_module(...).NAME` and `special_module(...).NAME`."""
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        root, name = chain(node)
        module = None
        if isinstance(root, ast.Name) and root.id == "xp":
            module = "cupy"
        elif isinstance(root, ast.Call) and isinstance(root.func, ast.Name):
            module = MODULES.get(root.func.id)
        if module and name != "__name__":
            call = called.get(id(node))
            yield Use(module, name, tuple(str(word.arg) for word in call.keywords) if call else None, len(call.args) if call else 0)


def library_uses(tree: ast.AST) -> Iterator[Use]:
    """What the seam imports from the device libraries, and what it takes from the modules imported."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in DEVICE_LIBRARIES:
                    modules[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in DEVICE_LIBRARIES:
            yield from (Use(str(node.module), alias.name, None, 0) for alias in node.names)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            root, name = chain(node)
            if isinstance(root, ast.Name) and root.id in modules:
                yield Use(modules[root.id], name, None, 0)


def trees(paths: list[Path]) -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in paths]


def files_with(*words: str) -> list[Path]:
    """The files that have one of these words, and may have a use of it: reading all of them as trees takes seconds."""
    return [path for path in files() if any(word in path.read_text(encoding="utf-8") for word in words)]


ARRAY_USES = sorted({use for tree in trees(files_with("xp.", *MODULES)) for use in array_uses(tree)}, key=str)
LIBRARY_USES = sorted({use for tree in trees(list(SEAM)) for use in library_uses(tree)}, key=str)


def resolved(use: Use) -> Any:
    found = importlib.import_module(use.module)
    for name in use.name.split("."):
        found = getattr(found, name)
    return found


def test_the_names__were_found() -> None:
    assert {use.name for use in ARRAY_USES} >= {"linalg.eigh", "bitwise_count", "linalg.svd", "betainc", "concatenate"}
    assert {use.name for use in LIBRARY_USES} >= {
        "Translator",
        "DaskEngine",
        "LocalCUDACluster",
        "asarray",
        "mr.get_current_device_resource",
    }


@pytest.mark.parametrize("use", LIBRARY_USES, ids=lambda use: f"{use.module}.{use.name}")
def test_a_name_of_the_seam__is_there(use: Use) -> None:
    assert resolved(use) is not None


@pytest.mark.parametrize("use", ARRAY_USES, ids=lambda use: f"{use.name}({','.join(use.keywords or ())})")
def test_an_array_function__is_in_cupy_and_takes_its_keywords(use: Use) -> None:
    function = resolved(use)
    if use.keywords is None or isinstance(function, type):
        return
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a ufunc, or compiled code without a signature
        assert set(use.keywords) <= UFUNC_KEYWORDS, use
        return
    words = dict.fromkeys(use.keywords)
    inspect.signature(function).bind(*[None] * use.positional, **words)
    assert set(words) <= set(parameters) or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def test_a_method_of_an_array__is_one_of_cupy() -> None:
    import cupy

    kernels = trees(sorted((PACKAGE / "kernels").glob("*.py")))
    used = {node.attr for tree in kernels for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    methods = sorted(used & set(dir(np.ndarray)))
    assert len(methods) > 10
    assert [name for name in methods if not hasattr(cupy.ndarray, name)] == []


def test_no_other_file__imports_a_device_library() -> None:
    outside = [path for path in files_with(*DEVICE_LIBRARIES) if path not in SEAM]
    found = [use for tree in trees(outside) for use in library_uses(tree)]
    assert found == []


def test_the_engine_of_one_gpu__is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    import rmm
    from cudf_polars.utils.config import ConfigOptions

    monkeypatch.setattr(rmm.mr, "get_current_device_resource", lambda: None)
    options: Any = ConfigOptions.from_polars_engine(engine("gpu"))
    assert options.raise_on_fail is True
    assert options.executor.name == "in-memory"
    assert "memory_resource" in inspect.signature(pl.GPUEngine).parameters


def test_the_engine_of_several_gpus__is_made_as_its_signature_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from cudf_polars.engine import dask
    from cudf_polars.engine.core import check_reserved_keys

    given: dict[str, Any] = {}
    signature = inspect.signature(dask.DaskEngine)
    monkeypatch.setattr(dask, "DaskEngine", lambda **options: given.update(options))
    client = object()
    spread_engine(client)
    signature.bind(**given)
    assert given["dask_client"] is client
    assert given["engine_options"]["raise_on_fail"] is True
    assert given["engine_options"]["hardware_binding"].enabled is False
    check_reserved_keys({}, given["engine_options"])


def test_the_engine_of_several_gpus__asks_of_its_client_what_ours_can_do() -> None:
    from cudf_polars.engine import dask

    asked = set(re.findall(r"(?<!owned)_client\.(\w+)|ctx\.client\.(\w+)|context\.client\.(\w+)", inspect.getsource(dask)))
    assert {name for names in asked for name in names if name} == {name for name in vars(LaneClient) if not name.startswith("_")}


def test_the_engine_of_several_gpus__is_collected_with_and_shut_down() -> None:
    from cudf_polars.engine.dask import DaskEngine

    assert issubclass(DaskEngine, pl.GPUEngine)
    inspect.signature(DaskEngine.shutdown).bind(None)


def test_the_options_of_a_gpu_cluster__are_ones_that_something_takes() -> None:
    from dask_cuda import LocalCUDACluster
    from distributed import LocalCluster, Nanny, Scheduler, Worker

    spec = Cuda.model_validate({"rmm_pool_size": 0.5, "memory_limit": "8GB", "device_memory_limit": "4GB"})
    for options in (cuda_options(Cuda(), 4), cuda_options(spec, 1)):
        own = inspect.signature(LocalCUDACluster.__init__).parameters
        passed_on = [inspect.signature(made.__init__).parameters for made in (LocalCluster, Nanny, Worker)]
        for name in options:
            assert name in own or any(name in known for known in passed_on), name
        assert set(options["scheduler_kwargs"]) <= set(inspect.signature(Scheduler.__init__).parameters)
    assert "protocol" in own
    assert cuda_options(spec, 1).get("rmm_async") is None, "a pool beside the asynchronous allocator warns, and will be an error"
