"""Predictive coding learns digits as well as back-propagation does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from sklearn.datasets import load_digits
from tests.learning.test_predictive_coding import run
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool.learning.predictive_coding import PredictiveCoding
from unspool.nn import Recurrent


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")  # nothing needs compiling to be compared


def learn_digits(learn: Callable[[Sequence[Recurrent], Tensor, Callable[[Tensor], Tensor]], object]) -> float:
    """Accuracy on digits read row by row, after a few epochs."""
    torch.manual_seed(1)
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32).view(-1, 8, 8).transpose(0, 1)
    y = torch.tensor(digits.target)
    layers, head = [Recurrent("elman", 8, 32), Recurrent("elman", 32, 32)], nn.Linear(32, 10)
    parameters = [part for module in (*layers, head) for part in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for _ in range(3):
        for rows in torch.randperm(1300).split(50):
            optimizer.zero_grad()
            learn(layers, x[:, rows], lambda output: cross_entropy(head(output[-1]), y[rows]))  # noqa: B023
            optimizer.step()
    with torch.no_grad():
        return float((head(run(layers, x[:, 1300:])[-1]).argmax(-1) == y[1300:]).double().mean())


def test_digits_are_learned_as_well_as_by_back_propagation() -> None:
    exact = learn_digits(lambda layers, x, top: top(run(layers, x)).backward())
    local = learn_digits(lambda layers, x, top: PredictiveCoding(layers).gradients(x, top))
    assert exact > 0.8
    assert local > exact - 0.03
