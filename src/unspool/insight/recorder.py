"""Recorder: runs the recurrences of a model in its place, traced, and keeps the values of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from unspool.cells import Cell
from unspool.errors import ArgumentError
from unspool.insight.call import Call
from unspool.insight.changes import push_along, push_apart
from unspool.insight.recorded_layer import RecordedLayer
from unspool.nn.accelerate import accelerate, restore
from unspool.nn.drop_in import DropIn
from unspool.nn.observation import observed_by
from unspool.nn.recurrent import Recurrent
from unspool.nn.runner import Runner
from unspool.nn.unroll import States, Trace

#: Changes what a call reads: (number of the call, x, starting states) → (x, starting states).
Edit = Callable[[int, Tensor, States], tuple[Tensor, States]]
#: The result of a recurrence: its output, final states, and every named value.
Found = tuple[Tensor, States, Trace]


@contextmanager
def ready(model: nn.Module) -> Iterator[None]:
    """Within, the model is in evaluation mode, and its layers of torch.nn run by our recurrence."""
    modes = [(module, module.training) for module in model.modules()]
    changed = accelerate(model)
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for name in changed:  # and not those that were ours before
            restore(model.get_submodule(name))


class EnoughSeen(Exception):  # noqa: N818 - no error
    """Ends a run whose rest is not needed."""


class Tangents(NamedTuple):
    """First-order changes to follow through a model that was recorded before."""

    calls: Sequence[Call]  # of the recording
    inputs: Mapping[int, Tensor]  # changes of some calls' inputs


class Recorder:
    """Observes every recurrence of a model: runs it by its kernel, traced, and keeps its values.

    With `changes` it also follows first-order changes, which the rest of the model passes on by forward-mode
    differentiation. It keeps only those of the outputs, and ends the model's run after the last call: what follows,
    such as a loss, may have no forward mode.
    """

    def __init__(
        self, model: nn.Module, edit: Edit | None, without: Sequence[str], changes: Tangents | None = None
    ) -> None:
        self.model, self.edit, self.without, self.changes = model, edit, without, changes
        self.calls: list[Call] = []
        self.duals: list[tuple[Tensor, Tensor]] = []
        self._number = 0
        self._owners: dict[int, tuple[str, Cell]] = {}

    def learn_names(self) -> None:
        """Note which layer owns which parameter; within `parametrize.cached`, where parametrized ones stay the same."""
        for path, module in self.model.named_modules():
            if isinstance(module, Recurrent):
                self._learn_owner(module.cell_parameters().values(), path, module.cell)
            elif isinstance(module, DropIn):
                for key, names in module.weight_names().items():
                    weights = [getattr(module, name) for name in names]
                    self._learn_owner(weights, f"{path}.{key}".lstrip("."), module.cell)

    def _learn_owner(self, parameters: Iterable[Tensor], name: str, cell: Cell) -> None:
        for parameter in parameters:
            self._owners[id(parameter)] = name, cell

    def recur(
        self,
        recurrence: Runner,
        parameters: Sequence[Tensor],
        x: Tensor,
        states: States,
        ends: Tensor | None,
        reverse: bool,
    ) -> Found:
        number, self._number = self._number, self._number + 1
        name, cell = self._owners.get(id(parameters[0]), ("", None))
        if cell is None:
            raise ArgumentError.of(
                "model",
                type(self.model).__name__,
                "runs a recurrent layer that is not one of its modules",
                "Register the layer in the model, as torch.nn.Module does with attributes",
            )
        if self.edit is not None:
            x, states = self.edit(number, x, states)
        lengths = torch.full((x.shape[1],), len(x)) if ends is None else ends
        run = partial(_run_apart, lengths=lengths) if name in self.without else partial(_run_whole, ends=ends)
        with observed_by(None):
            if self.changes is not None:
                return self._respond(self.changes, run, name, cell, recurrence, parameters, x, states, lengths, reverse)
            with torch.no_grad():
                plain = x.detach(), tuple(state.detach() for state in states)
                output, finals, named = run(recurrence, parameters, *plain, reverse=reverse)
        output = output.detach().requires_grad_()
        finals = tuple(final.detach().requires_grad_() for final in finals)
        layer = self._layer(name, cell, recurrence, parameters, plain[0], plain[1], named, lengths, reverse)
        self.calls.append(Call(layer, x, states, output, finals, lengths))
        return output, finals, named

    def _respond(
        self,
        given: Tangents,
        run: Callable[..., Found],
        name: str,
        cell: Cell,
        recurrence: Runner,
        parameters: Sequence[Tensor],
        x: Tensor,
        states: States,
        lengths: Tensor,
        reverse: bool,
    ) -> Found:
        """The result of a call with its first-order change; the change is followed through the steps, made linear."""
        number = len(self.duals)
        x, x_change = _unpack(x)
        if number in given.inputs:
            x_change = x_change + given.inputs[number].to(x)
        starts, changes = zip(*map(_unpack, states), strict=True)
        earlier = given.calls[number]
        if name not in self.without and earlier.has_read(name, x, starts, lengths):
            layer = earlier.layer.to(x.dtype)
            output, finals, named = earlier.output.detach().clone(), tuple(earlier.finals), dict(layer.named)
        else:
            output, finals, named = run(recurrence, parameters, x, starts, reverse=reverse)
            layer = self._layer(name, cell, recurrence, parameters, x, starts, named, lengths, reverse).to(x.dtype)
        if name in self.without:
            after, final = push_apart(layer, x_change, torch.cat(changes, -1), torch.cat(starts, -1))
        else:
            after, final = push_along(layer, x_change, torch.cat(changes, -1))
        self.duals.append((output, after[..., : output.shape[-1]]))
        if len(self.duals) == len(given.calls):
            raise EnoughSeen
        moved = zip(finals, layer.split(final).values(), strict=True)
        last = tuple(forward_ad.make_dual(value.detach().clone(), change) for value, change in moved)
        return forward_ad.make_dual(output, self.duals[-1][1]), last, named

    @staticmethod
    def _layer(
        name: str,
        cell: Cell,
        recurrence: Runner,
        parameters: Sequence[Tensor],
        x: Tensor,
        starts: States,
        named: Trace,
        ends: Tensor,
        reverse: bool,
    ) -> RecordedLayer:
        equations = recurrence.equations
        after = torch.cat([named[state] for state in equations.states], -1).double()
        start = torch.cat(starts, -1).double()
        live = live_steps(ends, len(x))
        if reverse:
            times = torch.arange(len(x)).unsqueeze(1)
            first = (times == ends - 1).unsqueeze(-1)
            before = torch.where(first, start, torch.cat([after[1:], start.unsqueeze(0)])[: len(x)])
        else:
            before = torch.cat([start.unsqueeze(0), after])[: len(x)]
        return RecordedLayer(
            name=name,
            label=name,
            level=0,
            reverse=reverse,
            cell=cell,
            equations=equations,
            evaluate=recurrence.step,
            parameters={key: value.detach().double() for key, value in recurrence.layout.named(parameters).items()},
            x=x.double(),
            before=before,
            after=after,
            named={key: value.double() for key, value in named.items()},
            live=live,
            widths={state: start.shape[-1] for state, start in zip(equations.states, starts, strict=True)},
        )


def _unpack(value: Tensor) -> tuple[Tensor, Tensor]:
    """A value and its change, zero if it has none."""
    plain, change = forward_ad.unpack_dual(value)
    return plain.detach(), torch.zeros_like(plain) if change is None else change.detach()


def _run_whole(
    recurrence: Runner, parameters: Sequence[Tensor], x: Tensor, states: States, ends: Tensor | None, reverse: bool
) -> Found:
    return recurrence.run(parameters, x, states, ends, reverse, True)


def _run_apart(
    recurrence: Runner, parameters: Sequence[Tensor], x: Tensor, states: States, lengths: Tensor, reverse: bool
) -> Found:
    """Without recurrence: every step from the starting state, all steps at once as one batch."""
    steps, rows, width = x.shape
    starts = tuple(state.repeat(steps, 1) for state in states)
    _, _, named = recurrence.run(parameters, x.reshape(1, steps * rows, width), starts, None, False, True)
    live = live_steps(lengths, steps).unsqueeze(-1)
    named = {name: value.reshape(steps, rows, -1) * live for name, value in named.items()}
    last = torch.zeros_like(lengths) if reverse else (lengths - 1).clamp(min=0)
    every = [named[name] for name in recurrence.equations.states]
    finals = tuple(
        torch.where((lengths > 0).unsqueeze(-1), value[last, torch.arange(rows)], state)
        for value, state in zip(every, states, strict=True)
    )
    return every[0], finals, named


def live_steps(ends: Tensor, steps: int) -> Tensor:
    """(time, batch): which steps are within the length of their sequence."""
    return torch.arange(steps).unsqueeze(1) < ends
