"""NaN and infinity in a model: which parameter, output or gradient held them first."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unspool.nn.leaves import leaves


def trace_nonfinite(learner: nn.Module, batch: Any, state: Any) -> str:
    """Describe where NaN or infinity came from: a parameter, the first output that held it, or a gradient.

    Args:
        learner: The model. It is not changed: a copy of it reads the batch once more.
        batch: What it read when the loss or a gradient was not finite.
        state: The state that it started in.
    """
    if bad := find_nonfinite(learner):
        return bad
    if bad := _find_bad_output(copy.deepcopy(learner), batch, state):
        return bad
    for name, parameter in learner.named_parameters():
        gradient = parameter.grad
        if gradient is not None and not (gradient._values() if gradient.is_sparse else gradient).isfinite().all():
            return f"the gradient of {name} holds {_kind(gradient.to_dense())}"
    return "the loss is not finite"


def find_nonfinite(learner: nn.Module, optimizer: Optimizer | None = None) -> str | None:
    """Describe the first parameter with NaN or infinity in it or in its state in the optimizer, if there is one."""
    for name, parameter in learner.named_parameters():
        if not parameter.detach().isfinite().all():
            return f"the parameter {name} holds {_kind(parameter)}"
        for key, value in (optimizer.state.get(parameter, {}) if optimizer is not None else {}).items():
            if isinstance(value, Tensor) and not value.isfinite().all():
                return f"the optimizer's {key} of the parameter {name} holds {_kind(value)}"
    return None


def _find_bad_output(learner: nn.Module, batch: Any, state: Any) -> str | None:
    """The first module, in the order in which they return, whose output is not finite."""
    found: list[str] = []

    def watch(name: str) -> Any:
        def see(module: nn.Module, _inputs: Any, output: Any) -> None:
            bad = next((leaf for leaf in leaves(output) if not leaf.detach().isfinite().all()), None)
            if bad is not None and not found:
                found.append(f"the output of {name or 'the model'} ({type(module).__name__}) holds {_kind(bad)}")

        return see

    for name, module in learner.named_modules():
        module.register_forward_hook(watch(name))
    random = torch.get_rng_state()
    with torch.no_grad():
        learner(batch, state)
    torch.set_rng_state(random)
    return found[0] if found else None


def _kind(values: Tensor) -> str:
    return "NaN" if values.detach().isnan().any() else "infinity"
