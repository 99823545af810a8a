"""linear_solve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.linalg
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, RunError, StageError
from pipeline.kernels.block_lu import column_blocks
from pipeline.stage import Context, Outcome
from pipeline.stages.science._refined import Factors
from pipeline.stages.science._systems import Kind
from pipeline.stages.science._systems_in_memory import InMemory
from pipeline.stages.science._systems_on_disk import Arrays
from pipeline.stages.science.linear_solve import LinearSolve
from pipeline.tables.budget import Budget, Size
from pipeline.tables.part import Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import cut, even_sizes, plan_stage, run_stage

RNG = np.random.default_rng(8)


def table(a: np.ndarray, b: np.ndarray) -> pl.DataFrame:
    columns = {f"x{at:04}": a[:, at] for at in range(a.shape[1])} | {f"b{at}": b[:, at] for at in range(b.shape[1])}
    return pl.DataFrame({"row": np.arange(len(a)), **columns})


def outcome_of(frame: pl.DataFrame, sizes: Sequence[int], session: Session, **given: Any) -> Outcome:
    """Of a table in parts of these sizes."""
    size = Size(frame.height, 8 * len(frame.columns))
    rows = Table.of(session, "rows", cut(frame, sizes), schema=Schema(frame.schema), size=size)
    stage = LinearSolve(key=("row",), right=tuple(name for name in frame.columns if name.startswith("b")), **given)
    return stage.run({"rows": rows}, Context("solved", 1, session))


def answer(outcome: Outcome) -> pl.DataFrame:
    """The unknowns."""
    found: pl.DataFrame = outcome.tables[""].futures()[0].frame
    return found


def solved(a: np.ndarray, b: np.ndarray, parts: int = 3, **given: Any) -> tuple[np.ndarray, Mapping[str, Any], list[str]]:
    """Unknowns, metrics and warnings."""
    outcome = outcome_of(table(a, b), even_sizes(len(a), parts), Session(), **given)
    return answer(outcome).drop("unknown").to_numpy(), outcome.metrics, outcome.warnings


SQUARE = table(RNG.normal(size=(9, 9)), RNG.normal(size=(9, 2)))
TALL = table(RNG.normal(size=(31, 4)), RNG.normal(size=(31, 1)))
EXAMPLES = [
    StageExample(LinearSolve(key="row", right=("b0", "b1")), {"rows": SQUARE}, tolerances={"b0": 1e-10, "b1": 1e-10}),
    StageExample(LinearSolve(key="row", right="b0"), {"rows": TALL}),
]


@pytest.mark.parametrize("size", [1, 2, 63, 65, 200])
def test_a_square_system__has_numpys_solution(size: int) -> None:
    a, b = RNG.normal(size=(size, size)), RNG.normal(size=(size, 2))
    found, metrics, _ = solved(a, b, parts=min(size, 3))
    known = np.linalg.cond(a, "fro")
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=0, atol=1e-15 * known * abs(found).max())
    assert metrics["backward_error"] < 1e-14
    assert known / 20 < metrics["condition"] < 3 * known  # rows and columns are scaled, so it is not the same matrix


def test_pivots__are_found_among_all_rows() -> None:
    b = RNG.normal(size=(150, 1))  # the first block of columns is 0 in the first rows: blocks that pivot by themselves would fail
    found, _, _ = solved(np.eye(150)[::-1] * 3.0, b, parts=4)
    np.testing.assert_allclose(found, b[::-1] / 3, rtol=1e-15)


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In what precision systems, also small ones from here on, are factored, one after the other."""
    found, factor = list[str](), InMemory.factored

    def noted(own: InMemory, kind: Kind) -> Factors:
        found.append(kind.__name__)
        return factor(own, kind)

    monkeypatch.setattr("pipeline.stages.science._refined.LEAST_SINGLE", 1)
    monkeypatch.setattr(InMemory, "factored", noted)
    return found


