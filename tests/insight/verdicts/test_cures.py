"""Who follows a remedy is cured: on a task of memory ill networks fail, and the remedied ones learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.insight.patients import layers_of
from torch import Tensor, nn
from torch.nn import functional

from unspool.insight.catalogue import CATALOGUE
from unspool.insight.measurements import take_measurements
from unspool.insight.report.contract import Verdict
from unspool.insight.subjects.module import take_model
from unspool.insight.verdicts.judge import judge
from unspool.nn import Stack, init

pytestmark = pytest.mark.long

SYMBOLS, LAG, ROWS, HIDDEN, UPDATES = 4, 20, 64, 32, 500
MEASURES = ("flow", "forgetting", "lyapunov", "activations")


class Recaller(nn.Module):
    """Reads one symbol, then noise, and says at the end which symbol it was."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = Stack(cell, SYMBOLS + 1, HIDDEN)
        self.head = nn.Linear(HIDDEN, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(x)[0][-1])
        return scores


def draw(generator: torch.Generator, steps: int) -> tuple[Tensor, Tensor]:
    """The symbol is to be recalled after LAG steps; before it is noise, too."""
    symbols = torch.randint(0, SYMBOLS, (ROWS,), generator=generator)
    x = torch.zeros(steps, ROWS, SYMBOLS + 1)
    x[:, :, SYMBOLS] = 0.3 * torch.randn(steps, ROWS, generator=generator)
    x[-LAG, :, :SYMBOLS] = functional.one_hot(symbols, SYMBOLS).float()
    return x, symbols


def learn(model: nn.Module, steps: int, clip: float | None) -> float:
    """Train, and say the share of symbols that are recalled; NaN where training breaks down."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(UPDATES):
        x, symbols = draw(generator, steps)
        loss = functional.cross_entropy(model(x), symbols)
        if not torch.isfinite(loss):
            return float("nan")
        optimizer.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    with torch.no_grad():
        x, symbols = draw(generator, steps)
        return float((model(x).argmax(-1) == symbols).float().mean())


def first_verdict(model: nn.Module, steps: int) -> Verdict:
    x, symbols = draw(torch.Generator().manual_seed(5), steps)
    specimen = take_model(model, x, loss=lambda scores: functional.cross_entropy(scores, symbols))
    return judge(specimen, take_measurements(specimen, CATALOGUE, only=MEASURES))[0]


@torch.no_grad()
def fill(model: nn.Module, name: str, value: Tensor) -> None:
    for layer in layers_of(model):
        layer.cell_parameters()[name].copy_(value)


def vanishing() -> tuple[Recaller, None]:
    model = Recaller("elman")
    fill(model, "U_h", 0.4 * torch.eye(HIDDEN))
    return model, None


def exploding() -> tuple[Recaller, None]:
    model = Recaller("elman-relu")
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        fill(model, "U_h", 5 * torch.randn(HIDDEN, HIDDEN, generator=generator) / HIDDEN**0.5)
    return model, None


def dead() -> tuple[Recaller, None]:
    model = Recaller("elman-relu")
    fill(model, "b_h", torch.full((HIDDEN,), -30.0))
    return model, None


def with_gates() -> tuple[Recaller, None]:
    model = Recaller("lstm")
    init.forget_bias_(model, 2.0)
    return model, None


def with_gates_and_clipped() -> tuple[Recaller, float]:
    return with_gates()[0], 1.0


def with_tanh() -> tuple[Recaller, None]:
    return Recaller("elman"), None


Make = Callable[[], tuple[Recaller, float | None]]


@pytest.mark.parametrize(
    ("key", "ill", "settings", "cured", "steps"),
    [
        ("vanishing", vanishing, {"cell": "lstm", "forget_bias": 2.0}, with_gates, LAG),
        # over so many steps its numbers overflow
        ("exploding", exploding, {"cell": "lstm", "forget_bias": 2.0, "clip": 1.0}, with_gates_and_clipped, 4 * LAG),
        ("dead", dead, {"cell": "elman"}, with_tanh, LAG),
    ],
)
def test_a_remedy_cures(key: str, ill: Make, settings: dict[str, Any], cured: Make, steps: int) -> None:
    model, clip = ill()
    verdict = first_verdict(model, LAG)
    assert verdict.key == key
    assert verdict.settings == settings
    before = learn(model, steps, clip)
    remedied, clip = cured()
    assert first_verdict(remedied, steps).key != key
    after = learn(remedied, steps, clip)
    print(f"{key}: {before:.0%} of the symbols recalled before, {after:.0%} after")
    assert after >= 0.9
    assert not before >= 0.5
    assert first_verdict(remedied, steps).key != key
