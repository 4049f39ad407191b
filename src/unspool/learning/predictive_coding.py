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
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError, TrainingError
from unspool.nn import Recurrent
from unspool.nn.checks import check_input, check_lengths, check_like
from unspool.nn.layer import from_time_major, to_time_major, valid_steps
from unspool.nn.leaves import map_leaves
from unspool.nn.regularized import GIVE_PLAIN_LAYERS
from unspool.nn.unroll import States

Gradients = tuple[dict[str, Tensor], ...]


@dataclass(frozen=True)
class Local:
    """The result of predictive coding on a batch."""

    loss: Tensor  # the top loss of the forward pass
    energy: tuple[float, float]  # E before the first iteration, which is the loss, and after the last
    gradients: Gradients  # by layer, and by the parameter's name in it
    state: list[Any]  # each layer's final state in the forward pass


@dataclass(frozen=True)
class Alignment:
    """Cosines between two sets of gradients: of all layers together, and of each; NaN where one of the two is zero."""

    together: float
    layers: tuple[float, ...]


class PredictiveCoding:
    """Gradients for a stack of recurrent layers, each of which sees only its own errors and those of its neighbors.

    A layer ℓ predicts its states at step t, by its cell, from its states at t − 1 and the layer below it at t:

        ŝ_t^ℓ = cell_ℓ(h_t^{ℓ−1}, s_{t−1}^ℓ)      ε_t^ℓ = s_t^ℓ − ŝ_t^ℓ      E = ½ Σ ‖ε_t^ℓ‖² + top_loss(h^L)

    The activities s (h alone, or an LSTM's h and c; h^0 is x) start at the forward pass, where all errors are 0. Then
    all of them descend at once, `iterations` times by `step_size`, along

        ∂E/∂s_t^ℓ = ε_t^ℓ − (∂ŝ_{t+1}^ℓ/∂s_t^ℓ)ᵀ ε_{t+1}^ℓ − (∂ŝ_t^{ℓ+1}/∂s_t^ℓ)ᵀ ε_t^{ℓ+1}   on top: + ∂top_loss/∂h_t^L

    so that an error travels one neighbor further per iteration. The gradient of a layer's parameters is that of its own
    ½ Σ ‖ε^ℓ‖², with the activities held. No graph is longer than one step of one cell.

    Args:
        layers: Recurrent layers, the lowest first.
        iterations: By default the number of steps and layers together.
        step_size: Of the descent.
        fixed: Hold predictions, Jacobians and the gradient of the top loss at the forward pass (Millidge, Tschantz and
            Buckley 2020). With `step_size=1`, k iterations then give the gradients of backpropagation through time
            along paths of up to k cells, and the default number of iterations gives all of it. E is not what descends
            then, and may rise. With `fixed=False` E descends, if `step_size` is below
            2/(1 + ‖∂ŝ_{t+1}/∂s_t‖ + ‖∂ŝ^{ℓ+1}/∂s^ℓ‖)², for which 0.1 is often small enough; an energy that rises shows
            that it is not. The gradients are near those of backpropagation where errors are small and iterations many.
            The weight of `top_loss` decides how large errors become: the mean over a large batch makes them small.

    Example:
        coding = PredictiveCoding([lower, upper])
        found = coding.gradients(x, lambda output: cross_entropy(head(output), targets))
        optimizer.step()
    """

    def __init__(
        self, layers: Iterable[nn.Module], *, iterations: int | None = None, step_size: float = 1.0, fixed: bool = True
    ) -> None:
        self.layers = _check_layers(layers)
        self.iterations = None if iterations is None else check_size("iterations", iterations)
        if not is_number(step_size) or not 0 < step_size < math.inf:
            raise ArgumentError.of(
                "step_size", step_size, "is not a positive number", "Give `step_size=1`, for example"
            )
        if not isinstance(fixed, bool):
            raise ArgumentTypeError.of("fixed", fixed, "is neither True nor False", "Give one of the two")
        self.step_size, self.fixed = float(step_size), fixed

    def gradients(
        self,
        x: Tensor,
        top_loss: Callable[[Tensor], Tensor],
        *,
        state: Sequence[Any] | None = None,
        lengths: Sequence[int] | Tensor | None = None,
    ) -> Local:
        """Add to each parameter's `.grad`, as a backward pass would.

        Args:
            x: The input of the lowest layer. If it requires a gradient, the errors of the lowest layer give one to it,
                or to what computed it, such as an embedding.
            top_loss: A head and its loss: a number from the top layer's output, which is laid out as x, and zero beyond
                the end of a sequence. It is called after each iteration, or with `fixed` at the forward pass and at the
                end. Its parameters get gradients too, at the last activities, or with `fixed` at the forward pass.
            state: One state per layer; by default their initial states.
            lengths: Of the sequences.

        Returns:
            The loss, and the gradients that were added.
        """
        self._check_input(x)
        batched, batch_first = x.dim() == 3, self.layers[0].batch_first
        sequence = to_time_major(x, batch_first)
        steps, count, _ = sequence.shape
        ends = None if lengths is None else check_lengths(lengths, steps, count, x.device)
        live = _Live(steps, count, ends, x.device)
        given = self._check_state(state, count, batched)
        levels = [_Level(layer, live, start, x) for layer, start in zip(self.layers, given, strict=True)]

        def top(h: Tensor) -> Tensor:
            return _check_loss(top_loss(from_time_major(live.spread(h), batched, batch_first)))

        with torch.enable_grad():
            lowest = sequence.detach()[live.valid].requires_grad_()
            activities, final = _run(levels, lowest)
            moment = _Moment(levels, lowest, activities, top)
            loss = moment.loss.detach()
            moment, activities = self._settle(moment, activities, steps + len(levels))
            errors = moment.errors(activities)
            reached = top(activities[-1][0]) if self.fixed else moment.loss
            energy = float(loss), _half_squares(errors) + float(reached.detach())
            self._check_energy(*energy)
            gradients, slope = moment.learn(errors)
            roots = [(moment.loss, None), (sequence, live.spread(slope))]
            _go_back(self.layers, gradients, [root for root in roots if root[0].requires_grad])
        return Local(loss, energy, gradients, final if batched else map_leaves(lambda part: part.squeeze(0), final))

    def _settle(self, moment: _Moment, activities: list[States], default: int) -> tuple[_Moment, list[States]]:
        """Descend along the slopes of the energy; `default` iterations if none were given."""
        for _ in range(default if self.iterations is None else self.iterations):
            activities = _descend(activities, moment.slopes(moment.errors(activities)), self.step_size)
            moment = moment if self.fixed else moment.at(activities)
        return moment, activities

    def _check_input(self, x: Tensor) -> None:
        check_input(x, self.layers[0].input_size, None)
        for layer in self.layers:
            for parameter in layer.parameters():
                check_like("x", x, parameter)

    def _check_state(self, state: Sequence[Any] | None, batch_size: int, batched: bool) -> Sequence[Any]:
        if state is None:
            return [None] * len(self.layers)
        if not isinstance(state, list | tuple) or len(state) != len(self.layers):
            count = len(self.layers)
            raise ArgumentError.of("state", state, f"is not a list of {count}", "Give one state per layer")
        state = state if batched else map_leaves(lambda part: part.unsqueeze(0), state)
        for layer, part in zip(self.layers, state, strict=True):
            layer.check_state(part, batch_size, next(layer.parameters(), None))
        return state

    def _check_energy(self, before: float, after: float) -> None:
        if math.isfinite(before) and not math.isfinite(after):
            raise TrainingError(
                f"the energy of predictive coding went from {before:.4g} to {after} at `step_size={self.step_size}`. "
                "Lower it, or hold the predictions with `fixed=True`."
            )


