"""LinearPlayer: the same bits for one vector and for many, and the same numbers without kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unspool.runtime.network import Linear
from unspool.runtime.options import PlayOptions
from unspool.runtime.packing import LinearPlayer


def narrow(value: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(value, np.float32)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("width", "out"), [(1, 1), (5, 70), (531, 33)])
def test_a_linear_map_has_the_same_bits_for_one_vector_and_for_many(biased: bool, width: int, out: int) -> None:
    random = np.random.default_rng(width)
    weight, bias = narrow(random.normal(size=(out, width))), narrow(random.normal(size=out)) if biased else None
    x = narrow(random.normal(size=(3, 7, width)))
    linear = LinearPlayer(Linear(weight, bias))
    found = linear(x)
    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + (0 if bias is None else bias)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * abs(expected).max())
    for place in np.ndindex(3, 7):
        assert np.array_equal(linear(x[place]), found[place])
    assert linear(x[:0]).shape == (0, 7, out)


def test_whole_numbers_are_the_same_with_and_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    weight, x = narrow(random.normal(size=(9, 37))), narrow(random.normal(size=(4, 37)))
    weight[3] = 0  # a row without a scale
    expected = LinearPlayer(Linear(weight, None), PlayOptions(int8=True))(x)
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    found = LinearPlayer(Linear(weight, None), PlayOptions(int8=True))(x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * abs(expected).max())
    assert abs(expected - x @ weight.T).max() > 1e-4  # the weights were rounded