@pytest.mark.parametrize(("power", "expected"), [(0, 1), (3, 1), (6, 1), (9, 2), (11, 2)])
def test_factors_of_32_bits__give_the_digits_of_64_or_are_made_anew(power: int, expected: int, kinds: list[str]) -> None:
    own = np.random.default_rng(power)
    (u, _), (v, _) = np.linalg.qr(own.normal(size=(130, 130))), np.linalg.qr(own.normal(size=(130, 130)))
    a = (u * 10.0 ** np.linspace(0, -power, 130)) @ v
    b = own.normal(size=(130, 2)) * [1, 1e-200]
    found, metrics, _ = solved(a, b, max_condition=1e14)
    known, largest = np.linalg.cond(a, "fro"), abs(found).max(axis=0)
    np.testing.assert_allclose(found / largest, np.linalg.solve(a, b) / largest, rtol=0, atol=1e-16 * known)
    assert metrics["backward_error"] < 2e-16
    assert known / 20 < metrics["condition"] < 3 * known
    assert kinds == ["float32", "float64"][:expected]


@pytest.mark.parametrize("size", [1, 2, 63, 65, 200])
def test_answers_that_are_refined__are_numpys(size: int, kinds: list[str]) -> None:
    test_a_square_system__has_numpys_solution(size)
    assert kinds[0] == "float32"


def test_parts_of_no_rows__change_nothing(kinds: list[str]) -> None:
    frame = table(RNG.normal(size=(70, 70)), RNG.normal(size=(70, 1)))
    assert_frame_equal(*(answer(outcome_of(frame, sizes, Session())) for sizes in ([70], [0, 70, 0])), check_exact=True)
    assert kinds == ["float32", "float32"]


def test_each_answer__has_its_own_last_digits(kinds: list[str]) -> None:
    own = np.random.default_rng(20)
    b = 10.0 ** own.uniform(-12, 0, size=(500, 1))  # answers of which the least would have 3 digits where all meet the equations together
    found, _, _ = solved(np.eye(500)[::-1] * 3.0, b, parts=4)
    np.testing.assert_allclose(found, b[::-1] / 3, rtol=1e-15)
    assert kinds == ["float32"]


def test_what_32_bits_do_not_hold__is_factored_in_64(kinds: list[str]) -> None:
    a = np.eye(90)  # in 32 bits the second pivot is 0
    a[0, 1] = a[1, 0] = 1
    a[1, 1] += 1e-9
    b = RNG.normal(size=(90, 1))
    found, _, warnings = solved(a, b)
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-6)
    assert "of 16 digits the last" in warnings[0]
    a = np.eye(150) - np.tril(np.ones((150, 150)), -1)  # Wilkinson's: pivots grow to 2^149
    a[:, -1] = 1
    with pytest.raises(DataError, match="nearly singular"):
        solved(a, np.ones((150, 1)))
    a[:, 100] = 0
    with pytest.raises(DataError, match="the matrix is singular: column 'x0100'"):
        solved(a, np.ones((150, 1)))
    assert kinds == ["float32", "float64"] * 3


