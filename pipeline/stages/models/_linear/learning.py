"""A linear model from a table: passes over its parts, a fit, and what is published of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl

from pipeline.kernels.least_squares import stacked
from pipeline.stage import Context, Outcome
from pipeline.stages.models._learning import Given, Learning, with_states
from pipeline.stages.models._linear import sums
from pipeline.stages.models._linear.fit import Course, Fit, is_plain, solved, varying, warnings_of
from pipeline.stages.models._linear.model import LinearModel, LinearPredictor
from pipeline.stages.models._linear.setting import Setting, settled
from pipeline.stages.models._linear.summary import added, summarized
from pipeline.stages.models._linear.tables import coefficients, history, importance
from pipeline.stages.models._linear.terms import LinearTerms
from pipeline.stages.models._measured_on_disk import measured_on_disk
from pipeline.stages.models._measures import Metrics, measured
from pipeline.stages.models._training_rows import Labels
from pipeline.stages.models._weights import row_weights
from pipeline.tables.budget import SHARE
from pipeline.tables.handed import parts_of
from pipeline.tables.laid import Laid
from pipeline.tables.part import Part
from pipeline.tables.table import Fitted, Table

Terms = Learning[LinearTerms]
SCORE_BYTES = 32  # of a score: itself, put together, in order, and where another one lies


def learn(learning: Terms, rows: Table, context: Context) -> Outcome:
    """Fit the model, and give its results as tables, files, metrics, counts and warnings."""
    session, name, rows = context.session, learning.name, rows.hold()
    submit = partial(session.submit, stage=name, on_host=True)
    given = Given.of(rows, learning.arrays, [])
    names = submit(learning.feature_names, given.axes)
    summary = rows.reduce(summarized, added, learning)
    asked = submit(settled, learning, names, summary)
    fit = _fitted(learning, rows, asked, context)
    model = submit(_model, fit)
    table = rows.map_parts(_predicted, learning, fit, model).hold()
    told = parts_of(table)
    known = parts_of(rows) if learning.stage.weight else [None] * len(told)
    if table.is_beyond:
        assert session.budget is not None
        metrics = submit(_metrics_on_disk, learning, told, known, max(1, session.budget.bytes // (SHARE * SCORE_BYTES)))
    else:
        metrics = submit(_metrics, learning, [submit(_scores, learning, part, of) for part, of in zip(told, known, strict=True)])
    steps = submit(with_states, given.steps, given.states)
    files = {f"{name}.npz": submit(LinearModel.saved, model), f"{name}.json": submit(_description, learning, asked, fit, steps)}
    parts = {
        "coefficients": submit(coefficients, asked, fit, steps),
        "importance": submit(importance, fit),
        "history": submit(history, fit),
    }
    tables = {"": table, **{part: Table.of(session, name, [future]) for part, future in parts.items()}}
    return Outcome(tables, files, metrics, submit(_counts, asked, fit), submit(warnings_of, asked, fit))


def _fitted(learning: Terms, rows: Table, asked: Any, context: Context) -> Any:
    """A future of the fit. It is waited for what decides which task is next."""
    session, name = context.session, learning.name
    submit = partial(session.submit, stage=name, on_host=True)
    used = rows.map_parts(sums.used_rows, learning).hold()
    setting, gram, factor = asked, None, None
    at_once, penalized, numbers = session.value(submit(_kind, asked))
    if at_once or not penalized:
        gram = used.reduce(sums.products, sums.added, asked)
        if not session.value(submit(is_plain, asked, gram)):
            factor = used.reduce(sums.factors, stacked, asked)
        kept = submit(varying, asked, gram, factor)
        setting = submit(Setting.kept, asked, kept)
        if at_once:
            return submit(solved, setting, gram, factor, kept)
        gram = submit(_among, gram, kept)
    if numbers and not used.is_beyond:
        used = Table.of(session, name, [submit(sums.ready, part, setting) for part in used.futures()])
    course = submit(Course.of, setting)
    while not session.value(submit(attrgetter("done"), course)):
        wanted = submit(attrgetter("wanted"), course)  # goes from worker to worker: of many columns and classes it is large
        course = submit(Course.advanced, course, used.reduce(sums.losses, sums.added_losses, setting, wanted, name))
    return submit(Course.fit, course, gram)


def _kind(setting: Setting) -> tuple[bool, bool, bool]:
    """Whether it is solved at once, whether there is a penalty, and whether all features are numbers."""
    return setting.solved_at_once, setting.penalized, not setting.design.categories


def _among(gram: Any, kept: Any) -> Any:
    """The products of the columns that are kept, and of the target."""
    at = np.append(kept, len(gram) - 1)
    return gram[np.ix_(at, at)]


def _model(fit: Fit) -> LinearModel:
    """The fit as it predicts: the base class has no coefficients but 0."""
    values = fit.coefficients
    if fit.setting.family == "base_class":
        values = np.column_stack([np.zeros(len(values)), values])
    return LinearModel.of(fit.setting.design, values)


def _predicted(part: Part, learning: Terms, fit: Fit, model: LinearModel) -> Part:
    """Key, split, target and predictions of a part's rows."""
    stage = learning.stage
    found = LinearPredictor(model, fit.setting.family, learning.backend).predict(learning.matrix(part))
    columns = zip(stage.prediction_columns, np.atleast_2d(found.T), strict=True)
    return Part(part.frame[stage.row_columns].hstack([pl.Series(name, np.ascontiguousarray(values)) for name, values in columns]))


