"""JAX: lax.scan under jit, the products with x ahead of the loop, the gates in one product, weights as arguments."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from unspool.lab.bench.cases import Array, Case
from unspool.lab.bench.contestants.contestant import Contestant, MissingError


def jax_scan(case: Case, threads: int) -> Contestant:
    """The case in JAX, with matrices in the layout that suits it, (in, out)."""
    os.environ.setdefault("NPROC", str(threads))  # read once, when XLA makes its pool of threads
    try:
        import jax
    except ImportError as error:
        raise MissingError(f"jax is not installed ({error})") from error
    run = _recurrence(case)
    W, U, b, c = case.weights
    weights = [jax.numpy.asarray(np.ascontiguousarray(part)) for part in (W.T, U.T, b, c)]
    x = jax.numpy.asarray(case.x)
    ready: Callable[[Any], Any] = jax.block_until_ready
    infer = jax.jit(run)
    train = jax.jit(jax.value_and_grad(lambda weights, x: run(weights, x)[0].sum()))

    def gradients(found: Any) -> list[Array]:
        d_W, d_U, d_b, d_c = (np.asarray(part) for part in found[1])
        return [d_W.T, d_U.T, d_b, d_c]

    return Contestant(
        lambda: ready(infer(weights, x)),
        lambda: ready(train(weights, x)),
        lambda found: np.asarray(found[0]),
        gradients,
    )


def _recurrence(case: Case) -> Callable[[Any, Any], Any]:
    """(weights, x) → output and final states."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    sigmoid, tanh = jax.nn.sigmoid, jnp.tanh
    rows, H = case.point.B, case.point.H

    def elman(U: Any, _c: Any) -> Any:
        def step(h: Any, a: Any) -> Any:
            h = tanh(a + h @ U)
            return h, h

        return step

    def gru(U: Any, c: Any) -> Any:
        def step(h: Any, a: Any) -> Any:
            a_r, a_z, a_n = jnp.split(a, 3, -1)
            u_r, u_z, u_n = jnp.split(h @ U + c, 3, -1)
            r, z = sigmoid(a_r + u_r), sigmoid(a_z + u_z)
            n = tanh(a_n + r * u_n)
            h = (1 - z) * n + z * h
            return h, h

        return step

    def lstm(U: Any, _c: Any) -> Any:
        def step(state: Any, a: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(a + h @ U, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)
            return (h, c), h

        return step

    make_step = {"elman": elman, "gru": gru, "lstm": lstm}[case.cell]

    def run(weights: Any, x: Any) -> Any:
        W, U, b, c = weights
        a = x @ W + (b if case.cell == "gru" else b + c)
        zero = jnp.zeros((rows, H), x.dtype)
        final, output = lax.scan(make_step(U, c), (zero, zero) if case.cell == "lstm" else zero, a)
        return output, final

    return run
