"""Cost: fits and crossings in closed form, what is kept against what must be kept, timing by a clock of our own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.lab.theory import cost
from unspool.lab.theory.cost import count_kept, fit_costs, measure_cost
from unspool.nn import DecoderTransformer, Recurrent

STEPS = np.array([8, 16, 32, 64, 128], np.int64)
T = STEPS.astype(np.float64)


def test_polynomials_are_found_exactly() -> None:
    found = fit_costs(STEPS, 3.0 + 2.0 * T, 1.0 + 0.5 * T + 0.01 * T**2)
    np.testing.assert_allclose(found.rnn, [3.0, 2.0], rtol=1e-10)
    np.testing.assert_allclose(found.attention, [1.0, 0.5, 0.01], rtol=1e-9)
    # 0.01 T² − 1.5 T − 2 = 0
    assert found.crossing == pytest.approx((1.5 + np.sqrt(1.5**2 + 0.08)) / 0.02, rel=1e-9)
    rnn, attention = found.at([found.crossing or 0.0])
    np.testing.assert_allclose(rnn, attention, rtol=1e-9)


def test_exponents_of_pure_powers() -> None:
    found = fit_costs(STEPS, 5.0 * T, 0.25 * T**2)
    assert (found.rnn_exponent, found.attention_exponent) == pytest.approx((1.0, 2.0), rel=1e-12)
    assert found.crossing == pytest.approx(20.0, rel=1e-9)


@pytest.mark.parametrize(
    ("rnn", "attention", "crossing"),
    [
        ((0.0, 1.0), (1.0, 2.0, 0.5), 0.0),  # always dearer
        ((0.0, 1.0), (0.0, 0.5, 0.0), None),  # never
        ((0.0, 1.0), (6.0, 0.5, 0.01), (0.5 + np.sqrt(0.25 - 0.24)) / 0.02),  # dearer, cheaper, and dearer again
        ((5.0, 1.0), (0.0, 2.0, 0.0), 5.0),
    ],
)
def test_crossings(rnn: tuple[float, ...], attention: tuple[float, ...], crossing: float | None) -> None:
    line, parabola = (np.polynomial.Polynomial(terms)(STEPS) for terms in (rnn, attention))
    found = fit_costs(STEPS, line, parabola)
    assert found.crossing == (None if crossing is None else pytest.approx(crossing, rel=1e-6, abs=1e-9))


def test_no_term_is_negative() -> None:
    found = fit_costs(STEPS, 2.0 * T - 10.0, 0.1 * T**2 - T + 3.0)
    assert min(*found.rnn, *found.attention) >= 0


class Twice(nn.Module):
    """tanh(sigmoid(W x)): each function keeps its value, and W's product keeps x and W, which are there anyway."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear(x).sigmoid().tanh()
        return found


def test_what_is_kept_is_counted_once_and_without_weights() -> None:
    assert count_kept(Twice(6), torch.randn(5, 3, 6)) == 2 * 4 * 5 * 3 * 6


def test_views_of_one_memory_count_once() -> None:
    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            left, right = (2 * x).requires_grad_().chunk(2, -1)
            return left * right

    assert count_kept(Halves(), torch.randn(5, 3, 6)) == 4 * 5 * 3 * 6


def test_memory_is_exactly_linear_and_exactly_quadratic() -> None:
    width, rows, heads = 8, 2, 4
    found = measure_cost(width=width, batch_size=rows, steps=(4, 8, 16, 32), rounds=1)
    np.testing.assert_allclose(found.memory.at(found.steps.tolist())[0], found.rnn_bytes, rtol=1e-9)
    np.testing.assert_allclose(found.memory.at(found.steps.tolist())[1], found.attention_bytes, rtol=1e-9)
    # what is quadratic in T is the attention after its softmax
    assert found.memory.attention[2] == pytest.approx(4 * rows * heads, rel=1e-6)
    assert found.memory.rnn[1] >= 4 * rows * width


def test_time_is_taken_at_every_length_and_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[type, int]] = []

    def clock(module: nn.Module, x: Tensor) -> float:
        steps = len(x)
        asked.append((type(module), steps))
        late = 1.0 if len(asked) % 3 else 0.0
        return late + (10.0 + 2.0 * steps if isinstance(module, Recurrent) else 1.0 + 0.125 * steps**2)

    monkeypatch.setattr(cost, "_time", clock)
    found = measure_cost(width=4, batch_size=1, steps=(16, 4, 8), rounds=3)
    assert found.steps.tolist() == [4, 8, 16]
    np.testing.assert_allclose(found.rnn_seconds, 10.0 + 2.0 * found.steps)
    np.testing.assert_allclose(found.attention_seconds, 1.0 + 0.125 * found.steps**2)
    assert found.crossing == found.time.crossing == pytest.approx((2 + np.sqrt(4 + 4.5)) / 0.25, rel=1e-9)
    assert set(asked) == {(kind, steps) for kind in (Recurrent, DecoderTransformer) for steps in (4, 8, 16)}


def test_real_time_and_modules_of_ones_own() -> None:
    found = measure_cost(nn.GRU(6, 6), DecoderTransformer(6, 1), width=6, batch_size=1, steps=(2, 4, 8), rounds=1)
    assert min(found.rnn_seconds.min(), found.attention_seconds.min()) > 0
    assert np.isfinite(found.time.rnn_exponent)


def test_wrong_arguments_are_refused() -> None:
    wrong: dict[str, Any]
    for wrong in ({"steps": (4, 4, 8)}, {"steps": (0, 4, 8)}, {"batch_size": 0}, {"width": 0}, {"rounds": 0}):
        with pytest.raises(ArgumentError, match="Give"):
            measure_cost(**wrong)
