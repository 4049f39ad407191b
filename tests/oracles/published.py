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


def fastgrnn(p: P, x: Tensor, states: States) -> States:
    (h,) = states
    a = affine(p, "h", W=x, U=h)
    z = torch.sigmoid(a + p["bias_z"])
    keep = torch.sigmoid(p["zeta"]) * (1 - z) + torch.sigmoid(p["nu"])
    return (keep * torch.tanh(a + p["bias_n"]) + z * h,)


def antisymmetric(p: P, x: Tensor, states: States) -> States:
    (h,) = states
    size = h.shape[1]
    a = p["a"].reshape(size, size)
    matrix = a - a.T - 0.01 * torch.eye(size, dtype=h.dtype)
    return (h + 0.01 * torch.tanh(h @ matrix.T + affine(p, "h", W=x)),)


def layernorm(p: P, x: Tensor, states: States) -> States:
    h, c = states

    def normalised(matrix: str, side: str, value: Tensor) -> Tensor:
        """Over the products of all gates, one after the other as in torch.nn."""
        stacked = torch.cat([p[f"{matrix}_{gate}{side}"] for gate in "ifgo"])
        gain = torch.cat([p[f"gain_{gate}{side}"] for gate in "ifgo"])
        return torch.nn.functional.layer_norm(value @ stacked.T, stacked.shape[:1], gain)

    bias = torch.cat([p[f"bias_{gate}"] for gate in "ifgo"])
    i, f, g, o = (normalised("W", "x", x) + normalised("U", "h", h) + bias).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    shown = torch.nn.functional.layer_norm(c, c.shape[1:], p["gain_c"], p["bias_c"])
    return torch.sigmoid(o) * torch.tanh(shown), c


def ltc(p: P, x: Tensor, states: States) -> States:
    """The fused solver of the paper, six times."""
    (h,) = states
    for _ in range(6):
        f = torch.sigmoid(affine(p, "f", W=x, U=h))
        h = (h + f * p["A"] / 6) / (1 + (torch.exp(p["g"]) + f) / 6)
    return (h,)


def lru(p: P, x: Tensor, states: States) -> States:
    """In complex numbers."""
    _, re, im = states
    pole = torch.exp(torch.complex(-torch.exp(p["nu"]), torch.exp(p["theta"])))
    read = torch.complex(p["W_re"], p["W_im"])
    h = pole * torch.complex(re, im) + torch.exp(p["gamma"]) * (x.to(read.dtype) @ read.T)
    head = torch.complex(p["U1_y"], -p["U2_y"])
    return (h @ head.T).real + affine(p, "y", W=x), h.real, h.imag


def s4d(p: P, x: Tensor, states: States) -> States:
    """In complex numbers, with the exact discretization of a constant input."""
    _, re, im = states
    units = p["skip"].shape[0]
    u, dt = affine(p, "u", W=x), torch.exp(p["log_dt"])[:, None]
    pole = torch.complex(-torch.exp(p["decay"]), p["frequency"]).reshape(units, -1)
    one_step = torch.exp(dt * pole)
    h = one_step * torch.complex(re, im).reshape(len(x), units, -1) + (one_step - 1) / pole * u[..., None]
    shown = 2 * (torch.complex(p["c_re"], p["c_im"]).reshape(units, -1) * h).real.sum(-1) + p["skip"] * u
    return shown, h.real.reshape(re.shape), h.imag.reshape(im.shape)


def heads_of(value: Tensor, heads: int = 4) -> Tensor:
    """(batch, heads · size) → (batch, heads, size)."""
    return value.reshape(len(value), heads, -1)


def mlstm(p: P, x: Tensor, states: States) -> States:
    """Without the stabilizer: the states times e^m are the paper's C and n, with i = exp(ĩ) and f = σ(f̃)."""
    _, c, n, m = states
    q, k, v = (heads_of(affine(p, name, W=x)) for name in "qkv")
    i, f = torch.exp(affine(p, "i", W=x)), torch.sigmoid(affine(p, "f", W=x))
    new = torch.maximum(torch.log(f) + m, torch.log(i))
    memory = c.reshape(len(x), 4, 16, 16) * torch.exp(m)[..., None, None]
    memory = f[..., None, None] * memory + i[..., None, None] * torch.einsum("bhk,bhv->bhkv", k / 4, v)
    total = f[..., None] * heads_of(n) * torch.exp(m)[..., None] + i[..., None] * k / 4
    shown = torch.einsum("bhkv,bhk->bhv", memory, q)
    shown = shown / torch.clamp((total * q).sum(-1).abs(), min=1)[..., None]
    h = affine(p, "h", U=torch.sigmoid(affine(p, "o", W=x)) * shown.flatten(1))
    back = torch.exp(-new)
    return h, (memory * back[..., None, None]).flatten(1), (total * back[..., None]).flatten(1), new


