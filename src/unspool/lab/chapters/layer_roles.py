"""Layer roles: whether a layer's recurrence adds to the response to an impulse, or takes from it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool import lab
from unspool.insight import measure_sensitivity, record
from unspool.lab.data import two_scales
from unspool.nn import Stack

#: Recurrent weights of linear stacks, from the lowest layer up; of one sign, and of different signs.
STACKS = ((0.6, 0.5), (0.9, -0.5), (0.3, 0.8, -0.4))
STEPS, TOLERANCE = 400, 1e-10
TASKS = ("accumulate", "denoise")


def kernel(weights: list[float]) -> NDArray[np.float64]:
    """The impulse response of a linear stack: the convolution of its layers' powers."""
    response = np.ones(1)
    for a in weights:
        response = np.convolve(response, a ** np.arange(STEPS, dtype=np.float64))[:STEPS]
    return response


def linear(weights: tuple[float, ...]) -> lab.Found:
    """Δ of each layer, measured and from the convolution."""
    stack = Stack("linear", 1, 1, len(weights), dtype=torch.float64)
    with torch.no_grad():
        for layer, a in zip(stack.layers, weights, strict=True):
            layer.get_parameter("W_h").fill_(1.0)
            layer.get_parameter("U_h").fill_(a)
    x = torch.zeros(STEPS, 1, 1, dtype=torch.float64)
    found = measure_sensitivity(record(stack, lambda model: model(x)[0].sum()))
    whole = np.abs(kernel(list(weights))).sum()
    removed = [np.abs(kernel([*weights[:n], 0.0, *weights[n + 1 :]])).sum() for n in range(len(weights))]
    shown = {"kernel": found.kernel[:30], "removed": found.removed[:, :30]}
    return {"weights": weights, "measured": found.delta, "formula": [float(whole - one) for one in removed], **shown}


def batch(task: str, seed: int) -> tuple[Tensor, Tensor]:
    """Noise whose sum is wanted; or a slow signal in noise, which is wanted without the noise."""
    if task == "accumulate":
        x = torch.randn(40, 64, 1, generator=torch.Generator().manual_seed(seed))
        return x, 0.2 * x.cumsum(0)
    x, parts = map(torch.as_tensor, two_scales(40, 64, fast=0.2, slow=20.0, noise=0.5, seed=seed))
    return x, parts[..., 1:]


def train(task: str, steps: int, seed: int) -> lab.Found:
    """Δ of both layers of a trained network, and its error as a fraction of the target's variance."""
    torch.manual_seed(seed)
    stack, head = Stack("elman", 1, 16, 2), torch.nn.Linear(16, 1)

    def loss(step: int) -> Tensor:
        x, y = batch(task, seed * 100_000 + step)
        error: Tensor = (head(stack(x)[0]) - y).square().mean()
        return error

    lab.fit(torch.nn.ModuleList([stack, head]), loss, steps, lr=5e-3)
    x, y = batch(task, seed * 100_000 + 99_999)
    with torch.no_grad():
        error = (head(stack(x)[0]) - y).square().mean() / y.var()
    found = measure_sensitivity(record(stack, lambda model: model(x[:, :8])[0].sum()))
    return {"task": task, "delta": found.delta, "error": float(error)}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(400, 1500)
    trained = [train(task, steps, seed) for seed in study.seeds() for task in TASKS]
    return {"linear": [linear(weights) for weights in STACKS], "trained": trained}


def strongest(found: lab.Found, task: str) -> list[float]:
    """For each seed, Δ of the layer whose recurrence matters most."""
    return [max(run["delta"], key=abs) for run in found["trained"] if run["task"] == task]


def judge(found: lab.Found) -> lab.Verdict:
    pairs = [(run["measured"], run["formula"]) for run in found["linear"]]
    difference = max(float(np.abs(np.array(one) - np.array(other)).max()) for one, other in pairs)
    return lab.all_of(
        lab.at_most("linear stacks: largest difference from the closed form", difference, TOLERANCE),
        lab.above("Δ of a network that adds up its input", strongest(found, "accumulate")),
        lab.below("Δ of a network that removes noise", strongest(found, "denoise")),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = [
        (", ".join(map(str, run["weights"])), place + 1, a, run["measured"][place], run["formula"][place])
        for run in found["linear"]
        for place, a in enumerate(run["weights"])
    ]
    trained = [(run["task"], *run["delta"], run["error"]) for run in found["trained"]]
    example = found["linear"][1]
    lags = list(range(len(example["kernel"])))
    names = ("without recurrence of layer 1", "without recurrence of layer 2")
    curves = [lab.Series("K", lags, example["kernel"])]
    curves += [lab.Series(name, lags, values) for name, values in zip(names, example["removed"], strict=True)]
    layers = ["layer 1", "layer 2"]
    bars = [
        lab.Series(task, layers, np.mean([r["delta"] for r in found["trained"] if r["task"] == task], 0))
        for task in TASKS
    ]
    return lab.Shown(
        tables=(
            lab.Table(("linear stack", "layer", "a", "Δ measured", "Δ closed form"), rows),
            lab.Table(("task", "Δ of layer 1", "Δ of layer 2", "error / variance"), trained),
        ),
        figures=(
            lab.Lines("Response of a linear stack with a = 0.9 and −0.5", "lag", "size of the response", curves),
            lab.Bars("Δ of trained networks, mean over seeds", "Δ", bars, marks=(lab.Mark("neither", 0.0),)),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-10",
    equation="Δ_ℓ = Σ_τ |K(τ)| − Σ_τ |K^{(−ℓ)}(τ)|",
    method=(
        "The response of the top layer to an impulse is measured with and without the recurrence of each layer. In "
        "linear stacks Δ must be that of the convolution to 1e-10. Then networks of two tanh layers are trained to add "
        "up their input, and to remove noise from a slow signal. The claim holds if the layer with the largest Δ in "
        "size has Δ > 0 in the first and Δ < 0 in the second. A linear filter that averages noise away has positive "
        "feedback, which lengthens the response, and so Δ > 0 like a sum. In linear stacks Δ < 0 needs layers whose "
        "feedback has different signs."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
