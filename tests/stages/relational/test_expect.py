"""expect."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.api import load
from pipeline.errors import DataError, PipelineError, StageError
from pipeline.stage import Context
from pipeline.stages.relational.expect import Expect
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_parts, run_stage, table_schemas
from tests.harness import genotypes

DAY = dt.date(2026, 1, 31)
ROWS = pl.DataFrame(
    {
        "id": [1, 2, 3, 3, None, 6],
        "amount": [10.0, -1.0, None, 5.0, 2000.0, 7.0],
        "state": ["CA", "NY", "XX", None, "CA", "it's"],
        "owner": [1, 1, 9, None, 2, 2],
        "day": [DAY, DAY - dt.timedelta(days=3), None, DAY, DAY, DAY],
    }
)
PEOPLE = pl.DataFrame({"person": [2, 1, 1, None]})
TABLES = {"rows": ROWS, "people": PEOPLE}
RULES: dict[str, dict[str, Any]] = {
    "known": {"check": "not_null", "columns": ["id", "day"]},
    "amounts": {"check": "range", "column": "amount", "min": 0, "max": 1000},
    "states": {"check": "values", "column": "state", "values": ["CA", "NY", "it's"]},
    "order": {"check": "condition", "where": "amount > id"},
    "ids": {"check": "unique", "columns": "id"},
    "owners": {"check": "reference", "columns": {"owner": "person"}, "table": "people"},
    "some": {"check": "rows", "min": 3, "max": 6},
    "fresh": {"check": "fresh", "column": "day", "at": "2026-02-02", "within": "2d"},
}
BROKEN = {"known": [2, 4], "amounts": [1, 4], "states": [2], "order": [1], "ids": [2, 3], "owners": [2]}


def expect(action: str | None = None, *, only: tuple[str, ...] = tuple(RULES), **changed: dict[str, Any]) -> Expect:
    """The rules of some names; those of rows with this action."""
    rules = {name: {**RULES[name], **({"action": action} if action and name in BROKEN else {}), **changed.get(name, {})} for name in only}
    return Expect.model_validate({"rules": rules})


EXAMPLES = [
    StageExample(expect("quarantine"), TABLES, ordered=True),
    StageExample(expect("warn"), TABLES, ordered=True),
    StageExample(expect(only=("some", "fresh")), {"rows": ROWS}, ordered=True),
    StageExample(expect("quarantine", only=("ids", "owners")), {"rows": ROWS, "people": PEOPLE.clear()}, ordered=True),
]


def concluded(stage: Expect, tables: dict[str, pl.DataFrame]) -> tuple[Any, Any, Any]:
    """Metrics, counts and warnings."""
    session, schemas = Session(), table_schemas(tables)
    given = {name: Table.of(session, name, [Part(rows)], schema=schemas[name]) for name, rows in tables.items()}
    outcome = stage.run(given, Context("checked", 1, session))
    return outcome.metrics, outcome.counts, outcome.warnings


@pytest.mark.parametrize("name", BROKEN)
def test_expect__takes_the_rows_that_break_a_rule(name: str) -> None:
    found = run_stage(expect("quarantine", only=(name,)), TABLES, 3)
    assert found["quarantined"].select(ROWS.columns).equals(ROWS[BROKEN[name]])
    assert found["quarantined"]["rules"].to_list() == [name] * len(BROKEN[name])
    assert found[""].equals(ROWS[[row for row in range(6) if row not in BROKEN[name]]])


def test_expect__says_every_rule_that_a_row_breaks_and_why() -> None:
    found = run_stage(expect("quarantine"), TABLES)["quarantined"]
    assert found.filter(pl.col("owner") == 9).select("rules", "reason").row(0) == (
        "known; states; ids; owners",
        "not so: id, day are not null; not so: state is one of CA, NY, it's; not so: id is unique; not so: owner is in people",
    )


@pytest.mark.parametrize("name", BROKEN)
def test_expect__fails_with_how_many_rows_and_which_values(name: str) -> None:
    shown = {"known": "id is 3, day is null", "amounts": r"amount is -1\.0", "states": "state is 'XX'", "order": "amount is -1"}
    shown |= {"ids": "id is 3", "owners": "owner is 9"}
    with pytest.raises(DataError, match=rf"rules\.{name}: it is not so that .*: {len(BROKEN[name])} of 6 rows break it, .*{shown[name]}"):
        run_stage(expect(only=(name,)), TABLES, 2)


def test_expect__fails_by_the_number_of_rows_and_by_age() -> None:
    with pytest.raises(DataError, match="there are at least 7 and at most 9 rows: there are 6"):
        run_stage(expect(only=("some",), some={"min": 7, "max": 9}), {"rows": ROWS}, 2)
    with pytest.raises(DataError, match=r"the newest day is within 1d of 2026-02-02.*: it is 2026-01-31"):
        run_stage(expect(only=("fresh",), fresh={"within": "1d"}), {"rows": ROWS}, 2)
    with pytest.raises(DataError, match=r"2026-02-02.*: there is none"):
        run_stage(expect(only=("fresh",)), {"rows": ROWS.clear()})
    assert run_stage(expect(only=("fresh",), fresh={"within": "1d", "action": "warn"}), {"rows": ROWS})[""].equals(ROWS)


def test_expect__of_a_clock_with_a_zone_takes_the_date_on_that_clock() -> None:
    clock = ROWS.select(pl.col("day").cast(pl.Datetime("us")).dt.replace_time_zone("Asia/Tokyo"))
    for within, fine in (("24h", True), ("23h", False)):
        stage = expect(only=("fresh",), fresh={"at": "2026-02-01 00:00:00", "within": within})
        if fine:
            assert run_stage(stage, {"rows": clock})[""].equals(clock)
        else:
            with pytest.raises(DataError, match=r"2026-02-01.*: it is 2026-01-31"):
                run_stage(stage, {"rows": clock})


def test_expect__names_every_rule_that_failed() -> None:
    with pytest.raises(DataError, match="Rule 'owners' too: it is not so that owner is in people"):
        run_stage(expect(only=("known", "owners")), TABLES)


def test_expect__warns_and_counts_for_the_record() -> None:
    metrics, counts, warnings = concluded(expect("warn", some={"min": 9, "max": 9, "action": "warn"}), TABLES)
    assert {name: metrics[name]["broken"] for name in BROKEN} == {name: len(rows) for name, rows in BROKEN.items()}
    assert metrics["amounts"] == {"rule": "amount >= 0 and amount <= 1000", "action": "warn", "rows": 6, "broken": 2}
    assert counts == {"rows_in": 6, "quarantined": 0, "rows_out": 6, "broken_some": 6} | {
        f"broken_{name}": len(rows) for name, rows in BROKEN.items()
    }
    assert [text.split("'")[1] for text in warnings] == [*BROKEN, "some"]
    assert concluded(expect("quarantine"), TABLES)[1]["quarantined"] == 4


def test_expect__is_the_same_for_any_parts() -> None:
    assert_same_for_any_parts(expect("quarantine"), TABLES, sort_by=ROWS.columns)


def test_expect__of_an_empty_table_holds_but_for_the_number_of_rows() -> None:
    stage = expect(only=tuple(BROKEN))
    assert run_stage(stage, {"rows": ROWS.clear(), "people": PEOPLE}, 2)[""].equals(ROWS.clear())


def test_expect__keeps_genotypes_with_their_rows() -> None:
    part, axes = genotypes()
    rules = {"rules": {"a": {"check": "condition", "where": "base_pair_location > 0", "action": "warn"}}}
    (found,) = run_parts(Expect.model_validate(rules), {"rows": [part]}, axes=axes)[""]
    assert (found.arrays["calls"] == part.arrays["calls"]).all()


def test_expect__says_file_and_row_where_it_reads_an_input(tmp_path: Path) -> None:
    for name, values in (("a", [1, -1]), ("b", [2, 3, -2])):
        pl.DataFrame({"x": values}).write_csv(tmp_path / f"{name}.csv")
        pl.DataFrame({"x": values}).write_parquet(tmp_path / f"{name}.parquet")
    for use, between in (("csv", ""), ("parquet", ""), ("csv", "  - {use: derive, from: t, as: u, columns: {y: x}}\n")):
        text = f"job: j\nresults: {tmp_path}/r\ninputs:\n  t: {{format: {use}, path: '{tmp_path}/*.{use}', parts: 3}}\nstages:\n{between}"
        source = "u" if between else "t"
        text += f"  - {{use: expect, from: {source}, as: c, rules: {{r: {{check: range, column: x, min: 0, action: quarantine}}}}}}\n"
        text += "outputs:\n  good: {from: c}\n  bad: {from: c.quarantined}\n"
        (tmp_path / "job.yaml").write_text(text)
        run = load(tmp_path / "job.yaml").run()
        found = run.table("bad").to_polars().sort("x")
        places = [(Path(file).name if file else None, row) for file, row in found.select("file", "row").iter_rows()]
        assert places == ([(None, None)] * 2 if between else [(f"b.{use}", 3), (f"a.{use}", 2)])
        assert run.record["stages"]["c"]["counts"] == {"rows_in": 5, "quarantined": 2, "rows_out": 3, "broken_r": 2}
        assert "Expectations" in Path(run.path, "report.html").read_text()


def test_expect__refuses_what_does_not_fit() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"check": "range", "column": "amuont", "min": 0}, r"rules\.r\.column: .*no column 'amuont'\. Did you mean 'amount'"),
        ({"check": "range", "column": "state", "min": 0}, r"rules\.r: "),
        ({"check": "condition", "where": "amount"}, "a filter needs a condition"),
        ({"check": "unique", "columns": "amount"}, "a fraction is no key"),
        ({"check": "reference", "columns": "owner", "table": "persons"}, "the other tables of from are people"),
        ({"check": "reference", "columns": {"state": "person"}, "table": "people"}, "'state' is String, and 'person' in people is Int64"),
        ({"check": "fresh", "column": "id", "at": "2026-01-01", "within": "1d"}, "only dates and timestamps grow old"),
        ({"check": "fresh", "column": "day", "at": "2026-01-01", "within": "1 month"}, "is no span"),
    ]
    for rule, message in refused:
        with pytest.raises(PipelineError, match=message):
            plan_stage(Expect.model_validate({"rules": {"r": rule}}), TABLES)
    with pytest.raises(StageError, match="a column 'row' already"):
        plan_stage(expect("quarantine", only=("ids",)), {"rows": ROWS.with_columns(row=1)})
    wrong = [{"check": "range", "column": "id"}, {"check": "rows"}, {"check": "rows", "min": 1, "action": "quarantine"}, {"check": "is"}]
    for given in wrong:
        with pytest.raises(ValidationError, match=r"give min, max or both|Input should be 'fail' or 'warn'|does not match any of"):
            Expect.model_validate({"rules": {"r": given}})
