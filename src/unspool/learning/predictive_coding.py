"""Predictive coding: recurrent layers learn from the errors of their own predictions, without a backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError, TrainingError
from unspool.nn import Recurrent
from unspool.nn.checks import check_input, check_lengths, check_like
from unspool.nn.layer import from_time_major, map_leaves, to_time_major, valid_steps
from unspool.nn.unroll import States

Gradients = tuple[dict[str, Tensor], ...]


@dataclass(frozen=True)
class Local:
    """What a batch came to."""

    loss: Tensor  # the top loss of the forward pass
    energy: tuple[float, float]  # E before the first iteration, which is the loss, and after the last
    gradients: Gradients  # by layer, and by the name that the parameter has there
    state: list[Any]  # each layer's final state in the forward pass


@dataclass(frozen=True)
class Alignment:
    """Cosines between two sets of gradients; NaN where one of the two is zero."""

    together: float
    layers: tuple[float, ...]


class PredictiveCoding:
    """Gradients for recurrent layers on top of each other, each of which knows its own errors and its neighbours'.

    A layer ℓ predicts its states at step t, by its cell, from its states at t − 1 and the layer below it at t:

        ŝ_t^ℓ = cell_ℓ(h_t^{ℓ−1}, s_{t−1}^ℓ)      ε_t^ℓ = s_t^ℓ − ŝ_t^ℓ      E = ½ Σ ‖ε_t^ℓ‖² + top_loss(h^L)

    The activities s (h alone, or an LSTM's h and c; h^0 is x) begin at the forward pass, where no error is. Then all of
    them descend at once, `iterations` times by `rate`, along

        ∂E/∂s_t^ℓ = ε_t^ℓ − (∂ŝ_{t+1}^ℓ/∂s_t^ℓ)ᵀ ε_{t+1}^ℓ − (∂ŝ_t^{ℓ+1}/∂s_t^ℓ)ᵀ ε_t^{ℓ+1}   on top: + ∂top_loss/∂h_t^L

    so that an error comes one neighbour further an iteration. The gradient of a layer's parameters is that of its own
    ½ Σ ‖ε^ℓ‖², the activities held. No graph is longer than one step of one cell.

    `fixed` holds predictions, Jacobians and the top loss's slope at the forward pass (Millidge, Tschantz and Buckley
    2020). At `rate=1`, k iterations then give the gradients of back-propagation through time along paths of up to k
    cells; as many as there are steps and layers together, the default, give all of it. E is not what descends then, and
    may rise.

    With `fixed=False` E descends, if `rate` is below 2/(1 + ‖∂ŝ_{t+1}/∂s_t‖ + ‖∂ŝ^{ℓ+1}/∂s^ℓ‖)², for which 0.1 is often
    small enough; an energy that rises says that it is not. The gradients come near to back-propagation's where errors
    are small and iterations many. How large errors become is up to the weight of `top_loss`: the mean over many rows
    makes them small.
    """

    def __init__(
        self, layers: Iterable[nn.Module], *, iterations: int | None = None, rate: float = 1.0, fixed: bool = True
    ) -> None:
        self.layers = _check_layers(layers)
        self.iterations = None if iterations is None else check_size("iterations", iterations)
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ArgumentError.of("rate", rate, "is not a positive number", "Give a step of descent, such as rate=1")
        if not isinstance(fixed, bool):
            raise ArgumentTypeError.of("fixed", fixed, "is neither True nor False", "Give one of the two")
        self.rate, self.fixed = float(rate), fixed

    def gradients(
        self,
        x: Tensor,
        top_loss: Callable[[Tensor], Tensor],
        *,
        state: Sequence[Any] | None = None,
        lengths: Sequence[int] | Tensor | None = None,
    ) -> Local:
        """Add to each parameter's `.grad`, as a backward pass would; also return what was added.

        x and `lengths` are what a layer takes, `state` has one state a layer. `top_loss` makes a number of the top
        layer's output, laid out as x and zero beyond a row's end: a read-out and its loss. It is called anew after each
        iteration, or with `fixed` at the forward pass and at the end. Parameters in it get their gradients too, at the
        last activities, or with `fixed` at the forward pass. If x wants a gradient, the lowest layer's errors give one
        to it, or to what it was made by, such as an embedding.
        """
        check_input(x, self.layers[0].input_size, None)
        for parameter in (parameter for layer in self.layers for parameter in layer.parameters()):
            check_like("x", x, parameter)
        batched, batch_first = x.dim() == 3, self.layers[0].batch_first
        sequence = to_time_major(x, batch_first)
        steps, rows, _ = sequence.shape
        live = _Live(steps, rows, None if lengths is None else check_lengths(lengths, steps, rows, x.device), x.device)
        given = self._check_state(state, rows, batched)
        levels = [_Level(layer, live, start, x) for layer, start in zip(self.layers, given, strict=True)]

        def top(h: Tensor) -> Tensor:
            return _check_loss(top_loss(from_time_major(live.spread(h), batched, batch_first)))

        with torch.enable_grad():
            lowest = sequence.detach()[live.valid].requires_grad_()
            activities, final = _run(levels, lowest)
            moment = _Moment(levels, lowest, activities, top)
            loss = moment.loss.detach()
            for _ in range(steps + len(levels) if self.iterations is None else self.iterations):
                activities = _descend(activities, moment.slopes(moment.errors(activities)), self.rate)
                moment = moment if self.fixed else _Moment(levels, lowest, activities, top)
            errors = moment.errors(activities)
            reached = top(activities[-1][0]) if self.fixed else moment.loss
            energy = float(loss), _half_squares(errors) + float(reached.detach())
            self._check_energy(*energy)
            gradients, slope = moment.learn(errors)
            roots = [(moment.loss, None), (sequence, live.spread(slope))]
            _go_back(self.layers, gradients, [root for root in roots if root[0].requires_grad])
        return Local(loss, energy, gradients, final if batched else map_leaves(lambda part: part.squeeze(0), final))

    def _check_state(self, state: Sequence[Any] | None, rows: int, batched: bool) -> Sequence[Any]:
        if state is None:
            return [None] * len(self.layers)
        if not isinstance(state, list | tuple) or len(state) != len(self.layers):
            count = len(self.layers)
            raise ArgumentError.of("state", state, f"is not a list of {count}", "Give one state a layer")
        state = state if batched else map_leaves(lambda part: part.unsqueeze(0), state)
        for layer, part in zip(self.layers, state, strict=True):
            layer.check_state(part, rows, next(layer.parameters(), None))
        return state

    def _check_energy(self, before: float, after: float) -> None:
        if math.isfinite(before) and not math.isfinite(after):
            raise TrainingError(
                f"the energy of predictive coding went from {before:.4g} to {after} at rate={self.rate}. Lower `rate`, "
                "or hold the predictions by fixed=True."
            )


def alignment(local: Sequence[Mapping[str, Tensor]], other: Sequence[Mapping[str, Tensor]]) -> Alignment:
    """Cosines between `Local.gradients` and other gradients of the same parameters, such as back-propagation's."""
    if [set(layer) for layer in local] != [set(layer) for layer in other]:
        names = [list(layer) for layer in other]
        raise ArgumentError.of("other", names, "has not the names of `local`", "Give each layer's gradients by name")
    layers = [[(layer[name], twin[name]) for name in layer] for layer, twin in zip(local, other, strict=True)]
    return Alignment(_cosine([pair for pairs in layers for pair in pairs]), tuple(map(_cosine, layers)))


