"""The GRU whose reset acts before the product, n = tanh(W x + U(r⊙h) + b) and h = (1−z)⊙h + z⊙n, by hand."""

from __future__ import annotations

import numpy as np
from tests.oracles.lstm import sigmoid
from tests.oracles.rows import Array, Gradients, Parameters, States, Tape


def forward(parameters: Parameters, x: Array, states: States) -> tuple[Array, States, Tape]:
    (h,) = states
    tape: Tape = []
    output = np.zeros((*x.shape[:2], h.shape[1]))

    def affine(gate: str, x: Array, v: Array) -> Array:
        return x @ parameters[f"W_{gate}"].T + v @ parameters[f"U_{gate}"].T + parameters.get(f"b_{gate}", 0.0)

    for t in range(len(x)):
        r, z = sigmoid(affine("r", x[t], h)), sigmoid(affine("z", x[t], h))
        n = np.tanh(affine("n", x[t], r * h))
        tape.append({"x": x[t], "h": h, "r": r, "z": z, "n": n})
        output[t] = h = (1 - z) * h + z * n
    return output, (h,), tape


def backward(parameters: Parameters, tape: Tape, d_output: Array, d_final: States) -> Gradients:
    gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
    d_x = np.zeros((len(tape), d_final[0].shape[0], parameters["W_r"].shape[1]))
    (d_h,) = d_final
    for t in reversed(range(len(tape))):
        then = tape[t]
        h, r, z, n = then["h"], then["r"], then["z"], then["n"]
        d_h = d_h + d_output[t]
        d_an = d_h * z * (1 - n**2)
        d_rh = d_an @ parameters["U_n"]
        d_az = d_h * (n - h) * z * (1 - z)
        d_ar = d_rh * h * r * (1 - r)
        for gate, d_a, operand in (("n", d_an, r * h), ("z", d_az, h), ("r", d_ar, h)):
            gradients[f"W_{gate}"] += d_a.T @ then["x"]
            gradients[f"U_{gate}"] += d_a.T @ operand
            if f"b_{gate}" in gradients:
                gradients[f"b_{gate}"] += d_a.sum(0)
            d_x[t] += d_a @ parameters[f"W_{gate}"]
        d_h = d_h * (1 - z) + d_rh * r + d_az @ parameters["U_z"] + d_ar @ parameters["U_r"]
    return gradients, d_x, (d_h,)
