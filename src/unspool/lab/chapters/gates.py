"""Gates: the additive path through an LSTM's memory and a GRU's state, in its Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import record

TOLERANCE = 1e-10
STEPS, UNITS = 60, 8
BIASES = (0.0, 2.0, 4.0, 6.0)


class Steps:
    """A layer's Jacobians over one random sequence, (steps, states, states), and its named values."""

    def __init__(self, cell: str, bias: float | None = None) -> None:
        torch.manual_seed(0)
        self.layer = unspool_nn.Recurrent(cell, 3, UNITS, dtype=torch.float64)
        if bias is not None:
            unspool_nn.init.forget_bias_(self.layer, bias)
        x = torch.randn(STEPS, 1, 3, dtype=torch.float64)
        (seen,) = record(self.layer, lambda model: model(x)[0].sum()).layers
        self.jacobians = seen.jacobians(seen.x[:, 0], seen.before[:, 0])
        self.before = seen.before[:, 0]
        self.named = {name: value[:, 0] for name, value in seen.named.items()}

    def weight(self, name: str) -> Tensor:
        return self.layer.get_parameter(name).detach()


def lstm() -> float:
    """∂c_t/∂c_{t−1} at a given h_{t−1} against diag(f_t)."""
    steps = Steps("lstm")
    memory = steps.jacobians[:, UNITS:, UNITS:]
    return float((memory - steps.named["f"].diag_embed()).abs().max())


def gru() -> float:
    """∂h_t/∂h_{t−1} of a GRU in which z takes the new state, against diag(1 − z_t) and the paths through its gates."""
    steps = Steps("gru")
    r, z, n, h = (*(steps.named[name] for name in "rzn"), steps.before)
    candidate = r.diag_embed() + (h * r * (1 - r)).diag_embed() @ steps.weight("U_r")
    rest = (z * (1 - n.square())).diag_embed() @ steps.weight("U_n") @ candidate
    rest = rest + ((n - h) * z * (1 - z)).diag_embed() @ steps.weight("U_z")
    return float((steps.jacobians - (1 - z).diag_embed() - rest).abs().max())


def reset_after() -> float:
    """The same of torch.nn's GRU, in which z keeps the old state: diag(z_t) and the rest."""
    steps = Steps("gru-reset-after")
    r, z, n, h = (*(steps.named[name] for name in "rzn"), steps.before)
    inner = h @ steps.weight("U_hn").T + steps.weight("b_hn")
    candidate = r.diag_embed() @ steps.weight("U_hn") + (inner * r * (1 - r)).diag_embed() @ steps.weight("U_r")
    rest = ((1 - z) * (1 - n.square())).diag_embed() @ candidate
    rest = rest + ((h - n) * z * (1 - z)).diag_embed() @ steps.weight("U_z")
    return float((steps.jacobians - z.diag_embed() - rest).abs().max())


def kept(cell: str, bias: float | None) -> list[float]:
    """The spectral norm of the product of 1, 2, … Jacobians; of an LSTM, along its memory."""
    steps = Steps(cell, bias)
    size = steps.jacobians.shape[-1]
    product, norms = torch.eye(size, dtype=torch.float64), []
    for jacobian in steps.jacobians:
        product = jacobian @ product
        norms.append(float(torch.linalg.matrix_norm(product[-UNITS:, -UNITS:], 2)))
    return norms


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    differences = {"lstm": lstm(), "gru": gru(), "gru-reset-after": reset_after()}
    norms = {f"{cell}, b = {bias:g}": kept(cell, bias) for cell in ("lstm", "gru") for bias in BIASES}
    return {"differences": differences, "norms": {"elman": kept("elman", None), **norms}}


def judge(found: lab.Found) -> lab.Verdict:
    differences, norms = found["differences"], found["norms"]
    open_gates = min(norms[f"{cell}, b = {BIASES[-1]:g}"][-1] for cell in ("lstm", "gru"))
    return lab.all_of(
        lab.at_most("largest distance from the formulas", max(differences.values()), TOLERANCE),
        lab.at_least("gradient kept over 60 steps where gates are open, against a simple RNN", open_gates, 0.5),
        lab.at_most("gradient that a simple RNN keeps over 60 steps", norms["elman"][-1], 0.01),
    )


def show(found: lab.Found) -> lab.Shown:
    steps = list(range(1, STEPS + 1))
    series = [lab.Series(name, steps, norms) for name, norms in found["norms"].items()]
    formulas = {"lstm": "diag(f)", "gru": "diag(1 − z) + …", "gru-reset-after": "diag(z) + …"}
    rows = [(cell, formulas[cell], value) for cell, value in found["differences"].items()]
    return lab.Shown(
        tables=(lab.Table(("cell", "Jacobian", "distance from the formula"), rows),),
        figures=(
            lab.Lines(
                "Products of Jacobians, by the bias b of the gate that keeps", "steps", "norm", series, log_y=True
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S4-4",
    equation=(
        "c_t = f_t ⊙ c_{t−1} + i_t ⊙ g_t ⇒ ∂c_t/∂c_{t−1} = diag(f_t)\n"
        "h_t = (1 − z_t) ⊙ h_{t−1} + z_t ⊙ n_t ⇒ ∂h_t/∂h_{t−1} = diag(1 − z_t) + …"
    ),
    method=(
        "The Jacobians of 60 steps of an LSTM, of a GRU and of torch.nn's GRU are computed by automatic "
        "differentiation. The LSTM's block from memory to memory, at a given h, must be diag(f); those of the two GRUs "
        "must be diag(1 − z) or diag(z), by convention, and the paths through the gates in closed form. Products over "
        "60 steps show what this is good for: with a large bias of the gate that keeps, most of the gradient arrives."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
