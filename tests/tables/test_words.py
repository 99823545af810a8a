"""Texts that repeat, as numbers by compiled code."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.tables import key_rows, words
from pipeline.tables.words import Words

TEXTS = pl.Series(["b", "a", None, "ä" * 40, "a", "", "b\0"])
SORTED = ["", "a", "b", "b\0", "ä" * 40]
PLACES = [2, 1, None, 4, 1, 0, 3]


@pytest.fixture(params=["an enumeration", "a join", "hashes", "hashes that are all the same"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "an enumeration":
        monkeypatch.setattr(words, "FEW", 0)
    if request.param.startswith("hashes"):
        monkeypatch.setattr(words, "MANY_ROWS", 1)
    if request.param.endswith("the same"):
        monkeypatch.setattr(words, "_hashes", lambda texts: pl.zeros(len(texts), pl.Int64, eager=True))


@pytest.mark.usefixtures("_way")
def test_words__are_the_distinct_texts_in_order_and_texts_their_places() -> None:
    found = Words.of(TEXTS)
    assert found.texts.to_list() == SORTED
    assert found.places(TEXTS).to_list() == PLACES
    assert found.places(pl.Series(["a", "c", None, "B"])).to_list() == [1, None, None, None]


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("texts", [[], [None, None]])
def test_words__may_be_none(texts: list[str | None]) -> None:
    found = Words.of(pl.Series(texts, dtype=pl.String))
    assert len(found) == 0
    assert found.places(pl.Series(["a", None])).to_list() == [None, None]


def test_words__of_millions_of_texts_are_found_by_hashes() -> None:
    texts = (pl.int_range(words.MANY_ROWS, eager=True) * 7_919 % 5_000).cast(pl.String)
    found = Words.of(texts)
    assert found.texts.equals(texts.unique().sort())
    assert found.texts.gather(found.places(texts)).equals(texts)
    assert found.texts.gather(found.places(texts.tail(9))).equals(texts.tail(9))


def test_words__of_a_table_that_grows_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MANY_ROWS", 1)
    monkeypatch.setattr(words, "FEW", 0)
    monkeypatch.setattr(key_rows, "SMALL", 1)
    texts = pl.Series([*range(1_000), None, *range(1_000)]).cast(pl.String)
    assert Words.of(texts).texts.to_list() == sorted(map(str, range(1_000)))
