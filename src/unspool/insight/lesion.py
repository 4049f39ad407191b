"""Lesion: a recorded model run again, only for its loss, with units held at fixed values or with edited inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from unspool.insight.call import Call
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recorder import Edit, ready
from unspool.insight.recording import Recording
from unspool.nn.observation import Observer, observed_by
from unspool.nn.runner import Runner
from unspool.nn.unroll import States, Trace

#: The output and the final states of a call.
Found = tuple[Tensor, States]
#: What a recurrence gives back, and what runs it over an input and states.
Result = tuple[Tensor, States, Trace]
Usual = Callable[[Tensor, States], Result]

#: Rows × state widths of lesions that are run together: enough to fill a product, few enough for the cache.
TOGETHER = 2**18


class _Rerun:
    """Runs the recurrences of a model again, each as `answer` says."""

    _number = 0

    def recur(
        self,
        runner: Runner,
        parameters: Sequence[Tensor],
        x: Tensor,
        states: States,
        ends: Tensor | None,
        reverse: bool,
        /,
    ) -> tuple[Tensor, States, Trace]:
        number, self._number = self._number, self._number + 1
        with observed_by(None):
            return self.answer(
                number, x, states, ends, lambda x, states: runner.run(parameters, x, states, ends, reverse)
            )

    def answer(self, number: int, x: Tensor, states: States, ends: Tensor | None, usual: Usual) -> Result:
        """The result of the call of this number; `usual` runs it as the model does."""
        raise NotImplementedError


class Lesion(_Rerun):
    """Runs the recurrences of a model as usual, except those of one layer, whose states are held in part.

    Args:
        recording: the model, whose calls this run repeats in their order.
        name: of the layer.
        held: (states,), which of its states are held.
        values: (states,), at which values.
        known: the result of the layer's only call, if it was computed before.
    """

    def __init__(
        self, recording: Recording, name: str, held: Tensor, values: Tensor, known: Found | None = None
    ) -> None:
        self.recording, self.name = recording, name
        self.held, self.values, self.known = held, values, known

    def answer(self, number: int, x: Tensor, states: States, ends: Tensor | None, usual: Usual) -> Result:
        call = self.recording.calls[number]
        if call.layer.name != self.name:
            return usual(x, states)
        if self.known is not None:
            return *self.known, {}
        lengths = torch.full((x.shape[1],), len(x)) if ends is None else ends
        ((output, finals),) = hold(call.layer, x, states, lengths, self.held[None], self.values[None])
        return output, finals, {}

    def loss(self) -> float:
        """The loss of the model with this lesion."""
        return _rerun(self.recording, self)


class _Edited(_Rerun):
    """Runs the recurrences of a model as usual, over edited inputs."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit

    def answer(self, number: int, x: Tensor, states: States, ends: Tensor | None, usual: Usual) -> Result:  # noqa: ARG002
        return usual(*self.edit(number, x, states))


def loss_with(recording: Recording, edit: Edit) -> float:
    """The loss of the model over edited inputs; quicker than to record it again."""
    return _rerun(recording, _Edited(edit))


def _rerun(recording: Recording, observer: Observer) -> float:
    model = recording.model
    with torch.no_grad(), ready(model), observed_by(observer), parametrize.cached():
        return float(recording.run(model))


def hold(layer: RecordedLayer, x: Tensor, starts: States, ends: Tensor, held: Tensor, values: Tensor) -> list[Found]:
    """One call with each of n lesions, all at once: held and values are (n, states)."""
    layer = layer.to(x.dtype)
    count, rows = len(held), x.shape[1]
    which, at = held.unsqueeze(1), values.unsqueeze(1).to(x.dtype)
    state = torch.where(which, at, torch.cat(starts, -1).detach().expand(count, rows, -1))
    width = next(iter(layer.widths.values()))
    output = x.new_zeros(count, len(x), rows, width)
    steps = range(len(x))
    with torch.no_grad():
        for t in reversed(steps) if layer.reverse else steps:
            new = layer.advance(x[t].detach().repeat(count, 1), state.flatten(0, 1)).reshape(state.shape)
            live = (t < ends).reshape(1, rows, 1)
            state = torch.where(live, torch.where(which, at, new), state)
            output[:, t] = state[..., :width] * live
    finals = [layer.split(one) for one in state]
    return [(one, tuple(final.values())) for one, final in zip(output, finals, strict=True)]


def losses_without(recording: Recording, layer: RecordedLayer, held: Tensor, values: Tensor) -> Iterator[float]:
    """The loss with each lesion of a layer, one after another; held and values are (n, states)."""
    calls = [call for call in recording.calls if call.layer.name == layer.name]
    if len(calls) > 1:  # what a later call reads depends on the lesion, so each has its own run
        for which, at in zip(held, values, strict=True):
            yield Lesion(recording, layer.name, which, at).loss()
        return
    together = max(1, TOGETHER // max(1, layer.live.shape[1] * held.shape[1]))
    for first in range(0, len(held), together):
        part = slice(first, first + together)
        for number, known in enumerate(_run_call(calls[0], held[part], values[part]), first):
            yield Lesion(recording, layer.name, held[number], values[number], known).loss()


def _run_call(call: Call, held: Tensor, values: Tensor) -> list[Found]:
    return hold(call.layer, call.x.detach(), call.starts, call.ends, held, values)
