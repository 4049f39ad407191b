"""Recurrence: equations over time, by a compiled kernel where that can be, else by the eager loop; it says which."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unspool import engine
from unspool.cells import document
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.errors import DeviceError, ShapeError, UnspoolError
from unspool.nn.operations import OPERATIONS

Trace = dict[str, Tensor]
States = tuple[Tensor, ...]
Tensors = Sequence[Tensor]


class Layout:
    """How a layer's parameter tensors hold the parameters of the equations: here, one each and in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def shapes(self, equations: Equations, input_size: int, hidden_size: int) -> list[tuple[int, ...]]:
        """The shape of each tensor."""
        return list(equations.shapes(input_size, hidden_size).values())

    def named(self, tensors: Tensors) -> dict[str, Tensor]:
        """The parameters by name, as differentiable parts of the tensors."""
        return dict(zip(self.names, tensors, strict=True))

    def parts(self, tensors: Tensors) -> tuple[list[int], Any]:
        """The address of each parameter, and what must live as long as the addresses are used."""
        whole = [tensor.contiguous() for tensor in tensors]
        return [tensor.data_ptr() for tensor in whole], whole

    def gradients(self, tensors: Tensors) -> tuple[list[int], Callable[[], list[Tensor]]]:
        """Addresses for the gradient of each parameter, and what then gives the gradient of each tensor."""
        found = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
        return [tensor.data_ptr() for tensor in found], lambda: found


class Recurrence:
    """One cell's equations, ready to run over time with any parameters of the sizes they were made for."""

    def __init__(self, equations: Equations, input_size: int, hidden_size: int, layout: Layout | None = None) -> None:
        self.equations = equations
        self.layout = layout or Layout(tuple(equations.parameters))
        self.step = Evaluator(equations, OPERATIONS)
        self.cell = document.dump(equations)
        self._sizes = input_size, hidden_size
        self._widths = [equations.size(width, input_size, hidden_size) for width in equations.states.values()]
        self._shapes = self.layout.shapes(equations, input_size, hidden_size)
        self._kernel: engine.Kernel | None = None
        self._why_not: str | None = None

    def run(
        self,
        parameters: Tensors,
        x: Tensor,
        states: States | None,
        ends: Tensor | None = None,
        reverse: bool = False,
        trace: bool = False,
    ) -> tuple[Tensor, States, Trace]:
        """Output (time, batch, width), final states, and, if asked, every named value at every step.

        Without states it begins at zero.
        """
        compiling = torch.compiler.is_compiling()
        tensors = (x, *(states or ()), *parameters)
        if not compiling:
            self._check_parameters(parameters, x.device)
        if compiling or self.engine_for(tensors, trace) is not None:
            named = self.layout.named(parameters)
            start = states or tuple(x.new_zeros(x.shape[1], width) for width in self._widths)
            if compiling and not trace and fits(x):
                ordered = [named[name] for name in self.equations.parameters]
                return run_operator(self.cell, self._sizes[1], x, start, ordered, ends, reverse)
            return unroll(self.step, named, x, start, ends, reverse, trace)
        job = self.job(x, ends, reverse)
        if trace:
            return job.trace(tensors)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            output, *finals = _Differentiable.apply(job, *tensors)  # type: ignore[no-untyped-call]
        else:
            output, finals, _ = job.forward(tensors)
        return output, tuple(finals), {}

    def _check_parameters(self, parameters: Tensors, device: torch.device) -> None:
        """A kernel takes addresses: parameters that were replaced by others that do not fit must not reach it."""
        for name, tensor, shape in zip(self.layout.names, parameters, self._shapes, strict=True):
            if tensor.shape != shape:
                got = tuple(tensor.shape)
                raise ShapeError.of(name, got, f"is not of shape {shape}", "Make a layer of these sizes")
            if tensor.device != device:
                where = tensor.device
                raise DeviceError.of(name, where, f"is where x is not, on {device}", "Move the layer by .to(device)")

    def __deepcopy__(self, memo: dict[int, Any]) -> Recurrence:
        return self  # nothing in it changes with a layer

    def job(self, x: Tensor, ends: Tensor | None, reverse: bool) -> Job:
        """A call of the kernel, built now if it has to be."""
        why_not = self._build(x.element_size())
        if self._kernel is None or why_not is not None:
            raise UnspoolError(f"there is no kernel of {self.equations.title}: {why_not}")
        return Job(self._kernel, self.layout, self.step, ends, reverse)

    @property
    def record(self) -> int:
        """How many numbers the kernel keeps for each row and step."""
        return engine.record_length(self.equations, *self._sizes)

    def engine_for(self, tensors: Tensors, trace: bool = False) -> str | None:
        """None if the kernel can run these tensors, else the reason why the eager loop does."""
        x = tensors[0]
        if not fits(x):
            return f"kernels are for float32 and float64 on the CPU, not {x.dtype} on {x.device}"
        if torch._C._functorch.maybe_current_level() is not None:
            return "a function transform is at work"
        if torch._C._get_tracing_state() is not None or torch._C._len_torch_dispatch_stack():
            return "the operations are being recorded"
        if forward_ad._current_level >= 0 or torch.is_autocast_enabled("cpu"):
            return "forward-mode differentiation or autocast is at work"
        dtype = x.dtype
        for tensor in tensors:
            if tensor.dtype is not dtype or type(tensor) not in PLAIN or tensor.is_neg() or tensor.device != x.device:
                return "the tensors are not all plain tensors of one dtype on one device"
        if 0 in x.shape[:2]:
            return "there is nothing to compute"
        if trace and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return "a trace that can be differentiated is made eagerly; use torch.no_grad() otherwise"
        return self._build(x.element_size())

    def _build(self, itemsize: int) -> str | None:
        if self._why_not is not None or not engine.enabled():
            return self._why_not or "UNSPOOL_ENGINE=off"
        try:
            if self._kernel is None:
                self._kernel = engine.Kernel(self.equations, *self._sizes)
            self._kernel.prepare(itemsize)
        except UnspoolError as error:
            self._why_not = str(error)
            warnings.warn(f"{self.equations.title} runs eagerly: {error}", RuntimeWarning, stacklevel=2)
        return self._why_not


