"""Runner: a cell's equations bound to sizes, ready to run over time with any parameters of these sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unspool import engine
from unspool.cells import document
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.errors import UnspoolError
from unspool.nn.boundary import Boundary, find_addresses
from unspool.nn.entry import find_call
from unspool.nn.guard import guard_backward
from unspool.nn.kernel_call import Differentiable, KernelCall, addresses
from unspool.nn.layout import Layout, Tensors
from unspool.nn.lazy_kernel import LazyKernel
from unspool.nn.observation import current_observer
from unspool.nn.operations import OPERATIONS
from unspool.nn.quick_call import QuickCall
from unspool.nn.recompute import RecomputingCall, steps_between
from unspool.nn.recording import refuse
from unspool.nn.route import Route, choose_route
from unspool.nn.unroll import States, Trace, unroll


class Runner:
    """One cell's equations over time, by whichever route `choose_route` names.

    Args:
        equations: the cell's equations.
        input_size: the width of x.
        hidden_size: the number of units.
        layout: how the parameter tensors hold the parameters; by default one tensor per parameter.
    """

    def __init__(self, equations: Equations, input_size: int, hidden_size: int, layout: Layout | None = None) -> None:
        self.equations = equations
        self.layout = layout or Layout(tuple(equations.parameters))
        self.step = Evaluator(equations, OPERATIONS, (input_size, hidden_size))
        self.kernel = LazyKernel(equations, input_size, hidden_size, self.layout.places)
        self.document = document.dump(equations)
        self.sizes = input_size, hidden_size
        self.boundary = Boundary(equations, input_size, hidden_size, self.layout)
        self.widths = self.boundary.state_widths
        self._quick_calls: dict[tuple[bool, bool], QuickCall] = {}

    def run(
        self,
        parameters: Tensors,
        x: Tensor,
        states: States | None,
        ends: Tensor | None = None,
        reverse: bool = False,
        trace: bool = False,
        recompute: int | str | None = None,
        stacked: bool = False,
        route: Route | None = None,
    ) -> tuple[Tensor, States, Trace]:
        """Run over time.

        Args:
            parameters: the tensors of the layout.
            x: the input, (time, batch, input_size).
            states: the initial states, (batch, width) each; None for zeros.
            ends: the length of each sequence; None where all are as long as x.
            reverse: from each sequence's last step to its first.
            trace: whether to return every named value.
            recompute: as in `Recurrent`; the eager loop keeps everything.
            stacked: give final states a first dimension of one, as torch.nn does.
            route: the route, if it was chosen before for this call.

        Returns:
            The output (time, batch, width), the final states, and every named value at every step if `trace`.
        """
        self.boundary.check_numbers(x.dtype)
        route = route or choose_route(self.kernel, parameters, x, states, ends, trace, recompute)
        if route.name == "quick kernel":
            return *self.run_quick(parameters, x, states or (), reverse, stacked), {}
        if route.name == "kernel":
            tensors = (x, *states, *parameters) if states else (x, *parameters)
            call = self._make_call(len(x), ends, reverse, recompute, stacked)
            if trace:
                return call.trace(tensors)
            keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
            output, final, kept = call.forward(tensors, keep)
            if ends is None and recompute is None and not self.kernel.knows(x, states or (), parameters):
                self.kernel.remember(x, states or (), parameters)  # now that they were found to fit
            if keep:
                output, *final = Differentiable.apply(call, (output, final, kept), *tensors)  # type: ignore[no-untyped-call]
            return output, tuple(final), {}
        start = states or zeros(x, self.widths)
        return stack_states(self._run_without_kernel(route, parameters, x, start, ends, reverse, trace), stacked)

    def run_quick(
        self, parameters: Tensors, x: Tensor, states: States, reverse: bool, stacked: bool
    ) -> tuple[Tensor, States]:
        """`run` on tensors for which `is_quick` is true."""
        tensors = (x, *states, *parameters)
        if (call := find_call()) is not None and (found := self.quick_call(reverse, stacked).enter(call, tensors)):
            return found[0], found[1:]
        if torch.is_grad_enabled() and (parameters[0].requires_grad or any(t.requires_grad for t in tensors)):
            output, *finals = self.quick_call(reverse, stacked).run(tensors)
            return output, tuple(finals)
        size = x.element_size()
        places = find_addresses(tensors, size)
        if places is None:
            x, states, parameters = self.boundary.admit(tensors, None)  # type: ignore[assignment]
            places = addresses((x, *states, *parameters))
        steps, rows, _ = x.shape
        output = x.new_empty(steps, rows, self.widths[0])
        lead = (1,) if stacked else ()
        final = [x.new_empty(*lead, rows, width) for width in self.widths]
        first = 1 + len(states)
        given = places[0], places[first:], places[1:first], output.data_ptr(), addresses(final)
        self.kernel.built.forward(size, (steps, rows), torch.get_num_threads(), reverse, 0, *given)
        return output, tuple(final)

    def call(self, x: Tensor, ends: Tensor | None, reverse: bool) -> KernelCall:
        """A call of the kernel, which is built now if needed."""
        if why_not := self.kernel.why_not(x.element_size()):
            raise UnspoolError(f"there is no kernel of {self.equations.title}: {why_not}")
        return KernelCall(self.kernel.built, self.boundary, self.step, ends, reverse)

    @property
    def record(self) -> int:
        """How many numbers the kernel keeps per sequence and step."""
        return engine.record_length(self.equations, *self.sizes)

    def __deepcopy__(self, memo: dict[int, Any]) -> Runner:
        return self  # nothing in it changes with a layer

    def _run_without_kernel(
        self,
        route: Route,
        parameters: Tensors,
        x: Tensor,
        start: States,
        ends: Tensor | None,
        reverse: bool,
        trace: bool,
    ) -> tuple[Tensor, States, Trace]:
        """The routes on which this runner does not call its kernel itself."""
        if route.name == "refused":
            raise refuse(self.equations.title)
        if route.name == "observed":
            return current_observer().recur(self, parameters, x, start, ends, reverse)  # type: ignore[union-attr]
        if not torch.compiler.is_compiling():
            self.boundary.check(x, start, parameters)
        named = self.layout.named(parameters)
        if route.name == "operator":
            ordered = [named[name] for name in self.equations.parameters]
            return run_operator(self.document, self.sizes[1], x, start, ordered, ends, reverse)
        found = unroll(self.step, named, x, start, ends, reverse, trace)
        if len(x):  # of no step, the results are the states that were given
            guard_backward(found, (*self.layout.names, *self.equations.states), (*parameters, *start))
        return found

    def quick_call(self, reverse: bool, stacked: bool) -> QuickCall:
        """The call of known tensors, which is made once for each kind."""
        call = self._quick_calls.get((reverse, stacked))
        if call is None:
            call = QuickCall(self.kernel.built, self.boundary, self.step, reverse, stacked)
            self._quick_calls[reverse, stacked] = call
        return call

    def _make_call(
        self, steps: int, ends: Tensor | None, reverse: bool, recompute: int | str | None, stacked: bool
    ) -> KernelCall:
        given = self.kernel.built, self.boundary, self.step, ends, reverse, stacked
        return KernelCall(*given) if recompute is None else RecomputingCall(*given, steps_between(recompute, steps))


def run_operator(
    document: str, hidden_size: int, x: Tensor, states: Tensors, parameters: Tensors, ends: Tensor | None, reverse: bool
) -> tuple[Tensor, States, Trace]:
    """The kernel as torch's compiler sees it: one operator, which carries the cell as JSON."""
    keep = torch.is_grad_enabled()
    given = document, hidden_size, x, list(states), list(parameters), ends, reverse, keep
    found = torch.ops.unspool.recurrence(*given)
    return found[0], tuple(found[1:-1]), {}


def stack_states(results: tuple[Tensor, States, Trace], stacked: bool) -> tuple[Tensor, States, Trace]:
    """Results with final states that have a first dimension of one, where that is wanted."""
    output, final, values = results
    return output, tuple(state.unsqueeze(0) for state in final) if stacked else final, values


def zeros(x: Tensor, widths: Sequence[int]) -> States:
    """States of zeros for the batch size of x."""
    return tuple(x.new_zeros(x.shape[1], width) for width in widths)
