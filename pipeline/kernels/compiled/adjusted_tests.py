"""Firth's likelihood ratio and the saddle point of a score, a variant at a time; oracle and notation are kernels/adjusted_tests.py's.

People whose number is 0 take no part: their places are left out once, so a variant of few carriers takes what these take.
"""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt
from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled, inlined, nearest, power_of_two, summed

_STEPS, _STILL, _FARTHEST = 60, 1e-7, 4.0
_NEAR, _FLAT = 1e-4, 1e-9
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_TOGETHER = 512  # factors of at most 2, whose product is still a float


@compiled
def _gathered(row: Any, log_odds: Any, room: Any) -> tuple[int, float]:
    """Puts the numbers that are not 0 into `room: float64[3, n]` with their log odds; how many they are, and the largest."""
    found, largest = 0, 1e-300
    for person in range(len(row)):
        if row[person] != 0.0:
            room[0, found], room[1, found], room[2, found] = row[person], log_odds[person], person
            largest = max(largest, abs(row[person]))
            found += 1
    return found, largest


@compiled
def _log_odds_gain(before: float, after: float) -> float:
    """log(1 + e^after) - log(1 + e^before)."""
    return max(after, 0.0) + log1p(exp(-abs(after))) - max(before, 0.0) - log1p(exp(-abs(before)))


@compiled
def _moved(beta: float, step: float, most: float, low: float, high: float) -> float:
    """The next value, within the bounds that are known."""
    after = beta + min(max(step, -most), most)
    return after if low < after < high else (low + high) / 2


@inlined
def _exp(x: float) -> Any:
    """e^x to 2e-16 of itself, of -700 to 700, by Taylor's series about a whole power of two: without branches, so that it vectorizes."""
    x = min(max(x, -700.0), 700.0)
    k = nearest(x * _LOG2_E)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = 1 / 6227020800
    series = series * r + 1 / 479001600
    series = series * r + 1 / 39916800
    series = series * r + 1 / 3628800
    series = series * r + 1 / 362880
    series = series * r + 1 / 40320
    series = series * r + 1 / 5040
    series = series * r + 1 / 720
    series = series * r + 1 / 120
    series = series * r + 1 / 24
    series = series * r + 1 / 6
    series = series * r + 0.5
    return ((series * r + 1) * r + 1) * power_of_two(k)


@summed
def _derivatives(numbers: Any, odds: Any, cases: Any, beta: float) -> tuple[float, float, float, float]:
    """Sums of the log likelihood's first derivative, and of the next three's negatives."""
    first = second = third = fourth = 0.0
    for place in range(len(numbers)):
        a = numbers[place]
        p = 1 / (1 + _exp(-(odds[place] + beta * a)))
        w = p * (1 - p)
        weighted = a * a * w
        first += a * (cases[place] - p)
        second += weighted
        third += weighted * a * (1 - 2 * p)
        fourth += weighted * a * a * (1 - 6 * w)
    return first, second, third, fourth


@summed
def _log_likelihood(numbers: Any, odds: Any, null: Any, beta: float) -> tuple[float, float, float]:
    """What some people's log likelihood gains over no effect, but for the logarithm of the next number, and sum a^2 w with no effect."""
    gain, product, before = 0.0, 1.0, 0.0
    for place in range(len(numbers)):
        step = beta * numbers[place]
        after = odds[place] + step
        gain += null[0, place] * step - max(after, 0.0) + null[1, place]
        product *= 1 + _exp(-abs(after))
        before += numbers[place] * numbers[place] * null[2, place]
    return gain, product, before


@compiled
def _estimate(numbers: Any, odds: Any, null: Any, start: float, largest: float) -> tuple[float, float, float]:
    """beta, its standard error and chi-square of one variant; NaN where Newton's method fails.

    `null: float64[3, n]` are cases, and log(1 + e^odds) and the variance without an effect.
    """
    beta, low, high, still, cases, after = start, -inf, inf, False, null[0], 0.0
    for _ in range(_STEPS):
        first, second, third, fourth = _derivatives(numbers, odds, cases, beta)
        information, steeper, bent = second, third, fourth
        third, fourth = third / second, fourth / second
        slope, curve = first + third / 2, second - (fourth - third * third) / 2
        step = slope / (curve if curve > 0 else second)
        if slope > 0:
            low = beta
        else:
            high = beta
        if abs(step) * sqrt(second) < _NEAR:  # what the step leaves is a square of it
            beta, still = beta + step, True
            after = information + (steeper + bent * step / 2) * step
            break
        beta = _moved(beta, step, _FARTHEST / largest, low, high)
    if not still:
        return np.nan, np.nan, np.nan
    gain = before = 0.0
    for first_of in range(0, len(numbers), _TOGETHER):
        some = slice(first_of, first_of + _TOGETHER)
        own, product, information = _log_likelihood(numbers[some], odds[some], null[:, some], beta)
        gain, before = gain + own - log(product), before + information
    return beta, 1 / sqrt(after), max(2 * gain + log(after / before), 0.0)


