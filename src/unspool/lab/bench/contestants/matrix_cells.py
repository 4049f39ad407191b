"""Cells whose state is a matrix per head: a layer of ours, a loop of torch operations, and a scan of JAX.

The equations of the other two are written once, for torch and jax.numpy alike. All that does not read the state stands
before or after the loop over time, over all steps at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unspool.cells.linear_attention import DeltaNet, GatedLinearAttention, LinearAttention
from unspool.lab.bench.contestants.contestant import Contestant, MissingError
from unspool.lab.bench.contestants.modules import of_module
from unspool.nn import Recurrent

HEADS = 4
#: torch or jax.numpy, the parameters by name, and an array.
Library = Any
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class MatrixCell:
    """A cell of ours, and its equations around and inside a loop over time."""

    cell: type[LinearAttention]
    #: (library, parameters, x) → what each step reads, (time, batch, heads, size) each.
    before: Callable[[Library, Arrays, Any], tuple[Any, ...]]
    #: (library, state, what this step reads) → (state, what the heads show).
    step: Callable[[Library, Any, tuple[Any, ...]], tuple[Any, Any]]
    #: (library, parameters, x, what the heads show at all steps) → output.
    after: Callable[[Library, Arrays, Any, Any], Any]


def _sigmoid(library: Library, v: Any) -> Any:
    return 1 / (1 + library.exp(-v))


def _heads(v: Any) -> Any:
    return v.reshape(*v.shape[:-1], HEADS, -1)


def _map(p: Arrays, name: str, x: Any) -> Any:
    return x @ p[f"W_{name}"].T + p.get(f"b_{name}", 0)


def _silu(library: Library, v: Any) -> Any:
    return v * _sigmoid(library, v)


def _outer(a: Any, b: Any) -> Any:
    return a[..., :, None] * b[..., None, :]


def _read(library: Library, v: Any, s: Any) -> Any:
    return library.einsum("bhk,bhkv->bhv", v, s)


def _before_gla(library: Library, p: Arrays, x: Any) -> tuple[Any, ...]:
    q, k, v, a = (_heads(_map(p, name, x)) for name in "qkva")
    return q / q.shape[-1] ** 0.5, k, v, _sigmoid(library, a) ** (1 / 16)


def _step_gla(library: Library, s: Any, now: tuple[Any, ...]) -> tuple[Any, Any]:
    q, k, v, a = now
    s = a[..., None] * s + _outer(k, v)
    return s, _read(library, q, s)


def _after_gla(library: Library, p: Arrays, x: Any, shown: Any) -> Any:
    shown = shown - shown.mean(axis=-1, keepdims=True)
    shown = shown / library.sqrt((shown * shown).mean(axis=-1, keepdims=True) + 1e-5)
    shown = p["scale"] * shown.reshape(*x.shape[:2], -1)
    return (_silu(library, _map(p, "g", x)) * shown) @ p["U_h"].T


def _before_deltanet(library: Library, p: Arrays, x: Any) -> tuple[Any, ...]:
    def unit(v: Any) -> Any:
        return v / library.sqrt((v * v).sum(axis=-1, keepdims=True) + 1e-6)

    q, k, v = (_heads(_silu(library, _map(p, name, x))) for name in "qkv")
    return unit(q), unit(k), v, _sigmoid(library, _map(p, "b", x))[..., None]


def _step_deltanet(library: Library, s: Any, now: tuple[Any, ...]) -> tuple[Any, Any]:
    q, k, v, b = now
    s = s + _outer(b * k, v - _read(library, k, s))
    return s, _read(library, q, s)


def _after_deltanet(library: Library, p: Arrays, x: Any, shown: Any) -> Any:  # noqa: ARG001 - as the others
    return shown.reshape(*x.shape[:2], -1) @ p["U_h"].T


CELLS: Mapping[str, MatrixCell] = {
    "GLA": MatrixCell(GatedLinearAttention, _before_gla, _step_gla, _after_gla),
    "DeltaNet": MatrixCell(DeltaNet, _before_deltanet, _step_deltanet, _after_deltanet),
}


def unspool_kernel(layer: Recurrent, x: Tensor) -> Contestant:
    """Our layer."""
    return of_module(layer, lambda: layer(x)[0])


def torch_loop(kind: MatrixCell, layer: Recurrent, x: Tensor) -> Contestant:
    """A loop over time in torch, on the layer's parameters."""
    p = dict(layer.named_parameters())

    def forward() -> Tensor:
        read, shown = kind.before(torch, p, x), []
        s = x.new_zeros(*read[0].shape[1:], read[2].shape[-1])
        for now in zip(*(part.unbind() for part in read), strict=True):
            s, one = kind.step(torch, s, now)
            shown.append(one)
        output: Tensor = kind.after(torch, p, x, torch.stack(shown))
        return output

    return of_module(layer, forward)


def jax_scan(kind: MatrixCell, layer: Recurrent, x: Tensor, threads: int) -> Contestant:
    """lax.scan under jit."""
    os.environ.setdefault("NPROC", str(threads))  # read once, when XLA makes its pool of threads
    try:
        import jax
        from jax import numpy as jnp
    except ImportError as error:
        raise MissingError(f"jax is not installed ({error})") from error
    weights = {name: jnp.asarray(part.detach().numpy()) for name, part in layer.named_parameters()}
    given = jnp.asarray(x.numpy())

    def run(p: Arrays, x: Any) -> Any:
        read = kind.before(jnp, p, x)
        start = jnp.zeros((*read[0].shape[1:], read[2].shape[-1]), x.dtype)
        shown = jax.lax.scan(lambda s, now: kind.step(jnp, s, now), start, read)[1]
        return kind.after(jnp, p, x, shown)

    ready: Callable[[Any], Any] = jax.block_until_ready
    infer, train = jax.jit(run), jax.jit(jax.grad(lambda p, x: run(p, x).sum()))
    return Contestant(
        lambda: ready(infer(weights, given)),
        lambda: ready(train(weights, given)),
        gradients=lambda found: [np.asarray(found[name]) for name in weights],
    )
