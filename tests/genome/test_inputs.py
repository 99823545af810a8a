from __future__ import annotations

from pipeline.format import Mark
from pipeline.genome.inputs import REMEDY, PlacedInput


class HeadedInput(PlacedInput):
    """A format whose header tells its build."""

    def genome_build(self) -> str | None:
        return self.build or "GRCh37"


def test_placed_input__marks_its_rows_with_the_build_that_the_job_states() -> None:
    assert PlacedInput.model_validate({"path": "x"}).marks() == []
    assert PlacedInput.model_validate({"path": "x", "build": 38}).marks() == [Mark("genome builds", "GRCh38", REMEDY)]


def test_placed_input__takes_the_header_where_the_job_states_nothing() -> None:
    assert [mark.value for mark in HeadedInput.model_validate({"path": "x"}).marks()] == ["GRCh37"]
    assert [mark.value for mark in HeadedInput.model_validate({"path": "x", "build": "hg38"}).marks()] == ["GRCh38"]


def test_placed_input__rows_do_not_depend_on_the_build() -> None:
    assert PlacedInput.asides == {"path", "parts", "build", "limits", "max_bad_rows"}
