"""WaveCall: kernel calls of a stack's layers as one call, at once or one after the other, as is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from unspool.engine.wave import Wave
from unspool.nn.boundary import admit
from unspool.nn.kernel_call import Found, KernelCall, address, addresses
from unspool.nn.layout import Tensors


class WaveCall:
    """The calls of a stack's kernels as one call: of x and, for each layer, its initial states (if any) and parameters.

    It takes the place of a `KernelCall` under autograd. What is kept for the backward pass are the sequences of all
    layers but the last, then the tapes.
    """

    def __init__(self, calls: Sequence[KernelCall], counts: Sequence[int]) -> None:
        self.calls, self.counts = calls, counts

    def forward(self, tensors: Tensors, keep: bool) -> Found:
        """The last layer's output, the final states of all layers, and what is kept."""
        wave, held = Wave(len(self.calls)), []
        outs, finals, tapes, read = [], [], [], tensors[0]
        for call, own in zip(self.calls, self._parts(tensors), strict=True):
            x, start, parameters = call.boundary.admit((read, *own), call.ends)
            out, final = call.results(x)
            tape = call.tape(x) if keep else None
            given = call.given(x, start, parameters, call.ends)
            call.kernel.forward(*given, out.data_ptr(), addresses(final), address(tape), wave=wave)
            held.append((x, start, parameters))  # perhaps copies, of which the wave knows addresses only
            outs.append(out)
            finals += final
            tapes += [] if tape is None else [tape]
            read = out
        wave.run(torch.get_num_threads())
        return outs[-1], finals, (*outs[:-1], *tapes) if keep else ()

    def backward(
        self, tensors: Tensors, out: Tensor, kept: Tensors, gradients: Sequence[Tensor | None], wants_x: bool
    ) -> list[Tensor | None]:
        """Gradients of x and of each layer's states (if any were given) and parameters."""
        wave, held = Wave(len(self.calls)), []
        last = len(self.calls) - 1
        outs, tapes = (*kept[:last], out), kept[last:]
        parts, found = list(self._parts(tensors)), []
        d_out, d_finals = gradients[0], list(gradients[1:])
        for level in reversed(range(last + 1)):
            call = self.calls[level]
            x, start, parameters = call.boundary.admit(
                (outs[level - 1] if level else tensors[0], *parts[level]), call.ends
            )
            d_final = [d_finals.pop() for _ in call.kernel.state_widths][::-1]
            y, d_y, d_final = call.results_back(x, outs[level], (d_out, *d_final))
            d_x = torch.empty_like(x) if level or wants_x else None
            tape = admit("tape", tapes[level], (x.shape[0] * x.shape[1] * call.kernel.record,), x.dtype)
            given = call.given(x, start, parameters, call.ends)
            own = call.backward_pass(given, (start, parameters), y, tape, d_y, d_final, d_x, wave)
            held.append((x, start, parameters, y, tape, d_y, d_final))
            found.append([*own[0], *own[1]])
            d_out = d_x
        wave.run(torch.get_num_threads())
        return [d_out, *(gradient for own in reversed(found) for gradient in own)]

    def eager(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same by the eager loop, layer by layer."""
        out, finals = tensors[0], []
        for call, own in zip(self.calls, self._parts(tensors), strict=True):
            out, *final = call.eager(out, *own)
            finals += final
        return out, *finals

    def _parts(self, tensors: Tensors) -> Iterator[Tensors]:
        """The tensors of each layer, without x."""
        first = 1
        for count in self.counts:
            yield tensors[first : first + count]
            first += count
