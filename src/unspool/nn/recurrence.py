"""Recurrence: equations over time, by a compiled kernel where that can be, else by the eager loop; it says which."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unspool import engine
from unspool.cells import document
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.errors import UnspoolError
from unspool.nn.layer import valid_steps
from unspool.nn.operations import OPERATIONS

Trace = dict[str, Tensor]
States = tuple[Tensor, ...]


class Recurrence:
    """One cell's equations, ready to run over time with any parameters of the sizes they were made for."""

    def __init__(self, equations: Equations, input_size: int, hidden_size: int) -> None:
        self.equations = equations
        self.step = Evaluator(equations, OPERATIONS)
        self.cell = document.dump(equations)
        self._sizes = input_size, hidden_size
        self._kernel: engine.Kernel | None = None
        self._why_not: str | None = None

    def run(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        states: States,
        ends: Tensor | None = None,
        reverse: bool = False,
        trace: bool = False,
    ) -> tuple[Tensor, States, Trace]:
        """Output (time, batch, width), final states, and, if asked, every named value at every step."""
        names = tuple(self.equations.parameters)  # the order that the kernel knows
        tensors = [x, *states, *(parameters[name] for name in names)]
        if torch.compiler.is_compiling() and not trace and fits(x):
            return run_operator(self.cell, self._sizes[1], tensors, len(states), ends, reverse)
        if self.engine_for(tensors, trace) is not None:
            return unroll(self.step, parameters, x, states, ends, reverse, trace)
        job = self.job(len(states), ends, reverse)
        if trace:
            return job.trace(tensors)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            output, *finals = _Differentiable.apply(job, *tensors)  # type: ignore[no-untyped-call]
        else:
            output, finals, _ = job.forward(tensors, keep=False)
        return output, tuple(finals), {}

    def job(self, states: int, ends: Tensor | None, reverse: bool) -> Job:
        """A call of the kernel, built now if it has to be."""
        why_not = self._build()
        if self._kernel is None:
            raise UnspoolError(f"there is no kernel of {self.equations.title}: {why_not}")
        return Job(self._kernel, self.step, tuple(self.equations.parameters), states, ends, reverse)

    @property
    def record(self) -> int:
        """How many numbers the kernel keeps for each row and step."""
        return engine.record_length(self.equations, *self._sizes)

    def engine_for(self, tensors: Sequence[Tensor], trace: bool = False) -> str | None:
        """None if the kernel can run these tensors, else the reason why the eager loop does."""
        x = tensors[0]
        if not fits(x):
            return f"kernels are for float32 and float64 on the CPU, not {x.dtype} on {x.device}"
        if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
            return "a function transform is at work"
        if forward_ad._current_level >= 0 or torch.is_autocast_enabled("cpu"):
            return "forward-mode differentiation or autocast is at work"
        if any(t.dtype != x.dtype or type(t) not in (Tensor, torch.nn.Parameter) for t in tensors):
            return "the tensors are not all plain tensors of one dtype"
        if 0 in x.shape[:2]:
            return "there is nothing to compute"
        if trace and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return "a trace that can be differentiated is made eagerly; use torch.no_grad() otherwise"
        return self._build()

    def _build(self) -> str | None:
        if self._kernel is None and self._why_not is None:
            if not engine.enabled():
                return "UNSPOOL_ENGINE=off"
            try:
                self._kernel = engine.Kernel(self.equations, *self._sizes)
            except UnspoolError as error:
                self._why_not = str(error)
                warnings.warn(f"{self.equations.title} runs eagerly: {error}", RuntimeWarning, stacklevel=2)
        return self._why_not


def fits(x: Tensor) -> bool:
    """Whether there are kernels for such tensors."""
    return x.dtype in (torch.float32, torch.float64) and x.device.type == "cpu"


def run_operator(
    cell: str, hidden_size: int, tensors: Sequence[Tensor], count: int, ends: Tensor | None, reverse: bool
) -> tuple[Tensor, States, Trace]:
    """The kernel as torch's compiler sees it: one operator, which carries the cell as JSON."""
    x, states, parameters = tensors[0], list(tensors[1 : 1 + count]), list(tensors[1 + count :])
    keep = torch.is_grad_enabled()
    found = torch.ops.unspool.recurrence(cell, hidden_size, x, states, parameters, ends, reverse, keep)
    return found[0], tuple(found[1:-1]), {}


