"""One step of each published cell in torch, written from its paper: parameters, x and states in, states out.

Nothing here uses unspool. Where a paper has a second form of its equations, that one stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

P = Mapping[str, Tensor]
States = tuple[Tensor, ...]
Step = Callable[[P, Tensor, States], States]


def affine(p: P, name: str, **operands: Tensor) -> Tensor:
    """The sum of the products with matrices W_name, U_name, …, and the bias if there is one."""
    total = sum(torch.einsum("oi,bi->bo", p[f"{matrix}_{name}"], value) for matrix, value in operands.items())
    assert isinstance(total, Tensor)
    return total + p[f"b_{name}"] if f"b_{name}" in p else total


def peephole(p: P, x: Tensor, states: States) -> States:
    h, c = states
    i = torch.sigmoid(affine(p, "i", W=x, U=h) + p["p_i"] * c)
    f = torch.sigmoid(affine(p, "f", W=x, U=h) + p["p_f"] * c)
    c = f * c + i * torch.tanh(affine(p, "g", W=x, U=h))
    o = torch.sigmoid(affine(p, "o", W=x, U=h) + p["p_o"] * c)
    return o * torch.tanh(c), c


def janet(p: P, x: Tensor, states: States) -> States:
    (h,) = states
    s = affine(p, "f", W=x, U=h)
    return (torch.sigmoid(s) * h + (1 - torch.sigmoid(s - 1)) * torch.tanh(affine(p, "n", W=x, U=h)),)


def mgu(p: P, x: Tensor, states: States) -> States:
    (h,) = states
    f = torch.sigmoid(affine(p, "f", W=x, U=h))
    return (torch.lerp(h, torch.tanh(affine(p, "n", W=x, U=f * h)), f),)


def mingru(p: P, x: Tensor, states: States) -> States:
    """The paper's form in logarithms: log(1 − z) = −softplus(k), log z = −softplus(−k)."""
    (h,) = states
    k = affine(p, "z", W=x)
    keep, write = (torch.exp(-torch.nn.functional.softplus(v)) for v in (k, -k))
    return (keep * h + write * affine(p, "n", W=x),)


def minlstm(p: P, x: Tensor, states: States) -> States:
    """The paper's form in logarithms: f′ = σ(−d), i′ = σ(d), d = softplus(−k_f) − softplus(−k_i)."""
    (h,) = states
    softplus = torch.nn.functional.softplus
    d = softplus(-affine(p, "f", W=x)) - softplus(-affine(p, "i", W=x))
    return (torch.sigmoid(-d) * h + torch.sigmoid(d) * affine(p, "n", W=x),)


def indrnn(p: P, x: Tensor, states: States) -> States:
    (h,) = states
    return (torch.clamp(affine(p, "h", W=x) + h @ torch.diag(p["u"]), min=0),)


def sru(p: P, x: Tensor, states: States) -> States:
    _, c = states
    f, r = (torch.sigmoid(affine(p, gate, W=x) + p[f"v_{gate}"] * c) for gate in "fr")
    c = torch.lerp(affine(p, "c", W=x), c, f)
    return torch.lerp(1.732 * affine(p, "p", W=x), c, r), c


def qrnn(p: P, x: Tensor, states: States) -> States:
    """Every map is a convolution of width 2 over (x_{t−1}, x_t)."""
    _, c, before = states
    both = torch.stack((before, x), -1)
    z, f, o = (
        torch.nn.functional.conv1d(both, torch.stack((p[f"U_{name}"], p[f"W_{name}"]), -1), p[f"b_{name}"])[..., 0]
        for name in "zfo"
    )
    c = torch.sigmoid(f) * c + torch.sigmoid(-f) * torch.tanh(z)
    return torch.sigmoid(o) * c, c, x


def rhn(p: P, x: Tensor, states: States) -> States:
    (s,) = states
    for layer in ("1", "2", "3"):
        more = {"W": x} if layer == "1" else {}
        t = torch.sigmoid(affine(p, f"t{layer}", U=s, **more))
        s = torch.lerp(s, torch.tanh(affine(p, f"h{layer}", U=s, **more)), t)
    return (s,)


def lem(p: P, x: Tensor, states: States) -> States:
    y, z = states
    z = torch.lerp(z, torch.tanh(affine(p, "z", W=x, U=y)), torch.sigmoid(affine(p, "a", W=x, U=y)))
    return torch.lerp(y, torch.tanh(affine(p, "y", W=x, U=z)), torch.sigmoid(affine(p, "b", W=x, U=states[0]))), z


def cornn(p: P, x: Tensor, states: States) -> States:
    """y″ = tanh(…) − γ y − ε y′, one step of the symplectic Euler method."""
    y, z = states
    acceleration = torch.tanh(affine(p, "z", W=x, U1=y, U2=z)) - 2.7 * y - 4.7 * z
    z = z + 0.042 * acceleration
    return y + 0.042 * z, z


def unicornn(p: P, x: Tensor, states: States) -> States:
    y, z = states
    dt = 0.1 * (0.5 + 0.5 * torch.tanh(p["s"] / 2))
    z = z - dt * (torch.tanh(p["w"] * y + affine(p, "z", W=x)) + y)
    return y + dt * z, z


def cfc(p: P, x: Tensor, states: States) -> States:
    (h,) = states
    v = 1.7159 * torch.tanh(0.666 * affine(p, "v", W=x, U=h))
    decay = 1 / (1 + torch.exp(affine(p, "f", U=v)))
    return (decay * torch.tanh(affine(p, "g", U=v)) + (1 - decay) * torch.tanh(affine(p, "n", U=v)),)


def slstm(p: P, x: Tensor, states: States) -> States:
    """Without the stabilizer: the states times e^m are the paper's c and n, with i = exp(ĩ) and f = σ(f̃)."""
    h, c, n, m = states
    i, f = torch.exp(affine(p, "i", W=x, U=h)), torch.sigmoid(affine(p, "f", W=x, U=h))
    new = torch.maximum(torch.log(f) + m, torch.log(i))
    c = f * c * torch.exp(m) + i * torch.tanh(affine(p, "z", W=x, U=h))
    n = f * n * torch.exp(m) + i
    return torch.sigmoid(affine(p, "o", W=x, U=h)) * c / n, c * torch.exp(-new), n * torch.exp(-new), new


def rglru(p: P, x: Tensor, states: States) -> States:
    (h,) = states
    u = affine(p, "u", W=x)
    log_a = -8 * torch.nn.functional.softplus(p["lambda"]) * torch.sigmoid(affine(p, "r", U=u))
    root = torch.sqrt(1e-12 - torch.expm1(2 * log_a))
    return (torch.exp(log_a) * h + root * torch.sigmoid(affine(p, "i", U=u)) * u,)


#: By the catalogue's name.
STEPS: Mapping[str, Step] = {
    "lstm-peephole": peephole,
    "janet": janet,
    "mgu": mgu,
    "mingru": mingru,
    "minlstm": minlstm,
    "indrnn": indrnn,
    "sru": sru,
    "qrnn": qrnn,
    "rhn": rhn,
    "lem": lem,
    "cornn": cornn,
    "unicornn": unicornn,
    "cfc": cfc,
    "rg-lru": rglru,
    "slstm": slstm,
}


def run(step: Step, p: P, x: Tensor, states: States) -> tuple[Tensor, States]:
    """The first state at every step, and the last states."""
    output = []
    for now in x:
        states = step(p, now, states)
        output.append(states[0])
    return torch.stack(output), states
