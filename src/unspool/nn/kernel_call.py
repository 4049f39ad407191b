"""KernelCall: one call of a kernel on torch tensors, forward and backward, and its place under autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unspool import engine
from unspool.cells.evaluate import Evaluator
from unspool.engine.wave import Wave
from unspool.nn import tapes
from unspool.nn.boundary import Boundary, admit, check_tensor
from unspool.nn.layout import Tensors
from unspool.nn.route import PLAIN
from unspool.nn.unroll import States, Trace, unroll

#: The first arguments of both passes of a kernel.
Given = tuple[int, tuple[int, int], int, bool, int, int, list[int], list[int]]
#: Output, final states, and what is kept for the backward pass.
Found = tuple[Tensor, list[Tensor], Tensors]


class KernelCall:
    """One call of a kernel on torch tensors: x, then the initial states if there are any, then the parameters.

    The `boundary` checks whatever a pass is given. With `stacked`, final states have a first dimension of one, as
    torch.nn's have.
    """

    def __init__(
        self,
        kernel: engine.Kernel,
        boundary: Boundary,
        step: Evaluator,
        ends: Tensor | None = None,
        reverse: bool = False,
        stacked: bool = False,
    ) -> None:
        self.kernel, self.boundary, self.step, self.reverse = kernel, boundary, step, reverse
        self.lead = (1,) if stacked else ()
        self.ends = None if ends is None else ends.to("cpu", torch.int64, copy=True).contiguous()

    def forward(self, tensors: Tensors, keep: bool = False, clean: bool = False) -> Found:
        """Output, final states and, to `keep`, the tape; a `clean` tape has zeros beyond the end of a sequence."""
        x, start, parameters = self.boundary.admit(tensors, self.ends)
        out, final = self.results(x)
        tape = self.tape(x, clean) if keep else None
        given = self.given(x, start, parameters, self.ends)
        self.kernel.forward(*given, out.data_ptr(), addresses(final), address(tape))
        return out, final, () if tape is None else (tape,)

    def trace(self, tensors: Tensors) -> tuple[Tensor, States, Trace]:
        """Output, final states, and every named value."""
        x, start, parameters = self.boundary.admit(tensors, self.ends)
        out, final = self.results(x)
        values = [x.new_empty(*x.shape[:2], width) for width in self.kernel.named_widths]
        given = self.given(x, start, parameters, self.ends)
        self.kernel.forward(*given, out.data_ptr(), addresses(final), 0, addresses(values))
        return out, tuple(final), dict(zip(self.kernel.equations.named, values, strict=True))

    def backward(
        self, tensors: Tensors, out: Tensor, kept: Tensors, gradients: Sequence[Tensor | None], wants_x: bool
    ) -> list[Tensor | None]:
        """Gradients of x, the states (if any were given) and the parameters."""
        x, start, parameters = self.boundary.admit(tensors, self.ends)
        out, d_out, d_final = self.results_back(x, out, gradients)
        tape = admit("tape", kept[0], (x.shape[0] * x.shape[1] * self.kernel.record,), x.dtype)
        d_x = torch.empty_like(x) if wants_x else None
        given = self.given(x, start, parameters, self.ends)
        d_start, d_parameters = self.backward_pass(given, (start, parameters), out, tape, d_out, d_final, d_x)
        return [d_x, *d_start, *d_parameters]

    def eager(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same by the eager loop."""
        x, states, parameters = self.boundary.split(tensors)
        start = tuple(states) or tuple(x.new_zeros(x.shape[1], width) for width in self.kernel.state_widths)
        out, final, _ = unroll(self.step, self.boundary.layout.named(parameters), x, start, self.ends, self.reverse)
        return out, *(state.reshape(*self.lead, *state.shape) for state in final)

    # The parts of a call, on contiguous tensors

    def results(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Memory for the output and the final states."""
        steps, rows, _ = x.shape
        widths = self.kernel.state_widths
        return x.new_empty(steps, rows, widths[0]), [x.new_empty(*self.lead, rows, width) for width in widths]

    def results_back(
        self, x: Tensor, out: Tensor, gradients: Sequence[Tensor | None]
    ) -> tuple[Tensor, Tensor | None, list[Tensor | None]]:
        """The output, its gradient and those of the final states as a backward pass takes them.

        Where all steps and rows of the output's gradient share their memory, as in the gradient of a sum or a mean, it
        is that one row, (width,).
        """
        (steps, rows, _), widths, dtype = x.shape, self.kernel.state_widths, x.dtype
        shape = (steps, rows, widths[0])
        d_out, *d_final = gradients
        if d_out is not None and d_out.dim() == 3 and d_out.stride()[:2] == (0, 0):
            check_tensor("gradient of the output", d_out, shape, dtype, x.device)
            d_out = d_out[0, 0].contiguous()
        elif d_out is not None:
            d_out = admit("gradient of the output", d_out, shape, dtype)
        ends = [
            None if gradient is None else admit("gradient of a state", gradient, (*self.lead, rows, width), dtype)
            for gradient, width in zip(d_final, widths, strict=True)
        ]
        return admit("output", out, shape, dtype), d_out, ends

    def tape(self, x: Tensor, clean: bool = False) -> Tensor:
        """Memory for what the backward pass reads."""
        numbers = x.shape[0] * x.shape[1] * self.kernel.record
        return x.new_zeros(numbers) if clean else tapes.take(x, numbers)

    def given(self, x: Tensor, start: Tensors, parameters: Tensors, ends: Tensor | None) -> Given:
        """The first arguments of both passes of the kernel."""
        steps, rows, _ = x.shape
        return (
            x.element_size(),
            (steps, rows),
            torch.get_num_threads(),
            self.reverse,
            address(ends),
            x.data_ptr(),
            addresses(parameters),
            addresses(start),
        )

    def backward_pass(
        self,
        given: Given,
        inputs: tuple[Tensors, Tensors],
        out: Tensor,
        tape: Tensor,
        d_out: Tensor | None,
        d_final: Sequence[Tensor | None],
        d_x: Tensor | None,
        wave: Wave | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Gradients of the `inputs`, which are the states (if any were given) and the parameters; d_x is filled.

        With a `wave` all of them are filled when the wave has run.
        """
        d_start, d_parameters = ([torch.empty_like(tensor) for tensor in group] for group in inputs)
        self.kernel.backward(
            *given,
            out.data_ptr(),
            tape.data_ptr(),
            address(d_out),
            [address(gradient) for gradient in d_final],
            address(d_x),
            addresses(d_parameters),
            addresses(d_start),
            d_out is not None and d_out.dim() == 1,
            wave,
        )
        return d_start, d_parameters


class Differentiable(torch.autograd.Function):
    """Gives the results of a forward pass their place in autograd's graph.

    The backward pass is the kernel's. A second differentiation goes through the eager loop.
    """

    @staticmethod
    def forward(ctx: Any, call: KernelCall, found: Found, *tensors: Tensor) -> tuple[Tensor, ...]:
        out, final, kept = found
        ctx.call, ctx.count = call, len(tensors)
        ctx.save_for_backward(*tensors, out, *kept)
        ctx.set_materialize_grads(False)
        return out, *final

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        count: int = ctx.count
        if gradients[0] is None and all(g is None for g in gradients):
            return (None,) * (2 + count)
        found = differentiate(ctx.call, saved, gradients, ctx.needs_input_grad[2:])
        return None, None, *found


def differentiate(
    call: KernelCall, saved: Tensors, gradients: Sequence[Tensor | None], wanted: Sequence[bool]
) -> list[Tensor | None]:
    """Gradients of the tensors of a call, at least those that are `wanted`, from gradients of its results.

    Args:
        call: what ran.
        saved: the tensors of the call, its output, and what it kept for the backward pass.
        gradients: of the output and the final states.
        wanted: for each tensor of the call, whether its gradient is.
    """
    count = len(wanted)
    if torch.is_grad_enabled() or torch._C._len_torch_dispatch_stack() or not all(map(_is_plain, gradients)):
        # The gradient is itself to be differentiated, or is recorded, or comes in a batch.
        return _eager_gradients(call, saved[:count], gradients, wanted)
    return call.backward(saved[:count], saved[count], saved[count + 1 :], gradients, wanted[0])


def _is_plain(gradient: Tensor | None) -> bool:
    """Whether a gradient has its own memory. One of a batch of gradients has none, nor has torch's zero tensor."""
    if gradient is None:
        return True
    try:
        there = gradient.data_ptr() != 0
    except RuntimeError:
        return False
    return there and type(gradient) in PLAIN and not gradient.is_neg() and not gradient._is_zerotensor()


def _eager_gradients(
    call: KernelCall, tensors: Tensors, gradients: Sequence[Tensor | None], wanted: Sequence[bool]
) -> list[Tensor | None]:
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views of their own: an input may depend on another one, or be the same, and each gets only its own paths.
        tensors = [tensor.view_as(tensor) for tensor in tensors]
        results = call.eager(*tensors)
    pairs = [(result, g) for result, g in zip(results, gradients, strict=True) if g is not None]
    sources = [tensor for tensor, needed in zip(tensors, wanted, strict=True) if needed]
    outputs, slopes = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outputs, sources, slopes, create_graph=again, allow_unused=True))
    return [next(found) if needed else None for needed in wanted]


def address(tensor: Tensor | None) -> int:
    """Where a tensor's memory begins; 0 for none."""
    return 0 if tensor is None else tensor.data_ptr()


def addresses(tensors: Tensors) -> list[int]:
    """Where the tensors' memory begins."""
    return [tensor.data_ptr() for tensor in tensors]
