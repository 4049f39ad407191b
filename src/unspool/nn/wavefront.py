"""Wavefronts: layers of a stack that run at once, each a few steps behind the one below, a thread for each.

Where the same layers are faster one after the other, each with its units split between the threads, they run like that:
it is measured, call by call. Both ways have the bits that the layers have one after the other on one thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from unspool.engine.wave import Wave
from unspool.nn.boundary import admit
from unspool.nn.kernel_call import Differentiable, Found, KernelCall, address, addresses
from unspool.nn.layout import Tensors
from unspool.nn.route import choose_route
from unspool.nn.runner import Runner
from unspool.nn.unroll import States

#: Up to this batch size a wavefront may be faster. Threads that split more rows are as busy, and need not meet.
MOST_ROWS = 2
#: From how many multiplications on a second thread is worth its start, and a layer's step that threads meet after it.
LEAST_WORK, LEAST_STEP = 1 << 20, 1 << 15
#: The routes that call a kernel.
KERNEL_ROUTES = ("kernel", "quick kernel")

_apart: ContextVar[bool] = ContextVar("apart", default=False)


@contextmanager
def layers_apart() -> Iterator[None]:
    """Within it, layers run one after the other.

    Example:
        >>> with layers_apart():
        ...     output, state = unspool.nn.LSTM(3, 4, num_layers=2)(torch.randn(100, 1, 3))
    """
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


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


def run_wavefront(
    runners: Sequence[Runner],
    parameters: Sequence[Tensors],
    x: Tensor,
    starts: Sequence[States | None],
    ends: Tensor | None,
) -> tuple[Tensor, list[States]] | None:
    """Run a stack as wavefronts of as many layers as there are threads.

    Args:
        runners: of each layer, from the lowest up; each reads the output of the one below.
        parameters: of each layer.
        x: the input, (time, batch, input_size).
        starts: the initial states of each layer; None for zeros.
        ends: the length of each sequence; None where all are as long as x.

    Returns:
        The output and the final states of each layer. None where layers had better run one after the other, or where
        one of them does not run by its kernel.

    Example:
        >>> found = run_wavefront([runner, runner], [weights, more_weights], x, [None, None], None)
        >>> output, finals = found if found else run_one_by_one()
    """
    if not _is_worth(parameters, x) or not all(map(_has_kernel, runners, parameters, [x] * len(runners), starts)):
        return None
    finals: list[States] = []
    for group in _groups(len(runners), torch.get_num_threads()):
        x, found = _run_group(runners[group], parameters[group], x, starts[group], ends)
        finals += found
    return x, finals


def _run_group(
    runners: Sequence[Runner],
    parameters: Sequence[Tensors],
    x: Tensor,
    starts: Sequence[States | None],
    ends: Tensor | None,
) -> tuple[Tensor, list[States]]:
    """As many layers as there are threads, or one layer that has all of them."""
    if len(runners) == 1:
        output, final, _ = runners[0].run(parameters[0], x, starts[0], ends)
        return output, [final]
    own = [(*(start or ()), *weights) for start, weights in zip(starts, parameters, strict=True)]
    tensors = (x, *(tensor for part in own for tensor in part))
    call = WaveCall([runner.call(x, ends, reverse=False) for runner in runners], list(map(len, own)))
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    found = call.forward(tensors, keep)
    output, *flat = Differentiable.apply(call, found, *tensors) if keep else (found[0], *found[1])  # type: ignore[no-untyped-call]
    states = iter(flat)
    return output, [tuple(next(states) for _ in runner.widths) for runner in runners]


def _is_worth(parameters: Sequence[Tensors], x: Tensor) -> bool:
    """Whether layers at once may be faster than one after the other: few rows, and several threads."""
    if torch.compiler.is_compiling() or x.shape[1] > MOST_ROWS or _apart.get():
        return False
    if len(parameters) == 1 or torch.get_num_threads() == 1:
        return False
    wanted = {tensor.requires_grad for weights in parameters for tensor in weights if isinstance(tensor, Tensor)}
    if torch.is_grad_enabled() and len(wanted) > 1:
        return False  # alone, a frozen layer needs no backward pass
    numbers = sum(tensor.numel() for weights in parameters for tensor in weights if isinstance(tensor, Tensor))
    return numbers * x.shape[0] * x.shape[1] >= LEAST_WORK and numbers >= LEAST_STEP * len(parameters)


def _has_kernel(runner: Runner, parameters: Tensors, x: Tensor, start: States | None) -> bool:
    runner.boundary.check_numbers(x.dtype)
    return choose_route(runner.kernel, parameters, x, start or ()).name in KERNEL_ROUTES


def _groups(layers: int, threads: int) -> Iterator[slice]:
    """Layers in as few groups as the threads allow, the larger ones first: 5 layers on 2 threads are 2, 2 and 1."""
    count = math.ceil(layers / threads)
    first = 0
    for group in range(count):
        size = math.ceil((layers - first) / (count - group))
        yield slice(first, first + size)
        first += size
