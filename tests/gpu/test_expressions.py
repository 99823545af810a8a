"""docs/expressions.md on the GPU: every example that it does not mark gives the result that the page says."""

from __future__ import annotations

import pytest

from pipeline.backend.devices import Backend
from tests.sql.expression_page import EXAMPLES, Example, derived, frame_of, on_cpu_only, yaml_value

pytestmark = pytest.mark.gpu

THERE = [example for example in EXAMPLES if not on_cpu_only(example)]


@pytest.mark.parametrize("example", THERE, ids=lambda example: f"{example.expression} of {example.columns}")
def test_page__says_what_comes_out(example: Example, device: Backend) -> None:
    wanted = yaml_value(example.result)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    got = derived(example.expression, frame_of(example.columns), device).to_list()
    assert [type(value) for value in got] == [type(value) for value in wanted]
    assert got == [pytest.approx(value, rel=1e-14) if isinstance(value, float) else value for value in wanted]
