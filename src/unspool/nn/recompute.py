"""RecomputingCall: a call of a kernel that keeps few states for its backward pass and computes the rest again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from unspool import engine
from unspool.cells.evaluate import Evaluator
from unspool.nn.boundary import Boundary, admit
from unspool.nn.checks import check_recompute
from unspool.nn.kernel_call import Found, KernelCall, address, addresses
from unspool.nn.layout import Tensors


class RecomputingCall(KernelCall):
    """A KernelCall that keeps only the states at every `every`-th step.

    Its backward pass goes through the parts between them from the last to the first, and computes each part once more.
    """

    def __init__(
        self,
        kernel: engine.Kernel,
        boundary: Boundary,
        step: Evaluator,
        ends: Tensor | None,
        reverse: bool,
        stacked: bool,
        every: int,
    ) -> None:
        super().__init__(kernel, boundary, step, ends, reverse, stacked)
        self.every = every

    def forward(self, tensors: Tensors, keep: bool = False, clean: bool = False) -> Found:
        """Output, final states and, to `keep`, the states after every part but the last, (part, batch, width) each."""
        if not keep:
            return super().forward(tensors, keep, clean)
        x, start, parameters = self.boundary.admit(tensors, self.ends)
        out, final = self.results(x)
        parts = list(self._parts(x.shape[0]))
        kept = [x.new_empty(len(parts) - 1, x.shape[1], width) for width in self.kernel.state_widths]
        for place, (part, ends) in enumerate(parts):
            after = final if place == len(parts) - 1 else [states[place] for states in kept]
            given = self.given(x[part], start, parameters, ends)
            self.kernel.forward(*given, out[part].data_ptr(), addresses(after))
            start = after
        return out, final, kept

    def backward(
        self, tensors: Tensors, out: Tensor, kept: Tensors, gradients: Sequence[Tensor | None], wants_x: bool
    ) -> list[Tensor | None]:
        """Gradients of x, the states (if any were given) and the parameters."""
        x, start, parameters = self.boundary.admit(tensors, self.ends)
        out, d_out, d_states = self.results_back(x, out, gradients)
        parts = list(self._parts(x.shape[0]))
        pairs = zip(kept, self.kernel.state_widths, strict=True)
        kept = [admit("kept states", states, (len(parts) - 1, x.shape[1], width), x.dtype) for states, width in pairs]
        d_x = torch.empty_like(x) if wants_x else None
        total: list[Tensor] = []
        for place, (part, ends) in reversed(list(enumerate(parts))):
            begin = start if place == 0 else [states[place - 1] for states in kept]
            given = self.given(x[part], begin, parameters, ends)
            tape, again = self.tape(x[part]), self.results(x[part])[1]
            self.kernel.forward(*given, out[part].data_ptr(), addresses(again), address(tape))
            d_begin, d_parameters = self.backward_pass(
                given, (begin, parameters), out[part], tape, _part_of(d_out, part), d_states, _part_of(d_x, part)
            )
            d_states = list(d_begin)
            total = [a.add_(b) for a, b in zip(total, d_parameters, strict=True)] if total else d_parameters
        return [d_x, *(d_states if start else ()), *total]

    def _parts(self, steps: int) -> Iterator[tuple[slice, Tensor | None]]:
        """The steps between kept states, in the order in which they run, and the length of each sequence within."""
        starts = range(0, steps, self.every)
        for first in reversed(starts) if self.reverse else starts:
            last = min(first + self.every, steps)
            yield slice(first, last), None if self.ends is None else (self.ends - first).clamp(0, last - first)


def steps_between(recompute: int | str, steps: int) -> int:
    """How many steps lie between two kept states.

    "sqrt" is a few times √T: as many kept states as steps between them, up to a factor. Starting a part costs as much
    as some steps, so parts should be few.
    """
    check_recompute(recompute)
    return 4 * math.ceil(math.sqrt(steps)) if recompute == "sqrt" else int(recompute)


def _part_of(sequence: Tensor | None, part: slice) -> Tensor | None:
    """Some steps of a gradient; one row that holds for every step stays as it is."""
    return sequence if sequence is None or sequence.dim() == 1 else sequence[part]