class _Live:
    """The live steps of a ragged batch, those within their rows, as one list, and the place of the step before each.

    A history is (rows + live steps, width): each row's first state, then the state after each live step. `before` is
    where in it the old state of each live step is, `last` where the final state of each row is.
    """

    def __init__(self, steps: int, rows: int, ends: Tensor | None, device: torch.device) -> None:
        ends = torch.full((rows,), steps, device=device) if ends is None else ends
        self.valid = valid_steps(ends, steps).squeeze(-1)  # (time, rows)
        self.counts: list[int] = self.valid.sum(1).tolist()  # of live steps at each time
        first = torch.arange(rows, device=device)
        after = torch.cat([first, rows - 1 + self.valid.flatten().cumsum(0)]).view(steps + 1, rows)
        self.before, self.last = after[:-1][self.valid], after[ends, first]

    def spread(self, values: Tensor) -> Tensor:
        """(time, rows, width), zero where a row is over."""
        return values.new_zeros(*self.valid.shape, values.shape[-1]).index_put((self.valid,), values)


class _Level:
    """A layer on the live steps."""

    def __init__(self, layer: Recurrent, live: _Live, start: Any, like: Tensor) -> None:
        self.layer, self._live, self._like = layer, live, like
        self._given = None if start is None else map_leaves(Tensor.detach, start)

    @torch.no_grad()
    def run(self, below: Tensor) -> tuple[States, Any]:
        """The states after each step, one step after the other, and the final state as a layer gives it."""
        rows, first = len(self._live.last), 0
        histories = [torch.cat([start, start.new_zeros(len(below), start.shape[1])]) for start in self._start()]
        parameters = self.layer.cell_parameters()
        for count in self._live.counts:
            now = slice(first, first + count)
            old = [history[self._live.before[now]] for history in histories]
            new, _ = self.layer.step(parameters, below[now], old)
            for history, value in zip(histories, new, strict=True):
                history[rows + first : rows + first + count] = value
            first += count
        final = tuple(history[self._live.last] for history in histories)
        return tuple(history[rows:] for history in histories), final[0] if len(final) == 1 else final

    def predict(self, below: Tensor, states: States) -> States:
        """The states after each step, all steps at once, each from the state that stands before it."""
        old = [torch.cat(pair)[self._live.before] for pair in zip(self._start(), states, strict=True)]
        new, _ = self.layer.step(self.layer.cell_parameters(), below, old)
        return tuple(value.expand(len(below), -1) for value in new)

    def _start(self) -> States:
        """The first states; where they are learned, with their parameters' graph."""
        start = self.layer.initial_state(len(self._live.last), self._like) if self._given is None else self._given
        return (start,) if isinstance(start, Tensor) else tuple(start)


