"""What the formats of one genotype file share: companions, stamps, parts by size, and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.errors import InputError
from pipeline.files import exists
from pipeline.formats._genotypes import PART_BYTES_LEAST, PART_BYTES_MOST, GenotypeInput, Genotypes


class CallsInput(GenotypeInput):
    """A format of two files for these tests."""

    name = "toy"
    suffixes = (".toy",)
    field: Genotypes = "calls"

    def beside(self, path: str) -> Sequence[str]:
        return [file for file in (str(Path(path).with_suffix(".people")),) if exists(file)]

    def people(self) -> pl.DataFrame:
        return pl.DataFrame({"sample_id": ["a", "b"]})

    def reads(self) -> Genotypes:
        return self.field


def reader(path: Path | str, **given: Any) -> CallsInput:
    return CallsInput.model_validate({"path": str(path), **given})


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "a.toy").write_text("x")
    (tmp_path / "a.people").write_text("ab")
    return tmp_path / "a.toy"


def test_genotype_input__is_known_by_its_file_and_those_beside_it(toy: Path) -> None:
    file, before = reader(toy).stamped()
    assert reader(toy).content() == [str(toy), str(toy.with_suffix(".people"))]
    assert (file, [stamp.size for stamp in before]) == (str(toy), [1, 2])
    toy.with_suffix(".people").write_text("abc")
    assert reader(toy).stamped()[1] != before


def test_genotype_input__labels_the_array_that_is_read(toy: Path) -> None:
    assert {name: axis["sample_id"].to_list() for name, axis in reader(toy).axes().items()} == {"calls": ["a", "b"]}
    assert list(reader(toy, field="dosages").axes()) == ["alt_dosages"]


@pytest.mark.parametrize(("variants", "people", "given"), [(10, 4, {}), (10, 4, {"parts": 3}), (1_000_000, 4_000, {}), (0, 5, {})])
def test_genotype_input__parts_hold_every_variant_once_and_are_of_the_size_stated(
    toy: Path, variants: int, people: int, given: dict[str, Any]
) -> None:
    ranges = reader(toy, **given).ranges(variants, people, parallel=2)
    assert all(first + count == following for (first, count), (following, _) in pairwise(ranges))
    assert (ranges[0][0], sum(ranges[-1])) == (0, variants)
    assert len(ranges) == given.get("parts", 1 if variants < 100 else variants * people // 4 // PART_BYTES_MOST + 1)
    assert PART_BYTES_LEAST < PART_BYTES_MOST


def test_genotype_input__dosages_take_more_parts_than_calls(toy: Path) -> None:
    assert len(reader(toy, field="dosages").ranges(100_000, 4_000, 2)) > len(reader(toy).ranges(100_000, 4_000, 2))


def test_genotype_input__refuses_a_second_file(toy: Path) -> None:
    (toy.parent / "b.toy").write_text("y")
    with pytest.raises(InputError, match=r"b\.toy: one \.toy is one input; name \S+a\.toy and this one as inputs of their own"):
        reader(toy.parent).file()