class Job:
    """One call of a kernel on torch tensors: who they are, where they lie, what comes back."""

    def __init__(
        self,
        kernel: engine.Kernel,
        step: Evaluator,
        names: tuple[str, ...],
        states: int,
        ends: Tensor | None,
        reverse: bool,
    ) -> None:
        self.kernel, self.step, self.names, self.states, self.reverse = kernel, step, names, states, reverse
        self.ends = None if ends is None else ends.to("cpu", torch.int64).contiguous()

    def forward(self, tensors: Sequence[Tensor], keep: bool, traced: bool = False) -> tuple[Tensor, list[Tensor], Any]:
        """Output, final states, and the tape or the trace."""
        x, *rest = [tensor.contiguous() for tensor in tensors]
        start, parameters = rest[: self.states], rest[self.states :]
        steps, rows, _ = x.shape
        out = x.new_empty(steps, rows, start[0].shape[1])
        final = [torch.empty_like(state) for state in start]
        tape = x.new_empty(steps * rows * self.kernel.record) if keep else None
        trace = [x.new_empty(steps, rows, width) for width in self.kernel.named_widths] if traced else None
        self.kernel.forward(
            x.element_size(),
            (steps, rows),
            torch.get_num_threads(),
            self.reverse,
            _at(self.ends),
            x.data_ptr(),
            [p.data_ptr() for p in parameters],
            [s.data_ptr() for s in start],
            out.data_ptr(),
            [s.data_ptr() for s in final],
            _at(tape),
            None if trace is None else [t.data_ptr() for t in trace],
        )
        return out, final, tape if keep else trace

    def trace(self, tensors: Sequence[Tensor]) -> tuple[Tensor, States, Trace]:
        """Output, final states, and every named value."""
        out, final, values = self.forward(tensors, keep=False, traced=True)
        return out, tuple(final), dict(zip(self.kernel.equations.named, values, strict=True))

    def backward(
        self, tensors: Sequence[Tensor], out: Tensor, tape: Tensor, gradients: Sequence[Tensor | None], wants_x: bool
    ) -> list[Tensor | None]:
        """Gradients of x, the states and the parameters."""
        x, *rest = [tensor.contiguous() for tensor in tensors]
        start, parameters = rest[: self.states], rest[self.states :]
        d_out, *d_final = [None if g is None else g.contiguous() for g in gradients]
        d_x = torch.empty_like(x) if wants_x else None
        d_start = [torch.empty_like(state) for state in start]
        d_parameters = [torch.empty_like(parameter) for parameter in parameters]
        self.kernel.backward(
            x.element_size(),
            (x.shape[0], x.shape[1]),
            torch.get_num_threads(),
            self.reverse,
            _at(self.ends),
            x.data_ptr(),
            [p.data_ptr() for p in parameters],
            [s.data_ptr() for s in start],
            out.data_ptr(),
            tape.data_ptr(),
            _at(d_out),
            [_at(g) for g in d_final],
            _at(d_x),
            [p.data_ptr() for p in d_parameters],
            [s.data_ptr() for s in d_start],
        )
        return [d_x, *d_start, *d_parameters]

    def eager(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        x, *rest = tensors
        parameters = dict(zip(self.names, rest[self.states :], strict=True))
        out, final, _ = unroll(self.step, parameters, x, tuple(rest[: self.states]), self.ends, self.reverse)
        return out, *final


class _Differentiable(torch.autograd.Function):
    """The kernel's passes under autograd. A second differentiation goes through the eager loop."""

    @staticmethod
    def forward(ctx: Any, job: Job, *tensors: Tensor) -> tuple[Tensor, ...]:
        out, final, tape = job.forward(tensors, keep=True)
        ctx.job = job
        ctx.save_for_backward(*tensors, out, tape)
        ctx.set_materialize_grads(False)
        return out, *final

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, out, tape = ctx.saved_tensors
        if all(g is None for g in gradients):
            return (None,) * (1 + len(tensors))
        if torch.is_grad_enabled():  # the gradient is itself to be differentiated
            return None, *_eager_gradients(ctx, tensors, gradients)
        return None, *ctx.job.backward(tensors, out, tape, gradients, ctx.needs_input_grad[1])


def _eager_gradients(ctx: Any, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    results = ctx.job.eager(*tensors)
    pairs = [(result, g) for result, g in zip(results, gradients, strict=True) if g is not None]
    wanted = [tensor for tensor, needed in zip(tensors, ctx.needs_input_grad[1:], strict=True) if needed]
    found = iter(
        torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True)
    )
    return [next(found) if needed else None for needed in ctx.needs_input_grad[1:]]


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def unroll(
    step: Evaluator,
    parameters: Mapping[str, Tensor],
    x: Tensor,
    states: States,
    ends: Tensor | None = None,
    reverse: bool = False,
    trace: bool = False,
) -> tuple[Tensor, States, Trace]:
    """The eager loop over time: output (time, batch, width), final states, and, if asked, every named value.

    A ragged batch needs no flipping in reverse: a row's state rests until the walk comes to its last step.
    """
    steps, rows, _ = x.shape
    valid = None
    if ends is not None:
        valid = valid_steps(ends, steps)
        x = x.masked_fill(~valid, 0.0)  # what stands in the padding, NaN included, must not reach a gradient
    outputs: dict[int, Tensor] = {}
    values: dict[int, Trace] = {}
    for t in reversed(range(steps)) if reverse else range(steps):
        new, named = step(parameters, x[t], states)
        new = tuple(_rows(value, rows) for value in new)
        if valid is not None:
            new = tuple(torch.where(valid[t], value, old) for value, old in zip(new, states, strict=True))
        states = new
        outputs[t] = states[0] if valid is None else states[0].masked_fill(~valid[t], 0.0)
        if trace:
            values[t] = {name: _rows(value, rows) for name, value in named.items()}
    if not steps:
        return states[0].new_zeros(0, *states[0].shape), states, {}
    output = torch.stack([outputs[t] for t in range(steps)])
    traced = {name: torch.stack([values[t][name] for t in range(steps)]) for name in values.get(0, {})}
    if valid is not None:
        traced = {name: value.masked_fill(~valid, 0.0) for name, value in traced.items()}
    return output, states, traced


def _rows(value: Tensor, rows: int) -> Tensor:
    """A value that does not depend on the batch, such as a parameter vector, as one row each."""
    return value if value.dim() == 2 else value.expand(rows, -1)