def gla(p: P, x: Tensor, states: States) -> States:
    s = states[1].reshape(len(x), 4, 16, 16)
    q, k, v, a = (heads_of(affine(p, name, W=x)) for name in "qkva")
    s = torch.sigmoid(a)[..., None] ** (1 / 16) * s + torch.einsum("bhk,bhv->bhkv", k, v)
    shown = torch.nn.functional.layer_norm(torch.einsum("bhkv,bhk->bhv", s, q / 4), (16,), eps=1e-5)
    gate = torch.nn.functional.silu(affine(p, "g", W=x))
    return affine(p, "h", U=gate * p["scale"] * shown.flatten(1)), s.flatten(1)


def unit(v: Tensor) -> Tensor:
    return v / torch.sqrt(v.square().sum(-1, keepdim=True) + 1e-6)


def deltanet(p: P, x: Tensor, states: States) -> States:
    """S (I − β k kᵀ) + β v kᵀ, with the products of matrices written out."""
    s = states[1].reshape(len(x), 4, 16, 16).mT  # values by keys, as in the paper
    q, k = (unit(torch.nn.functional.silu(heads_of(affine(p, name, W=x)))) for name in "qk")
    v, beta = (
        torch.nn.functional.silu(heads_of(affine(p, "v", W=x))),
        torch.sigmoid(affine(p, "b", W=x))[..., None, None],
    )
    one = torch.eye(16, dtype=x.dtype)
    s = s @ (one - beta * k[..., :, None] * k[..., None, :]) + beta * v[..., :, None] * k[..., None, :]
    return affine(p, "h", U=(s @ q[..., None])[..., 0].flatten(1)), s.mT.flatten(1)


def rwkv7(p: P, x: Tensor, states: States) -> States:
    """S (diag(w) − κ̂ᵀ (a ⊙ κ̂)) + vᵀ k̃, with the products of matrices written out."""
    _, s, before = states
    s = s.reshape(len(x), 4, 16, 16).mT
    r, k, v, d, a = (heads_of(affine(p, name, U=torch.lerp(x, before, p[f"mu_{name}"]))) for name in "rkvwa")
    w, a = torch.exp(-0.606531 * torch.sigmoid(d)), torch.sigmoid(a)
    kappa = unit(k * p["xi"].reshape(4, 16))
    added = k * torch.lerp(torch.ones_like(a), a, p["alpha"].reshape(4, 16))
    s = (
        s @ (torch.diag_embed(w) - kappa[..., :, None] * (a * kappa)[..., None, :])
        + v[..., :, None] * added[..., None, :]
    )
    return affine(p, "h", U=(s @ r[..., None])[..., 0].flatten(1)), s.mT.flatten(1), x


#: By the catalogue's name.
STEPS: Mapping[str, Step] = {
    "lstm-peephole": peephole,
    "lstm-layernorm": layernorm,
    "janet": janet,
    "mgu": mgu,
    "mingru": mingru,
    "minlstm": minlstm,
    "indrnn": indrnn,
    "sru": sru,
    "qrnn": qrnn,
    "rhn": rhn,
    "fastgrnn": fastgrnn,
    "antisymmetric": antisymmetric,
    "lem": lem,
    "cornn": cornn,
    "unicornn": unicornn,
    "ltc": ltc,
    "cfc": cfc,
    "lru": lru,
    "rg-lru": rglru,
    "s4d": s4d,
    "slstm": slstm,
    "mlstm": mlstm,
    "gla": gla,
    "deltanet": deltanet,
    "rwkv7": rwkv7,
}


def run(step: Step, p: P, x: Tensor, states: States) -> tuple[Tensor, States]:
    """The first state at every step, and the last states."""
    output = []
    for now in x:
        states = step(p, now, states)
        output.append(states[0])
    return torch.stack(output), states
