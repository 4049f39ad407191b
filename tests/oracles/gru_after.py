"""The GRU whose reset acts after the product, n = tanh(W x + b + r⊙(U h + b′)) and h = (1−z)⊙n + z⊙h, by hand."""

from __future__ import annotations

import numpy as np
from tests.oracles.lstm import sigmoid
from tests.oracles.rows import Array, Gradients, Parameters, States, Tape


def forward(parameters: Parameters, x: Array, states: States) -> tuple[Array, States, Tape]:
    (h,) = states
    tape: Tape = []
    output = np.zeros((*x.shape[:2], h.shape[1]))

    def gate(name: str, x: Array, h: Array) -> Array:
        return sigmoid(x @ parameters[f"W_{name}"].T + h @ parameters[f"U_{name}"].T + parameters.get(f"b_{name}", 0.0))

    for t in range(len(x)):
        r, z = gate("r", x[t], h), gate("z", x[t], h)
        product = h @ parameters["U_hn"].T + parameters.get("b_hn", 0.0)
        n = np.tanh(x[t] @ parameters["W_n"].T + parameters.get("b_n", 0.0) + r * product)
        tape.append({"x": x[t], "h": h, "r": r, "z": z, "n": n, "product": product})
        output[t] = h = (1 - z) * n + z * h
    return output, (h,), tape


def backward(parameters: Parameters, tape: Tape, d_output: Array, d_final: States) -> Gradients:
    gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
    d_x = np.zeros((len(tape), d_final[0].shape[0], parameters["W_r"].shape[1]))
    (d_h,) = d_final
    for t in reversed(range(len(tape))):
        then = tape[t]
        h, r, z, n = then["h"], then["r"], then["z"], then["n"]
        d_h = d_h + d_output[t]
        d_an = d_h * (1 - z) * (1 - n**2)
        d_az = d_h * (h - n) * z * (1 - z)
        d_ar = d_an * then["product"] * r * (1 - r)
        d_product = d_an * r
        for name, d_a in (("r", d_ar), ("z", d_az), ("n", d_an)):
            gradients[f"W_{name}"] += d_a.T @ then["x"]
            d_x[t] += d_a @ parameters[f"W_{name}"]
        d_h = d_h * z
        for name, d_a in (("r", d_ar), ("z", d_az), ("hn", d_product)):
            gradients[f"U_{name}"] += d_a.T @ h
            d_h = d_h + d_a @ parameters[f"U_{name}"]
        for name, d_a in (("r", d_ar), ("z", d_az), ("n", d_an), ("hn", d_product)):
            if f"b_{name}" in gradients:
                gradients[f"b_{name}"] += d_a.sum(0)
    return gradients, d_x, (d_h,)
