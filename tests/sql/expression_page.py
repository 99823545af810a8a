"""docs/expressions.md as examples that can be run: the tests of expressions, of their translation for cuDF and of the GPU share them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from ruamel.yaml import YAML

from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.sql.expression import check_value, finite

PAGE = Path(__file__).parents[2] / "docs" / "expressions.md"
HOST_FORMS = re.compile(r"ilike|~\*|[+] interval")


class Example(NamedTuple):
    """A row of the page: with these columns the expression has this result; `function` where it stands in the table of functions."""

    expression: str
    columns: str
    result: str
    function: str
    gives: str
    runs_on: str


def page_examples() -> Iterator[Example]:
    header: list[str] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            header = []
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not header:
            header = cells
        elif not line.startswith("| ---"):
            row = {
                name: cell if name == "gives" else cell.removeprefix("`").removesuffix("`")
                for name, cell in zip(header, cells, strict=True)
            }
            names = ("function", "gives", "runs on")
            yield Example(row["expression"], row["columns"], row["result"], *(row.get(name, "") for name in names))


EXAMPLES = list(page_examples())


def on_cpu_only(example: Example) -> bool:
    """Whether the page says that cuDF does not run it: its function is marked so, or a form of it is."""
    return bool(example.runs_on or HOST_FORMS.search(example.expression))


def yaml_value(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def frame_of(columns: str) -> pl.DataFrame:
    """The columns of an example; one that is null throughout is a number, or a condition where its name is a or b."""
    values = {name: value if isinstance(value, list) else [value] for name, value in yaml_value(f"{{{columns}}}").items()} or {
        "one_row": [0]
    }
    empty = {name: pl.Boolean if name in {"a", "b"} else pl.Int64 for name, listed in values.items() if all(one is None for one in listed)}
    return pl.DataFrame(values, schema_overrides=empty)


def derived(text: str, frame: pl.DataFrame, backend: Backend = "cpu") -> pl.Series:
    value, dtype = check_value(text, frame.schema)
    column = collect(frame.lazy().with_columns(finite(value, dtype).alias("answer")), backend)["answer"]
    assert column.dtype == dtype
    return column
