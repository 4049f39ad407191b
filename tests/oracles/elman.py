"""Elman's network by hand, h = φ(W x + U h + b): forward, and backpropagation through time."""

from __future__ import annotations

import numpy as np
from tests.oracles.rows import Array, Gradients, Parameters, States, Tape


def forward(parameters: Parameters, x: Array, states: States, phi: str = "tanh") -> tuple[Array, States, Tape]:
    W, U, b = parameters["W_h"], parameters["U_h"], parameters.get("b_h", 0.0)
    (h,) = states
    tape: Tape = []
    output = np.zeros((*x.shape[:2], U.shape[0]))
    for t in range(len(x)):
        a = x[t] @ W.T + h @ U.T + b
        if phi == "tanh":
            new, slope = np.tanh(a), 1 - np.tanh(a) ** 2
        elif phi == "relu":
            new, slope = np.where(a > 0, a, 0.0), np.where(a > 0, 1.0, 0.0)
        else:
            new, slope = a, np.ones_like(a)
        tape.append({"x": x[t], "h": h, "slope": slope})
        output[t] = h = new
    return output, (h,), tape


def backward(parameters: Parameters, tape: Tape, d_output: Array, d_final: States) -> Gradients:
    W, U = parameters["W_h"], parameters["U_h"]
    gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
    d_x = np.zeros((len(tape), d_final[0].shape[0], W.shape[1]))
    (d_h,) = d_final
    for t in reversed(range(len(tape))):
        then = tape[t]
        d_a = (d_h + d_output[t]) * then["slope"]
        gradients["W_h"] += d_a.T @ then["x"]
        gradients["U_h"] += d_a.T @ then["h"]
        if "b_h" in gradients:
            gradients["b_h"] += d_a.sum(0)
        d_x[t] = d_a @ W
        d_h = d_a @ U
    return gradients, d_x, (d_h,)
