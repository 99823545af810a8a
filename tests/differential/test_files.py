"""Files of random tables: what DuckDB writes we read as it does, and what we write it reads as we do."""

from __future__ import annotations

import pytest

from tests.differential.cases import check_all
from tests.differential.files import FILES

EXAMPLES = 6


@pytest.mark.parametrize("name", FILES)
def test_files__are_what_duckdb_says(name: str) -> None:
    check_all(FILES[name], lambda files: files.check(), EXAMPLES)