def _scores(learning: Terms, told: Part | Laid, given: Part | Laid | None) -> tuple[Labels, Any, Any]:
    """What metrics want of a part's predictions: labels, predictions, and weights where the rows as `given` have some."""
    stage = learning.stage
    part = _seen(told, [stage.target, *([stage.split] if stage.split else []), *stage.prediction_columns])
    found = part.frame.select(stage.prediction_columns).to_numpy()
    weights = row_weights(stage, _seen(given, [stage.weight]).frame) if given and stage.weight else None
    return Labels.of(stage, part.frame), found if stage.classes else found[:, 0], weights


def _seen(part: Part | Laid, columns: Sequence[str]) -> Part:
    """A part with these columns at least; of one on disk no others are read."""
    return part.read(columns) if isinstance(part, Laid) else part


def _metrics(learning: Terms, scores: Sequence[tuple[Labels, Any, Any]]) -> Metrics:
    parts, found, weights = zip(*scores, strict=True)
    labels = Labels(*(np.concatenate([getattr(part, each) for part in parts]) for each in ("values", "splits")))
    return measured(learning.stage, labels, np.concatenate(found), np.concatenate(weights) if learning.stage.weight else None)


def _metrics_on_disk(learning: Terms, told: Sequence[Part | Laid], known: Sequence[Part | Laid | None], most: int) -> Metrics:
    def parts() -> Iterator[tuple[Labels, Any, Any]]:
        """The scores of one part after the other."""
        return (_scores(learning, part, of) for part, of in zip(told, known, strict=True))

    return measured_on_disk(learning.stage, parts, most)


def _description(learning: Terms, asked: Setting, fit: Fit, steps: Sequence[Fitted]) -> bytes:
    stage, seen = learning.stage, asked.summary.seen
    codes = pl.DataFrame({name: [max(counts, default=None)] for name, counts in seen.items()})
    own = {"family": fit.setting.family, "l1": stage.l1, "l2": stage.l2, "rounds_used": fit.rounds, "ended": fit.ended}
    return learning.description(asked.design.names, codes, steps, own)


def _counts(asked: Setting, fit: Fit) -> dict[str, int]:
    """Features, coefficients, rounds, rows of each split that has some, and what was missing in all rows."""
    summary, setting = asked.summary, fit.setting
    known = sum(counts[code] for name, counts in summary.seen.items() for code in summary.trained[name])
    found = {
        "features": len(asked.design.names),
        "coefficients": setting.size - setting.outputs,
        "rounds_used": fit.rounds,
        **{name: count for name, count in summary.counts.items() if name.startswith("rows_") and count},
        "missing_values": summary.counts["missing_values"],
        "unknown_codes": summary.counts["rows"] * len(summary.seen) - known,
    }
    return {name: count for name, count in found.items() if count or not name.endswith(("values", "codes"))}
