"""A Transformer as a recurrence: its state is the cache, and every past input is one step away."""

from __future__ import annotations

import torch
from torch import Tensor

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import record
from unspool.learning import TruncatedBPTT, detach

TOLERANCE = 1e-10
STEPS, WIDTH = 40, 8


def make(detach_cache: bool = False, num_layers: int = 1) -> unspool_nn.DecoderTransformer:
    torch.manual_seed(0)
    return unspool_nn.DecoderTransformer(WIDTH, 2, num_layers, detach_cache=detach_cache, dtype=torch.float64)


def stepwise() -> float:
    """All steps at once against one step at a time, with the cache as the state."""
    layer, x = make(num_layers=3), torch.randn(STEPS, 2, WIDTH, dtype=torch.float64)
    state, outputs = None, []
    for one in x:
        output, state = layer(one.unsqueeze(0), state)
        outputs.append(output)
    return float((layer(x)[0] - torch.cat(outputs)).detach().abs().max())


def reach(layer: torch.nn.Module, x: Tensor, weights: Tensor, cut: int | None = None) -> Tensor:
    """‖∂L/∂x_i‖ of a loss at the last step; with the steps after the first `cut` run on a state without gradient."""
    x = x.clone().requires_grad_()
    if cut is None:
        output = layer(x)[0]
    else:
        _, state = layer(x[:cut])
        _, later = layer(x[cut:-1].detach(), detach(state))
        output = layer(x[-1:], joined(state, later))[0]
    (gradient,) = torch.autograd.grad((output[-1] * weights).sum(), x, allow_unused=True)
    norms: Tensor = gradient.norm(dim=-1)[:, 0]
    return norms


def joined(state: object, later: object) -> object:
    """A cache with the early steps of one and the later steps of another."""
    if isinstance(state, Tensor) and isinstance(later, Tensor):
        axis = 1 if state.dim() == 2 else 2
        early = state.shape[axis]
        return torch.cat((state, later.narrow(axis, early, later.shape[axis] - early)), axis)
    assert isinstance(state, tuple | list)
    assert isinstance(later, tuple | list)
    return type(state)(joined(one, other) for one, other in zip(state, later, strict=True))


def window_one() -> float:
    """The gradient with a detached cache against truncated backpropagation with a window of one step."""
    x, weights = torch.randn(STEPS, 2, WIDTH, dtype=torch.float64), torch.randn(STEPS, 2, WIDTH, dtype=torch.float64)
    whole, parts = make(detach_cache=True, num_layers=2), make(num_layers=2)
    (whole(x)[0] * weights).sum().backward()
    for output, span in TruncatedBPTT(parts, window=1).over(x):
        (output * weights[span]).sum().backward()
    one, other = (torch.nn.utils.parameters_to_vector(gradients_of(layer)) for layer in (whole, parts))
    return float((one - other).abs().max())


def gradients_of(layer: torch.nn.Module) -> list[Tensor]:
    return [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    torch.manual_seed(1)
    x, weights = torch.randn(STEPS, 1, WIDTH, dtype=torch.float64), torch.randn(WIDTH, dtype=torch.float64)
    layer, half = make(), STEPS // 2
    far, around = reach(layer, x, weights), reach(layer, x, weights, cut=half)
    recurrent = unspool_nn.Recurrent("elman", WIDTH, WIDTH, dtype=torch.float64)
    (inputs,) = record(recurrent, lambda model: (model(x)[0][-1] * weights).sum()).gradient().inputs.values()
    return {
        "stepwise": stepwise(),
        "around": float((far - around)[:half].abs().max()),
        "window one": window_one(),
        "transformer": far.tolist(),
        "elman": inputs[:, 0].norm(dim=-1).tolist(),
    }


def flatness(norms: list[float]) -> float:
    """The gradient at the first half of the inputs as a fraction of that at the second half, without the last step."""
    half = (len(norms) - 1) // 2
    return (sum(norms[:half]) / half) / (sum(norms[half:-1]) / (len(norms) - 1 - half))


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.at_most("steps one by one against all at once", found["stepwise"], TOLERANCE),
        lab.at_most("change of the gradient if all steps in between are cut", found["around"], TOLERANCE),
        lab.at_most("detached cache against a window of one step", found["window one"], TOLERANCE),
        lab.at_least("gradient at early inputs, relative to late ones", flatness(found["transformer"]), 0.5),
        lab.at_most("the same of a recurrent network", flatness(found["elman"]), 0.01),
    )


def show(found: lab.Found) -> lab.Shown:
    ages = [STEPS - 1 - step for step in range(STEPS)]
    rows = [
        ("one by one against all at once", found["stepwise"]),
        ("steps in between cut", found["around"]),
        ("detached cache against window 1", found["window one"]),
    ]
    series = [
        lab.Series(name, ages, [max(value, 1e-18) for value in found[key]])
        for name, key in (("Transformer", "transformer"), ("recurrent network", "elman"))
    ]
    return lab.Shown(
        tables=(lab.Table(("comparison", "largest difference"), rows),),
        figures=(lab.Lines("Gradient of the last step's loss", "steps back", "norm at the input", series, log_y=True),),
    )


CHAPTER = lab.Chapter(
    claim="S4-8",
    equation="s_t = (s_{t−1}, k_t, v_t)\n∂ℓ_t/∂x_i = ∂ℓ_t/∂(k_i, v_i) · ∂(k_i, v_i)/∂x_i for i < t",
    method=(
        "A Transformer runs all at once and step by step with its keys and values as the state: the outputs must "
        "agree. In one layer of attention the gradient from the last step to the first 20 inputs must not change if "
        "the 19 steps in between are cut out of the graph, because no path leads through them; it must reach early "
        "inputs as it reaches late ones, where a recurrent network's decays. With the cache detached the gradient of "
        "all weights must be that of truncated backpropagation with a window of one step."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
