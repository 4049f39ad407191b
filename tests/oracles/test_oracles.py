"""The oracles themselves, held to torch.nn and to finite differences."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import elman, gru_after, gru_before, lstm
from tests.oracles.rows import Array, Backward, Forward, Parameters, run_rows

X, H, T, LENGTHS = 3, 4, 5, (3, 5, 0, 1)
GATES = {"elman": "h", "lstm": "ifgo", "lstm-open": "ifg", "gru-before": "rzn", "gru-after": "rz"}
ORACLES: dict[str, tuple[Forward, Backward]] = {
    "elman-tanh": (elman.forward, elman.backward),
    "elman-relu": (partial(elman.forward, phi="relu"), elman.backward),
    "elman-identity": (partial(elman.forward, phi="identity"), elman.backward),
    "lstm": (lstm.forward, lstm.backward),
    "lstm-open": (lstm.forward, lstm.backward),
    "gru-before": (gru_before.forward, gru_before.backward),
    "gru-after": (gru_after.forward, gru_after.backward),
}


def draw(name: str) -> tuple[Parameters, Array, tuple[Array, ...], Array, tuple[Array, ...]]:
    generator = np.random.default_rng(5)
    kind = "elman" if name.startswith("elman") else name
    shapes: dict[str, tuple[int, ...]] = {}
    for gate in GATES[kind]:
        shapes |= {f"W_{gate}": (H, X), f"U_{gate}": (H, H), f"b_{gate}": (H,)}
    if kind == "gru-after":
        shapes |= {"W_n": (H, X), "b_n": (H,), "U_hn": (H, H), "b_hn": (H,)}
    parameters = {key: generator.normal(size=shape) for key, shape in shapes.items()}
    count, rows = 2 if kind.startswith("lstm") else 1, len(LENGTHS)
    states, d_final = (tuple(generator.normal(size=(rows, H)) for _ in range(count)) for _ in range(2))
    return parameters, generator.normal(size=(T, rows, X)), states, generator.normal(size=(T, rows, H)), d_final


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ORACLES)
def test_gradients_are_finite_differences(name: str, reverse: bool) -> None:
    parameters, x, states, d_output, d_final = draw(name)

    def run(parameters: Parameters, x: Array, states: tuple[Array, ...]) -> Any:
        return run_rows(*ORACLES[name], parameters, x, states, LENGTHS, d_output, d_final, reverse)

    def loss(epsilon: float) -> float:
        end = run(
            {key: value + epsilon * step[key] for key, value in parameters.items()},
            x + epsilon * step["x"],
            tuple(state + epsilon * step[str(k)] for k, state in enumerate(states)),
        )
        pairs = zip((end.output, *end.final), (d_output, *d_final), strict=True)
        return float(sum((value * weight).sum() for value, weight in pairs))

    found = run(parameters, x, states)
    everything = {**parameters, "x": x, **{str(k): state for k, state in enumerate(states)}}
    gradients = {**found.gradients, "x": found.d_x, **{str(k): part for k, part in enumerate(found.d_states)}}
    for key in everything:
        generator = np.random.default_rng(6)
        step = {other: np.zeros_like(value) for other, value in everything.items()}
        step[key] = generator.normal(size=everything[key].shape)
        slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
        assert slope == pytest.approx((gradients[key] * step[key]).sum(), rel=1e-6, abs=1e-7), key


@pytest.mark.parametrize("name", ["elman-tanh", "elman-relu", "lstm", "gru-after"])
def test_equal_torch(name: str) -> None:
    parameters, x, states, d_output, d_final = draw(name)
    T_full = (T,) * len(LENGTHS)
    found = run_rows(*ORACLES[name], parameters, x, states, T_full, d_output, d_final)
    module: torch.nn.RNNBase
    if name.startswith("elman"):
        module = torch.nn.RNN(X, H, nonlinearity=name.removeprefix("elman-"), dtype=torch.float64)
        order, after = "h", "h"
    elif name == "lstm":
        module, order, after = torch.nn.LSTM(X, H, dtype=torch.float64), "ifgo", "ifgo"
    else:
        module, order, after = torch.nn.GRU(X, H, dtype=torch.float64), "rzn", "rzh"
    recurrent = ["hn" if gate == "h" and name == "gru-after" else gate for gate in after]
    weights = {
        "weight_ih_l0": np.concatenate([parameters[f"W_{gate}"] for gate in order]),
        "weight_hh_l0": np.concatenate([parameters[f"U_{gate}"] for gate in recurrent]),
        "bias_ih_l0": np.concatenate([parameters[f"b_{gate}"] for gate in order]),
        "bias_hh_l0": np.concatenate([parameters["b_hn"] if gate == "hn" else np.zeros(H) for gate in recurrent]),
    }
    module.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
    inputs = [torch.from_numpy(value).requires_grad_() for value in (x, *states)]
    start = tuple(value.unsqueeze(0) for value in inputs[1:])
    output, final = module(inputs[0], start if name == "lstm" else start[0])
    ends = final if name == "lstm" else (final,)
    loss = (output * torch.from_numpy(d_output)).sum()
    for end, weight in zip(ends, d_final, strict=True):
        loss = loss + (end[0] * torch.from_numpy(weight)).sum()
    loss.backward()

    np.testing.assert_allclose(found.output, output.detach(), rtol=0, atol=1e-12)
    for end, mine in zip(ends, found.final, strict=True):
        np.testing.assert_allclose(mine, end[0].detach(), rtol=0, atol=1e-12)
    for value, gradient in zip(inputs, (found.d_x, *found.d_states), strict=True):
        assert value.grad is not None
        np.testing.assert_allclose(gradient, value.grad, rtol=1e-12, atol=1e-12)
    stacked = {
        "weight_ih_l0": [found.gradients[f"W_{gate}"] for gate in order],
        "weight_hh_l0": [found.gradients[f"U_{gate}"] for gate in recurrent],
        "bias_ih_l0": [found.gradients[f"b_{gate}"] for gate in order],
        "bias_hh_l0": [found.gradients[f"b_{gate}"] for gate in recurrent],
    }
    for key, parts in stacked.items():
        np.testing.assert_allclose(np.concatenate(parts), getattr(module, key).grad, rtol=1e-12, atol=1e-12)