@compiled
def likelihood_ratios(adjusted: Any, cases: Any, log_odds: Any, start: Any, found: Any) -> None:
    """Fills `found`: beta, standard error, chi-square, `float64[v]` each."""
    people = adjusted.shape[1]
    room, own, null = np.empty((3, people)), np.empty((3, people)), np.empty((2, people))
    for person in range(people):
        small = exp(-abs(log_odds[person]))
        null[0, person] = max(log_odds[person], 0.0) + log1p(small)
        null[1, person] = small / ((1 + small) * (1 + small))
    for variant in range(len(adjusted)):
        count, largest = _gathered(adjusted[variant], log_odds, room)
        for place in range(count):
            person = int(room[2, place])
            own[0, place], own[1, place], own[2, place] = cases[person], null[0, person], null[1, person]
        if count > 0:
            values = _estimate(room[0, :count], room[1, :count], own, start[variant], largest)
            found[0][variant], found[1][variant], found[2][variant] = values


@compiled
def _deviate(numbers: Any, odds: Any, before: Any, score: float, spread: float) -> float:
    """The deviate of a score; NaN where Newton's method fails."""
    variance, most, least = spread, 0.0, 0.0
    for place in range(len(numbers)):
        variance += numbers[place] ** 2 * before[place] * (1 - before[place])
        most += max(numbers[place], 0.0) - numbers[place] * before[place]
        least += min(numbers[place], 0.0) - numbers[place] * before[place]
    if spread == 0 and score > most:
        return inf
    if spread == 0 and score < least:
        return -inf
    unit = sqrt(variance)
    at, low, high, still, second = score / variance, -inf, inf, False, 0.0
    for _ in range(_STEPS):
        first, second = at * spread, spread
        for place in range(len(numbers)):
            a = numbers[place]
            p = 1 / (1 + exp(-(odds[place] + at * a)))
            first += a * (p - before[place])
            second += a * a * p * (1 - p)
        step = (score - first) / second
        if step > 0:
            low = at
        else:
            high = at
        if abs(step) * unit < _STILL:
            still = True
            break
        at = _moved(at, step, _FARTHEST / unit, low, high)
    if not still or second <= _FLAT * unit * unit:
        return np.nan
    cumulant = at * at * spread / 2
    for place in range(len(numbers)):
        a, odd = numbers[place], odds[place]
        cumulant += _log_odds_gain(odd, odd + at * a) - at * a * before[place]
    root = sqrt(2 * max(at * score - cumulant, 0.0)) * (1 if at > 0 else -1)
    other = at * sqrt(second)
    if abs(root) <= _NEAR or abs(other) <= _NEAR:
        return score / unit
    return root + log(other / root) / root


@compiled
def saddle_points(adjusted: Any, log_odds: Any, score: Any, normal: Any, found: Any) -> None:
    """Fills `found`: the deviates above and below, `float64[v]` each."""
    people = adjusted.shape[1]
    room, before, own = np.empty((3, people)), np.empty(people), np.empty(people)
    chance = 1 / (1 + np.exp(-log_odds))
    for variant in range(len(adjusted)):
        spread = 0.0
        for person in range(people):
            a = adjusted[variant, person]
            own[person] = a
            if normal[variant, person]:
                spread += a * a * chance[person] * (1 - chance[person])
                own[person] = 0.0
        count, _ = _gathered(own, log_odds, room)
        for place in range(count):
            before[place] = chance[int(room[2, place])]
        if count > 0 or spread > 0:
            size = abs(score[variant])
            found[0][variant] = _deviate(room[0, :count], room[1, :count], before[:count], size, spread)
            found[1][variant] = _deviate(room[0, :count], room[1, :count], before[:count], -size, spread)
