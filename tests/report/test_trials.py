"""The findings of searches and cross-validations: the best trials, and the metrics fold by fold."""

from __future__ import annotations

import re

import polars as pl
import pytest

from pipeline.report.finding import Evidence
from pipeline.report.findings.folds import Folds
from pipeline.report.findings.trials import Trials
from pipeline.report.pieces import Figure, Grid, Section

TRIALS = pl.DataFrame(
    {
        "trial": [1, 2, 3, 4],
        "depth": [2, 4, 8, 3],
        "rate": [0.01, 0.1, 1.0, 0.5],
        "kind": ["a", "b", None, "a"],
        "metric": ["loss"] * 4,
        "value": [0.5, 0.2, 0.4, None],
        "state": ["measured", "measured", "measured", "no value"],
        "best": [0.5, 0.2, 0.2, 0.2],
    }
)
RUNGS = pl.DataFrame(
    {
        "trial": [1, 2, 3, 3],
        "rounds": [10, 10, 10, 30],
        "depth": [2, 4, 8, 8],
        "metric": ["auc"] * 4,
        "value": [0.9, 0.7, 0.95, 0.8],
        "state": ["stopped", "stopped", "went on", "measured"],
        "best": [None, None, None, 0.8],
    }
)


def shown(trials: pl.DataFrame) -> Section:
    (section,) = Trials().sections(Evidence({"trials": trials.lazy()}))
    return section


def table(section: Section) -> Grid:
    (found,) = (block for block in section.blocks if isinstance(block, Grid))
    return found


def captions(section: Section) -> list[str]:
    return [block.caption for block in section.blocks if isinstance(block, Figure)]


def test_trials__the_best_come_first_whichever_value_is_better() -> None:
    assert [row[0] for row in table(shown(TRIALS)).rows] == ["2", "3", "1", "4"]
    greater = TRIALS.with_columns(value=-pl.col("value"), best=-pl.col("best"))
    assert [row[0] for row in table(shown(greater)).rows] == ["2", "3", "1", "4"]
    assert shown(TRIALS).highlights == [("0.2", "best loss of 4 trials")]


def test_trials__have_a_figure_a_parameter_with_the_best_marked() -> None:
    section = shown(TRIALS)
    assert captions(section) == [
        "loss of each trial, and of the best one so far.",
        *(f"loss by {name}; the best trial is marked." for name in ("depth", "rate", "kind")),
    ]
    drawn = {block.caption: block.svg for block in section.blocks if isinstance(block, Figure)}
    assert "rate (log scale)" in drawn["loss by rate; the best trial is marked."]
    assert all(svg.count("<title>trial 2: 0.2</title>") == 1 for caption, svg in drawn.items() if " by " in caption)
    assert re.findall(r">(a|b|none)</text>", drawn["loss by kind; the best trial is marked."]) == ["a", "b", "none"]


def test_trials__with_more_rounds_come_first_and_are_compared_where_most_were() -> None:
    section = shown(RUNGS)
    assert [row[0] for row in table(section).rows] == ["3", "1", "2"]
    assert captions(section) == ["auc of each trial as it got more rounds.", "auc by depth, after 10 rounds; the best trial is marked."]


def test_trials__none_of_which_was_measured_show_nothing() -> None:
    assert list(Trials().sections(Evidence({"trials": TRIALS.filter(state="no value").lazy()}))) == []


def test_folds__have_their_mean_and_spread_and_none_where_a_fold_lacks_a_metric() -> None:
    cells = [
        (fold, 10 * fold, name, value)
        for fold, auc in ((1, 0.5), (2, None), (3, 0.9))
        for name, value in (("loss", 0.1 * fold), ("auc", auc))
    ]
    folds = pl.DataFrame(cells, ["fold", "rows", "metric", "value"], orient="row")
    (section,) = Folds().sections(Evidence({"folds": folds.lazy()}))
    assert table(section).head == ("fold", "rows", "loss", "auc")
    assert table(section).rows[0] == ["1", "10", "0.1", "0.5"]
    assert table(section).rows[3:] == [["mean", "", "0.2", ""], ["standard deviation", "", "0.1", ""]]
    assert captions(section) == ["loss of each fold, and the mean.", "auc of each fold, and the mean."]
    ((figure, what),) = section.highlights
    assert float(figure) == pytest.approx(0.2)
    assert what == "mean loss of 3 folds, standard deviation 0.1"
