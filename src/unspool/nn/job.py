"""Job: one call of a kernel on torch tensors, forward and back, and its place under autograd."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool import engine
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.engine.kernel import Place
from unspool.nn import tapes
from unspool.nn.unroll import States, Trace, unroll

Tensors = Sequence[Tensor]

Given = tuple[int, tuple[int, int], int, bool, int, int, list[int], list[int]]

PLAIN = (Tensor, torch.nn.Parameter)


class Layout:
    """How a layer's parameter tensors hold the parameters of the equations: here, one each and in their order."""

    #: Where in the tensors each parameter lies, if not so.
    places: Sequence[tuple[Place, Place]] | None = None

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def shapes(self, equations: Equations, input_size: int, hidden_size: int) -> list[tuple[int, ...]]:
        """The shape of each tensor."""
        return list(equations.shapes(input_size, hidden_size).values())

    def named(self, tensors: Tensors) -> dict[str, Tensor]:
        """The parameters by name, as differentiable parts of the tensors."""
        return dict(zip(self.names, tensors, strict=True))


class Job:
    """One call of a kernel on torch tensors (x, then the states if any were given, then the parameters).

    With `every` only the states at every so many steps are kept for the way back, which goes through the steps between
    them once more. With `stacked` final states have a first dimension of one, as torch.nn's have.
    """

    def __init__(
        self,
        kernel: engine.Kernel,
        layout: Layout,
        step: Evaluator,
        ends: Tensor | None = None,
        reverse: bool = False,
        every: int | None = None,
        stacked: bool = False,
    ) -> None:
        self.kernel, self.layout, self.step, self.reverse, self.every = kernel, layout, step, reverse, every
        self.lead = (1,) if stacked else ()
        self.ends = None if ends is None else ends.to("cpu", torch.int64, copy=True).contiguous()

    def split(self, tensors: Tensors) -> tuple[Tensor, Tensors, Tensors]:
        """x, the states (or none) and the parameters."""
        first = len(tensors) - len(self.layout.names)
        return tensors[0], tensors[1:first], tensors[first:]

    def _split_whole(self, tensors: Tensors) -> tuple[Tensor, Tensors, Tensors]:
        return self.split([_whole(tensor) for tensor in tensors])

    def forward(
        self, tensors: Tensors, keep: bool = False, clean: bool = False
    ) -> tuple[Tensor, list[Tensor], Tensors]:
        """Output, final states and, to `keep`, the tape; a `clean` tape has zeros where rows are over."""
        x, start, parameters = self._split_whole(tensors)
        out, final = self._results(x)
        if not keep:
            self._forward(x, start, parameters, out, final, self.ends)
            return out, final, ()
        if self.every is not None:
            return out, final, self._forward_in_parts(x, start, parameters, out, final)
        tape = self._tape(x, clean)
        self._forward(x, start, parameters, out, final, self.ends, tape)
        return out, final, (tape,)

    def trace(self, tensors: Tensors) -> tuple[Tensor, States, Trace]:
        """Output, final states, and every named value."""
        x, start, parameters = self._split_whole(tensors)
        out, final = self._results(x)
        values = [x.new_empty(*x.shape[:2], width) for width in self.kernel.named_widths]
        self._forward(x, start, parameters, out, final, self.ends, None, values)
        return out, tuple(final), dict(zip(self.kernel.equations.named, values, strict=True))

    def backward(
        self, tensors: Tensors, out: Tensor, kept: Tensors, gradients: Sequence[Tensor | None], wants_x: bool
    ) -> list[Tensor | None]:
        """Gradients of x, the states (if any were given) and the parameters."""
        x, start, parameters = self._split_whole(tensors)
        d_out, *d_final = gradients
        d_out = None if d_out is None else _same_row(d_out) if _is_one_row(d_out) else _whole(d_out)
        d_final = [None if g is None else _whole(g) for g in d_final]
        d_x = torch.empty_like(x) if wants_x else None
        if self.every is None:
            found = self._backward(x, start, parameters, out, kept[0], d_out, d_final, d_x, self.ends)
            return [d_x, *found[0], *found[1]]
        total: list[Tensor] | None = None
        for place, (part, ends) in reversed(list(enumerate(self._parts(x.shape[0])))):
            begin = start if place == 0 else [states[place - 1] for states in kept]
            tape = self._tape(x[part])
            _, again = self._results(x[part])
            self._forward(x[part], begin, parameters, out[part], again, ends, tape)
            slope = None if d_out is None else d_out if d_out.dim() == 1 else d_out[part]
            into = None if d_x is None else d_x[part]
            d_start, d_parameters = self._backward(
                x[part], begin, parameters, out[part], tape, slope, d_final, into, ends
            )
            d_final = list(d_start)
            total = d_parameters if total is None else [a.add_(b) for a, b in zip(total, d_parameters, strict=True)]
        return [d_x, *(d_final if start else ()), *(total or ())]

    def eager(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same by the eager loop."""
        x, states, parameters = self.split(tensors)
        start = tuple(states) or tuple(x.new_zeros(x.shape[1], width) for width in self.kernel.state_widths)
        out, final, _ = unroll(self.step, self.layout.named(parameters), x, start, self.ends, self.reverse)
        return out, *(state.reshape(*self.lead, *state.shape) for state in final)

    # The kernel's own calls, on contiguous tensors

    def _results(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        steps, rows, _ = x.shape
        widths = self.kernel.state_widths
        return x.new_empty(steps, rows, widths[0]), [x.new_empty(*self.lead, rows, width) for width in widths]

    def _tape(self, x: Tensor, clean: bool = False) -> Tensor:
        numbers = x.shape[0] * x.shape[1] * self.kernel.record
        return x.new_zeros(numbers) if clean else tapes.take(x, numbers)

    def _given(self, x: Tensor, start: Tensors, parameters: Tensors, ends: Tensor | None) -> Given:
        """What both ways of the kernel are given first."""
        steps, rows, _ = x.shape
        return (
            x.element_size(),
            (steps, rows),
            torch.get_num_threads(),
            self.reverse,
            _at(ends),
            x.data_ptr(),
            [tensor.data_ptr() for tensor in parameters],
            [state.data_ptr() for state in start],
        )

    def _forward(
        self,
        x: Tensor,
        start: Tensors,
        parameters: Tensors,
        out: Tensor,
        final: Tensors,
        ends: Tensor | None,
        tape: Tensor | None = None,
        trace: Tensors = (),
    ) -> None:
        self.kernel.forward(
            *self._given(x, start, parameters, ends),
            out.data_ptr(),
            [state.data_ptr() for state in final],
            _at(tape),
            [value.data_ptr() for value in trace],
        )

    def _backward(
        self,
        x: Tensor,
        start: Tensors,
        parameters: Tensors,
        out: Tensor,
        tape: Tensor,
        d_out: Tensor | None,
        d_final: Sequence[Tensor | None],
        d_x: Tensor | None,
        ends: Tensor | None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Gradients of the states, if any were given, and of the parameters."""
        d_start = [torch.empty_like(state) for state in start]
        d_parameters = [torch.empty_like(tensor) for tensor in parameters]
        self.kernel.backward(
            *self._given(x, start, parameters, ends),
            out.data_ptr(),
            tape.data_ptr(),
            _at(d_out),
            [_at(gradient) for gradient in d_final],
            _at(d_x),
            [tensor.data_ptr() for tensor in d_parameters],
            [state.data_ptr() for state in d_start],
            d_out is not None and d_out.dim() == 1,
        )
        return d_start, d_parameters

    # Between kept states

    def _parts(self, steps: int) -> Iterator[tuple[slice, Tensor | None]]:
        """The steps between kept states, in the order in which they are taken, and how long rows are in each."""
        assert self.every is not None
        starts = range(0, steps, self.every)
        for first in reversed(starts) if self.reverse else starts:
            last = min(first + self.every, steps)
            yield slice(first, last), None if self.ends is None else (self.ends - first).clamp(0, last - first)

    def _forward_in_parts(self, x: Tensor, start: Tensors, parameters: Tensors, out: Tensor, final: Tensors) -> Tensors:
        """Fill output and final states; the states after every part but the last, (part, batch, width) each."""
        parts = list(self._parts(x.shape[0]))
        kept = [x.new_empty(len(parts) - 1, x.shape[1], width) for width in self.kernel.state_widths]
        for place, (part, ends) in enumerate(parts):
            after = final if place == len(parts) - 1 else [states[place] for states in kept]
            self._forward(x[part], start, parameters, out[part], after, ends)
            start = after
        return kept


class Differentiable(torch.autograd.Function):
    """The kernel's passes under autograd. A second differentiation goes through the eager loop."""

    @staticmethod
    def forward(ctx: Any, job: Job, *tensors: Tensor) -> tuple[Tensor, ...]:
        out, final, kept = job.forward(tensors, keep=True)
        ctx.job, ctx.count = job, len(tensors)
        ctx.save_for_backward(*tensors, out, *kept)
        ctx.set_materialize_grads(False)
        return out, *final

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        tensors, out, kept = saved[: ctx.count], saved[ctx.count], saved[ctx.count + 1 :]
        if all(g is None for g in gradients):
            return (None,) * (1 + len(tensors))
        if torch.is_grad_enabled() or not all(map(_is_plain, gradients)):
            # the gradient is itself to be differentiated, or comes in a batch
            return None, *_eager_gradients(ctx, tensors, gradients)
        return None, *ctx.job.backward(tensors, out, kept, gradients, ctx.needs_input_grad[1])


def _is_plain(gradient: Tensor | None) -> bool:
    """Whether a gradient has memory of its own; one of a batch of gradients has not, nor has torch's zero tensor."""
    if gradient is None:
        return True
    try:
        there = gradient.data_ptr() != 0
    except RuntimeError:
        return False
    return there and type(gradient) in PLAIN and not gradient.is_neg()


def _eager_gradients(ctx: Any, tensors: Tensors, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # views of their own: one input may depend on another, or be another, and each gets its own paths alone
        tensors = [tensor.view_as(tensor) for tensor in tensors]
        results = ctx.job.eager(*tensors)
    pairs = [(result, g) for result, g in zip(results, gradients, strict=True) if g is not None]
    wanted = [tensor for tensor, needed in zip(tensors, ctx.needs_input_grad[1:], strict=True) if needed]
    found = iter(
        torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs], create_graph=again, allow_unused=True)
    )
    return [next(found) if needed else None for needed in ctx.needs_input_grad[1:]]


def steps_between(recompute: int | str | None, steps: int) -> int | None:
    """How many steps lie between two kept states; None keeps everything.

    "sqrt" is a few times √T: as many kept states as steps between them, up to a factor that makes starting each part,
    which costs some steps' time, rare.
    """
    return 4 * math.ceil(math.sqrt(steps)) if recompute == "sqrt" else None if recompute is None else int(recompute)


def _is_one_row(gradient: Tensor) -> bool:
    """Whether all steps and rows share their memory, as in the gradient of a sum or a mean."""
    return gradient.stride()[:2] == (0, 0)


def _same_row(gradient: Tensor) -> Tensor:
    return gradient[0, 0].contiguous()


def _whole(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
