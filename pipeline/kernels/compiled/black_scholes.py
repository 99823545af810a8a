"""Values of an option at many prices: two passes that a processor takes several prices at once through, and NumPy's exponential between."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

Floats = NDArray[np.float64]
Terms = tuple[float, float, float, float]

PLACE = 3.75
# (1 + 2x) exp(x^2) erfc(x) for x from 0 as a polynomial of (x - PLACE) / (x + PLACE), from which erfc is right to 14 digits: its Chebyshev
# interpolation, the highest power first (the form is Shepherd & Laframboise's, 1981, Math Comp 36:249-253).
COEFFICIENTS = np.array(
    [
        1.7312209083118933e-08, 8.512559451761331e-09, -2.1321360409864602e-07, -2.7685663849700945e-08, 1.6939254478276176e-06,
        -1.0084713725546233e-06, -1.1397625287921655e-05, 2.241015775977701e-05, 5.162479200942778e-05, -0.00029016639136143893,
        0.0002937218341919264, 0.0017556295487634313, -0.009746581262494456, 0.02836227674782648, -0.05869339838397541,
        0.09230432122771155, -0.10880393015433062, 0.08227673848704045, 0.0035854154857627857, -0.14024059858550575, 1.2375126308378264,
    ]
)  # fmt: skip


@compiled
def fill_arguments(log_prices: Floats, sign: float, terms: Terms, arguments: Floats, squares: Floats) -> None:
    """Write the arguments of erfc for both distribution functions of the option, `float64[2, n]`, and their squares with the other sign."""
    shift, spread = terms[0], terms[1]
    scale, apart = -sign * math.sqrt(0.5) / spread, sign * math.sqrt(0.5) * spread
    for at in range(len(log_prices)):
        first = (log_prices[at] + shift) * scale
        second = first + apart
        arguments[0, at], arguments[1, at] = first, second
        squares[0, at], squares[1, at] = -first * first, -second * second


@compiled
def fill_values(prices: Floats, arguments: Floats, factors: Floats, sign: float, terms: Terms) -> None:
    """Write the values at prices `float64[n]` over the first of the arguments; `factors` are exp of minus their squares."""
    price_factor, discounted = 0.5 * terms[2], 0.5 * terms[3]
    for row in range(2):
        for at in range(len(prices)):
            x = abs(arguments[row, at])
            place = (x - PLACE) / (x + PLACE)
            total = 0.0
            for degree in range(21):
                total = total * place + COEFFICIENTS[degree]
            upper = total * factors[row, at] / (1.0 + 2.0 * x)
            factors[row, at] = upper if arguments[row, at] >= 0 else 2.0 - upper
    for at in range(len(prices)):
        arguments[0, at] = sign * (prices[at] * price_factor * factors[0, at] - discounted * factors[1, at])
