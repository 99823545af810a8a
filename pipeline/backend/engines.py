"""The engines that run a query: Polars' streaming engine in a task, or cuDF on the task's GPU or on all of them.

On a GPU nothing falls back to the CPU in silence: a query that cuDF cannot run raises, and `refusals` says so before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from pipeline.backend.devices import Backend
from pipeline.backend.differences import differences

if TYPE_CHECKING:
    import polars as pl


class UntranslatableError(ValueError):
    """A query that cuDF cannot run; the planner adds the line of the job file."""


def engine(backend: Backend) -> Any:
    """What `LazyFrame.collect(engine=...)` takes in a task: Polars' streaming engine, or cuDF on this task's GPU."""
    if backend != "gpu":
        return "streaming"
    import polars
    import rmm

    # With no resource named, cudf-polars takes four fifths of the GPU's memory for a managed pool of its own, beside CuPy and XGBoost.
    return polars.GPUEngine(executor="in-memory", raise_on_fail=True, memory_resource=rmm.mr.get_current_device_resource())


def collect(query: pl.LazyFrame, backend: Backend, *, in_memory: bool = False, apart: bool = False) -> pl.DataFrame:
    """Run a lazy query in this task. UntranslatableError under `translate` where cuDF would refuse it, ComputeError where Polars panics.

    `in_memory`: on a CPU by Polars' other engine, which joins frames in a third of the time where the order of rows must stay, and takes
    two thirds of it for queries that sort all rows, which the streaming one has to hold, too. `apart`: the query is over stretches of files
    below one another, of which Polars would see one scan of a whole file, and hold all of its rows for them.
    """
    if backend == "translate" and (refused := refusals(query)):
        raise UntranslatableError(f"cuDF cannot run this stage's query: {'; '.join(refused)}. Use backend: cpu, or write it another way.")
    from polars import QueryOptFlags
    from polars.exceptions import ComputeError, PanicException

    try:
        in_memory = only_picks(query) if backend == "gpu" else in_memory
        chosen: Any = "in-memory" if in_memory else engine(backend)
        return query.collect(engine=chosen, optimizations=QueryOptFlags(comm_subplan_elim=False)) if apart else query.collect(engine=chosen)
    except PanicException as error:  # which is no Exception, and would end the worker's thread
        raise ComputeError(f"Polars broke off ({str(error)[:200]})") from error


def only_picks(query: pl.LazyFrame) -> bool:
    """Whether a query only picks columns or a stretch of rows of one frame of the host: a GPU would get it and send it back unchanged."""
    visitor = cast("Any", query)._ldf.visit()
    node = visitor.view_current_node()
    while type(node).__name__ == "SimpleProjection":
        visitor.set_node(node.input)
        node = visitor.view_current_node()
    return type(node).__name__ == "DataFrameScan" and node.selection is None


def refusals(query: pl.LazyFrame) -> list[str]:
    """What cuDF cannot run of a query, or would answer otherwise than Polars; found without a GPU, and empty where it runs all of it."""
    import polars

    node = cast("Any", query)._ldf
    found = translated(node)[1]
    if found:
        return found
    # What one expression needs twice is a column of its own in the plan that runs; here each stands whole, with what guards it.
    whole = polars.QueryOptFlags(comm_subexpr_elim=False)._pyoptflags
    return differences(translated(node.with_optimizations(whole))[0])


def translated(query: Any) -> tuple[Any, list[str]]:
    """A query of Polars (what is under its LazyFrame) as cuDF's own, and what it cannot run of it."""
    import polars
    from cudf_polars import Translator

    translator = Translator(query.visit(), polars.GPUEngine(executor="in-memory", raise_on_fail=True))
    translated = translator.translate_ir()
    return translated, [str(error) for error in translator.errors]


def read_by_polars(scan: pl.LazyFrame) -> pl.LazyFrame:
    """The same rows for any engine: Polars reads them on the host, those columns that the query wants, and cuDF is given frames.

    cuDF's own reader of CSV makes a bad number null and 3.7 a 3 where a column is of integers, rounds floats wrongly and wraps what
    overflows, all in silence (docs/gpu.md).
    """
    import polars
    from polars.io.plugins import register_io_source

    def frames(columns: list[str] | None, where: pl.Expr | None, rows: int | None, _batch: int | None) -> Iterator[pl.DataFrame]:
        """The rows in one frame; of no columns their number alone."""
        chosen = scan if where is None else scan.filter(where)
        chosen = chosen if rows is None else chosen.head(rows)
        if columns is not None and not columns:
            yield polars.DataFrame(height=chosen.select(polars.len()).collect(engine="streaming").item())
            return
        yield (chosen if columns is None else chosen.select(columns)).collect(engine="streaming")

    return register_io_source(frames, schema=scan.collect_schema())


def spread_engine(client: Any) -> Any:
    """cuDF's engine over all GPUs of a Dask cluster, on our own client; dask-cuda has bound the workers to their GPUs already."""
    from cudf_polars.engine.dask import DaskEngine
    from cudf_polars.engine.hardware_binding import HardwareBindingPolicy

    return DaskEngine(dask_client=client, engine_options={"hardware_binding": HardwareBindingPolicy(enabled=False), "raise_on_fail": True})


def collect_spread(query: pl.LazyFrame, engine: Any) -> pl.DataFrame:
    """Run a lazy query on all GPUs of `spread_engine`; the result comes to this process."""
    return query.collect(engine=engine)
