"""What is wrong with a model: where NaN or infinity came from, and which tensors of a file do not fit it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def find_fault(learner: nn.Module, batch: Any, carried: Any) -> str:
    """In words, the first module (in order of their ends) whose output is not finite for this batch."""
    if bad := find_bad_number(learner):
        return bad
    found: list[str] = []
    handles = []

    def watch(name: str) -> Any:
        def see(module: nn.Module, _inputs: Any, output: Any) -> None:
            bad = next((leaf for leaf in leaves(output) if not leaf.detach().isfinite().all()), None)
            if bad is not None and not found:
                found.append(f"the output of {name or 'the model'} ({type(module).__name__}) holds {_what(bad)}")

        return see

    again = copy.deepcopy(learner)
    for name, module in again.named_modules():
        handles.append(module.register_forward_hook(watch(name)))
    state = torch.get_rng_state()
    with torch.no_grad():
        again(batch, carried)
    torch.set_rng_state(state)
    if found:
        return found[0]
    for name, parameter in learner.named_parameters():
        gradient = parameter.grad
        if gradient is not None and not (gradient._values() if gradient.is_sparse else gradient).isfinite().all():
            return f"the gradient of {name} holds {_what(gradient.to_dense())}"
    return "the loss is not finite"


def find_bad_number(learner: nn.Module, optimiser: Optimizer | None = None) -> str | None:
    """In words, the first parameter that holds NaN or infinity, or whose memory in the optimiser does."""
    for name, parameter in learner.named_parameters():
        if not parameter.detach().isfinite().all():
            return f"the parameter {name} holds {_what(parameter)}"
        for key, value in (optimiser.state.get(parameter, {}) if optimiser is not None else {}).items():
            if isinstance(value, Tensor) and not value.isfinite().all():
                return f"the optimiser's {key} of the parameter {name} holds {_what(value)}"
    return None


def find_misfit(module: nn.Module, tensors: Mapping[str, Tensor]) -> str | None:
    """In words, the first tensor of a file that is not as the module has it, and how many others are not either."""
    expected = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    wrong = [name for name in (*expected, *sorted(given.keys() - expected)) if expected.get(name) != given.get(name)]
    if not wrong:
        return None
    name, more = wrong[0], len(wrong) - 1
    here, there = (f"of shape {shapes[name]}" if name in shapes else "missing" for shapes in (given, expected))
    others = f", and {more} more disagree{'s' * (more == 1)}" if more else ""
    return f"{name} is {here} in the file and {there} in the model{others}"


def leaves(tree: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and dicts, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple | list) else ()
    return [leaf for part in parts for leaf in leaves(part)]


def _what(values: Tensor) -> str:
    return "NaN" if values.detach().isnan().any() else "infinity"
