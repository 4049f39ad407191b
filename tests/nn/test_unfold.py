"""Unfolded against the recurrent layer that it unfolds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.variants import STEPS, as_state, as_states, each_cell, random_batch, random_layer
from torch import Tensor, nn

from unspool.cells import Cell, Elman
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from unspool.nn.recurrent import Recurrent
from unspool.nn.stack import Stack
from unspool.nn.unfold import Step, Unfolded

pytestmark = pytest.mark.usefixtures("engine")

ROWS = 2


def example(cell: Cell, **options: Any) -> tuple[Recurrent, Tensor, tuple[Tensor, ...]]:
    """A layer, and x and states that require gradients."""
    x, states = random_batch(cell, STEPS, ROWS)
    layer = random_layer(cell, **options)
    if layer.learn_initial:
        with torch.no_grad():
            for state in layer.equations.states:
                layer.get_parameter(f"initial_{state}").uniform_(-1, 1)
    return layer, torch.from_numpy(x).requires_grad_(), tuple(torch.from_numpy(s).requires_grad_() for s in states)


def loss(output: Tensor, state: Any) -> Tensor:
    """A number that every entry of the result moves by an amount of its own."""
    flat = torch.cat([value.flatten() for value in (output, *as_states(state))])
    return (flat * torch.linspace(-1, 1, len(flat), dtype=flat.dtype).exp()).sum()


def shares(unfolded: Unfolded, name: str) -> list[Tensor]:
    """The gradient of each copy of a parameter, in the order of time."""
    gradients = [dict(step.named_parameters())[f"layer.{name}"].grad for step in unfolded.steps]
    return [gradient for gradient in gradients if gradient is not None]


@each_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_tied_is_the_layer(cell: Cell, reverse: bool) -> None:
    layer, x, states = example(cell, reverse=reverse)
    unfolded = Unfolded(layer, STEPS)
    inputs = [x, *states, *layer.parameters()]
    assert set(unfolded.parameters()) == set(layer.parameters())
    expected, actual = layer(x, as_state(states)), unfolded(x, as_state(states))
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    assert isinstance(actual[1], tuple) == isinstance(expected[1], tuple)
    for ours, theirs in zip(
        torch.autograd.grad(loss(*actual), inputs), torch.autograd.grad(loss(*expected), inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@each_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_the_copies_sum_to_the_shared_weights(cell: Cell, reverse: bool) -> None:
    layer, x, states = example(cell, reverse=reverse)
    unfolded = Unfolded(layer, STEPS, tied=False)
    loss(*layer(x, as_state(states))).backward()
    loss(*unfolded(x, as_state(states))).backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None
        assert len(shares(unfolded, name)) == STEPS
        total = torch.stack(shares(unfolded, name)).sum(0)
        scale = float(parameter.grad.abs().max())
        torch.testing.assert_close(total, parameter.grad, rtol=1e-12, atol=1e-12 * max(scale, 1))


def test_the_share_of_a_step_by_hand() -> None:
    """h_t = u h_{t−1} + x_t: the share of step t in dh_T/du is u^(T−t) h_{t−1}."""
    layer = Recurrent("linear", 1, 1, dtype=torch.float64)
    layer.load_state_dict({"W_h": torch.ones(1, 1), "U_h": torch.full((1, 1), 0.5)})
    unfolded = Unfolded(layer, 4, tied=False)
    output, state = unfolded(torch.ones(4, 1, 1, dtype=torch.float64))
    state.sum().backward()
    h = [0.0, *output.flatten().tolist()]
    assert h == [0.0, 1.0, 1.5, 1.75, 1.875]
    assert [float(share) for share in shares(unfolded, "U_h")] == [0.5 ** (4 - t) * h[t - 1] for t in range(1, 5)]


@each_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_a_changed_copy_changes_only_what_comes_later(cell: Cell, reverse: bool) -> None:
    layer, x, _ = example(cell, reverse=reverse)
    unfolded = Unfolded(layer, STEPS, tied=False)
    before, _ = unfolded(x)
    with torch.no_grad():
        for parameter in unfolded.steps[2].parameters():
            parameter.add_(0.1)
    after, _ = unfolded(x)
    earlier, own = (slice(3, None), 2) if reverse else (slice(None, 2), 2)
    assert torch.equal(before[earlier], after[earlier])
    assert not torch.isclose(before[own], after[own]).all()
    torch.testing.assert_close(layer(x)[0], before)  # the copies are not the layer


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("cell", ["elman", "lstm"])
def test_layouts(cell: str, tied: bool) -> None:
    torch.manual_seed(0)
    layer = Recurrent(cell, 3, 4, batch_first=True, dtype=torch.float64)
    unfolded = Unfolded(layer, STEPS, tied)
    x = torch.randn(ROWS, STEPS, 3, dtype=torch.float64)
    torch.testing.assert_close(unfolded(x), layer(x), rtol=1e-12, atol=1e-12)
    output, state = layer(x[0])
    torch.testing.assert_close(unfolded(x[0]), (output, state), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(unfolded(x[0], state), layer(x[0], state), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("tied", [True, False])
def test_learned_initial_states(tied: bool, reverse: bool) -> None:
    layer, x, _ = example(Elman(), learn_initial=True, reverse=reverse)
    unfolded = Unfolded(layer, STEPS, tied)
    expected, actual = loss(*layer(x)), loss(*unfolded(x))
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(expected, [layer.get_parameter("initial_h")])
    actual.backward()
    assert all(parameter.grad is not None for parameter in unfolded.parameters())
    owners = {id(p): p.grad for name, p in unfolded.named_parameters() if name.endswith("initial_h")}
    (only,) = owners.values()
    torch.testing.assert_close(only, gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tied", [True, False])
def test_parametrised_weights(tied: bool) -> None:
    layer, x, _ = example(Elman())
    nn.utils.parametrizations.orthogonal(layer, "U_h")
    unfolded = Unfolded(layer, STEPS, tied)
    torch.testing.assert_close(unfolded(x), layer(x), rtol=1e-12, atol=1e-12)


def test_every_step_is_a_module_of_its_own() -> None:
    """So that a hook can watch one of them."""
    layer, x, _ = example(Elman())
    unfolded = Unfolded(layer, STEPS)
    seen: list[Tensor] = []
    unfolded.steps[3].register_forward_hook(lambda _module, _inputs, states: seen.append(states[0]))
    output, _ = unfolded(x)
    assert len({id(step) for step in unfolded.steps}) == STEPS
    assert all(isinstance(step, Step) for step in unfolded.steps)
    (value,) = seen
    assert torch.equal(value, output[3])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_gradcheck(cell: str, tied: bool) -> None:
    unfolded = Unfolded(Recurrent(cell, 2, 2, dtype=torch.float64), 3, tied)
    x = torch.randn(3, 1, 2, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in unfolded.named_parameters()]

    def call(x: Tensor, *values: Tensor) -> Tensor:
        return loss(*torch.func.functional_call(unfolded, dict(zip(names, values, strict=True)), (x,)))

    assert torch.autograd.gradcheck(call, (x, *unfolded.parameters()))
    assert torch.autograd.gradgradcheck(lambda x: loss(*unfolded(x)), (x,))


@pytest.mark.parametrize("steps", [3, 5, 0])
def test_another_number_of_steps(steps: int) -> None:
    with pytest.raises(ShapeError, match=rf"has {steps} step\(s\) where 4 are unfolded"):
        Unfolded(Recurrent("elman", 2, 3), 4)(torch.ones(steps, 1, 2))


def test_bad_arguments() -> None:
    layer = Recurrent("elman", 2, 3)
    for steps in (0, -1, 2.5, True):
        with pytest.raises(ArgumentError, match="steps"):
            Unfolded(layer, steps)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="not a Recurrent"):
        Unfolded(Stack("elman", 2, 3), 4)  # type: ignore[arg-type]
    unfolded = Unfolded(layer, 4)
    with pytest.raises(ShapeError, match="input_size is 2"):
        unfolded(torch.ones(4, 1, 3))
    with pytest.raises(DTypeError, match="float64"):
        unfolded(torch.ones(4, 1, 2, dtype=torch.float64))
    with pytest.raises(ShapeError, match="state"):
        unfolded(torch.ones(4, 1, 2), torch.ones(2, 3))