def alignment(local: Sequence[Mapping[str, Tensor]], other: Sequence[Mapping[str, Tensor]]) -> Alignment:
    """Cosines between two sets of gradients of the same parameters.

    Args:
        local: `PredictiveCoding.gradients(…).gradients`.
        other: Such as those of backpropagation, by layer and name.

    Returns:
        The cosine over all layers together, and of each layer.

    Example:
        >>> alignment(found.gradients, exact).together
        0.9998
    """
    if [set(layer) for layer in local] != [set(layer) for layer in other]:
        names = [list(layer) for layer in other]
        raise ArgumentError.of(
            "other", names, "does not have the names of `local`", "Give the gradients of each layer by name"
        )
    layers = [[(layer[name], twin[name]) for name in layer] for layer, twin in zip(local, other, strict=True)]
    return Alignment(_cosine([pair for pairs in layers for pair in pairs]), tuple(map(_cosine, layers)))


class _Live:
    """The live steps of a ragged batch, those within the lengths, as one list, and the place of the step before each.

    A history is (batch + live steps, width): the first state of each sequence, then the state after each live step.
    `before` is where in it the old state of each live step is, `last` where the final state of each sequence is.
    """

    def __init__(self, steps: int, count: int, ends: Tensor | None, device: torch.device) -> None:
        ends = torch.full((count,), steps, device=device) if ends is None else ends
        self.valid = valid_steps(ends, steps).squeeze(-1)  # (time, batch)
        self.counts: list[int] = self.valid.sum(1).tolist()  # of live steps at each time
        first = torch.arange(count, device=device)
        after = torch.cat([first, count - 1 + self.valid.flatten().cumsum(0)]).view(steps + 1, count)
        self.before, self.last = after[:-1][self.valid], after[ends, first]

    def spread(self, values: Tensor) -> Tensor:
        """(time, batch, width), zero beyond the end of a sequence."""
        return values.new_zeros(*self.valid.shape, values.shape[-1]).index_put((self.valid,), values)


