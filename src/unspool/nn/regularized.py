"""Regularized: a cell over time with dropout or zoneout in its recurrent connections.

Masks are states of equations derived from the cell's, so a kernel runs them as it runs any cell. All masks are drawn
from torch's global generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from unspool.cells import derived
from unspool.cells.equations import Equations
from unspool.errors import ArgumentError
from unspool.nn.checks import check_probability
from unspool.nn.layout import Tensors
from unspool.nn.runner import Runner
from unspool.nn.unroll import States, Trace

#: What to do where a layer must compute the same every time.
GIVE_PLAIN_LAYERS = "Give layers without recurrent dropout, weight dropout and zoneout"


@dataclass(frozen=True)
class Rates:
    """The probabilities of the ways to regularize a recurrent layer; see `Stack` for what each does."""

    recurrent_dropout: float = 0.0
    weight_dropout: float = 0.0
    zoneout: float = 0.0

    def __post_init__(self) -> None:
        for name, p in vars(self).items():
            check_probability(name, p)


class Regularized:
    """One cell's equations over time at rates that are not all zero. Its states are those of the plain cell."""

    def __init__(self, rates: Rates, plain: Runner, input_size: int, hidden_size: int) -> None:
        self.rates, self.plain = rates, plain
        equations = plain.equations
        self._dropped = [name in equations.recurrent_matrices for name in equations.parameters]
        names = tuple(equations.states)
        masked = self._with_masks(equations)
        if rates.weight_dropout and not any(self._dropped):
            raise _no_effect("weight_dropout", rates.weight_dropout, equations)
        self._mask_sizes = [
            equations.size(width, input_size, hidden_size) for width in list(masked.states.values())[len(names) :]
        ]
        self._training = self._evaluation = plain
        if rates.zoneout:
            self._training = Runner(derived.with_zoneout(masked, names), input_size, hidden_size)
            expected = derived.with_expected_zoneout(equations, names)
            self._evaluation = Runner(expected, input_size, hidden_size)
        elif rates.recurrent_dropout:
            self._training = Runner(masked, input_size, hidden_size)

    def _with_masks(self, equations: Equations) -> Equations:
        """The equations with the masks of recurrent dropout as further states, where there is dropout."""
        p = self.rates.recurrent_dropout
        if not p:
            return equations
        masked = derived.with_masks(equations)
        if len(masked.states) == len(equations.states):
            raise _no_effect("recurrent_dropout", p, equations)
        return masked

    def runner(self, training: bool) -> Runner:
        """The runner for training or for evaluation."""
        return self._training if training else self._evaluation

    def run(
        self,
        training: bool,
        parameters: Tensors,
        x: Tensor,
        states: States,
        ends: Tensor | None,
        reverse: bool,
        trace: bool,
        recompute: int | str | None,
    ) -> tuple[Tensor, States, Trace]:
        """As `Runner.run` of the plain cell, with new masks at every call."""
        p = self.rates.zoneout
        masks: list[Tensor] = []
        if training:
            self.plain.boundary.check_parameters(parameters)
            parameters, masks = self._drop_weights(parameters), self._draw_masks(states[0])
        elif p:
            parameters = [*parameters, *(state.new_full(state.shape[1:], p) for state in states)]
        if training and p:
            output, final, values = self._run_in_parts(parameters, x, states, masks, ends, reverse, trace, recompute)
        else:
            start = (*states, *masks)
            run = self.runner(training).run
            output, final, values = run(parameters, x, start, ends, reverse, trace, recompute)
        named = self.plain.equations.named if trace else ()
        return output, final[: len(states)], {name: values[name] for name in named}

    def _draw_masks(self, state: Tensor) -> list[Tensor]:
        return [draw_mask(state, (len(state), size), self.rates.recurrent_dropout) for size in self._mask_sizes]

    def _drop_weights(self, parameters: Tensors) -> Tensors:
        p = self.rates.weight_dropout
        if not p:
            return parameters
        pairs = zip(parameters, self._dropped, strict=True)
        return [tensor * draw_mask(tensor, tensor.shape, p) if dropped else tensor for tensor, dropped in pairs]

    def _run_in_parts(
        self,
        parameters: Tensors,
        x: Tensor,
        states: States,
        masks: list[Tensor],
        ends: Tensor | None,
        reverse: bool,
        trace: bool,
        recompute: int | str | None,
    ) -> tuple[Tensor, States, Trace]:
        """Zoneout in training. A step uses one binary digit of a random number; a part has as many steps as digits."""
        digits = 1 - round(math.log2(torch.finfo(states[0].dtype).eps))
        every = digits if recompute == "sqrt" else recompute
        firsts = range(0, max(len(x), 1), digits)
        parts: dict[int, tuple[Tensor, Trace]] = {}
        for first in reversed(firsts) if reverse else firsts:
            part = x[first : first + digits]
            within = None if ends is None else (ends - first).clamp(0, len(part))
            stays = [draw_digits(state, self.rates.zoneout, len(part)) for state in states]
            start = (*states, *masks, *stays)
            output, final, values = self._training.run(parameters, part, start, within, reverse, trace, every)
            parts[first] = output, values
            states = final[: len(states)]
        outputs, traces = zip(*(parts[first] for first in firsts), strict=True)
        return torch.cat(outputs), states, _join_traces(traces)


def _join_traces(traces: Sequence[Trace]) -> Trace:
    """The named values of parts of a sequence, one after the other in time."""
    return {name: torch.cat([values[name] for values in traces]) for name in traces[0]}


def drop_units(sequence: Tensor, p: float, training: bool = True) -> Tensor:
    """Dropout of a (time, batch, width) sequence with one mask for all its steps."""
    return sequence * draw_mask(sequence, sequence.shape[1:], p) if training and p else sequence


def draw_mask(like: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """Zeros with probability p, else 1/(1 − p)."""
    return functional.dropout(like.new_ones(*shape), p)


def draw_digits(state: Tensor, p: float, steps: int) -> Tensor:
    """One number per state value, from 0 up to 1, whose first `steps` binary digits are 1 with probability p."""
    drawn = state.new_empty(steps, *state.shape).bernoulli_(p)
    number = state.new_zeros(state.shape)
    for digit in reversed(drawn.unbind()):  # exact: halving and adding 0 or 1 never rounds so few digits
        number = (number + digit) / 2
    return number


def _no_effect(name: str, p: float, equations: Equations) -> ArgumentError:
    title = equations.title
    return ArgumentError.of(
        name, p, f"has no effect: no matrix of {title} reads a state", f"Give 0 for the layers of {title}"
    )
