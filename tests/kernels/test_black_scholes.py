"""Options against published values, parity and the mean of what they pay."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.black_scholes import Option, option_values, option_values_plain

PRICES = np.geomspace(40, 260, 101)


def test_option_values__are_those_of_textbooks() -> None:
    price = np.array([42.0])  # Hull, Options, Futures and Other Derivatives, example 15.6: a call of 4.76, a put of 0.81
    for sign, value in ((1.0, 4.76), (-1.0, 0.81)):
        assert option_values(np.log(price), price, Option(sign, 40, 0.5, 0.2, 0.1, 0))[0] == pytest.approx(value, abs=0.005)
    price = np.array([930.0])  # and example 17.1, an index with a dividend yield: 51.83
    assert option_values(np.log(price), price, Option(1, 900, 2 / 12, 0.2, 0.08, 0.03))[0] == pytest.approx(51.83, abs=0.005)


def test_a_call_and_a_put__are_a_forward() -> None:
    call, put = (option_values(np.log(PRICES), PRICES, Option(sign, 110, 0.7, 0.3, 0.04, 0.02)) for sign in (1, -1))
    np.testing.assert_allclose(call - put, PRICES * np.exp(-0.02 * 0.7) - 110 * np.exp(-0.04 * 0.7), rtol=1e-12, atol=1e-12)


def test_the_compiled_kernel__gives_what_the_plain_one_does_and_the_last_day_what_it_pays() -> None:
    for sign in (1.0, -1.0):
        option = Option(sign, 110, 0.02, 0.3, 0.04, 0.02)
        plain = option_values_plain(np.log(PRICES), PRICES, option)
        np.testing.assert_allclose(option_values(np.log(PRICES), PRICES, option), plain, rtol=1e-11, atol=1e-12)
        paid = option_values(np.log(PRICES), PRICES, option._replace(years=0.0))
        np.testing.assert_array_equal(paid, np.maximum(sign * (PRICES - 110), 0))
