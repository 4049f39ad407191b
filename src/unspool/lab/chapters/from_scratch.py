"""A recurrent network written as a loop in NumPy, against torch.nn.RNN and unspool.nn.RNN."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unspool import lab
from unspool import nn as unspool_nn

Array = NDArray[Any]
WORDS = ("播放", "周杰伦", "的", "《稻香》")
B, T, E, H = 1, len(WORDS), 128, 3
#: Element type → the largest difference that rounding can explain.
TOLERANCES = {"float32": 1e-6, "float64": 1e-12}
LAYERS = {"torch.nn.RNN": torch.nn.RNN, "unspool.nn.RNN": unspool_nn.RNN}


def loop(x: Array, U: Array, W: Array, b: Array) -> Array:
    """h_t = tanh(x_t U + h_{t−1} W + b), step by step, from a state of zeros."""
    h = np.zeros((len(x), len(W)), x.dtype)
    states = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ U + h @ W + b)
        states.append(h)
    return np.stack(states, 1)


def compare(name: str, dtype: str, bias: bool) -> dict[str, Any]:
    """The largest difference between the loop and a layer with the same weights, over all steps and at the end."""
    chance = np.random.default_rng(42)
    x, U, W, b = (
        (chance.standard_normal(shape) * scale).astype(dtype)
        for shape, scale in (((B, T, E), 1), ((E, H), E**-0.5), ((H, H), H**-0.5), ((H,), float(bias)))
    )
    layer = LAYERS[name](E, H, bias=bias, batch_first=True, dtype=getattr(torch, dtype))
    weights = {"weight_ih_l0": U.T, "weight_hh_l0": W.T}
    weights |= {"bias_ih_l0": b, "bias_hh_l0": np.zeros_like(b)} if bias else {}
    layer.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
    with torch.no_grad():
        output, last = layer(torch.tensor(x))
    states = loop(x, U, W, b)
    return {
        "layer": name,
        "dtype": dtype,
        "bias": bias,
        "states": float(np.abs(output.numpy() - states).max()),
        "last": float(np.abs(last[0].numpy() - states[:, -1]).max()),
        "example": states[0].tolist(),
    }


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    return {"cases": [compare(name, dtype, bias) for name in LAYERS for dtype in TOLERANCES for bias in (False, True)]}


def largest(found: lab.Found, dtype: str) -> float:
    return max(float(max(case["states"], case["last"])) for case in found["cases"] if case["dtype"] == dtype)


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.at_most("largest difference in double precision", largest(found, "float64"), TOLERANCES["float64"]),
        lab.at_most("largest difference in single precision", largest(found, "float32"), TOLERANCES["float32"]),
    )


def show(found: lab.Found) -> lab.Shown:
    without_bias = found["cases"][0]["example"]
    units = [lab.Series(f"h[{unit}]", list(WORDS), [state[unit] for state in without_bias]) for unit in range(H)]
    rows = [
        (case["layer"], case["dtype"], "yes" if case["bias"] else "no", case["states"], case["last"])
        for case in found["cases"]
    ]
    heading = ("layer", "element type", "bias", "largest difference, all steps", "largest difference, last state")
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(lab.Bars("The state after each word", "state", units, marks=(lab.Mark("zero", 0.0),)),),
    )


CHAPTER = lab.Chapter(
    claim="S3-3",
    equation="h_t = tanh(U x_t + W h_{t−1} + b)",
    method=(
        "The four words of the document's example are random vectors of 128 numbers; the state has three units. A loop "
        "of NumPy and a layer get the same weights, with and without a bias, in single and double precision. The claim "
        "holds if no state differs by more than rounding explains: 5e−6 and 1e−12."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
