"""Differentiated step: what small changes, and gradients, become in steps that factors per unit cannot describe.

Some steps mix units other than by linear maps: matrices as states, softmax, sums over units, one number that acts on
all units. torch differentiates those, at every use anew. It takes longer than factors, and gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.cells.symbols import Symbol
from unspool.cells.widths import factors, join
from unspool.insight.backward import pull_back
from unspool.insight.linear_plan import mixes_units
from unspool.insight.linear_step import TOGETHER, LinearLayer, LinearStep, Pulled
from unspool.nn.operations import OPERATIONS


def make_linear_layer(equations: Equations, parameters: Mapping[str, Tensor], widths: Mapping[str, int]) -> LinearLayer:
    """The steps of a layer, ready to be made linear, by the fastest way that is exact for its cell.

    Args:
        equations: of its cell.
        parameters: by their names in the equations.
        widths: of its states.
    """
    kind = DifferentiatedLayer if mixes_units(equations) else LinearLayer
    return kind(equations, parameters, widths)


class DifferentiatedLayer(LinearLayer):
    """The steps of a layer whose cell mixes units."""

    def __init__(self, equations: Equations, parameters: Mapping[str, Tensor], widths: Mapping[str, int]) -> None:
        super().__init__(equations, parameters, widths)
        vectors = {node.detail for node in self.plan.vectors}
        flat = {
            name: (join([part for width in own for part in factors(width)]),) if name in vectors else own
            for name, own in equations.parameters.items()
        }
        named = {name: node for node, name in self.plan.values.items()}
        self._step = Evaluator(replace(equations, named=named, parameters=flat), OPERATIONS)

    def at(self, x: Tensor, states: Tensor) -> DifferentiatedStep:
        """The layer's steps around places of any number of axes: (…, input) and (…, states)."""
        return DifferentiatedStep(self, x, states)

    def iterate(self, x: Tensor, states: Tensor, order: Sequence[int]) -> Iterator[LinearStep]:
        """The steps one after another; `order` is of the first axis of (time, batch, …)."""
        for t in order:
            yield self.at(x[t], states[t])

    def evaluate(self, x: Tensor, states: Tensor) -> tuple[Tensor, dict[Symbol, Tensor]]:
        """The new states at n places, (n, states), and all values of the equations that are no numbers.

        Vectors have one row per place, so that their gradients are apart by place.
        """
        vectors = {
            node.detail: self.parameters[node.detail].reshape(-1).expand(len(x), -1).clone().requires_grad_()
            for node in self.plan.vectors
        }
        new, named = self._step({**self.parameters, **vectors}, x, states.split(self.widths, -1))
        after = torch.cat([value.expand(len(x), -1) for value in new], -1)
        found = {node: named[name] for node, name in self.plan.values.items()}
        return after, {node: value for node, value in found.items() if isinstance(value, Tensor) and value.dim()}

    def pull(self, x: Tensor, states: Tensor, cotangents: Tensor) -> list[Tensor]:
        """Gradients of x, of the states before, of the values of each linear stage, and of the vectors, at n places."""
        with torch.enable_grad():
            given = x.detach().requires_grad_(), states.detach().requires_grad_()
            after, values = self.evaluate(*given)
        wanted = [*given, *(values[node] for node in self.inner)]
        found = pull_back([after], [cotangents], wanted)
        return [torch.zeros_like(one) if got is None else got for one, got in zip(wanted, found, strict=True)]

    def push(self, x: Tensor, states: Tensor, x_change: Tensor, change: Tensor) -> list[Tensor]:
        """The change of the states after the steps at n places.

        The gradient Jᵀu is linear in u, and what J makes of a change is the gradient of its product with the change.
        torch's forward mode would need a compiler, whose import warns.
        """
        with torch.enable_grad():
            given = x.detach().requires_grad_(), states.detach().requires_grad_()
            after, _ = self.evaluate(*given)
            u = torch.zeros_like(after, requires_grad=True)
            pulled = torch.autograd.grad((after * u).sum(), given, create_graph=True, allow_unused=True)
            along = [(got * by).sum() for got, by in zip(pulled, (x_change, change), strict=True) if got is not None]
            total = sum(along, (0 * u).sum())  # which requires a gradient even if nothing depends on what is given
        return list(torch.autograd.grad(total, u))

    @cached_property
    def inner(self) -> list[Symbol]:
        """The values of linear maps, stage by stage, and then the vectors."""
        return [*(node for stage in self.plan.stages if stage.is_linear for node in stage.nodes), *self.plan.vectors]


