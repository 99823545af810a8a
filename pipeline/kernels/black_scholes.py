"""What European options are worth. Black & Scholes (1973), J Polit Econ 81:637-654, with a dividend yield (Merton 1973)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, special_module

Array = Any


class Option(NamedTuple):
    """A European call (`sign` 1) or put (-1); years until it expires, and yearly rates, continuously compounded."""

    sign: float
    strike: float
    years: float
    volatility: float
    rate: float
    dividend_yield: float

    @property
    def terms(self) -> tuple[float, float, float, float]:
        """Of d1 = (log S + `shift`) / `spread`: both; and what discounts the price and the strike."""
        spread = self.volatility * math.sqrt(self.years)
        shift = -math.log(self.strike) + (self.rate - self.dividend_yield) * self.years + spread * spread / 2
        return shift, spread, math.exp(-self.dividend_yield * self.years), self.strike * math.exp(-self.rate * self.years)


def option_values(log_prices: Array, prices: Array, option: Option) -> Array:
    """Values `float64[n]` at prices `float64[n]` of what the option is on, given with their logarithms; on its last day what it pays."""
    xp = array_module(prices)
    if option.years == 0:
        return xp.maximum(option.sign * (prices - option.strike), 0.0)
    if xp is np:
        from pipeline.kernels.compiled.black_scholes import fill_arguments, fill_values

        arguments, squares = np.empty((2, len(prices))), np.empty((2, len(prices)))
        fill_arguments(log_prices, option.sign, option.terms, arguments, squares)
        fill_values(prices, arguments, np.exp(squares, out=squares), option.sign, option.terms)
        return arguments[0]
    return option_values_plain(log_prices, prices, option)


def option_values_plain(log_prices: Array, prices: Array, option: Option) -> Array:
    """As `option_values` of an option that does not expire yet, all prices at once."""
    ndtr = special_module(prices).ndtr
    shift, spread, price_factor, discounted = option.terms
    d1 = (log_prices + shift) / spread
    own, strike = ndtr(option.sign * d1), ndtr(option.sign * (d1 - spread))
    return option.sign * (prices * price_factor * own - discounted * strike)
