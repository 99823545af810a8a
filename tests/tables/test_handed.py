"""Parts on disk as tasks are handed them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.tables.budget import Budget, Size
from pipeline.tables.handed import here, parts_of
from pipeline.tables.laid import Laid, lay
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table

PART = Part(pl.DataFrame({"x": [1, 2, 3]}), {"points": np.arange(6.0).reshape(3, 2).T.copy().T})


@pytest.fixture
def session(tmp_path: Path) -> Session:
    found = Session()
    found.budget = Budget(1, 2, str(tmp_path))
    return found


def held(session: Session) -> Table:
    return Table.of(session, "given", [PART, PART], size=Size(6, 8)).map_parts(_same).hold()


def _same(part: Part) -> Part:
    return part


def test_a_part_that_is_laid_down__has_its_arrays_as_they_were(tmp_path: Path) -> None:
    laid = lay(PART, str(tmp_path))
    assert (laid.rows, laid.nbytes) == (3, PART.nbytes)
    for part in (laid.read(), laid.load()):
        assert isinstance(part, Part)
        assert part.frame.equals(PART.frame)
        assert part.arrays["points"].tolist() == PART.arrays["points"].tolist()
        assert part.arrays["points"].flags.f_contiguous  # sums over another order of numbers have other last digits


def test_what_lies_on_disk__is_read_by_the_task_that_is_handed_it(session: Session) -> None:
    for part in parts_of(held(session)):
        assert isinstance(part, Laid)
        assert here(part).frame.equals(PART.frame)


def test_what_is_in_memory__is_handed_over_as_it_is() -> None:
    (part,) = parts_of(Table.of(Session(), "given", [PART]))
    assert part is PART
    assert here(part) is PART