PLAIN = (Tensor, torch.nn.Parameter)


def fits(x: Tensor) -> bool:
    """Whether there are kernels for such tensors."""
    return x.dtype in (torch.float32, torch.float64) and x.device.type == "cpu"


def run_operator(
    cell: str, hidden_size: int, x: Tensor, states: Tensors, parameters: Tensors, ends: Tensor | None, reverse: bool
) -> tuple[Tensor, States, Trace]:
    """The kernel as torch's compiler sees it: one operator, which carries the cell as JSON."""
    keep = torch.is_grad_enabled()
    found = torch.ops.unspool.recurrence(cell, hidden_size, x, list(states), list(parameters), ends, reverse, keep)
    return found[0], tuple(found[1:-1]), {}


class Job:
    """One call of a kernel on torch tensors (x, then the states if any were given, then the parameters)."""

    def __init__(
        self, kernel: engine.Kernel, layout: Layout, step: Evaluator, ends: Tensor | None, reverse: bool
    ) -> None:
        self.kernel, self.layout, self.step, self.reverse = kernel, layout, step, reverse
        self.ends = None if ends is None else ends.to("cpu", torch.int64, copy=True).contiguous()

    def split(self, tensors: Tensors) -> tuple[Tensor, Tensors, Tensors]:
        """x, the states (or none) and the parameters."""
        count = len(tensors) - 1 - len(self.layout.names)
        return tensors[0], tensors[1 : 1 + count], tensors[1 + count :]

    def forward(
        self, tensors: Tensors, keep: bool = False, traced: bool = False, clean: bool = False
    ) -> tuple[Tensor, list[Tensor], Any]:
        """Output, final states, and the tape or the trace; a `clean` tape has zeros where rows are over."""
        x, start, parameters = self.split(tensors)
        x, start = x.contiguous(), [state.contiguous() for state in start]
        steps, rows, _ = x.shape
        widths = self.kernel.state_widths
        out = x.new_empty(steps, rows, widths[0])
        final = [x.new_empty(rows, width) for width in widths]
        tape = x.new_empty(steps * rows * self.kernel.record) if keep else None
        if tape is not None and clean:
            tape.zero_()
        trace = [x.new_empty(steps, rows, width) for width in self.kernel.named_widths] if traced else []
        addresses, alive = self.layout.parts(parameters)
        self.kernel.forward(
            x.element_size(),
            (steps, rows),
            torch.get_num_threads(),
            self.reverse,
            _at(self.ends),
            x.data_ptr(),
            addresses,
            [state.data_ptr() for state in start],
            out.data_ptr(),
            [state.data_ptr() for state in final],
            _at(tape),
            [value.data_ptr() for value in trace],
        )
        del alive
        return out, final, tape if keep else trace

    def trace(self, tensors: Tensors) -> tuple[Tensor, States, Trace]:
        """Output, final states, and every named value."""
        out, final, values = self.forward(tensors, traced=True)
        return out, tuple(final), dict(zip(self.kernel.equations.named, values, strict=True))

    def backward(
        self, tensors: Tensors, out: Tensor, tape: Tensor, gradients: Sequence[Tensor | None], wants_x: bool
    ) -> list[Tensor | None]:
        """Gradients of x, the states (if any were given) and the parameters."""
        x, start, parameters = self.split(tensors)
        x, start = x.contiguous(), [state.contiguous() for state in start]
        d_out, *d_final = [None if g is None else g.contiguous() for g in gradients]
        d_x = torch.empty_like(x) if wants_x else None
        d_start = [torch.empty_like(state) for state in start]
        addresses, alive = self.layout.parts(parameters)
        d_addresses, finish = self.layout.gradients(parameters)
        self.kernel.backward(
            x.element_size(),
            (x.shape[0], x.shape[1]),
            torch.get_num_threads(),
            self.reverse,
            _at(self.ends),
            x.data_ptr(),
            addresses,
            [state.data_ptr() for state in start],
            out.data_ptr(),
            tape.data_ptr(),
            _at(d_out),
            [_at(gradient) for gradient in d_final],
            _at(d_x),
            d_addresses,
            [state.data_ptr() for state in d_start],
        )
        del alive
        return [d_x, *d_start, *finish()]

    def eager(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same by the eager loop."""
        x, states, parameters = self.split(tensors)
        start = tuple(states) or tuple(x.new_zeros(x.shape[1], width) for width in self.kernel.state_widths)
        named = self.layout.named(parameters)
        out, final, _ = unroll(self.step, named, x, start, self.ends, self.reverse)
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
        if torch.is_grad_enabled() or not all(map(_is_plain, gradients)):
            # the gradient is itself to be differentiated, or comes in a batch
            return None, *_eager_gradients(ctx, tensors, gradients)
        return None, *ctx.job.backward(tensors, out, tape, gradients, ctx.needs_input_grad[1])


def _is_plain(gradient: Tensor | None) -> bool:
    """Whether a gradient has memory of its own; one of a batch of gradients has not."""
    if gradient is None:
        return True
    try:
        gradient.data_ptr()
    except RuntimeError:
        return False
    return type(gradient) in PLAIN and not gradient.is_neg()


def _eager_gradients(ctx: Any, tensors: Tensors, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        results = ctx.job.eager(*tensors)
    pairs = [(result, g) for result, g in zip(results, gradients, strict=True) if g is not None]
    wanted = [tensor for tensor, needed in zip(tensors, ctx.needs_input_grad[1:], strict=True) if needed]
    found = iter(
        torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs], create_graph=again, allow_unused=True)
    )
    return [next(found) if needed else None for needed in ctx.needs_input_grad[1:]]


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


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
    steps, rows, width = x.shape
    if not steps:
        named = step(parameters, x.new_zeros(rows, width), states)[1] if trace else {}
        empty = {name: value.new_zeros(0, *_rows(value, rows).shape) for name, value in named.items()}
        return states[0].new_zeros(0, *states[0].shape), states, empty
    outputs: dict[int, Tensor] = {}
    values: dict[int, Trace] = {}
    for t in reversed(range(steps)) if reverse else range(steps):
        live = None if ends is None else (ends > t).nonzero().squeeze(1)
        if live is None or len(live) == rows:
            new, named = step(parameters, x[t], states)
            states = tuple(_rows(value, rows) for value in new)
            outputs[t] = states[0]
            values[t] = {name: _rows(value, rows) for name, value in named.items()} if trace else {}
        else:  # rows that rest are left out, not masked: a mask stops values, but lets 0·∞ into gradients
            new, named = step(parameters, x[t, live], [state[live] for state in states])
            states = tuple(_place(value, live, state) for value, state in zip(new, states, strict=True))
            blank = x.new_zeros(rows, 1)
            outputs[t] = _place(new[0], live, blank)
            values[t] = {name: _place(value, live, blank) for name, value in named.items()} if trace else {}
    output = torch.stack([outputs[t] for t in range(steps)])
    return output, states, {name: torch.stack([values[t][name] for t in range(steps)]) for name in values[0]}


def _place(value: Tensor, live: Tensor, rows: Tensor) -> Tensor:
    """`rows` with those that live replaced."""
    value = _rows(value, len(live))
    return rows.to(value.dtype).expand(-1, value.shape[1]).index_copy(0, live, value)


def _rows(value: Tensor, rows: int) -> Tensor:
    """A value that does not depend on the batch, such as a parameter vector, as one row each."""
    return value if value.dim() == 2 else value.expand(rows, -1)