class DifferentiatedStep(LinearStep):
    """Steps of such a layer around recorded places; used as a `LinearStep` is."""

    layer: DifferentiatedLayer

    def __init__(self, layer: DifferentiatedLayer, x: Tensor, states: Tensor) -> None:
        self.layer, self.x, self.states = layer, x, states

    @property
    def dtype(self) -> torch.dtype:
        """Of its numbers."""
        return self.states.dtype

    @property
    def input_size(self) -> int:
        """The width of x."""
        return self.x.shape[-1]

    @cached_property
    def values(self) -> Mapping[Symbol, Tensor]:  # type: ignore[override]
        """The values that gradients of parameters need, when they are first asked for."""
        read = {operand for stage in self.layer.plan.stages if stage.is_linear for operand in stage.operands}
        order = [node for node in self.layer.plan.values if node in read]

        def look(x: Tensor, states: Tensor) -> list[Tensor]:
            with torch.no_grad():
                _, values = self.layer.evaluate(x, states)
            return [values[node] for node in order]

        return dict(zip(order, self._in_parts(look, self.states.shape[:-1]), strict=True))

    def unbind(self) -> Iterator[LinearStep]:
        """The steps along the first axis of the places."""
        for x, states in zip(self.x, self.states, strict=True):
            yield DifferentiatedStep(self.layer, x, states)

    def pick(self, places: Tensor) -> LinearStep:
        """Some of the places, by their numbers on the first axis."""
        return DifferentiatedStep(self.layer, self.x[places], self.states[places])

    def with_axis(self) -> LinearStep:
        """The same for several changes of each place, on one more axis after those of the places."""
        return DifferentiatedStep(self.layer, self.x.unsqueeze(-2), self.states.unsqueeze(-2))

    def push(self, states: Tensor | None, x: Tensor | None = None) -> Tensor:
        """The change of the states after the steps, from that of the states before them, of the input, or of both."""
        like = x if states is None else states
        assert like is not None
        shape = torch.broadcast_shapes(like.shape[:-1], self.states.shape[:-1])
        changes = [
            like.new_zeros(*shape, width) if change is None else change.expand(*shape, width)
            for change, width in ((x, self.input_size), (states, self.states.shape[-1]))
        ]
        return self._in_parts(self.layer.push, shape, *changes)[0]

    def pull(self, states: Tensor, to_input: bool = True, to_states: bool = True) -> Pulled:  # noqa: ARG002
        """The gradients before the steps, from that of the states after them; all are found whether wanted or not."""
        shape = torch.broadcast_shapes(states.shape[:-1], self.states.shape[:-1])
        given = states.expand(*shape, -1)
        x, before, *inner = self._in_parts(self.layer.pull, shape, given)
        parts = iter(inner)
        maps = [
            torch.cat([next(parts) for _ in stage.nodes], -1) if stage.is_linear else None
            for stage in self.layer.plan.stages
        ]
        vectors = {node.detail: next(parts) for node in self.layer.plan.vectors}
        return Pulled(x, before, tuple(maps), vectors)

    def jacobians(self) -> Tensor:
        """∂(states after)/∂(states before) of places with one axis: (n, states, states)."""
        size = self.states.shape[-1]
        every = torch.eye(size, dtype=self.dtype).expand(len(self.states), size, size)
        return self.with_axis().pull(every).states

    def _in_parts(self, compute: Callable[..., list[Tensor]], shape: Sequence[int], *given: Tensor) -> list[Tensor]:
        """What is computed from the rows of x, of the states and of others, for a limited number of rows at a time."""
        whole = [self.x.expand(*shape, -1), self.states.expand(*shape, -1), *given]
        rows = [each.reshape(-1, each.shape[-1]) for each in whole]
        most = max(1, TOGETHER // max(1, self.states.shape[-1]))
        ends = [*range(0, max(1, len(rows[0])), most), len(rows[0])]
        found = [compute(*(each[first:last] for each in rows)) for first, last in pairwise(ends)]
        return [torch.cat(parts).view(*shape, parts[0].shape[-1]) for parts in zip(*found, strict=True)]
