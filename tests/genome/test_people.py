"""people."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.genome.people import check_sex, counted_people, founders, males, sex_of_code, sexes


def people(**columns: list[Any] | pl.Series) -> pl.DataFrame:
    frame = pl.DataFrame(columns)
    return frame.insert_column(0, pl.Series("sample_id", [f"p{i}" for i in range(frame.height)]))


@pytest.mark.parametrize("dtype", [pl.Int8(), pl.UInt16(), pl.Int64(), pl.Float64()])
def test_sexes__are_1_2_and_0_or_null_for_unknown(dtype: pl.DataType) -> None:
    found = people(sex=pl.Series([1, 2, 0, None], dtype=dtype))
    codes = sexes(found)
    assert codes is not None
    assert codes.dtype == np.int8
    assert codes.tolist() == [1, 2, 0, 0]
    assert males(found).tolist() == [True, False, False, False]


def test_sexes__of_no_column_are_not_known_and_of_nulls_alone_are_unknown() -> None:
    assert sexes(people(age=[3])) is None
    assert not males(people(age=[3])).any()
    nobody = sexes(people(sex=pl.Series([None, None], dtype=pl.Null())))
    assert nobody is not None
    assert nobody.tolist() == [0, 0]


@pytest.mark.parametrize(("sex", "told"), [(3, "3"), (-9, "-9"), (1.5, "1.5"), (float("nan"), "nan")])
def test_sexes__refuse_any_other_number_with_the_person(sex: float, told: str) -> None:
    with pytest.raises(DataError, match=rf"the sex of 'p1' is {told}; it must be 1 \(male\), 2 \(female\), 0 or null \(unknown\)"):
        sexes(people(sex=[1.0, sex, 2.0]))
    with pytest.raises(DataError, match="the sex of 'p1' is"):
        sexes(people(gender=[1.0, sex, 2.0]), "gender")


@pytest.mark.parametrize("dtype", [pl.String(), pl.Boolean()])
def test_check_sex__refuses_what_is_no_number(dtype: pl.DataType) -> None:
    with pytest.raises(StageError, match=f"gender: the people's column 'sex' is {dtype}; it must be whole numbers, 1 male, 2 female"):
        check_sex(pl.Schema({"sex": dtype}), key="gender")
    check_sex(pl.Schema({"age": dtype}))
    check_sex(pl.Schema({"sex": pl.Null()}))


def test_sex_of_code__reads_numbers_and_letters() -> None:
    codes = pl.DataFrame({"sex": ["1", "M", "m", "2", "F", "f", "0", "-9", "NA", "3", None]})
    assert codes.select(sex_of_code())["sex"].to_list() == [1, 1, 1, 2, 2, 2, *[None] * 5]


@pytest.mark.parametrize("column", ["father_id", "mother_id"])
def test_founders__have_no_parent_named_in_either_column(column: str) -> None:
    assert founders(people(**{column: ["0", "", None, "p1"]}), "").tolist() == [True, True, True, False]
    both = people(father_id=["0", "0", "p1", None], mother_id=["0", "p1", "0", ""])
    assert founders(both, "").tolist() == [True, False, False, True]
    assert founders(people(**{column: [0, None, 7]}), "").tolist() == [True, True, False]
    assert founders(people(age=[1, 2]), "").all()


def test_founders__refuse_people_who_all_have_a_parent() -> None:
    with pytest.raises(DataError, match=r"everyone has a parent named \(father_id, mother_id\), .* no founder to count; do so and so"):
        founders(people(mother_id=["p2", "p3"]), "do so and so")
    assert founders(people(mother_id=["p2"]).clear(), "").tolist() == []


def test_counted_people__are_everyone_where_founders_do_not_matter() -> None:
    family = people(mother_id=["0", "p0"], sex=[2, 1])
    assert counted_people(family, founders_only=False).founders is None
    counted = counted_people(family, founders_only=True)
    assert counted.founders is not None
    assert counted.founders.tolist() == [True, False]
    assert counted_people(family.head(1), founders_only=True).founders is None
