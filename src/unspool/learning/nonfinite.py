"""Divergence: losses that cannot be, and which parameter, output or gradient first held NaN or infinity."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unspool.errors import DataError, DivergenceError
from unspool.nn.leaves import leaves

T = TypeVar("T")
#: What Python, torch and NumPy raise where they cannot compute with NaN or infinity, and how they speak of them.
NUMERIC = (ArithmeticError, ValueError, RuntimeError)
NONFINITE = re.compile(r"\b(nans?|infs?|infinity|infinite|finite|nonfinite)\b|∞", re.IGNORECASE)
#: Training has diverged at a loss per unit above the first number that is also the second times the first loss.
LARGEST_LOSS, GROWTH = 1e6, 1e3
#: No first loss is above this: targets are standardized, and of tokens and labels even a wild guess costs less.
LARGEST_FIRST = 1e12
#: Rounding may bring a loss of almost 0 below it, but by less than this. No task has a loss that is negative in itself.
ROUNDING = 1.0


def find_absurd_loss(loss: float, first: float | None, name: str = "loss") -> str:
    """Describe a loss that only a model that has diverged can have; empty for any other.

    Args:
        loss: The mean loss per unit.
        first: The first one of the run, in training if there is no other; None if this is it.
        name: What a message calls it.

    Example:
        find_absurd_loss(1e28, 2.3)  # "the loss is 1e+28, after 2.3 at first"
    """
    if not math.isfinite(loss):
        return f"the {name} is not finite"
    if first is None:
        return f"the {name} is {loss:.3g} at first" if abs(loss) > LARGEST_FIRST else ""
    exploded = abs(loss) > max(LARGEST_LOSS, GROWTH * abs(first))
    return f"the {name} is {loss:.3g}, after {first:.3g} at first" if exploded or loss < -ROUNDING < 0 < first else ""


def refuse_huge_weights(learner: nn.Module) -> None:
    """Refuse weights with which nothing can be computed: their squares are beyond the numbers of their type.

    Raises:
        DivergenceError: `diagnose` adds which parameter has the largest.
    """
    for parameter in learner.parameters():
        limit = math.sqrt(torch.finfo(parameter.dtype).max) if parameter.is_floating_point() else math.inf
        if parameter.numel() and float(parameter.detach().abs().max()) > limit:
            raise DivergenceError(f"a weight is beyond {limit:.2g}, so that its square is infinite")


def trace_nonfinite(learner: nn.Module, batch: Any, state: Any, fault: str = "the loss is not finite") -> str:
    """Describe where NaN or infinity came from: a parameter, the first output that held it, or a gradient.

    Args:
        learner: The model. It is not changed: a copy of it reads the batch once more.
        batch: What it read when the loss or a gradient was not finite.
        state: The state that it started in.
        fault: What is wrong where all of these are finite.
    """
    if bad := find_nonfinite(learner):
        return bad
    twin = copy.deepcopy(learner)
    seen = _watch(twin, lambda: twin(batch, state))
    if seen.bad:
        return seen.bad
    return _find_bad_gradient(learner) or f"{fault}; {seen.low or _describe_largest(learner)}"


def _find_bad_gradient(learner: nn.Module) -> str | None:
    for name, parameter in learner.named_parameters():
        gradient = parameter.grad
        if gradient is not None and not (gradient._values() if gradient.is_sparse else gradient).isfinite().all():
            return f"the gradient of {name} holds {_kind(gradient.to_dense())}"
    return None


def find_nonfinite(learner: nn.Module, optimizer: Optimizer | None = None, state: Any = None) -> str | None:
    """Describe the first parameter or buffer with NaN or infinity in it, or in its state in the optimizer, if any.

    Args:
        learner: The model.
        optimizer: Its optimizer, if that is looked at too.
        state: The carried state, likewise.
    """
    if bad_buffer := _find_bad_buffer(learner):
        return bad_buffer
    for name, parameter in learner.named_parameters():
        if not parameter.detach().isfinite().all():
            return f"the parameter {name} holds {_kind(parameter)}"
        if optimizer is not None and (bad_state := _find_bad_state(name, optimizer.state.get(parameter, {}))):
            return bad_state
    bad = next((leaf for leaf in leaves(state) if not leaf.isfinite().all()), None)
    return None if bad is None else f"the carried state holds {_kind(bad)}"


def _find_bad_buffer(learner: nn.Module) -> str | None:
    for name, buffer in learner.named_buffers():
        if buffer.isnan().any():  # a mask may hold infinity
            return f"the buffer {name} holds NaN"
    return None


def _find_bad_state(name: str, state: Mapping[str, Any]) -> str | None:
    for key, value in state.items():
        if isinstance(value, Tensor) and not value.isfinite().all():
            return f"the optimizer's {key} of the parameter {name} holds {_kind(value)}"
    return None


def diagnose(learner: nn.Module, use: Callable[[], T]) -> tuple[T | None, DivergenceError | None]:
    """Use a model, and find out whether NaN or infinity kept it from being used.

    Args:
        learner: The model.
        use: Evaluates it, samples from it, predicts with it. It raises `DivergenceError` for a result that is not
            finite. After that, or after another error that speaks of NaN or infinity, it is called once more.

    Returns:
        What `use` gave, and None; or None, and an error that says where NaN or infinity came from. Its cause is the
        error of `use`. An error that does not come from NaN or infinity is raised as it is.

    Example:
        metrics, fault = diagnose(model, lambda: task.evaluate(model, "validation"))
    """
    if bad := find_nonfinite(learner):
        return None, DivergenceError(bad)
    try:
        return use(), None
    except DivergenceError as error:
        return None, _diverged(f"{error}; {_find_source(learner, use)}", error)
    except NUMERIC as error:
        seen = _watch(learner, use) if _speaks_of_nonfinite(error) else Sightings()
        if not seen.bad:
            raise
        return None, _diverged(seen.bad, error)


def _diverged(fault: str, cause: Exception) -> DivergenceError:
    error = DivergenceError(fault)
    error.__cause__ = cause
    return error


def _speaks_of_nonfinite(error: Exception) -> bool:
    return NONFINITE.search(str(error)) is not None and not isinstance(error, DataError)


def _find_source(learner: nn.Module, use: Callable[[], Any]) -> str:
    """What most probably made a result that is not finite."""
    seen = _watch(learner, use)
    return seen.bad or seen.low or _describe_largest(learner)


def _describe_largest(learner: nn.Module) -> str:
    """The parameter with the largest weight: what is computed with it overflows first."""
    sizes = {name: float(one.detach().abs().max()) for name, one in learner.named_parameters() if one.numel()}
    if not sizes:
        return "the model has no parameters"
    name = max(sizes, key=lambda one: sizes[one])
    return f"the largest weight is {sizes[name]:.3g}, in the parameter {name}"


@dataclass
class Sightings:
    """The first outputs of modules that were not finite.

    Attributes:
        bad: The first with NaN or +∞ in it, in words; empty if there is none.
        low: The first with −∞ in it, likewise. It may be an overflow, or a mask, such as a CRF's of transitions that
            are forbidden.
    """

    bad: str = ""
    low: str = ""

    def note(self, place: str, output: Any) -> None:
        """Look at an output, whose place is given in words."""
        for leaf in leaves(output):
            values = leaf.detach()
            if not self.bad and not values.isfinite().all():
                self._note_nonfinite(place, values)

    def _note_nonfinite(self, place: str, values: Tensor) -> None:
        if values.isnan().any() or values.isposinf().any():
            before = f"; before it, {self.low}" if self.low else ""
            self.bad = f"{place} holds {_kind(values)}{before}"
        elif not self.low:
            self.low = f"{place} holds −infinity"


def _watch(learner: nn.Module, use: Callable[[], Any]) -> Sightings:
    """Use a model once more, whatever it raises, and see which outputs are not finite."""
    seen = Sightings()

    def watch(name: str) -> Any:
        def see(module: nn.Module, _inputs: Any, output: Any) -> None:
            seen.note(f"the output of {name or 'the model'} ({type(module).__name__})", output)

        return see

    random = torch.get_rng_state()
    hooks = [module.register_forward_hook(watch(name)) for name, module in learner.named_modules()]
    try:
        with torch.no_grad(), suppress(Exception):
            use()
    finally:
        for hook in hooks:
            hook.remove()
        torch.set_rng_state(random)
    return seen


def _kind(values: Tensor) -> str:
    return "NaN" if values.detach().isnan().any() else "infinity"
