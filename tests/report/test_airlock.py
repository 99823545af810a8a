from __future__ import annotations

from pathlib import Path

from pipeline.api import load
from tests.report.pages import Page
from tests.small import inside
from tests.stages.privacy.test_airlock import PEOPLE

JOB = """\
job: leaving
inputs: {people: {format: parquet, path: people.parquet}}
stages:
  - {use: airlock, from: people, as: released, by: place, across: ill}
  - {use: aggregate, from: people, as: counted, by: ill, compute: {people: size()}}
outputs:
  by_place: {from: released, format: csv}
  by_ill: {from: counted}
"""


def test_airlock__page_says_of_every_output_whether_it_may_leave_and_shows_what_would(tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet")
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        page = Page(Path(load("job.yaml").run().path, "report.html").read_text())
    assert page.headings[:2] == ["What may leave", "To leave: by_place"]
    assert "once you have looked: counts below 5 are masked, zeros shown" in page.text
    assert "no: it is not from a stage airlock" in page.text
    assert "Is there another table of the same people" in page.text
    _, found, shown = page.text.partition("16 cells and totals of 181 rows: 1 are masked because they are small, 3 so that no total")
    assert found
    assert shown.partition("Preview: by_ill")[0].count("masked") == 4
