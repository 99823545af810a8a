"""What a fitted linear model says of itself: coefficients on the features' own scale with their errors, influence, and its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pipeline.kernels.p_values import t_test_p_values, z_test_p_values
from pipeline.stages.models._linear.design import Design
from pipeline.stages.models._linear.fit import Fit, dropped, metric_of, told
from pipeline.stages.models._linear.setting import Setting
from pipeline.stages.models._linear.terms import LinearTerms
from pipeline.tables.part import Part
from pipeline.tables.table import Fitted

Array = np.ndarray[Any, Any]

INTERCEPT = "(intercept)"
CODES = {"column", "value", "code"}  # columns of a state that says which code means what


def coefficient_schema(stage: LinearTerms) -> pl.Schema:
    """Columns of the coefficients: a class each where there are several."""
    named = {"class": pl.String()} if stage.classes else {}
    numbers = ("coefficient", "standard_error", "statistic", "p_value", "scale")
    return pl.Schema({**named, "feature": pl.String(), "code": pl.Int64(), "value": pl.String(), **dict.fromkeys(numbers, pl.Float64())})


def coefficients(asked: Setting, fit: Fit, steps: Sequence[Fitted]) -> Part:
    """A block a class: the intercept, then every column of the features in order, null where it was left out, the base of a category 0."""
    stage, words = asked.stage, _words(steps)
    rows: list[tuple[Any, ...]] = []
    outputs = fit.coefficients.shape[1]
    names = stage.class_names[len(stage.classes) - outputs :] if stage.classes else [""]
    for output, name in enumerate(names):
        lead = (name,) if stage.classes else ()
        rows += [(*lead, feature, code, words.get((feature, code)), *values) for feature, code, values in _block(asked, fit, output)]
    return Part(pl.DataFrame(rows, coefficient_schema(stage), orient="row").with_columns(pl.selectors.float().fill_nan(None)))


def _block(asked: Setting, fit: Fit, output: int) -> Iterator[tuple[str, int | None, tuple[float, ...]]]:
    """Feature, code, and coefficient, error, statistic, p-value and scale of one output's rows."""
    design, mine = asked.design, fit.setting.design
    estimate, error = _on_own_scale(fit, output)
    statistic = np.divide(estimate, error, out=np.full_like(estimate, np.nan), where=error > 0)
    p_value = z_test_p_values(statistic)[0] if fit.freedom is None else t_test_p_values(statistic, np.array(fit.freedom))[0]
    scale = np.append(np.nan, mine.scales)
    values = [tuple(float(each) for each in row) for row in zip(estimate, error, statistic, p_value, scale, strict=True)]
    yield INTERCEPT, None, values[0]
    without, places, found = set(dropped(asked, fit)), [], iter(values[1:])
    for at, place in enumerate(design.places.tolist()):
        places.append(
            (place, _code(design, at), (np.nan, np.nan, np.nan, np.nan, float(design.scales[at])) if at in without else next(found))
        )
    places += [(place, None, (np.nan,) * 5) for place in design.flat if place not in {each.place for each in design.categories}]
    places += [(each.place, each.base, (0.0, *(np.nan,) * 4)) for each in design.categories]
    for place, code, row in sorted(places, key=lambda one: (one[0], -1 if one[1] is None else one[1])):
        yield design.names[place], code, row


def _code(design: Design, at: int) -> int | None:
    return None if np.isnan(design.codes[at]) else int(design.codes[at])


def _on_own_scale(fit: Fit, output: int) -> tuple[Array, Array]:
    """Coefficients and their standard errors, NaN where they have none, of the features as they are: the intercept is that at zero."""
    design = fit.setting.design
    size = 1 + design.columns
    turned = np.diag(np.append(1.0, 1 / design.scales))
    turned[0, 1:] = -design.means / design.scales
    estimate = turned @ fit.coefficients[:, output]
    if fit.covariance is None:
        return estimate, np.full(size, np.nan)
    at = slice(output * size, (output + 1) * size)
    variance = ((turned @ fit.covariance[at, at]) * turned).sum(axis=1)
    return estimate, np.sqrt(np.maximum(variance, 0.0))


def importance(fit: Fit) -> Part:
    """Features by their influence, the greatest first: the standard deviation, over the training rows, of what one adds to the predictor.

    Of several classes it is the root of the mean square over them, from their mean.
    """
    design = fit.setting.design
    effects = fit.coefficients[1:]
    if fit.setting.family == "base_class":
        effects = np.column_stack([np.zeros(len(effects)), effects])
    effects = effects - effects.mean(axis=1)[:, None] if effects.shape[1] > 1 else effects
    # Standardized columns have variance 1; two codes of a feature never stand together: their covariance is less the product of shares.
    variance = np.zeros((len(design.names), effects.shape[1]))
    for place in range(len(design.names)):
        at = np.flatnonzero(design.places == place)
        raw, shares = effects[at] / design.scales[at, None], design.means[at]
        coded = len(at) > 0 and not np.isnan(design.codes[at[0]])
        variance[place] = (shares @ raw**2 - (shares @ raw) ** 2) if coded else (effects[at] ** 2).sum(axis=0)
    influence = np.sqrt(np.maximum(variance, 0.0).mean(axis=1))
    table = pl.DataFrame({"feature": list(design.names), "influence": influence}, schema={"feature": pl.String, "influence": pl.Float64})
    return Part(table.sort("influence", "feature", descending=[True, False]))


def history(fit: Fit) -> Part:
    """Round, split, metric, value."""
    family = fit.setting.family
    rows = [(at, split, metric_of(family), told(family, loss)) for at, split, loss in fit.history]
    return Part(pl.DataFrame(rows, HISTORY, orient="row"))


HISTORY = pl.Schema({"round": pl.Int64(), "split": pl.String(), "metric": pl.String(), "value": pl.Float64()})


def _words(steps: Sequence[Fitted]) -> Mapping[tuple[str, int | None], str]:
    """What codes mean, by feature and code, where a stage before the model has learned it (categorify)."""
    states = [step.state.frame for step in steps if set(step.state.frame.columns) >= CODES]
    return {(column, code): value for state in states for column, value, code in state.select("column", "value", "code").iter_rows()}
