"""Teacher forcing, free running, and the schedules between them: how often a model is fed the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, UnknownNameError

KINDS = ("always", "never", "linear", "exponential", "inverse-sigmoid")


@dataclass(frozen=True)
class Forcing:
    """The probability p of feeding the truth, as training goes from progress 0 to 1.

        always            p = 1: teacher forcing
        never             p = 0: free running
        linear            p = start + (end − start)·progress
        exponential       p = start·(end / start)^progress, end > 0
        inverse-sigmoid   p = k / (k + exp(i / k)), i = 2k·ln k·progress, shifted and scaled to go from start to end

    The last is the scheduled sampling of Bengio et al. (2015) with k = `steepness` > 1; it is half-way at
    progress ½, nearly linear for small k, and the larger k the more sudden.
    """

    kind: str
    start: float = 1.0
    end: float = 0.0
    steepness: float = 100.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownNameError.among("kind", self.kind, KINDS)
        for name in ("start", "end"):
            _check_share(name, getattr(self, name))
        if self.kind in ("always", "never") and (self.start, self.end) != (1.0, 0.0):
            problem = f"change nothing where kind is {self.kind!r}"
            raise ArgumentError.of("start, end", (self.start, self.end), problem, "Leave them out, or take 'linear'")
        if self.kind == "exponential" and min(self.start, self.end) == 0:
            name = "end" if self.end == 0 else "start"
            problem = "is 0, which an exponential never reaches"
            raise ArgumentError.of(name, getattr(self, name), problem, f"Give a small number, such as {name}=0.01")
        if not _is_number(self.steepness) or not 1 < self.steepness < math.inf:
            raise ArgumentError.of("steepness", self.steepness, "is not a number above 1", "Give 100")

    def share(self, progress: float) -> float:
        """p at `progress`, from 0 at the beginning of training to 1 at its end."""
        _check_share("progress", progress)
        if self.kind in ("always", "never"):
            return float(self.kind == "always")
        if self.kind == "exponential":
            share = math.pow(self.start, 1 - progress) * math.pow(self.end, progress)
        else:
            left = 1 - progress
            if self.kind == "inverse-sigmoid":  # k / (k + exp(i / k)) = ½(1 − tanh((progress − ½)·ln k))
                rate = math.log(self.steepness)
                left = (1 - math.tanh((progress - 0.5) * rate) / math.tanh(0.5 * rate)) / 2
            share = self.start * left + self.end * (1 - left)
        return min(max(share, min(self.start, self.end)), max(self.start, self.end))  # no further, by rounding


def free_run(
    predict: Callable[[Tensor, Any], tuple[Tensor, Any]],
    ids: Tensor,
    state: Any,
    truth: float,
    generator: torch.Generator | None = None,
    greedy: bool = False,
) -> tuple[Tensor, Any]:
    """Logits (time, rows, V) of what follows each step, and the last state, the model being fed its own words.

    `predict(ids_t, state) -> (logits, state)` is one step: (rows,) to (rows, V). At step 0 it reads ids[0]; at each
    later step t a row reads ids[t] with probability `truth`, and otherwise a token drawn from its logits of step t − 1,
    or with `greedy` the likeliest. No gradient flows through the choice of a token. `truth=1` is teacher forcing and
    equals the parallel pass; `truth=0` is free running.

    The luck of a row at a step depends on the generator, the shape of `ids` and its place there alone.
    """
    if not isinstance(ids, Tensor):
        raise ArgumentTypeError.of("ids", ids, "is not a torch tensor", "Convert it by torch.as_tensor")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise DTypeError.of("ids", ids.dtype, "is not an integer dtype", "Convert it by ids.long()")
    if ids.dim() != 2 or not len(ids):
        raise ShapeError.of("ids", tuple(ids.shape), "is not (time, rows) with a step at least", "Give that layout")
    _check_share("truth", truth)
    device = None if generator is None else generator.device
    luck = torch.rand(2, *ids.shape, dtype=torch.float64, generator=generator, device=device).to(ids.device)
    told = luck[0] < truth  # below 1 always, below 0 never
    logits: list[Tensor] = []
    for t, tokens in enumerate(ids):
        if t and truth < 1:
            own = logits[-1].detach()
            own = own.argmax(-1) if greedy else _draw(own, luck[1, t])
            tokens = torch.where(told[t], tokens, own.to(tokens.dtype))
        predicted, state = predict(tokens, state)
        if predicted.dim() != 2 or len(predicted) != len(tokens):
            problem = f"is not ({len(tokens)}, V), a row of logits for each token"
            raise ShapeError.of("logits", tuple(predicted.shape), problem, "Let `predict` run one step, without time")
        logits.append(predicted)
    return torch.stack(logits), state


def _draw(logits: Tensor, luck: Tensor) -> Tensor:
    """A token a row, by where its luck, uniform in [0, 1), falls among the probabilities laid end to end."""
    reached = logits.double().softmax(-1).cumsum(-1)
    if reached.isnan().any():
        raise ArgumentError("the model gives NaN for logits. Check its parameters: training may have diverged.")
    return torch.searchsorted(reached, luck.unsqueeze(1) * reached[:, -1:], right=True).squeeze(1)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_share(name: str, value: Any) -> None:
    if not _is_number(value) or not 0 <= value <= 1:
        raise ArgumentError.of(name, value, "is not a number from 0 to 1", "Give a share of the whole")
