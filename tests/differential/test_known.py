"""What was wrong once, or may easily be, is what DuckDB says."""

from __future__ import annotations

import pytest

from tests.differential.cases import check_cases
from tests.differential.kinds import KNOWN

EXAMPLES = 16


@pytest.mark.parametrize("name", list(KNOWN))
def test_known__gives_what_duckdb_gives(name: str) -> None:
    check_cases(KNOWN[name], EXAMPLES)
