"""Forms of a model on the rows that judge them: what each predicts, how well, how large it is and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.stages.models._measures import Metrics, measured
from pipeline.stages.models._of_model import predicted_columns
from pipeline.stages.models._predictor import Answerer
from pipeline.stages.models._published import Published
from pipeline.stages.models._smaller.forms import Form, Ladder, lowest
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import TrainingRows, in_key_order
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.measures import trees_measured
from pipeline.stages.models._weights import check_weights, row_weights
from pipeline.tables.part import Part
from pipeline.tables.rounds import go_on

LOSSES = ("log_loss", "rmse", "pinball_loss")  # what is judged by: less is better
TRADEOFF = pl.Schema(
    {
        "method": pl.String, "form": pl.String, "bytes": pl.Int64, "split": pl.String, "metric": pl.String, "value": pl.Float64,
        "chosen": pl.Boolean,
    }
)  # fmt: skip
GIVEN = "as given"
TIMED = 3  # times that rows are predicted to say how long it takes; the shortest counts


@dataclass(frozen=True)
class Judged:
    """A form with its predictions, its metrics, and the nanoseconds that a thousand rows take."""

    form: Form
    predicted: Any
    metrics: Metrics
    nanoseconds: int

    def rows(self, method: str, *, chosen: bool) -> list[tuple[Any, ...]]:
        """Its rows in the table of what each form costs."""
        about, size = (method, self.form.said), len(self.form.content)
        return [(*about, size, split, metric, value, chosen) for split, found in self.metrics.items() for metric, value in found.items()]


class Judge:
    """The rows, in the order of their key, with what is known of them; `judge` is a stage that says target, key, objective and split."""

    def __init__(self, judge: Supervised, published: Published, backend: Backend, rows: Part, matrix: Callable[[Part, Published], Any]):
        self.judge, self.published, self.backend, self.matrix = judge, published, backend, matrix
        self.rows = TrainingRows.of(judge, in_key_order(judge, rows))
        check_weights(judge, self.rows.part.frame, self.rows.labels)
        if not self.rows.labels.of_split("validation").any():
            raise DataError(f"there is no validation row with a {judge.target!r} to judge by. Is the split column right?", key="split")

    def of(self, form: Form) -> Judged:
        """A form, judged."""
        go_on()
        made = replace(self.published, description={**self.published.description, **form.own})
        made = replace(made, learner=form.learner or made.learner)
        predictor = made.predictor(self.backend, form.content)
        assert not isinstance(predictor, Answerer)  # it has no target to be judged by
        found, times = list[Any](), list[float]()
        for piece in self.rows.pieces():
            features = self.matrix(piece, made)
            for _ in range(TIMED if not times else 1):
                started = perf_counter_ns()
                predicted = predictor.predict(features)
                times.append((perf_counter_ns() - started) * 1000 / max(1, len(features)))
            found.append(predicted)
        predicted = np.concatenate(found)
        columns = [column.to_numpy() for column in predicted_columns(made.predicts, predicted)]
        rounded = np.column_stack(columns) if len(columns) > 1 else columns[0]
        return Judged(form, rounded, self._measured(rounded), int(min(times)))

    def _measured(self, predicted: Any) -> Metrics:
        """The metrics that training gives for such predictions."""
        if isinstance(self.judge, BoostedTrees):
            return trees_measured(self.judge, self.rows, predicted)
        return measured(self.judge, self.rows.labels, predicted, row_weights(self.judge, self.rows.part.frame))

    def loss(self, judged: Judged) -> float:
        """What a form loses on validation rows."""
        metrics = judged.metrics["validation"]
        value = next((metrics[name] for name in LOSSES if name in metrics), None)
        if value is None:
            raise DataError(f"the model's metrics ({', '.join(metrics)}) have no {' or '.join(LOSSES)} to judge by")
        return value

    def lowest(self, ladder: Ladder, given: Judged, tolerance: float) -> tuple[Judged, Sequence[Judged]]:
        """The lowest step of a ladder found whose loss is within tolerance of the given model's, and all that were tried, the top first."""
        limit, tried = self.loss(given) * (1 + tolerance), dict[int, Judged]()

        def fits(step: int) -> bool:
            """Whether it loses little enough."""
            tried[step] = self.of(ladder.at(step))
            return self.loss(tried[step]) <= limit

        step = lowest(ladder.top, fits)
        if step not in tried:
            fits(step)
        return tried[step], [tried[key] for key in sorted(tried, reverse=True)]


def tradeoff(method: str, given: Judged, tried: Sequence[Judged], chosen: Judged) -> Part:
    """What each form costs: a row per form, split and metric, the model as it was given first."""
    rows = given.rows(GIVEN, chosen=False) + [row for form in tried for row in form.rows(method, chosen=form is chosen)]
    return Part(pl.DataFrame(rows, TRADEOFF, orient="row"))


def predictions(judge: Judge, columns: Sequence[str], predicts: Mapping[str, pl.DataType], chosen: Judged) -> Part:
    """The judge's rows with what a form predicts."""
    return Part(judge.rows.part.frame.select(columns).hstack(predicted_columns(predicts, chosen.predicted)))
