"""Groups of an aggregate computed again, the slow way: lists of Python's own numbers, exact or added up by `math.fsum`.

Nothing here is shared with the queries that aggregate, so that a fault of theirs, or of what they are translated to, shows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from math import floor, fsum, isfinite, sqrt
from typing import Any

_LARGE = 1e300  # what sums and products may come to, before a float cannot hold them
_SMALL = 1e-140  # values whose squares a float cannot hold
_TIED = 1e-9  # places nearer than this to where a quantile goes over from one value to the next
_FLAT = 1e-10  # deviations of so small a share of their values are of their last digits
_CANCELLED = 1e-12  # the same of weights that add up to nearly nothing
_DIGITS = 400  # of a sum of decimals, which have 38 at most
_INT64, _DECIMAL = 1 << 63, 10**28  # sums beyond these may have no place in their type

Column = Sequence[Any]


@dataclass(frozen=True)
class Once:
    """A result. Another way's may differ by a small share of `scale`; not at all where that is 0."""

    value: Any
    scale: float = 0.0


NONE = Once(None)


def computed_again(function: str, columns: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    """A function of the rows of one key; None where this way has no answer (values beyond floats, ties).

    `columns` are `value` and, where the function reads them, `other`, `weights` and `order`: None in rows that do not count. `told` has
    what else the job says: q, interpolation, ties, edges.
    """
    rows = [row for row, value in enumerate(columns["value"]) if value is not None]
    some = {name: [column[row] for row in rows] for name, column in columns.items()}
    if any(isinstance(value, float) and not isfinite(value) for column in some.values() for value in column):
        return None
    return _FUNCTIONS[function](some, told)


def _total(some: Mapping[str, Column], _told: Mapping[str, Any]) -> Once | None:
    values = some["value"]
    if _is_float(values):
        return None if _beyond(values) else Once(fsum(values), fsum(map(abs, values)))
    total = _exact(values)
    most = _DECIMAL if isinstance(total, Fraction) else _INT64
    return Once(total) if -most < total < most else None


def _mean(some: Mapping[str, Column], _told: Mapping[str, Any]) -> Once | None:
    values = some["value"]
    if not values:
        return NONE
    if _beyond(values):
        return None
    mean = fsum(values) / len(values) if _is_float(values) else float(Fraction(_exact(values)) / len(values))
    return Once(mean, fsum(abs(float(value)) for value in values) / len(values))


def _weighted_mean(some: Mapping[str, Column], _told: Mapping[str, Any]) -> Once | None:
    values, weights = some["value"], some["weights"]
    if not any(weights):
        return NONE
    products = [value * weight for value, weight in zip(values, weights, strict=True)]
    if _beyond(products) or _beyond(weights):
        return None
    whole, size = fsum(weights), fsum(map(abs, weights))
    if abs(whole) <= _CANCELLED * size:
        return None
    return Once(fsum(products) / whole, fsum(map(abs, products)) / abs(whole) * (size / abs(whole)))


def _variance(some: Mapping[str, Column], _told: Mapping[str, Any]) -> Once | None:
    values = some["value"]
    if len(values) < 2:
        return NONE
    if _rough(values):
        return None
    found = _product(values, values) / (len(values) - 1)
    return Once(found, max(found, (_FLAT * max(map(abs, values))) ** 2))


def _deviation(some: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    found = _variance(some, told)
    return found if found is None or found.value is None else Once(sqrt(found.value), sqrt(found.scale))


def _covariance(some: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    one, other = _variance({"value": some["value"]}, told), _variance({"value": some["other"]}, told)
    if one is None or other is None or one.value is None:
        return one and other
    return Once(_product(some["value"], some["other"]) / (len(some["value"]) - 1), sqrt(one.scale) * sqrt(other.scale))


def _correlation(some: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    one, other, both = _variance({"value": some["value"]}, told), _variance({"value": some["other"]}, told), _covariance(some, told)
    if one is None or other is None or both is None or one.value is None:
        return both
    if 0.0 in {one.value, other.value}:
        return NONE
    if one.scale > one.value or other.scale > other.value:
        return None
    return Once(both.value / sqrt(one.value) / sqrt(other.value), 1.0)


def _quantile(some: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    values, way = sorted(some["value"]), told.get("interpolation", "linear")
    if not values:
        return NONE
    if _beyond(values):
        return None
    place = told.get("q", 0.5) * (len(values) - 1)
    below = min(floor(place), len(values) - 1)
    low, high = values[below], values[min(below + 1, len(values) - 1)]
    if place == below:
        return Once(low, abs(low))
    part = place - below
    if way != "linear" and any(abs(part - tie) < _TIED for tie in (0, 1, 0.5 if way == "nearest" else 0)):
        return None
    ways = {"linear": low + part * (high - low), "lower": low, "higher": high, "midpoint": low / 2 + high / 2}
    return Once(ways.get(way, low if part < 0.5 else high), max(abs(low), abs(high)))


def _mode(some: Mapping[str, Column], _told: Mapping[str, Any]) -> Once | None:
    times = Counter(some["value"])
    return Once(min(value for value, count in times.items() if count == max(times.values()))) if times else NONE


def _picked(some: Mapping[str, Column], told: Mapping[str, Any], end: Callable[[Column], Any]) -> Once | None:
    ordered = [(order, value) for order, value in zip(some["order"], some["value"], strict=True) if order is not None]
    if not ordered:
        return NONE
    best = end([order for order, _ in ordered])
    tied = {value for order, value in ordered if order == best}
    return None if told.get("ties") == "none" and len(tied) > 1 else Once(max(tied))


def _first(some: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    return _picked(some, told, min)


def _last(some: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    return _picked(some, told, max)


def _list(some: Mapping[str, Column], _told: Mapping[str, Any]) -> Once | None:
    if "order" not in some:
        return Once(sorted(some["value"]))
    pairs = list(zip(some["order"], some["value"], strict=True))
    placed = sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: (pair[0], pair[1]))
    return Once([value for _, value in placed] + sorted(value for order, value in pairs if order is None))


def _histogram(some: Mapping[str, Column], told: Mapping[str, Any]) -> Once | None:
    found = Counter(bisect_right(told["edges"], value) for value in some["value"])
    return Once([found[number] for number in range(len(told["edges"]) + 1)])


def _end(end: Callable[[Column], Any]) -> Callable[[Mapping[str, Column], Mapping[str, Any]], Once | None]:
    return lambda some, _told: Once(end(some["value"])) if some["value"] else NONE


def _is_float(values: Column) -> bool:
    """Whether values are floats."""
    return bool(values) and isinstance(values[0], float)


def _exact(values: Column) -> int | Fraction:
    """The sum of whole numbers, conditions or decimals; of these a fraction."""
    if not (values and isinstance(values[0], Decimal)):
        return int(sum(values))
    with localcontext(Context(prec=_DIGITS, traps=[Inexact])):
        return Fraction(sum(values, Decimal()))


def _beyond(values: Column) -> bool:
    """Whether a sum of the values may be more than floats hold."""
    return bool(values) and float(max(map(abs, values))) * len(values) > _LARGE


def _rough(values: Column) -> bool:
    """Whether the squares of the values are beyond floats, on either side."""
    most = max(map(abs, values))
    return bool(most * most * len(values) > _LARGE or 0 < most < _SMALL)


def _product(one: Column, other: Column) -> float:
    """The sum of products of what two columns are apart from their means; exactly 0 where one never varies."""
    if min(one) == max(one) or min(other) == max(other):
        return 0.0
    means = fsum(one) / len(one), fsum(other) / len(other)
    return fsum((a - means[0]) * (b - means[1]) for a, b in zip(one, other, strict=True))


_FUNCTIONS: Mapping[str, Callable[[Mapping[str, Column], Mapping[str, Any]], Once | None]] = {
    "sum": _total,
    "mean": _mean,
    "weighted_mean": _weighted_mean,
    "min": _end(min),
    "max": _end(max),
    "any": _end(max),
    "all": _end(min),
    "count": lambda some, _told: Once(len(some["value"])),
    "size": lambda some, _told: Once(len(some["value"])),
    "n_unique": lambda some, _told: Once(len(set(some["value"]))),
    "std": _deviation,
    "var": _variance,
    "covar": _covariance,
    "corr": _correlation,
    "median": _quantile,
    "quantile": _quantile,
    "approx_quantile": _quantile,
    "mode": _mode,
    "first": _first,
    "last": _last,
    "arg_min": _first,
    "arg_max": _last,
    "list": _list,
    "histogram": _histogram,
}
