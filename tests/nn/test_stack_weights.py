"""A Stack's weights: their names, how they are drawn, which cells they are for, and the device they are on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.nn.gradients import leaves
from tests.nn.small_stacks import F64, each_shape, random_state

from unspool.cells import DeepTransition, Leaky
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.leaves import map_leaves
from unspool.nn.recurrent import Recurrent
from unspool.nn.stack import Stack

same = partial(torch.testing.assert_close, rtol=0, atol=0)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernels: what is tested here does not depend on what runs a layer."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def test_cells_by_text_with_options() -> None:
    torch.manual_seed(0)
    stack = Stack(["deep-transition(depth=3)", "leaky(dt=0.5)"], 3, [4, 5])
    torch.manual_seed(0)
    same(stack.state_dict(), Stack([DeepTransition(3), Leaky(0.5)], 3, [4, 5]).state_dict())
    cells = [layer.cell for layer in stack.layers if isinstance(layer, Recurrent)]
    assert [cell.latex() for cell in cells] == [DeepTransition(3).latex(), Leaky(0.5).latex()]


def test_names_of_weights() -> None:
    """What saved models hold: a change here makes them unreadable."""
    gates = [f"{kind}_{gate}" for gate in "rzn" for kind in "WUb"]
    stack = Stack("gru", 3, 4, 2, bidirectional=[True, False], skip=True, residual=False, dropout=0.5, zoneout=0.1)
    names = [f"layers.0.{side}.{name}" for side in ("ahead", "back") for name in gates]
    assert list(stack.state_dict()) == [*names, *(f"layers.1.{name}" for name in gates)]


def test_weights_are_drawn_layer_by_layer() -> None:
    """A stack draws what its layers, made one after the other, would draw."""
    torch.manual_seed(0)
    stack = Stack(["gru", "lstm", "elman"], 3, [4, 5, 6], bidirectional=[True, False, False], skip=True)
    torch.manual_seed(0)
    layers = [Bidirectional("gru", 3, 4), Recurrent("lstm", 11, 5), Recurrent("elman", 13, 6)]
    for mine, other in zip(stack.layers, layers, strict=True):
        same(mine.state_dict(), other.state_dict())


@each_shape
def test_on_the_meta_device(make: Callable[[], Stack]) -> None:
    """To meta and back: shapes without numbers, then the same numbers from the same weights."""
    torch.manual_seed(0)
    stack = make()
    weights = {name: value.clone() for name, value in stack.state_dict().items()}
    x, state = torch.randn(5, 5, stack.input_size, dtype=F64), random_state(stack)
    expected = stack(x, state, every_layer=True)
    stack.to("meta")
    far = map_leaves(lambda part: part.to("meta"), state)
    found = stack(x.to("meta"), far, every_layer=True)
    assert {part.device.type for part in leaves(found)} == {"meta"}
    assert [part.shape for part in leaves(found)] == [part.shape for part in leaves(expected)]
    stack.to_empty(device="cpu").load_state_dict(weights)
    same(stack(x, state, every_layer=True), expected)


def test_made_on_the_meta_device() -> None:
    options: dict[str, Any] = {
        "residual": [False, True],
        "learn_initial": True,
        "recurrent_dropout": 0.2,
        "zoneout": 0.1,
    }
    stack = Stack(["lstm", "deep-transition(depth=3)"], 3, 4, **options, dropout=0.5, device="meta")
    assert {value.device.type for value in stack.parameters()} == {"meta"}
    output, state = stack(torch.empty(5, 2, 3, device="meta"))
    assert output.shape == (5, 2, 4)
    assert {part.device.type for part in leaves(state)} == {"meta"}
    torch.manual_seed(0)
    plain = Stack(["lstm", "deep-transition(depth=3)"], 3, 4, **options)
    stack.to_empty(device="cpu").load_state_dict(plain.state_dict())
    x = torch.randn(5, 2, 3)
    same(stack.eval()(x), plain.eval()(x))
