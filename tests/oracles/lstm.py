"""The LSTM by hand: forward, and backpropagation through time. Without W_o among the parameters, o ≡ 1."""

from __future__ import annotations

import numpy as np
from tests.oracles.rows import Array, Gradients, Parameters, States, Tape


def sigmoid(a: Array) -> Array:
    result: Array = 0.5 * (1 + np.tanh(0.5 * a))
    return result


def forward(parameters: Parameters, x: Array, states: States) -> tuple[Array, States, Tape]:
    h, c = states
    tape: Tape = []
    output = np.zeros((*x.shape[:2], h.shape[1]))
    for t in range(len(x)):
        a = {
            gate: x[t] @ parameters[f"W_{gate}"].T + h @ parameters[f"U_{gate}"].T + parameters.get(f"b_{gate}", 0.0)
            for gate in "ifgo"
            if f"W_{gate}" in parameters
        }
        i, f, g = sigmoid(a["i"]), sigmoid(a["f"]), np.tanh(a["g"])
        o = sigmoid(a["o"]) if "o" in a else np.ones_like(c)
        new = f * c + i * g
        tape.append({"x": x[t], "h": h, "c": c, "i": i, "f": f, "g": g, "o": o, "tanh c": np.tanh(new)})
        c = new
        output[t] = h = o * np.tanh(c)
    return output, (h, c), tape


def backward(parameters: Parameters, tape: Tape, d_output: Array, d_final: States) -> Gradients:
    gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
    d_x = np.zeros((len(tape), d_final[0].shape[0], parameters["W_i"].shape[1]))
    d_h, d_c = d_final
    for t in reversed(range(len(tape))):
        then = tape[t]
        i, f, g, o, shown = then["i"], then["f"], then["g"], then["o"], then["tanh c"]
        d_h = d_h + d_output[t]
        d_c = d_c + d_h * o * (1 - shown**2)
        d_a = {
            "i": d_c * g * i * (1 - i),
            "f": d_c * then["c"] * f * (1 - f),
            "g": d_c * i * (1 - g**2),
            "o": d_h * shown * o * (1 - o),
        }
        d_h = np.zeros_like(d_h)
        for gate in "ifgo":
            if f"W_{gate}" not in parameters:
                continue
            gradients[f"W_{gate}"] += d_a[gate].T @ then["x"]
            gradients[f"U_{gate}"] += d_a[gate].T @ then["h"]
            if f"b_{gate}" in gradients:
                gradients[f"b_{gate}"] += d_a[gate].sum(0)
            d_x[t] += d_a[gate] @ parameters[f"W_{gate}"]
            d_h = d_h + d_a[gate] @ parameters[f"U_{gate}"]
        d_c = d_c * f
    return gradients, d_x, (d_h, d_c)