class _Moment:
    """Predictions and top loss of certain activities. These are leaves: so every graph ends within one step."""

    def __init__(
        self, levels: Sequence[_Level], lowest: Tensor, activities: Sequence[States], top: Callable[[Tensor], Tensor]
    ) -> None:
        self._layers = [level.layer for level in levels]
        self._states = [tuple(value.detach().requires_grad_() for value in states) for states in activities]
        self._below = [lowest, *(states[0] for states in self._states[:-1])]
        reads = zip(levels, self._below, self._states, strict=True)
        self._predictions = [level.predict(below, states) for level, below, states in reads]
        self.loss = top(self._states[-1][0])
        (self._top_slope,) = _pull([self.loss], [torch.ones_like(self.loss)], [self._states[-1][0]])

    def errors(self, activities: Sequence[States]) -> list[States]:
        """s − ŝ."""
        return [
            tuple(value - predicted.detach() for value, predicted in zip(*pair, strict=True))
            for pair in zip(activities, self._predictions, strict=True)
        ]

    def slopes(self, errors: Sequence[States]) -> list[list[Tensor]]:
        """∂E/∂s: an activity's own error, less what the errors at the next step and above pull, and the top's slope."""
        slopes: list[list[Tensor]] = []
        for states, below, predictions, own in zip(self._states, self._below, self._predictions, errors, strict=True):
            *later, lower = _pull(predictions, own, [*states, below])
            if slopes:
                slopes[-1][0] = slopes[-1][0] - lower
            slopes.append([error - pull for error, pull in zip(own, later, strict=True)])
        slopes[-1][0] = slopes[-1][0] + self._top_slope
        return slopes

    def learn(self, errors: Sequence[States]) -> tuple[Gradients, Tensor]:
        """The slopes of each layer's ½ Σ ‖ε‖² by its own parameters, and that of the lowest by x."""
        gradients = []
        for layer, predictions, own in zip(self._layers, self._predictions, errors, strict=True):
            named = {name: parameter for name, parameter in layer.named_parameters() if parameter.requires_grad}
            pulls = _pull(predictions, own, list(named.values()))
            gradients.append({name: -pull for name, pull in zip(named, pulls, strict=True)})
        (pull,) = _pull(self._predictions[0], errors[0], [self._below[0]])
        return tuple(gradients), -pull


