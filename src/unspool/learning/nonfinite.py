"""NaN and infinity in a model: which parameter, output or gradient held them first, in training or in use."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unspool.errors import DivergenceError
from unspool.nn.leaves import leaves

T = TypeVar("T")
#: What to change where a model has diverged.
REMEDY = "Lower `lr`, or clip gradients with `clip=1`"


def trace_nonfinite(learner: nn.Module, batch: Any, state: Any) -> str:
    """Describe where NaN or infinity came from: a parameter, the first output that held it, or a gradient.

    Args:
        learner: The model. It is not changed: a copy of it reads the batch once more.
        batch: What it read when the loss or a gradient was not finite.
        state: The state that it started in.
    """
    if bad := find_nonfinite(learner):
        return bad
    twin = copy.deepcopy(learner)
    if bad := _find_bad_output(twin, lambda: twin(batch, state)):
        return bad
    for name, parameter in learner.named_parameters():
        gradient = parameter.grad
        if gradient is not None and not (gradient._values() if gradient.is_sparse else gradient).isfinite().all():
            return f"the gradient of {name} holds {_kind(gradient.to_dense())}"
    return "the loss is not finite"


def find_nonfinite(learner: nn.Module, optimizer: Optimizer | None = None, state: Any = None) -> str | None:
    """Describe the first parameter or buffer with NaN or infinity in it, or in its state in the optimizer, if any.

    Args:
        learner: The model.
        optimizer: Its optimizer, if that is looked at too.
        state: The carried state, likewise.
    """
    for name, buffer in learner.named_buffers():
        if buffer.isnan().any():  # a mask may hold infinity
            return f"the buffer {name} holds NaN"
    for name, parameter in learner.named_parameters():
        if not parameter.detach().isfinite().all():
            return f"the parameter {name} holds {_kind(parameter)}"
        if optimizer is not None and (bad_state := _find_bad_state(name, optimizer.state.get(parameter, {}))):
            return bad_state
    bad = next((leaf for leaf in leaves(state) if not leaf.isfinite().all()), None)
    return None if bad is None else f"the carried state holds {_kind(bad)}"


def _find_bad_state(name: str, state: Mapping[str, Any]) -> str | None:
    for key, value in state.items():
        if isinstance(value, Tensor) and not value.isfinite().all():
            return f"the optimizer's {key} of the parameter {name} holds {_kind(value)}"
    return None


def diagnose(learner: nn.Module, use: Callable[[], T]) -> tuple[T | None, str]:
    """Use a model, and find out whether NaN or infinity kept it from being used.

    Args:
        learner: The model.
        use: Evaluates it, samples from it, predicts with it. It raises `DivergenceError` for a result that is not
            finite; whatever else it raises may be a consequence of NaN too. After a failure it is called once more.

    Returns:
        What `use` gave, and an empty text; or None, and where NaN or infinity came from.

    Example:
        metrics, fault = diagnose(model, lambda: task.evaluate(model, "validation"))
    """
    if bad := find_nonfinite(learner):
        return None, bad
    try:
        return use(), ""
    except Exception as error:
        bad = _find_bad_output(learner, use)
        if isinstance(error, DivergenceError):
            return None, f"{error}; {bad}" if bad else str(error)
        if bad is None:
            raise
        return None, bad


def _find_bad_output(learner: nn.Module, use: Callable[[], Any]) -> str | None:
    """The first module, in the order in which they return, whose output is not finite while the model is used."""
    random = torch.get_rng_state()
    with _watched(learner) as found, torch.no_grad(), suppress(Exception):
        use()
    torch.set_rng_state(random)
    return found[0] if found else None


@contextmanager
def _watched(learner: nn.Module) -> Iterator[list[str]]:
    """A context in which outputs that are not finite are noted, the first one first."""
    found: list[str] = []

    def watch(name: str) -> Any:
        def see(module: nn.Module, _inputs: Any, output: Any) -> None:
            bad = next((leaf for leaf in leaves(output) if not leaf.detach().isfinite().all()), None)
            if bad is not None and not found:
                found.append(f"the output of {name or 'the model'} ({type(module).__name__}) holds {_kind(bad)}")

        return see

    hooks = [module.register_forward_hook(watch(name)) for name, module in learner.named_modules()]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _kind(values: Tensor) -> str:
    return "NaN" if values.detach().isnan().any() else "infinity"
