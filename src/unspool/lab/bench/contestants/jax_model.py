"""A whole language model in JAX with optax: one jitted function is the whole update."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from torch import nn

from unspool.lab.bench.contestants.contestant import MissingError
from unspool.lab.bench.contestants.language_models import Model, Update


def jax_optax(model: Model, threads: int) -> Update:
    """The model in JAX, from the same weights."""
    os.environ.setdefault("NPROC", str(threads))  # read once, when XLA makes its pool of threads
    try:
        import jax
        import optax
    except ImportError as error:
        raise MissingError(f"jax or optax is not installed ({error})") from error
    rule = optax.chain(
        optax.clip_by_global_norm(model.clip),
        optax.adam(model.lr) if model.optimizer == "adam" else optax.sgd(model.lr),
    )
    weights = _weights(model)
    ids, targets = (jax.numpy.asarray(part) for part in model.batch)
    held = [weights, rule.init(weights)]

    def step(weights: Any, state: Any) -> Any:
        loss, gradients = jax.value_and_grad(_loss)(weights, ids, targets)
        updates, state = rule.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    jitted = jax.jit(step, donate_argnums=(0, 1))

    def update() -> float:
        held[0], held[1], loss = jitted(*held)
        return float(loss)  # which waits for it

    return update


def _weights(model: Model) -> dict[str, Any]:
    """Those of torch's network; matrices as (in, out), which suits XLA."""
    import jax

    network = model.make_network(nn.LSTM)
    found = {name: part.detach().numpy() for name, part in network.named_parameters()}
    layers = [
        [
            found[f"lstm.weight_ih_l{layer}"].T,
            found[f"lstm.weight_hh_l{layer}"].T,
            found[f"lstm.bias_ih_l{layer}"],
            found[f"lstm.bias_hh_l{layer}"],
        ]
        for layer in range(model.layers)
    ]
    named = {
        "embedding": found["embedding.weight"],
        "layers": layers,
        "head": found["head.weight"].T,
        "bias": found["head.bias"],
    }
    return dict(jax.tree.map(lambda part: jax.numpy.asarray(np.ascontiguousarray(part)), named))


def _loss(weights: Any, ids: Any, targets: Any) -> Any:
    import jax
    import optax

    x = weights["embedding"][ids]
    for W, U, b, c in weights["layers"]:
        zero = jax.numpy.zeros((x.shape[1], U.shape[0]), x.dtype)

        def step(state: Any, a: Any, U: Any = U) -> Any:
            h, memory = state
            i, f, g, o = jax.numpy.split(a + h @ U, 4, -1)
            sigmoid, tanh = jax.nn.sigmoid, jax.numpy.tanh
            memory = sigmoid(f) * memory + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(memory)
            return (h, memory), h

        x = jax.lax.scan(step, (zero, zero), x @ W + b + c)[1]
    logits = x @ weights["head"] + weights["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()
