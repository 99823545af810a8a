"""docs/coming-from.md: what it says in pandas, Polars and SQL is what its stages do."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from pipeline import api
from tests.differential.oracle import assert_same

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
RNG = np.random.default_rng(5)
ROWS = 60
SALES = pl.DataFrame(
    {
        "id": np.arange(ROWS),
        "store": RNG.choice(["north", "south", "east"], ROWS),
        "product": RNG.choice(["apple", "pear", "plum"], ROWS),
        "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(day)) for day in RNG.integers(0, 150, ROWS)],
        "amount": RNG.integers(100, 6000, ROWS) / 100,
        "units": RNG.integers(1, 9, ROWS),
    }
)
STORES = pl.DataFrame({"store": ["north", "south"], "city": ["Oslo", "Rome"]})
SINCE = [dt.date(2024, 1, 1), dt.date(2024, 3, 1), dt.date(2024, 2, 1), dt.date(2023, 1, 1)]
PRICES = pl.DataFrame({"product": ["apple", "apple", "pear", "plum"], "since": SINCE, "price": [1.5, None, 2.5, 3.5]})
TABLES = {"sales": SALES, "stores": STORES, "prices": PRICES}


def tasks() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Every task of the page: its heading, and the code of each language."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        lines = re.findall(r"^- (pandas|Polars|SQL, dbt|Spark|here) (`.*)$", body, re.MULTILINE)
        if lines:
            yield heading, {language: re.findall(r"`([^`]+)`", text) for language, text in lines}


TASKS = dict(tasks())


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    """What the lines of all tasks give, as one job: by the name of each task's last table."""
    place = tmp_path_factory.mktemp("coming")
    for name, table in TABLES.items():
        table.write_parquet(place / f"{name}.parquet")
    lines = [line for languages in TASKS.values() for line in languages["here"]]
    names = [results(languages["here"]) for languages in TASKS.values()]
    inputs = "".join(f"  {name}: {{format: parquet, path: {place / name}.parquet}}\n" for name in TABLES)
    stages, outputs = "".join(f"  - {line}\n" for line in lines), "".join(f"  {name}: {{from: {name}}}\n" for name in names)
    head = f"job: daily\nresults: {place}/results\nreport: false\n"
    (place / "job.yaml").write_text(f"{head}inputs:\n{inputs}stages:\n{stages}outputs:\n{outputs}")
    run = api.load(place / "job.yaml", cluster__dashboard=False).run()
    return {name: run.table(name).to_polars() for name in names}


def results(lines: list[str]) -> str:
    """The table that the last line gives."""
    (name,) = re.findall(r"\bas: (\w+)", lines[-1])
    return str(name)


def by_pandas(code: str) -> pl.DataFrame:
    tables = {name: table.to_pandas() for name, table in TABLES.items()}
    found: Any = eval(code, {"pd": pd, "np": np, **tables})
    return pl.from_pandas(found.reset_index(drop=True))


def by_polars(code: str) -> pl.DataFrame:
    found = eval(code, {"pl": pl, **TABLES})
    assert isinstance(found, pl.DataFrame)
    return found


def by_sql(code: str) -> pl.DataFrame:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table.to_arrow())
        found = pl.from_arrow(connection.sql(code).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


def test_the_page__has_at_least_twenty_tasks_in_five_languages() -> None:
    assert len(TASKS) >= 20
    assert all(list(languages) == ["pandas", "Polars", "SQL, dbt", "Spark", "here"] for languages in TASKS.values())


@pytest.mark.parametrize(("language", "answer"), [("pandas", by_pandas), ("Polars", by_polars), ("SQL, dbt", by_sql)])
@pytest.mark.parametrize("task", list(TASKS))
def test_a_task__is_the_same_here(task: str, language: str, answer: Any, answers: dict[str, pl.DataFrame]) -> None:
    found = answers[results(TASKS[task]["here"])]
    (code,) = TASKS[task][language]
    expected = answer(code)
    assert set(expected.columns) == set(found.columns)
    assert found.height > 1 or "whole table" in task
    assert_same(found, expected.select(found.columns).cast(found.schema), ordered="order by" in code and "over" not in code)
