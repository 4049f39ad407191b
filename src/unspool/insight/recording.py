"""Recording: one run of a model over a batch that observes every recurrence.

The model's graph is cut at its recurrences. The output of a recurrence is a leaf of the graph; how it was computed is
known from the equations. Gradients are followed through time by the recording, step by step or edge by edge, and by
autograd through everything else: embeddings, connections between layers, heads, losses. That is exact for any wiring,
and it separates what autograd adds up: the share of every step, and of every distance in time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.utils import parametrize

from unspool.errors import ArgumentError
from unspool.insight.backward import pull_back
from unspool.insight.call import Call
from unspool.insight.linear_step import LinearStep, Pulled
from unspool.insight.naming import join_layers
from unspool.insight.recorder import Edit, EnoughSeen, Recorder, Tangents, ready
from unspool.nn.observation import observed_by

#: From a model to the loss whose gradient is followed.
Run = Callable[[nn.Module], Tensor]


@dataclass(eq=False)
class Gradient:
    """The whole gradient of the loss."""

    recording: Recording
    by_call: Sequence[Tensor]  # of the states after each step, (time, batch, states)

    @cached_property
    def states(self) -> dict[str, Tensor]:
        """By layer: of the states after each step, (time, batch, states)."""
        return self.recording.by_layer(dict(enumerate(self.by_call)))

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """By layer: of its input."""
        return self.recording.by_layer({number: found[0] for number, found in enumerate(self._pulled)})

    @cached_property
    def parameters(self) -> dict[str, dict[str, Tensor]]:
        """By layer and name in the equations."""
        return self.recording.add_up({number: found[2] for number, found in enumerate(self._pulled)})

    @cached_property
    def _pulled(self) -> list[tuple[Tensor, Tensor, dict[str, Tensor]]]:
        return [call.pull(states) for call, states in zip(self.recording.calls, self.by_call, strict=True)]


@dataclass(eq=False)
class Lag:
    """The part of the gradient that has crossed exactly `edges` edges between steps."""

    edges: int
    recording: Recording
    by_call: Sequence[Tensor]  # of the states after each step, (time, batch, states)
    steps: Sequence[LinearStep]  # of each call
    pulled: Sequence[Pulled]  # the same through the live steps of each call

    @cached_property
    def states(self) -> Mapping[str, Tensor]:
        """By layer: of the states after each step, (time, batch, states)."""
        return self.recording.by_layer(dict(enumerate(self.by_call)))

    @cached_property
    def parameters(self) -> Mapping[str, Mapping[str, Tensor]]:
        """By layer and name in the equations."""
        return self.recording.find_parameters(self.pulled, self.steps)


class Recording:
    """All recurrences of a model over one batch, and how the gradient of the loss passes through them."""

    def __init__(self, model: nn.Module, run: Run, calls: Sequence[Call], loss: Tensor) -> None:
        self.model, self.run, self.calls, self.loss = model, run, calls, loss
        self.layers = join_layers(calls)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the layers are called in reports."""
        return tuple(layer.label for layer in self.layers)

    def again(self, edit: Edit | None = None, without: Sequence[str] = ()) -> Recording:
        """The model run again: on edited inputs, or with the recurrence of some layers (by name) removed.

        A layer without recurrence begins every step at its starting state.
        """
        return record(self.model, self.run, edit, without)

    @cached_property
    def entrances(self) -> list[int]:
        """The calls that do not depend on another call's output: the lowest layers."""
        leaves = [leaf for call in self.calls for leaf in call.leaves]
        return [number for number, call in enumerate(self.calls) if not _depends(call.x, leaves)]

    def respond(self, tangents: Mapping[int, Tensor], without: Sequence[str] = ()) -> list[Tensor]:
        """First-order responses of every call's output to changes of some calls' inputs; exact, by forward mode."""
        with torch.no_grad(), forward_ad.dual_level(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")  # torch's own use of it
            observer = Recorder(self.model, None, without, Tangents(self.calls, tangents))
            with ready(self.model), observed_by(observer), parametrize.cached(), suppress(EnoughSeen):
                observer.learn_names()
                self.run(self.model)
            return [change for _, change in observer.duals]

    def gradient(self) -> Gradient:
        """The whole gradient, followed backward through time."""
        entrances = self.entrances
        flow = Flow(self.calls)
        flow.add([self.loss], [torch.ones_like(self.loss)])
        states = {}
        for number, call in reversed(list(enumerate(self.calls))):
            given = flow.take(number)
            outside, idle = call.inject([given[0], *[None] * len(call.finals)])
            final = torch.cat([_or_zeros(got, leaf) for got, leaf in zip(given[1:], call.finals, strict=True)], -1)
            states[number], start = call.adjoints(outside, final.to(outside))
            if number not in entrances:
                flow.add([call.x], [call.pull_input(states[number])])
            flow.add(list(call.starts), list(call.layer.split(start + idle).values()))
        return Gradient(self, [states[number] for number in range(len(self.calls))])

    def make_linear(self, dtype: torch.dtype = torch.float64) -> list[LinearStep]:
        """The live steps of every call, linear around what was recorded."""
        return [call.make_linear(dtype) for call in self.calls]

    def find_parameters(self, pulled: Sequence[Pulled], steps: Sequence[LinearStep]) -> dict[str, dict[str, Tensor]]:
        """Gradients of the parameters by layer, from what was pulled through the live steps of every call."""
        given = zip(self.calls, pulled, steps, strict=True)
        found = [call.find_parameters(one, step) for call, one, step in given]
        return self.add_up(dict(enumerate(found)))

    def lags(self, limit: int | None = None, steps: Sequence[LinearStep] | None = None) -> Iterator[Lag]:
        """The gradient split by the number of edges between steps that its paths cross: 0, 1, 2, …; the sum is whole.

        In layers of one direction that number is the distance in time between a step and the loss. The iteration ends
        when nothing is left, or before `limit` edges. `steps`, of `make_linear`, decide its precision.
        """
        flow = Flow(self.calls)
        flow.add([self.loss], [torch.ones_like(self.loss)])
        steps = self.make_linear() if steps is None else steps
        entrances = self.entrances  # nothing below them has a recurrence
        pairs = zip(self.calls, steps, strict=True)
        carried = [torch.zeros_like(call.layer.after, dtype=step.dtype) for call, step in pairs]
        edges = 0
        while limit is None or edges < limit:
            states: dict[int, Tensor] = {}
            pulled: dict[int, Pulled] = {}
            later = Flow(self.calls)
            for number, call in reversed(list(enumerate(self.calls))):
                outside, idle = call.inject(flow.take(number))
                states[number] = carried[number] + outside.to(carried[number])
                step, inner = steps[number], number not in entrances
                x, before, pulled[number] = call.pull_through(step, states[number], inner)
                carried[number], start = call.cross(before)
                if inner:
                    flow.add([call.x], [x])
                flow.add(list(call.starts), list(call.layer.split(idle).values()))
                later.add(list(call.starts), list(call.layer.split(start).values()))
            order = range(len(self.calls))
            yield Lag(edges, self, [states[n] for n in order], steps, [pulled[n] for n in order])
            if not any(one.any() for one in carried) and later.empty:
                return
            flow, edges = later, edges + 1

    def by_layer(self, found: Mapping[int, Tensor]) -> dict[str, Tensor]:
        """Sequences of calls as sequences of layers."""
        names = [call.layer.name for call in self.calls]
        return {
            name: torch.cat([found[n] for n, of in enumerate(names) if of == name]) for name in dict.fromkeys(names)
        }

    def add_up(self, found: Mapping[int, Mapping[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
        """Gradients of the parameters by call as gradients by layer."""
        totals: dict[str, dict[str, Tensor]] = {}
        for number, call in enumerate(self.calls):
            into = totals.setdefault(call.layer.name, {})
            for name, value in found[number].items():
                into[name] = into[name] + value if name in into else value
        return totals


def _depends(x: Tensor, leaves: Sequence[Tensor]) -> bool:
    if not x.requires_grad:
        return False
    return any(one is not None for one in pull_back([x], [torch.zeros_like(x)], leaves))


def record(model: nn.Module, run: Run, edit: Edit | None = None, without: Sequence[str] = ()) -> Recording:
    """Run a model once and record its recurrences.

    Args:
        model: has recurrent layers of `unspool.nn` or `torch.nn`.
        run: calls the model and returns a loss, one number. The model is in evaluation mode then.
        edit: changes what a call reads.
        without: names of layers whose recurrence is removed.

    Returns:
        The layers with all their values, and the loss.

    Example:
        >>> recording = record(torch.nn.GRU(3, 4), lambda model: model(torch.randn(9, 2, 3))[0].sum())
        >>> [layer.label for layer in recording.layers]
        ['layer 1']
    """
    observer = Recorder(model, edit, without)
    with ready(model), observed_by(observer), parametrize.cached(), torch.enable_grad():
        observer.learn_names()
        loss = run(model)
    if not observer.calls:
        raise ArgumentError.of(
            "model",
            type(model).__name__,
            "ran no recurrent layer that can be recorded",
            "Give one with layers of unspool.nn, or torch.nn.RNN, GRU or LSTM; cells such as LSTMCell, and classes "
            "derived from these, such as parametrized layers, cannot be recorded",
        )
    if not isinstance(loss, Tensor) or loss.dim() or not loss.requires_grad:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise ArgumentError.of(
            "loss", shape, "is not a number that depends on the recurrent layers", "Give a function of their output"
        )
    return Recording(model, run, observer.calls, loss)


class Flow:
    """Cotangents on their way down the graph, to the outputs of calls, which are its leaves."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._leaves = [leaf for call in calls for leaf in call.leaves]
        self._counts = [len(call.leaves) for call in calls]
        self._got: list[Tensor | None] = [None] * len(self._leaves)

    def add(self, outputs: Sequence[Tensor], cotangents: Sequence[Tensor]) -> None:
        """Cotangents of some tensors of the graph."""
        pairs = [(one, given.to(one)) for one, given in zip(outputs, cotangents, strict=True) if one.requires_grad]
        if not pairs:
            return
        found = pull_back([one for one, _ in pairs], [given for _, given in pairs], self._leaves)
        for place, value in enumerate(found):
            if value is not None:
                self._gather(place, value)

    def _gather(self, place: int, value: Tensor) -> None:
        known = self._got[place]
        self._got[place] = value if known is None else known + value

    def take(self, number: int) -> list[Tensor | None]:
        """The cotangents that have reached a call's leaves."""
        first = sum(self._counts[:number])
        return self._got[first : first + self._counts[number]]

    @property
    def empty(self) -> bool:
        return not any(value is not None and bool(value.any()) for value in self._got)


def _or_zeros(value: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if value is None else value