def _run(levels: Sequence[_Level], below: Tensor) -> tuple[list[States], list[Any]]:
    """Every layer's states and final state."""
    activities, final = [], []
    for level in levels:
        states, last = level.run(below)
        below = states[0]
        activities.append(states)
        final.append(last)
    return activities, final


def _descend(activities: Sequence[States], slopes: Sequence[Sequence[Tensor]], rate: float) -> list[States]:
    return [
        tuple(value - rate * slope for value, slope in zip(*pair, strict=True))
        for pair in zip(activities, slopes, strict=True)
    ]


def _half_squares(errors: Sequence[States]) -> float:
    return sum(float(error.square().sum()) for each in errors for error in each) / 2


def _pull(values: Sequence[Tensor], slopes: Sequence[Tensor], inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """Σ (∂value/∂input)ᵀ slope for each input; the graph stays."""
    pairs = [pair for pair in zip(values, slopes, strict=True) if pair[0].requires_grad]
    if not pairs or not inputs:
        return [torch.zeros_like(tensor) for tensor in inputs]
    roots, given = zip(*pairs, strict=True)
    return torch.autograd.grad(roots, inputs, given, retain_graph=True, materialize_grads=True)


def _go_back(layers: Sequence[Recurrent], gradients: Gradients, roots: Sequence[tuple[Tensor, Tensor | None]]) -> None:
    """Into `.grad`: the layers' gradients, and by the roots' own graphs those of read-out and embedding."""
    for layer, named in zip(layers, gradients, strict=True):
        for name, gradient in named.items():
            parameter = layer.get_parameter(name)
            parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient
    if roots:
        torch.autograd.backward([root for root, _ in roots], [slope for _, slope in roots])


def _cosine(pairs: Sequence[tuple[Tensor, Tensor]]) -> float:
    flat = [(one.double().flatten(), other.double().flatten()) for one, other in pairs]
    inner = sum(float(one @ other) for one, other in flat)
    size = math.sqrt(sum(float(one @ one) for one, _ in flat)) * math.sqrt(sum(float(two @ two) for _, two in flat))
    return inner / size if size else math.nan


def _check_layers(layers: Iterable[nn.Module]) -> list[Recurrent]:
    found: list[Recurrent] = []
    for layer in layers if isinstance(layers, Iterable) else ():
        if not isinstance(layer, Recurrent):
            raise ArgumentTypeError.of("layers", layer, "is not a Recurrent", "Give a list of Recurrent")
        found.append(layer)
        if layer.reverse:
            raise ArgumentError.of("layers", layer, "runs in reverse", "Give layers with reverse=False")
        if layer._regularised is not None:
            raise ArgumentError.of("layers", layer, "drops or keeps units at random", "Give layers without such rates")
        if layer.batch_first != found[0].batch_first:
            raise ArgumentError.of("layers", layer, "is laid out otherwise than the first", "Agree on batch_first")
    if not found:
        raise ArgumentError.of("layers", layers, "has no layer", "Give a list of Recurrent, the lowest first")
    for lower, upper in pairwise(found):
        if lower.output_size != upper.input_size:
            problem = f"reads {upper.input_size} units where the layer below it has {lower.output_size}"
            raise ShapeError.of("layers", upper, problem, "Make the two equal")
    return found


def _check_loss(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
        raise ArgumentTypeError.of("top_loss", loss, "is not a number as a tensor", "Return the mean or sum of a loss")
    return loss
