"""Traces: states are those of the player after each step, gates those of the equations by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.test_stack import HIDDEN, INPUT, LAYERS, TORCH, arrays, player_of, random_weights

from unspool import nn
from unspool.runtime.tracing import list_channels, trace_stack

STEPS = 6


def inputs() -> Any:
    return np.random.default_rng(0).normal(size=(STEPS, 1, INPUT)).astype(np.float32)


@pytest.mark.parametrize("kind", sorted({*LAYERS, *TORCH} - {"residual", "delay"}))  # these add what a layer reads
def test_the_output_is_made_of_the_traced_states(kind: str) -> None:
    player = player_of(random_weights({**LAYERS, **TORCH}[kind]()))
    x = inputs()
    channels, values = list_channels(player.stack), trace_stack(player, x)
    assert [(STEPS, channel.units) for channel in channels] == [value.shape for value in values]
    top = player.stack.layers[-1]
    first = {(one.reverse, place) for place, one in enumerate(channels) if one.layer == len(player.stack.layers)}
    ways = [min(place for back, place in first if back == one.reverse) for one in top.directions]
    output, _ = player.run(x)
    expected = np.concatenate([values[place] for place in ways], -1)
    np.testing.assert_allclose(output[:, 0], expected, atol=2e-6)


def test_states_are_those_after_each_step_from_where_it_starts() -> None:
    player = player_of(random_weights(nn.Stack("lstm", INPUT, [3, 5], residual=False)))
    x = inputs()
    _, start = player.run(x[:2])
    traced = trace_stack(player, x[2:], start)
    states = [value for value, one in zip(traced, list_channels(player.stack), strict=True) if one.role == "state"]
    for t in range(STEPS - 2):
        _, now = player.run(x[2 : 3 + t], start)
        for state, expected in zip(states, arrays(now), strict=True):
            np.testing.assert_allclose(state[t], expected[0], atol=2e-6)


def test_gates_are_those_of_torch() -> None:
    module = random_weights(nn.LSTM(INPUT, HIDDEN))
    player, x = player_of(module), inputs()
    names = [one.name for one in list_channels(player.stack)]
    traced = dict(zip(names, trace_stack(player, x), strict=True))
    weights: Any = {name: tensor.double() for name, tensor in module.state_dict().items()}
    before = torch.cat((torch.zeros(1, HIDDEN), torch.from_numpy(traced["h"][:-1]))).double()
    total = torch.from_numpy(x[:, 0]).double() @ weights["weight_ih_l0"].T + weights["bias_ih_l0"]
    total = total + before @ weights["weight_hh_l0"].T + weights["bias_hh_l0"]
    for place, name in ((0, "i"), (1, "f"), (3, "o")):
        expected = torch.sigmoid(total[:, place * HIDDEN : (place + 1) * HIDDEN])
        np.testing.assert_allclose(traced[name], expected.numpy(), atol=2e-6)


def test_layers_above_read_the_sum_of_a_residual_connection() -> None:
    player = player_of(random_weights(LAYERS["residual"]()))
    x = inputs()
    found = zip(trace_stack(player, x), list_channels(player.stack), strict=True)
    expected = x[:, 0].copy()
    for layer, (state, _) in zip(player.stack.layers, [one for one in found if one[1].name == "h"], strict=True):
        expected = state + expected if layer.residual else state
    np.testing.assert_allclose(player.run(x)[0][:, 0], expected, atol=4e-6)