@pytest.mark.parametrize("least", [1, 1_000])
def test_answers_in_one_task__are_those_that_go_from_panel_to_panel(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.science._refined.LEAST_SINGLE", least)
    own = np.random.default_rng(21)
    frame = table(own.normal(size=(300, 300)), own.normal(size=(300, 2)))
    sessions = [Session(), Session()]
    sessions[1].budget = Budget(1 << 40, 2, "")
    assert_frame_equal(*(answer(outcome_of(frame, even_sizes(300, 5), session)) for session in sessions), check_exact=True)


@pytest.mark.parametrize("least", [1, 1_000])
@pytest.mark.parametrize(("workers", "memory"), [(1, 1_000), (3, 15_000_000)])
def test_a_square_system_beyond_memory__is_solved_from_the_disk_to_the_same_bits(
    workers: int, memory: int, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.stages.science._refined.LEAST_SINGLE", least)
    own = np.random.default_rng(17)
    frame = table(own.normal(size=(700, 700)), own.normal(size=(700, 2)))
    answers = list[pl.DataFrame]()
    for budget in (None, Budget(memory, 2, str(tmp_path))):
        session = Session()
        session.budget, session.workers, session.threads = budget, workers, 2
        outcome = outcome_of(frame, even_sizes(700, 5), session)
        answers.append(answer(outcome))
        assert outcome.metrics["backward_error"] < 1e-14
    assert session.budget is not None
    strips, panels = 2 * 5, len(column_blocks(700))  # as they are, and scaled
    assert session.budget.on_disk["solved"] == 5 + strips + panels  # and the rows
    begun = panels - workers if workers > 1 else 0  # blocks that several workers have under way
    assert len(list(tmp_path.glob("block-*"))) == strips + panels + begun
    assert_frame_equal(*answers, check_exact=True)


def test_a_singular_system_beyond_memory__names_the_column(tmp_path: Path) -> None:
    own = np.random.default_rng(18)
    a = own.normal(size=(150, 150))
    a[:, 100] = 0
    frame, session = table(a, own.normal(size=(150, 1))), Session()
    session.budget = Budget(1_000, 1, str(tmp_path))
    with pytest.raises(DataError, match="the matrix is singular: column 'x0100'"):
        outcome_of(frame, even_sizes(150, 3), session)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_system_beyond_memory__says_that_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.science._systems_on_disk.Path.open", lambda _, mode: open("/dev/full", mode))  # noqa: PTH123, SIM115
    with pytest.raises(RunError, match=f"the disk of {tmp_path} is full .* let DASK_TEMPORARY_DIRECTORY name a larger disk"):
        Arrays.written([np.zeros((1_000, 100))], str(tmp_path))


def test_rounding_that_grows__is_told_and_least_squares_solves_it() -> None:
    """Wilkinson's matrix, whose pivots grow by 2 a column though its condition is small."""
    a = np.eye(90) - np.tril(np.ones((90, 90)), -1)
    a[:, -1] = 1
    b = RNG.normal(size=(90, 1))
    with pytest.raises(DataError, match=r"the solution misses the equations by .* rounding grew. Use method: least_squares"):
        solved(a, b, max_condition=1e16)
    with pytest.raises(DataError, match="nearly singular"):  # so it seems, by what the same pivots make of the probes
        solved(a, b)
    found, metrics, _ = solved(a, b, method="least_squares")
    np.testing.assert_allclose(a @ found, b, atol=1e-12)
    assert metrics["condition"] < 1e4


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_least_squares__are_numpys(parts: int) -> None:
    own = np.random.default_rng(19)
    a, b = own.normal(size=(101, 6)), own.normal(size=(101, 3))
    found, metrics, _ = solved(a, b, parts)
    theirs, left, _, _ = np.linalg.lstsq(a, b)
    np.testing.assert_allclose(found, theirs, rtol=1e-12)
    assert list(metrics["residual_norm"].values()) == pytest.approx(np.sqrt(left), rel=1e-12)
    known = np.linalg.norm(a) * np.linalg.norm(np.linalg.pinv(a))
    assert known / 2 < metrics["condition"] < 2 * known


def test_parts_and_their_order__change_digits_at_the_end_alone() -> None:
    stage = LinearSolve(key="row", right=("b0", "b1"))
    one, seven = (run_stage(stage, {"rows": SQUARE}, parts)[""] for parts in (1, 7))
    assert_frame_equal(one, seven, rel_tol=0, abs_tol=0)  # rows in the same order: the same bits
    turned = run_stage(stage, {"rows": SQUARE.reverse()}, 2)[""]
    assert_frame_equal(one, turned, rel_tol=1e-11)


@pytest.mark.parametrize("shape", [(40, 40), (90, 40)])
def test_rows_and_columns_of_any_size__are_solved(shape: tuple[int, int]) -> None:
    """Columns from 1e-150 to 1e150 and, of square systems, rows as well: well determined once they are scaled."""
    random = np.random.default_rng(shape)  # its own: else which equations there are, and how many digits hold, hangs on what ran before
    a, x = random.normal(size=shape), random.normal(size=(40, 1))
    columns = 2.0 ** np.rint(np.linspace(-450, 450, 40))
    rows = 2.0 ** np.rint(np.linspace(450, -450, 40)) if shape[0] == 40 else np.ones(90)
    found, metrics, warnings = solved(a * columns * rows[:, None], (a @ x) * rows[:, None])
    np.testing.assert_allclose(found[:, 0] * columns, x[:, 0], rtol=1e-11)
    assert metrics["condition"] < 1e5
    assert warnings == []


@pytest.mark.parametrize("method", ["lu", "least_squares"])
def test_a_hilbert_matrix__is_told_by_its_condition_and_then_refused(method: str) -> None:
    def hilbert(size: int) -> tuple[np.ndarray, np.ndarray]:
        a = scipy.linalg.hilbert(size)
        return a, a.sum(axis=1, keepdims=True)

    found, metrics, warnings = solved(*hilbert(8), method=method)
    np.testing.assert_allclose(found, 1, atol=1e-5)
    assert 1e9 < metrics["condition"] < 3e10  # of the 2-norm, unscaled: 1.5e10
    assert "of 16 digits the last" in warnings[0]
    with pytest.raises(
        DataError, match=r"nearly singular: its condition number is .* digits of a solution would hold.*raise max_condition"
    ):
        solved(*hilbert(13), method=method)


@pytest.mark.parametrize("method", ["lu", "least_squares"])
@pytest.mark.parametrize("size", [3, 70, 130])
def test_a_singular_matrix__is_refused(method: str, size: int) -> None:
    a, b = RNG.normal(size=(size, size)), RNG.normal(size=(size, 1))
    a[:, -1] = a[:, 0] - a[:, 1]
    with pytest.raises(DataError, match=r"singular"):
        solved(a, b, method=method)
    a[:, -1] = 0
    with pytest.raises(DataError, match=rf"the matrix is singular: column 'x{size - 1:04}'"):
        solved(a, b, method=method)
    a = RNG.normal(size=(size, size))
    a[1] = 0
    with pytest.raises(DataError, match="singular"):
        solved(a, b, method=method)


def test_a_solution_beyond_float64__is_refused() -> None:
    with pytest.raises(DataError, match=r"beyond float64 \(about 1.8e308\) in column 'b0'"):
        solved(np.eye(3) * 1e-300, np.full((3, 1), 1e300))


def test_equations_that_do_not_determine_the_unknowns__are_refused() -> None:
    with pytest.raises(DataError, match="3 equations do not determine 4 unknowns"):
        solved(RNG.normal(size=(3, 4)), np.ones((3, 1)))
    with pytest.raises(DataError, match="5 equations of 4 unknowns, and lu wants as many"):
        solved(RNG.normal(size=(5, 4)), np.ones((5, 1)), method="lu")
    with pytest.raises(DataError, match="a value is nan: column 'x0001', row 2"):
        solved(np.where(np.arange(9).reshape(3, 3) == 7, np.nan, 1.0), np.ones((3, 1)))


def test_columns_that_do_not_fit__are_refused_before_anything_runs() -> None:
    for stage, text in (
        (LinearSolve(right=()), "there is no right-hand side"),
        (LinearSolve(right="b7"), "no column 'b7'"),
        (LinearSolve(right="b0", columns=("b0",)), "'b0' names the rows"),
        (LinearSolve(right="b0", key="rows"), "no column 'rows'"),
    ):
        with pytest.raises(StageError, match=text):
            plan_stage(stage, {"rows": SQUARE})
