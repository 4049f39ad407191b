"""QuickCall: a training call on tensors that the kernel knows, in as few steps of Python as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from unspool import engine
from unspool.cells.evaluate import Evaluator
from unspool.nn import tapes
from unspool.nn.boundary import Boundary, find_addresses, find_ready
from unspool.nn.checks import Shape
from unspool.nn.kernel_call import Differentiable, KernelCall, address
from unspool.nn.layout import Tensors

#: What Function.apply calls once it has seen that no transform of torch.func is active: known tensors have none.
_apply: Any = super(Function, Differentiable).apply


class QuickCall(KernelCall):
    """A KernelCall without lengths, made once and called any number of times.

    For a single step, the checks and parts of a KernelCall take many times as long as the kernel.
    """

    def __init__(
        self, kernel: engine.Kernel, boundary: Boundary, step: Evaluator, reverse: bool, stacked: bool
    ) -> None:
        super().__init__(kernel, boundary, step, None, reverse, stacked)
        self._last: tuple[object, list[Shape]] = (None, [])

    def run(self, tensors: Tensors) -> tuple[Tensor, ...]:
        """Output and final states of known tensors, of which one wants a gradient: x, the states, the parameters."""
        x, size = tensors[0], tensors[0].element_size()
        places = find_addresses(tensors, size)
        if places is None:  # some are not contiguous
            return Differentiable.apply(self, self.forward(tensors, keep=True), *tensors)  # type: ignore[no-any-return, no-untyped-call]
        (steps, rows, _), new, kernel = x.shape, x.new_empty, self.kernel
        widths = kernel.state_widths
        out, tape = new(steps, rows, widths[0]), tapes.take(x, steps * rows * kernel.record)
        final = [new(*self.lead, rows, width) for width in widths]
        ends, first = [state.data_ptr() for state in final], len(tensors) - self.boundary.count
        inputs = places[0], places[first:], places[1:first]
        threads = torch.get_num_threads()
        kernel.forward(size, (steps, rows), threads, self.reverse, 0, *inputs, out.data_ptr(), ends, tape.data_ptr())
        return _apply(self, (out, final, (tape,)), *tensors)  # type: ignore[no-any-return]

    def backward(
        self, tensors: Tensors, out: Tensor, kept: Tensors, gradients: Sequence[Tensor | None], wants_x: bool
    ) -> list[Tensor | None]:
        """As of KernelCall."""
        d_out, row = gradients[0], None
        if d_out is not None and not any(d_out.stride()) and _is_one_number(d_out, out):  # as in the gradient of a sum
            row = (d_out if d_out.numel() == d_out.shape[2] else d_out[0, 0]).contiguous()
            d_out = None
        given = (*tensors, out, *kept, d_out, *gradients[1:])
        places = find_ready(given, self._shapes_back(tensors), out.dtype)
        if places is None:
            return super().backward(tensors, out, kept, gradients, wants_x)
        count, empty_like = len(tensors), torch.empty_like
        found: list[Any] = [empty_like(tensors[0]) if wants_x else None]
        found += [empty_like(tensor) for tensor in tensors[1:]]
        slopes, (steps, rows, _), first = [address(tensor) for tensor in found], out.shape, count - self.boundary.count
        self.kernel.backward(
            out.element_size(),
            (steps, rows),
            torch.get_num_threads(),
            self.reverse,
            0,
            places[0],
            places[first:count],
            places[1:first],
            places[count],
            places[count + 1],
            places[count + 2] if row is None else row.data_ptr(),
            places[count + 3 :],
            slopes[0],
            slopes[first:],
            slopes[1:first],
            row is not None,
        )
        return found

    def _shapes_back(self, tensors: Tensors) -> list[Shape]:
        """The shapes of a backward pass; most have those of the one before."""
        key, last = (tensors[0].shape, len(tensors)), self._last
        if last[0] != key:
            shapes = self.boundary.shapes_back(tensors[0], len(tensors), self.kernel.record, self.lead)
            last = self._last = key, shapes
        return last[1]


def _is_one_number(gradient: Tensor, out: Tensor) -> bool:
    """Whether a gradient of the output without strides fits it, and the memory of its one number is there."""
    if gradient.shape != out.shape or gradient.dtype is not out.dtype or not gradient.is_cpu:
        return False
    return gradient.untyped_storage().nbytes() > gradient.storage_offset() * gradient.element_size()
