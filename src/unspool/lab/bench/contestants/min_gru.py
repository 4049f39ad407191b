"""minGRU: as a cell of ours, as the scan in log space of its publication in plain torch, and as a scan of JAX."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unspool.cells import Cell, sigmoid
from unspool.cells.functions import where
from unspool.cells.symbols import Symbol
from unspool.lab.bench.cases import Array
from unspool.lab.bench.contestants.contestant import Contestant, MissingError
from unspool.lab.bench.contestants.modules import of_module
from unspool.nn import Recurrent

#: The parameters in the order of the layer's.
PARAMETERS = ("W_z", "b_z", "W_n", "b_n")


class MinGRU(Cell):
    """Minimal GRU: gate and candidate read x alone; the candidate is positive, as a scan in log space needs it."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x))
        v = self.linear("n", x)
        n = where(v >= 0, v + 0.5, sigmoid(v))
        return (1 - z) * h + z * n


def unspool_kernel(layer: Recurrent, x: Tensor) -> Contestant:
    """Our layer."""
    return of_module(layer, lambda: layer(x)[0])


def torch_scan(layer: Recurrent, x: Tensor) -> Contestant:
    """h_t = exp(a_t + log Σ_s≤t exp(log(z_s n_s) − a_s)) with a_t = Σ_s≤t log(1 − z_s), on the layer's parameters."""
    W_z, b_z, W_n, b_n = (getattr(layer, name) for name in PARAMETERS)

    def forward() -> Tensor:
        k, v = functional.linear(x, W_z, b_z), functional.linear(x, W_n, b_n)
        log_n = torch.where(v >= 0, (functional.relu(v) + 0.5).log(), -functional.softplus(-v))
        a = (-functional.softplus(k)).cumsum(0)
        return (a + (log_n - functional.softplus(-k) - a).logcumsumexp(0)).exp()

    return of_module(layer, forward)


def jax_scan(layer: Recurrent, x: Tensor, threads: int) -> Contestant:
    """lax.scan under jit, both products with x as one ahead of the loop."""
    os.environ.setdefault("NPROC", str(threads))  # read once, when XLA makes its pool of threads
    try:
        import jax
    except ImportError as error:
        raise MissingError(f"jax is not installed ({error})") from error
    arrays = [getattr(layer, name).detach().numpy() for name in PARAMETERS]
    weights = [jax.numpy.asarray(np.ascontiguousarray(array.T)) for array in arrays]
    given, run = jax.numpy.asarray(x.numpy()), _recurrence()
    ready: Callable[[Any], Any] = jax.block_until_ready
    infer = jax.jit(run)
    train = jax.jit(jax.value_and_grad(lambda weights, x: run(weights, x).sum()))

    def gradients(found: Any) -> list[Array]:
        return [np.asarray(part).T for part in found[1]]

    return Contestant(lambda: ready(infer(weights, given)), lambda: ready(train(weights, given)), gradients=gradients)


def _recurrence() -> Callable[[Any, Any], Any]:
    """(weights, x) → output."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def step(h: Any, a: Any) -> Any:
        k, v = jnp.split(a, 2, -1)
        z = jax.nn.sigmoid(k)
        h = (1 - z) * h + z * jnp.where(v >= 0, v + 0.5, jax.nn.sigmoid(v))
        return h, h

    def run(weights: Any, x: Any) -> Any:
        W_z, b_z, W_n, b_n = weights
        a = x @ jnp.concatenate([W_z, W_n], -1) + jnp.concatenate([b_z, b_n])
        return lax.scan(step, jnp.zeros((x.shape[1], W_z.shape[1]), x.dtype), a)[1]

    return run