class _Level:
    """A layer on the live steps."""

    def __init__(self, layer: Recurrent, live: _Live, start: Any, like: Tensor) -> None:
        self.layer, self._live, self._like = layer, live, like
        self._given = None if start is None else map_leaves(Tensor.detach, start)

    @torch.no_grad()
    def run(self, below: Tensor) -> tuple[States, Any]:
        """The states after each step, one step after the other, and the final state as a layer returns it."""
        batch_size, first = len(self._live.last), 0
        histories = [torch.cat([start, start.new_zeros(len(below), start.shape[1])]) for start in self._start()]
        parameters = self.layer.cell_parameters()
        for count in self._live.counts:
            now = slice(first, first + count)
            old = [history[self._live.before[now]] for history in histories]
            new, _ = self.layer.step(parameters, below[now], old)
            for history, value in zip(histories, new, strict=True):
                history[batch_size + first : batch_size + first + count] = value
            first += count
        final = tuple(history[self._live.last] for history in histories)
        return tuple(history[batch_size:] for history in histories), final[0] if len(final) == 1 else final

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
    """Predictions and top loss at given activities. These are leaves, so that every graph ends within one step."""

    def __init__(
        self, levels: Sequence[_Level], lowest: Tensor, activities: Sequence[States], top: Callable[[Tensor], Tensor]
    ) -> None:
        self._levels, self._top = levels, top
        self._states = [tuple(value.detach().requires_grad_() for value in states) for states in activities]
        self._below = [lowest, *(states[0] for states in self._states[:-1])]
        reads = zip(levels, self._below, self._states, strict=True)
        self._predictions = [level.predict(below, states) for level, below, states in reads]
        self.loss = top(self._states[-1][0])
        (self._top_slope,) = _pull([self.loss], [torch.ones_like(self.loss)], [self._states[-1][0]])

    def at(self, activities: Sequence[States]) -> _Moment:
        """The same at other activities."""
        return _Moment(self._levels, self._below[0], activities, self._top)

    def errors(self, activities: Sequence[States]) -> list[States]:
        """s − ŝ."""
        return [
            tuple(value - predicted.detach() for value, predicted in zip(*pair, strict=True))
            for pair in zip(activities, self._predictions, strict=True)
        ]

    def slopes(self, errors: Sequence[States]) -> list[list[Tensor]]:
        """∂E/∂s: an activity's own error, less the pull of the next step and the layer above, and the loss on top."""
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
        for level, predictions, own in zip(self._levels, self._predictions, errors, strict=True):
            named = {name: value for name, value in level.layer.named_parameters() if value.requires_grad}
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


def _descend(activities: Sequence[States], slopes: Sequence[Sequence[Tensor]], step_size: float) -> list[States]:
    return [
        tuple(value - step_size * slope for value, slope in zip(*pair, strict=True))
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
    """Into `.grad`: the layers' gradients, and by the graphs of the roots those of head and embedding."""
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
        _check_layer(layer, found[0])
    if not found:
        raise ArgumentError.of("layers", layers, "has no layer", "Give a list of Recurrent, the lowest first")
    for lower, upper in pairwise(found):
        if lower.output_size != upper.input_size:
            problem = f"reads {upper.input_size} units where the layer below it has {lower.output_size}"
            raise ShapeError.of("layers", upper, problem, "Make the two equal")
    return found


def _check_layer(layer: Recurrent, first: Recurrent) -> None:
    if layer.reverse:
        raise ArgumentError.of("layers", layer, "runs in reverse", "Give layers with reverse=False")
    if layer._regularized is not None:
        raise ArgumentError.of("layers", layer, "drops or keeps units at random", GIVE_PLAIN_LAYERS)
    if layer.batch_first != first.batch_first:
        raise ArgumentError.of("layers", layer, "has another layout than the first", "Give all the same `batch_first`")


def _check_loss(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
        raise ArgumentTypeError.of("top_loss", loss, "is not a scalar tensor", "Return the mean or sum of a loss")
    return loss
