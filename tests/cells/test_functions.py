"""The functions of the equations, on numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.cells import absolute, exp, log, relu, sigmoid, sqrt, tanh

number = st.floats(-700, 700)
positive = st.floats(1e-300, 1e300)


@given(number)
def test_like_pythons_own(v: float) -> None:
    assert tanh(v) == math.tanh(v)
    assert exp(v) == math.exp(v)
    assert absolute(v) == abs(v)
    assert relu(v) == (v if v > 0 else 0)


@given(positive)
def test_of_positive_numbers(v: float) -> None:
    assert log(v) == math.log(v)
    assert sqrt(v) == math.sqrt(v)


@given(st.floats(-1e308, 1e308))
def test_sigmoid_is_half_of_one_plus_tanh_of_the_half_and_never_overflows(v: float) -> None:
    assert sigmoid(v) == pytest.approx(0.5 * (1 + math.tanh(v / 2)), abs=3e-16)
    assert sigmoid(v) + sigmoid(-v) == pytest.approx(1, abs=1e-15)


def test_sigmoid_keeps_its_digits_far_out() -> None:
    assert sigmoid(-700.0) == pytest.approx(math.exp(-700), rel=1e-14)
    assert sigmoid(-math.inf) == 0
    assert sigmoid(math.inf) == 1
    assert math.isnan(sigmoid(math.nan))


@pytest.mark.parametrize("function", [relu, tanh, exp, absolute, sqrt, log])
def test_nan_stays_nan(function: object) -> None:
    assert callable(function)
    assert math.isnan(function(math.nan))
