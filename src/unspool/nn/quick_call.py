"""QuickCall: a call on tensors that the kernel knows, in C++ where it is small, else in few steps of Python."""

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
from unspool.nn.entry import ENTRY, SMALL, Call, Plan
from unspool.nn.kernel_call import Differentiable, KernelCall, address, differentiate
from unspool.nn.layout import Tensors
from unspool.nn.wave_call import WaveCall

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
        self._numbers: dict[int, int] = {}

    def enter(self, call: Call, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Output and final states by the entry in C++; nothing if the call is not small, or has to be looked at."""
        size = tensors[0].element_size()
        number = self._numbers.get(size)
        if number is None:
            number = self._numbers[size] = find_number([self], size)
        return call(number, tensors, False)

    def run(self, tensors: Tensors) -> tuple[Tensor, ...]:
        """Output and final states of known tensors, of which one wants a gradient: x, the states, the parameters."""
        x, size = tensors[0], tensors[0].element_size()
        places = find_addresses(tensors, size)
        if places is None:  # some are not contiguous
            return Differentiable.apply(self, self.forward(tensors, keep=True), *tensors)  # type: ignore[no-any-return, no-untyped-call]
        (steps, rows, _), new, kernel = x.shape, x.new_empty, self.kernel
        widths, numbers = kernel.state_widths, steps * rows * kernel.record
        if ENTRY.call is None and numbers * size <= SMALL:
            ENTRY.notice()
        out, tape = new(steps, rows, widths[0]), tapes.take(x, numbers)
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


# The entry in C++ names what calls have in common by a number. Such chains are never freed, and calls of the same
# functions and sizes share one.

_numbers: dict[tuple[object, ...], int] = {}
_chains: dict[int, list[QuickCall]] = {}


def find_number(calls: Sequence[QuickCall], itemsize: int) -> int:
    """By which number the entry knows calls of layers of which each reads the one below, for numbers of this size."""
    plans = [_plan(call, itemsize) for call in calls]
    stacked = bool(calls[0].lead)
    key = stacked, *((*plan[:2], *(tuple(map(tuple, part)) for part in plan[2:])) for plan in plans)
    number = _numbers.get(key)
    if number is None:
        number = ENTRY.add_chain(plans, stacked)
        _chains[number] = list(calls)  # before other threads find the number
        _numbers[key] = number
    return number


def _plan(call: QuickCall, itemsize: int) -> Plan:
    kernel, boundary = call.kernel, call.boundary
    functions, sizes, places = kernel.constants(itemsize)
    numbers = itemsize, int(call.reverse), kernel.record, boundary.input_width
    return Plan(tuple(functions), numbers, (sizes, places, kernel.state_widths), boundary.parameter_shapes)


def _differentiate(
    number: int, saved: list[Tensor], gradients: list[Tensor | None], wanted: list[bool]
) -> list[Tensor]:
    """What the entry asks of Python: the wanted gradients, also where they are differentiated or come in a batch."""
    calls = _chains[number]
    call: Any = calls[0]
    if len(calls) > 1:
        given = len(wanted) > 1 + sum(each.boundary.count for each in calls)
        counts = [each.boundary.count + given * len(each.boundary.state_widths) for each in calls]
        call, finals = WaveCall(calls, counts), gradients[1:]
        if calls[0].lead:  # the final states of all layers lie together
            finals = [None if g is None else g[k : k + 1] for k in range(len(calls)) for g in finals]
        gradients = [gradients[0], *finals]
    found = differentiate(call, saved, gradients, wanted)
    pairs = [(gradient, tensor) for gradient, tensor, needed in zip(found, saved, wanted, strict=False) if needed]
    return [torch.zeros_like(tensor) if gradient is None else gradient for gradient, tensor in pairs]


_library = torch.library.Library("unspool", "FRAGMENT")
_library.define("differentiate(int chain, Tensor[] saved, Tensor?[] gradients, bool[] wanted) -> Tensor[]")
for _key in ("CompositeImplicitAutograd", "Batched", "FuncTorchBatched"):  # the last two have fallbacks that come first
    _library.impl("differentiate", _differentiate, _key)
