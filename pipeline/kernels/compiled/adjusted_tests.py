"""Firth's likelihood ratio and the saddle point of a score, a variant at a time; oracle and notation are kernels/adjusted_tests.py's.

People whose number is 0 take no part: their places are left out once, so a variant of few carriers takes what these take.
"""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt
from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled, inlined, nearest, power_of_two, summed

_STEPS, _STILL, _FARTHEST = 60, 1e-7, 4.0
_NEAR, _SMALL, _TURN, _FLAT = 1e-3, 1e-4, 0.5, 1e-9
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_TOGETHER = 512  # factors of at least a half, whose product is still a float


@compiled
def _gathered(row: Any, log_odds: Any, room: Any) -> int:
    """Puts the numbers that are not 0 into `room: float64[3, n]` with their log odds and places; how many they are."""
    found = 0
    for person in range(len(row)):
        if row[person] != 0.0:
            room[0, found], room[1, found], room[2, found] = row[person], log_odds[person], person
            found += 1
    return found


@summed
def _zeros(row: Any) -> int:
    """How many numbers are 0."""
    found = 0
    for person in range(len(row)):
        found += row[person] == 0.0
    return found


@summed
def _looked_at(numbers: Any, variance: Any) -> tuple[float, float]:
    """The information with no effect, and a bound of the largest number in size.

    The bound is a root of the sum of 16th powers, at most n^(1/16) times the largest: a largest one itself would not vectorize.
    """
    before = powers = 0.0
    for place in range(len(numbers)):
        squared = numbers[place] * numbers[place]
        fourth = squared * squared
        before += squared * variance[place]
        powers += fourth * fourth * (fourth * fourth)
    return before, max(powers**0.0625, 1e-300)


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
def _sums(numbers: Any, odds: Any, cases: Any, without: Any, beta: float) -> tuple[float, ...]:
    """Of some people at beta: the log likelihood's first derivative, the negatives of the next four, and what it gains over no effect.

    Of the gain the logarithm of the last number is left out: the product of the likelier of everyone's two chances.
    """
    first = second = third = fourth = fifth = gain = 0.0
    product = 1.0
    for place in range(len(numbers)):
        a = numbers[place]
        step = beta * a
        after = odds[place] + step
        p = 1 / (1 + _exp(-after))
        w, tilt = p * (1 - p), 1 - 2 * p
        squared = a * a
        weighted = squared * w
        steeper = weighted * a * tilt
        first += a * (cases[place] - p)
        second += weighted
        third += steeper
        fourth += weighted * squared * (1 - 6 * w)
        fifth += steeper * squared * (1 - 12 * w)
        gain += cases[place] * step - max(after, 0.0) + without[place]
        product *= max(p, 1 - p)
    return first, second, third, fourth, fifth, gain, product


@compiled
def _at(numbers: Any, odds: Any, cases: Any, without: Any, beta: float) -> tuple[float, ...]:
    """The same of everyone, and the gain whole."""
    first = second = third = fourth = fifth = gain = 0.0
    for start in range(0, len(numbers), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        one = _sums(numbers[some], odds[some], cases[some], without[some], beta)
        first, second, third, fourth, fifth = first + one[0], second + one[1], third + one[2], fourth + one[3], fifth + one[4]
        gain += one[5] + log(one[6])
    return first, second, third, fourth, fifth, gain


@compiled
def _halley(first: float, second: float, third: float, fourth: float, fifth: float) -> float:
    """Halley's step to where the penalized likelihood is greatest, or Newton's where that is too much of a turn."""
    one, two, three = third / second, fourth / second, fifth / second  # of the information
    slope, curve = first + one / 2, second - (two - one * one) / 2
    if curve <= 0:
        return slope / second
    turn = slope / curve * ((three - 3 * two * one + 2 * one * one * one) / 2 - third) / (2 * curve)
    return slope / curve / (1 - turn if abs(turn) < _TURN else 1.0)


@compiled
def _estimate(numbers: Any, people: Any, variance: Any, start: float) -> tuple[float, float, float]:
    """beta, its standard error and chi-square of one variant; NaN where the steps lead nowhere.

    `people` are their log odds, cases, and log(1 + e^odds), `variance` theirs with no effect. What the last step, a small one, adds to
    the likelihood and to the information is their series about the place before it.
    """
    odds, cases, without = people
    before, largest = _looked_at(numbers, variance)
    beta, low, high = min(max(start, -_FARTHEST / largest), _FARTHEST / largest), -inf, inf
    for _ in range(_STEPS):
        first, second, third, fourth, fifth, gain = _at(numbers, odds, cases, without, beta)
        step = _halley(first, second, third, fourth, fifth)
        if abs(step) * sqrt(second) < _NEAR:  # what the step leaves is a cube of it
            gain += (first - (second + (third + fourth * step / 4) * step / 3) * step / 2) * step
            after = second + (third + (fourth + fifth * step / 3) * step / 2) * step
            return beta + step, 1 / sqrt(after), max(2 * gain + log(after / before), 0.0)
        if step > 0:
            low = beta
        else:
            high = beta
        beta = _moved(beta, step, _FARTHEST / largest, low, high)
    return np.nan, np.nan, np.nan


@compiled
def likelihood_ratios(adjusted: Any, cases: Any, log_odds: Any, start: Any, found: Any) -> None:
    """Fills `found`: beta, standard error, chi-square, `float64[v]` each."""
    people = adjusted.shape[1]
    room, own, without, variance = np.empty((3, people)), np.empty((3, people)), np.empty(people), np.empty(people)
    for person in range(people):
        small = exp(-abs(log_odds[person]))
        without[person] = max(log_odds[person], 0.0) + log1p(small)
        variance[person] = small / ((1 + small) * (1 + small))
    for variant in range(len(adjusted)):
        row, their_variance, everyone = adjusted[variant], variance, (log_odds, cases, without)
        if _zeros(row) > 0:
            count = _gathered(row, log_odds, room)
            for place in range(count):
                person = int(room[2, place])
                own[0, place], own[1, place], own[2, place] = cases[person], without[person], variance[person]
            row, their_variance, everyone = room[0, :count], own[2, :count], (room[1, :count], own[0, :count], own[1, :count])
        if len(row) > 0:
            values = _estimate(row, everyone, their_variance, start[variant])
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
    at, low, high, still, second, farthest = score / variance, -inf, inf, False, 0.0, _FARTHEST / unit
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
        at, farthest = _moved(at, step, farthest, low, high), 2 * farthest
    if not still or second <= _FLAT * unit * unit:
        return np.nan
    cumulant = at * at * spread / 2
    for place in range(len(numbers)):
        a, odd = numbers[place], odds[place]
        cumulant += _log_odds_gain(odd, odd + at * a) - at * a * before[place]
    root = sqrt(2 * max(at * score - cumulant, 0.0)) * (1 if at > 0 else -1)
    other = at * sqrt(second)
    if abs(root) <= _SMALL or abs(other) <= _SMALL:
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
        count = _gathered(own, log_odds, room)
        for place in range(count):
            before[place] = chance[int(room[2, place])]
        if count > 0 or spread > 0:
            size = abs(score[variant])
            found[0][variant] = _deviate(room[0, :count], room[1, :count], before[:count], size, spread)
            found[1][variant] = _deviate(room[0, :count], room[1, :count], before[:count], -size, spread)
