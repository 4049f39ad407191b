"""Linear step: what small changes, and gradients, become in steps of a recorded layer.

All that does not depend on the change is computed once, for any number of steps together: `LinearLayer.at`. Then a
change passes a step by products with the layer's matrices and by factors per unit, without differentiation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.cells.symbols import Symbol
from unspool.insight.backward import pull_back
from unspool.insight.linear_plan import Plan, Stage, make_plan
from unspool.nn.operations import OPERATIONS

#: Changes, or gradients, of some values of the equations.
Changes = dict[Symbol, Tensor]
#: A value, and another that it depends on unit by unit.
Pair = tuple[Symbol, Symbol]

#: Numbers of states that are made linear together.
TOGETHER = 2**19


@dataclass(frozen=True, eq=False)
class Pulled:
    """A gradient that was pulled back through steps; None where nothing arrives."""

    x: Tensor | None
    states: Tensor
    maps: tuple[Tensor | None, ...]  # per stage of linear maps: of their values, side by side
    vectors: Mapping[str, Tensor]  # by name, one value per place

    def without(self, part: Pulled) -> Pulled:
        """The rest of a gradient, as far as those of parameters are made from it."""
        pairs = zip(self.maps, part.maps, strict=True)
        maps = tuple(own if own is None or other is None else own - other for own, other in pairs)
        return replace(self, maps=maps, vectors={name: own - part.vectors[name] for name, own in self.vectors.items()})


class Term(NamedTuple):
    """One term of the gradients of parameters, which are side by side along their first axis."""

    names: tuple[str, ...]
    g: Tensor  # (…, rows)
    v: Tensor | None  # (…, columns); None for vectors


class LinearLayer:
    """The steps of a layer, ready to be made linear at any of its places.

    Args:
        equations: of its cell.
        parameters: by their names in the equations.
        widths: of its states.
    """

    def __init__(self, equations: Equations, parameters: Mapping[str, Tensor], widths: Mapping[str, int]) -> None:
        self.plan: Plan = make_plan(equations)
        self.parameters, self.widths = parameters, list(widths.values())
        self.matrices = [
            [torch.cat([parameters[name] for name in stage.matrices(place)]) for place in range(len(stage.operands))]
            if stage.is_linear
            else []
            for stage in self.plan.stages
        ]
        cut = {name: _cut(OPERATIONS[name]) for name in ("linear", "normalise")}
        named = {name: node for node, name in self.plan.values.items()}
        pairs = [(stage.nodes[0], stage.operands[0]) for stage in self.plan.stages if not stage.is_linear]
        self.normal = tuple(dict.fromkeys(node for pair in pairs for node in pair))
        read = [operand for stage in self.plan.stages for operand in stage.operands]
        self._kept = tuple(dict.fromkeys([*self.normal, *read, *self.plan.states, self.plan.x]))
        self.sizes = [
            [parameters[name].shape[0] for name in stage.matrices(0)] if stage.is_linear else []
            for stage in self.plan.stages
        ]
        self._evaluate = Evaluator(replace(equations, named=named), {**OPERATIONS, **cut})

    def at(self, x: Tensor, states: Tensor) -> LinearStep:
        """The layer's steps, made linear at places of any number of axes: (…, input) and (…, states)."""
        shape = states.shape[:-1]
        rows = x.reshape(-1, x.shape[-1]), states.reshape(-1, states.shape[-1])
        most = max(1, TOGETHER // max(1, states.shape[-1]))
        parts = [self._factors(*part) for part in zip(*(each.split(most) for each in rows), strict=True)]
        factors = {pair: _join([own[pair] for own, _ in parts], shape) for pair in parts[0][0]}
        return LinearStep(self, factors, {node: _join([own[node] for _, own in parts], shape) for node in parts[0][1]})

    def iterate(self, x: Tensor, states: Tensor, order: Sequence[int]) -> Iterator[LinearStep]:
        """The steps one after another: `order` is of the first axis of (time, batch, …); some are linear at a time."""
        together = max(1, TOGETHER // max(1, states[:1].numel()))
        for first in range(0, len(order), together):
            part = list(order[first : first + together])
            yield from self.at(x[part], states[part]).unbind()

    def _factors(self, x: Tensor, states: Tensor) -> tuple[dict[Pair, Tensor], dict[Symbol, Tensor]]:
        """The factors at n places, and the values that gradients of parameters and normalizations need."""
        values = self._values(x, states)
        factors: dict[Pair, Tensor] = {}
        for root, leaves in self.plan.reads.items():
            if not leaves or leaves[0] is root or not values[root].requires_grad:
                continue
            some = [values[leaf] for leaf in leaves]
            found = pull_back([values[root]], [torch.ones_like(values[root])], some)
            factors |= {(root, leaf): got for leaf, got in zip(leaves, found, strict=True) if got is not None}
        return factors, {node: values[node].detach() for node in self._kept if node in values}

    def _values(self, x: Tensor, states: Tensor) -> dict[Symbol, Tensor]:
        """All values of the equations; each differentiable only as far as the last map or normalization."""
        parts = [part.detach().requires_grad_() for part in states.split(self.widths, -1)]
        vectors = {
            node.detail: self.parameters[node.detail].detach().expand(len(x), -1).clone().requires_grad_()
            for node in self.plan.vectors
        }
        with torch.enable_grad():
            given = {**self.parameters, **vectors}
            _, named = self._evaluate(given, x.detach().requires_grad_(), parts)
        found = {node: named[name] for node, name in self.plan.values.items()}
        return {node: _full(value, x) for node, value in found.items() if isinstance(value, Tensor) and value.dim()}


def _join(parts: Sequence[Tensor], shape: torch.Size) -> Tensor:
    """Parts one after another, as places of a shape."""
    return torch.cat(list(parts)).view(*shape, -1)


def _cut(operation: Any) -> Any:
    """An operation whose result is a leaf of the graph that autograd follows."""

    def apart(*given: Any) -> Tensor:
        with torch.no_grad():
            found: Tensor = operation(*given)
        return found.detach().requires_grad_()

    return apart


def _full(value: Tensor, x: Tensor) -> Tensor:
    """A value with one row per place."""
    return value if value.dim() == 2 or not value.is_floating_point() else value.expand(len(x), -1)


class LinearStep:
    """Steps of a layer, linear around recorded places.

    The places have any number of axes; `step[t]` is the places of index t on the first. Changes and gradients may have
    more axes before those of the places, such as one for several changes of each place.
    """

    def __init__(self, layer: LinearLayer, factors: Mapping[Pair, Tensor], values: Mapping[Symbol, Tensor]) -> None:
        self.layer, self.factors, self.values = layer, factors, values

    @property
    def dtype(self) -> torch.dtype:
        """Of its numbers."""
        return next(iter(self.values.values())).dtype

    @property
    def input_size(self) -> int:
        """The width of x."""
        return self.values[self.layer.plan.x].shape[-1]

    def unbind(self) -> Iterator[LinearStep]:
        """The steps along the first axis of the places."""
        count = len(next(iter(self.values.values())))
        factors = {pair: factor.unbind() for pair, factor in self.factors.items()}
        values = {node: self.values[node].unbind() for node in self.layer.normal}
        for t in range(count):
            own = {node: value[t] for node, value in values.items()}
            yield LinearStep(self.layer, {pair: factor[t] for pair, factor in factors.items()}, own)

    def pick(self, places: Tensor) -> LinearStep:
        """Some of the places, by their numbers on the first axis, without what gradients of parameters need."""
        factors = {pair: factor[places] for pair, factor in self.factors.items()}
        return LinearStep(self.layer, factors, {node: self.values[node][places] for node in self.layer.normal})

    def push(self, states: Tensor | None, x: Tensor | None = None) -> Tensor:
        """The change of the states after the steps, from that of the states before them, of the input, or of both."""
        plan, known = self.layer.plan, {}
        if states is not None:
            known = dict(zip(plan.states, states.split(self.layer.widths, -1), strict=True))
        if x is not None:
            known[plan.x] = x
        like = x if states is None else states
        assert like is not None
        return torch.cat(
            [_or_zeros(found, like, width) for found, width in zip(self._pass(known), self.layer.widths, strict=True)],
            -1,
        )

    def pull(self, states: Tensor, to_input: bool = True, to_states: bool = True) -> Pulled:
        """The gradients before the steps, from that of the states after them.

        Args:
            states: the gradient of the states after the steps.
            to_input: whether that of x is wanted.
            to_states: whether that of the states before is wanted. Without it they lack what passes through maps.
        """
        plan = self.layer.plan
        unwanted = {*(() if to_input else (plan.x,)), *(() if to_states else plan.states)}
        known: Changes = {}
        for result, part in zip(plan.results, states.split(self.layer.widths, -1), strict=True):
            self._spread(result, part, known)
        maps: list[Tensor | None] = []
        for number, stage in reversed(list(enumerate(plan.stages))):
            maps.append(self._pull_stage(number, stage, known, unwanted))
        before = [
            _or_zeros(known.get(node), states, width)
            for node, width in zip(plan.states, self.layer.widths, strict=True)
        ]
        vectors = {node.detail: known[node] for node in plan.vectors if node in known}
        return Pulled(known.get(plan.x), torch.cat(before, -1), tuple(reversed(maps)), vectors)

    def terms(self, pulled: Pulled) -> Iterator[Term]:
        """The gradients of the parameters as outer products of g and v, summed over places.

        A vector per unit, and a bias, has the gradient g alone; then v is 1.
        """
        for number, (stage, joined) in enumerate(zip(self.layer.plan.stages, pulled.maps, strict=True)):
            if joined is None:
                continue
            for place, operand in enumerate(stage.operands):
                yield Term(stage.matrices(place), joined, self.values[operand])
            parts = zip(stage.nodes, joined.split(self.layer.sizes[number], -1), strict=True)
            for node, part in parts:
                if node.detail.bias is not None:
                    yield Term((node.detail.bias,), part, None)
        for name, values in pulled.vectors.items():
            yield Term((name,), values, None)

    def gradients(self, pulled: Pulled) -> dict[str, Tensor]:
        """The gradients of the parameters, summed over all places; of those without effect none."""
        found: dict[str, Tensor] = {}
        for names, g, v in self.terms(pulled):
            rows = g.flatten(0, -2)
            whole = rows.sum(0) if v is None else rows.T @ v.expand(*g.shape[:-1], -1).flatten(0, -2)
            own = [self.layer.parameters[name] for name in names]
            sizes = [one.numel() if v is None else len(one) for one in own]
            for name, one, part in zip(names, own, whole.split(sizes), strict=True):
                part = part.view_as(one)  # in a step, the blocks of a block-diagonal matrix are one row of numbers
                found[name] = found[name] + part if name in found else part
        return found

    def with_axis(self) -> LinearStep:
        """The same for several changes of each place, on one more axis after those of the places."""
        factors = {pair: factor.unsqueeze(-2) for pair, factor in self.factors.items()}
        return LinearStep(self.layer, factors, {node: value.unsqueeze(-2) for node, value in self.values.items()})

    def jacobians(self) -> Tensor:
        """∂(states after)/∂(states before) of places with one axis: (n, states, states)."""
        widths, states = self.layer.widths, self.layer.plan.states
        count = len(next(iter(self.values.values())))
        like = next(iter(self.layer.parameters.values()), self.values[states[0]])
        found = like.new_zeros(count, sum(widths), sum(widths))
        own = self.with_axis()
        first = 0
        for node, width in zip(states, widths, strict=True):
            known = {node: torch.eye(width, dtype=found.dtype)}
            rows = torch.split(found[:, :, first : first + width], widths, 1)
            for into, part in zip(rows, own._pass(known, identity=node), strict=True):
                if part is not None:
                    into.copy_(part.expand(count, *part.shape[-2:]).mT)
            first += width
        return found

    def _pass(self, known: Changes, identity: Symbol | None = None) -> list[Tensor | None]:
        """Changes of the results, from those of the values that a step begins with; `identity` is changed by 1."""
        for number, stage in enumerate(self.layer.plan.stages):
            changes = [self._change(operand, known) for operand in stage.operands]
            if not stage.is_linear:
                if changes[0] is not None:
                    known[stage.nodes[0]] = self._normalize(stage.nodes[0], changes[0])
                continue
            total: Tensor | None = None
            for operand, matrix, change in zip(stage.operands, self.layer.matrices[number], changes, strict=True):
                if change is not None:
                    part = matrix.T if operand is identity else change @ matrix.T
                    total = part if total is None else total + part
            if total is not None:
                sizes = self.layer.sizes[number]
                known |= zip(stage.nodes, total.split(sizes, -1), strict=True)
        return [self._change(result, known) for result in self.layer.plan.results]

    def _change(self, root: Symbol, known: Changes) -> Tensor | None:
        """The change of a value from those that it depends on unit by unit; None for none."""
        if root in known:
            return known[root]
        total: Tensor | None = None
        for leaf in self.layer.plan.reads[root]:
            factor = self.factors.get((root, leaf))
            if factor is None or leaf not in known:
                continue
            total = factor * known[leaf] if total is None else torch.addcmul(total, factor, known[leaf])
        return total

    def _spread(self, root: Symbol, gradient: Tensor, known: Changes) -> None:
        """Add the gradient of a value to those of the values that it depends on unit by unit."""
        for leaf in self.layer.plan.reads[root]:
            if leaf is root:
                known[leaf] = known[leaf] + gradient if leaf in known else gradient
            elif (root, leaf) in self.factors:
                factor = self.factors[root, leaf]
                known[leaf] = torch.addcmul(known[leaf], factor, gradient) if leaf in known else factor * gradient

    def _pull_stage(self, number: int, stage: Stage, known: Changes, unwanted: set[Symbol]) -> Tensor | None:
        """Pass the gradients of a stage's results back to what it reads; those of maps are returned."""
        some = next((known[node] for node in stage.nodes if node in known), None)
        if some is None:
            return None
        if not stage.is_linear:
            self._spread(stage.operands[0], self._normalize(stage.nodes[0], some), known)
            return None
        sizes = self.layer.sizes[number]
        parts = [_or_zeros(known.get(node), some, size) for node, size in zip(stage.nodes, sizes, strict=True)]
        joined = torch.cat(parts, -1)
        for operand, matrix in zip(stage.operands, self.layer.matrices[number], strict=True):
            if self.layer.plan.reads[operand] and operand not in unwanted:
                self._spread(operand, joined @ matrix, known)
        return joined

    def _normalize(self, node: Symbol, change: Tensor) -> Tensor:
        """A change, or a gradient, through (v − mean v) / √(var v + ε); its Jacobian is symmetric."""
        y, value = self.values[node], self.values[node.inputs[0]]
        deviation = torch.sqrt(value.var(-1, keepdim=True, correction=0) + node.detail)
        return (change - change.mean(-1, keepdim=True) - y * (y * change).mean(-1, keepdim=True)) / deviation


def _or_zeros(value: Tensor | None, like: Tensor, width: int) -> Tensor:
    return like.new_zeros(*like.shape[:-1], width) if value is None else value
