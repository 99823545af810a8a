"""Every stage on the GPU gives what it gives on the CPU, from 1, 2 and 7 parts, and exchanged as between two workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from pipeline.backend.devices import Frames
from pipeline.kernels.metrics import auc
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from tests.gpu.conftest import library_of
from tests.stage_examples import EXAMPLES, IDS

pytestmark = pytest.mark.gpu


@cache
def oracle(number: int) -> dict[str, Part]:
    """What the CPU gives for an example, in one part."""
    return EXAMPLES[number].run(Session())


@pytest.mark.parametrize(
    "divided",
    [(1, 1, "host"), (2, 2, "host"), (7, 1, "device"), (7, 2, "host")],
    ids=lambda divided: "-".join(map(str, divided)),
)
@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=IDS)
def test_a_stage__gives_what_the_cpu_gives(
    number: int, divided: tuple[int, int, Frames], session: Session, placed: Callable[[Part], Part], library: str
) -> None:
    """`divided`: into so many parts, as for so many workers, and where frames stay between queries."""
    example = EXAMPLES[number]
    if example.needs:
        pytest.importorskip(example.needs)
    parts, session.workers, session.frames = divided
    found = example.run(session, parts, placed)
    example.check(found, oracle(number))
    assert {library_of(array) for part in found.values() for array in part.arrays.values()} <= {library}


def test_a_model__ranks_as_well_as_on_the_cpu(session: Session) -> None:
    (example,) = [found for found in EXAMPLES if (found.stage.name, getattr(found.stage, "objective", "")) == ("xgboost", "binary")]
    areas = []
    for where in (Session(), session):
        predicted = example.run(where)[""].frame
        areas.append(auc(predicted["label"].to_numpy(), predicted["prediction"].to_numpy()))
    assert min(areas) > 0.9
    assert abs(areas[0] - areas[1]) < 0.01
