"""Teacher forcing, free running, and the schedules between them: how often the input of a step is the target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, UnknownNameError
from unspool.learning.device import where_float64
from unspool.nn.checks import has_whole_numbers

KINDS = ("always", "never", "linear", "exponential", "inverse-sigmoid")


@dataclass(frozen=True)
class TeacherForcing:
    """The probability p of teacher forcing, as training goes from progress 0 to 1: scheduled sampling.

        always            p = 1: teacher forcing
        never             p = 0: free running
        linear            p = start + (end − start)·progress
        exponential       p = start·(end / start)^progress, end > 0
        inverse-sigmoid   p = k / (k + exp(i / k)), i = 2k·ln k·progress, shifted and scaled to go from start to end

    The last is that of Bengio et al. (2015) with k = `steepness`: halfway at progress ½, nearly linear for small k, and
    the more sudden the larger k is.

    Args:
        kind: One of the names above.
        start: p at progress 0.
        end: p at progress 1.
        steepness: k, above 1, of inverse-sigmoid.

    Example:
        >>> TeacherForcing("linear", end=0.2).probability(0.5)
        0.6
    """

    kind: str
    start: float = 1.0
    end: float = 0.0
    steepness: float = 100.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownNameError.among("kind", self.kind, KINDS)
        for name in ("start", "end"):
            _check_probability(name, getattr(self, name))
        if self.kind in ("always", "never") and (self.start, self.end) != (1.0, 0.0):
            problem = f"change nothing where kind is {self.kind!r}"
            raise ArgumentError.of("start, end", (self.start, self.end), problem, "Leave them out, or use 'linear'")
        if self.kind == "exponential":
            self._check_above_zero()
        if not is_number(self.steepness) or not 1 < self.steepness < math.inf:
            raise ArgumentError.of("steepness", self.steepness, "is not a number above 1", "Give 100")

    def _check_above_zero(self) -> None:
        for name in ("end", "start"):
            if getattr(self, name) == 0:
                problem = "is 0, which an exponential never reaches"
                raise ArgumentError.of(name, getattr(self, name), problem, f"Give a small number, such as {name}=0.01")

    def probability(self, progress: float) -> float:
        """p at `progress`, which is 0 at the start of training and 1 at its end."""
        _check_probability("progress", progress)
        if self.kind in ("always", "never"):
            return float(self.kind == "always")
        if self.kind == "exponential":
            p = math.pow(self.start, 1 - progress) * math.pow(self.end, progress)
        else:
            left = 1 - progress
            if self.kind == "inverse-sigmoid":  # k / (k + exp(i / k)) = ½(1 − tanh((progress − ½)·ln k))
                slope = math.log(self.steepness)
                left = (1 - math.tanh((progress - 0.5) * slope) / math.tanh(0.5 * slope)) / 2
            p = self.start * left + self.end * (1 - left)
        return min(max(p, min(self.start, self.end)), max(self.start, self.end))  # no further, by rounding


def free_run(
    predict: Callable[[Tensor, Any], tuple[Tensor, Any]],
    ids: Tensor,
    state: Any,
    teacher_forcing: float,
    generator: torch.Generator | None = None,
    greedy: bool = False,
) -> tuple[Tensor, Any]:
    """Run a model step by step, on its own predictions or on the targets.

    At step 0 the input is ids[0]. At each later step t it is ids[t] with probability `teacher_forcing`, and otherwise a
    token drawn from the logits of step t − 1, or with `greedy` the most probable one. No gradient flows through the
    choice of a token. What is drawn for a sequence at a step depends on the generator, the shape of `ids` and its place
    there alone.

    Args:
        predict: One step, `(ids_t, state) -> (logits, state)`, from (batch,) to (batch, V).
        ids: The tokens of the targets, (time, batch).
        state: Where the model starts.
        teacher_forcing: The probability; 1 equals the parallel pass, 0 is free running.
        generator: Of the random numbers; by default torch's own.
        greedy: Whether the most probable token is taken.

    Returns:
        Logits (time, batch, V) of what follows each step, and the last state.

    Example:
        logits, state = free_run(model.predict, ids, None, teacher_forcing=0.5)
    """
    _check_ids(ids)
    _check_probability("teacher_forcing", teacher_forcing)
    device = None if generator is None else generator.device
    drawn = torch.rand(2, *ids.shape, dtype=torch.float64, generator=generator, device=device)
    forced = (drawn[0] < teacher_forcing).to(ids.device)  # below 1 always, below 0 never
    logits: list[Tensor] = []
    for t, tokens in enumerate(ids):
        if t and teacher_forcing < 1:
            last = logits[-1].detach()
            own = last.argmax(-1) if greedy else _draw(last, drawn[1, t])
            tokens = torch.where(forced[t], tokens, own.to(tokens))
        predicted, state = predict(tokens, state)
        _check_logits(predicted, len(tokens))
        logits.append(predicted)
    return torch.stack(logits), state


def _check_logits(predicted: Tensor, rows: int) -> None:
    if predicted.dim() != 2 or len(predicted) != rows:
        problem = f"is not ({rows}, V), logits for each token"
        raise ShapeError.of("logits", tuple(predicted.shape), problem, "Let `predict` run one step, without time")


def _check_ids(ids: Any) -> None:
    if not isinstance(ids, Tensor):
        raise ArgumentTypeError.of("ids", ids, "is not a torch tensor", "Convert it with torch.as_tensor")
    if not has_whole_numbers(ids):
        raise DTypeError.of("ids", ids.dtype, "is not an integer dtype", "Convert it with ids.long()")
    if ids.dim() != 2 or not len(ids):
        raise ShapeError.of("ids", tuple(ids.shape), "is not (time, batch) with at least one step", "Give that layout")


def _draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """One token per sequence: where its uniform number from [0, 1) falls among the cumulative probabilities."""
    reached = where_float64(logits).double().softmax(-1).cumsum(-1)
    if reached.isnan().any():
        raise ArgumentError("the model gives NaN for logits. Check its parameters: training may have diverged.")
    return torch.searchsorted(reached, uniform.to(reached.device).unsqueeze(1) * reached[:, -1:], right=True).squeeze(1)


def _check_probability(name: str, value: Any) -> None:
    if not is_number(value) or not 0 <= value <= 1:
        raise ArgumentError.of(name, value, "is not a number from 0 to 1", "Give a fraction")
