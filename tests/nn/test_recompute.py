"""recompute=: the same results and gradients from fewer kept states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.agreement import needs_compiler
from torch import Tensor, nn

import unspool
from unspool.errors import ArgumentError

STEPS, ROWS, WIDTH = 23, 5, 6
LENGTHS = [23, 0, 7, 1, 16]
REAL: dict[str, Any] = {"dtype": torch.float64}

Make = Callable[..., nn.Module]
LAYERS: dict[str, Make] = {
    "Recurrent": lambda **options: unspool.nn.Recurrent("lstm", WIDTH, 9, dtype=torch.float64, **options),
    "reverse": lambda **options: unspool.nn.Recurrent("gru", WIDTH, 9, reverse=True, dtype=torch.float64, **options),
    "LSTM": lambda **options: unspool.nn.LSTM(WIDTH, 9, 2, bidirectional=True, dtype=torch.float64, **options),
    "GRU": lambda **options: unspool.nn.GRU(WIDTH, 9, dtype=torch.float64, **options),
    "Stack": lambda **options: unspool.nn.Stack(
        "elman", WIDTH, 9, 2, bidirectional=True, dtype=torch.float64, **options
    ),
}
each_layer = pytest.mark.parametrize("kind", LAYERS)


def results(layer: nn.Module, x: Tensor, lengths: list[int] | None, state: Any = None) -> list[Tensor]:
    """Outputs, final states and every gradient."""
    torch.manual_seed(1)
    output, final = layer(x, state, lengths=lengths)
    found = [output, *_leaves(final)]
    loss = sum((value * torch.randn_like(value)).sum() for value in found)
    assert isinstance(loss, Tensor)
    given = [x, *_leaves(state), *layer.parameters()]
    return [value.detach() for value in found] + list(torch.autograd.grad(loss, given))


def _leaves(tree: Any) -> list[Tensor]:
    if tree is None:
        return []
    return [tree] if isinstance(tree, Tensor) else [leaf for part in tree for leaf in _leaves(part)]


@needs_compiler
@each_layer
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_same_results_and_gradients(kind: str, lengths: list[int] | None) -> None:
    torch.manual_seed(0)
    layer = LAYERS[kind]()
    x = torch.randn(STEPS, ROWS, WIDTH, dtype=torch.float64, requires_grad=True)
    expected = results(layer, x, lengths)
    for recompute in (1, 2, 5, 22, 23, 100, "sqrt"):
        again = LAYERS[kind](recompute=recompute)
        again.load_state_dict(layer.state_dict())
        for found, right in zip(results(again, x, lengths), expected, strict=True):
            torch.testing.assert_close(found, right, rtol=0, atol=1e-12)


@needs_compiler
def test_from_a_given_state_and_without_the_outputs_gradient() -> None:
    torch.manual_seed(0)
    layer, again = LAYERS["Recurrent"](), LAYERS["Recurrent"](recompute=4)
    again.load_state_dict(layer.state_dict())
    x = torch.randn(STEPS, ROWS, WIDTH, dtype=torch.float64)
    state = tuple(torch.randn(ROWS, 9, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def gradients(module: nn.Module) -> tuple[Tensor, ...]:
        _, (_, c) = module(x, state, lengths=LENGTHS)
        return torch.autograd.grad(c.square().sum(), [*state, *module.parameters()])

    for found, right in zip(gradients(again), gradients(layer), strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-12)


@needs_compiler
def test_less_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)

    def kept(recompute: int | str | None) -> int:
        """Numbers saved for the way back, beside what the caller holds anyway."""
        layer = unspool.nn.Recurrent("lstm", 4, 32, recompute=recompute)
        x = torch.randn(400, 3, 4)
        seen: dict[int, int] = {}
        with torch.autograd.graph.saved_tensors_hooks(_noting(seen), lambda value: value):
            output, _ = layer(x)
        own = {tensor.data_ptr() for tensor in (x, output, *layer.parameters())}
        return sum(count for at, count in seen.items() if at not in own)

    everything = kept(None)
    assert kept("sqrt") < 0.02 * everything
    assert kept(100) < kept(10) < kept(2) < everything


def _noting(seen: dict[int, int]) -> Callable[[Tensor], Tensor]:
    def note(tensor: Tensor) -> Tensor:
        seen[tensor.data_ptr()] = tensor.numel()
        return tensor

    return note


@needs_compiler
def test_differentiated_twice() -> None:
    layer = LAYERS["Recurrent"](recompute=3)
    x = torch.randn(5, 2, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


@each_layer
@pytest.mark.parametrize("wrong", [0, -3, True, 1.5, "cube", []], ids=repr)
def test_what_is_no_number_of_steps_is_refused(kind: str, wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="recompute"):
        LAYERS[kind](recompute=wrong)


def test_shown() -> None:
    assert "recompute='sqrt'" in repr(unspool.nn.Recurrent("gru", 2, 3, recompute="sqrt"))
    assert "recompute=7" in repr(unspool.nn.LSTM(2, 3, recompute=7))
    assert "recompute" not in repr(unspool.nn.LSTM(2, 3))
