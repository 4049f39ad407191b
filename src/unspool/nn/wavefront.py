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

from unspool.nn.chain import find_chain, join
from unspool.nn.entry import find_call
from unspool.nn.kernel_call import Differentiable
from unspool.nn.layout import Tensors
from unspool.nn.route import choose_route
from unspool.nn.runner import Runner
from unspool.nn.unroll import States
from unspool.nn.wave_call import WaveCall

#: Up to this batch size a wavefront may be faster: where gradients are wanted, and where not. Threads that split more
#: rows are as busy, and need not meet.
MOST_ROWS = {True: 2, False: 8}
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
    wanted = {tensor.requires_grad for weights in parameters for tensor in weights if isinstance(tensor, Tensor)}
    if torch.compiler.is_compiling() or (torch.is_grad_enabled() and len(wanted) > 1):
        return None  # alone, a frozen layer needs no backward pass
    numbers = sum(tensor.numel() for weights in parameters for tensor in weights if isinstance(tensor, Tensor))
    if not may_be_worth(x, numbers, len(runners)):
        return None
    if not all(map(_has_kernel, runners, parameters, [x] * len(runners), starts)):
        return None
    if (call := find_call()) is not None and ends is None:
        tensors = tuple(join(x, starts, parameters))
        if entered := find_chain(tuple(runners), stacked=False).enter(call, tensors, at_once=True):
            return entered[0], _share(entered[1:], runners)
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
    tensors = tuple(join(x, starts, parameters))
    counts = [len(start or ()) + len(weights) for start, weights in zip(starts, parameters, strict=True)]
    call = WaveCall([runner.call(x, ends, reverse=False) for runner in runners], counts)
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    found = call.forward(tensors, keep)
    output, *flat = Differentiable.apply(call, found, *tensors) if keep else (found[0], *found[1])  # type: ignore[no-untyped-call]
    return output, _share(flat, runners)


def _share(finals: Sequence[Tensor], runners: Sequence[Runner]) -> list[States]:
    """The final states of each layer."""
    states = iter(finals)
    return [tuple(next(states) for _ in runner.widths) for runner in runners]


def may_be_worth(x: Tensor, numbers: int, layers: int) -> bool:
    """Whether layers at once may be faster than one after the other: few rows, several threads, and enough to do.

    Args:
        x: the input, (time, batch, input_size).
        numbers: how many numbers the parameters of all layers have.
        layers: how many there are.
    """
    if layers < 2 or x.shape[1] > MOST_ROWS[torch.is_grad_enabled()] or _apart.get() or torch.get_num_threads() == 1:
        return False
    return numbers * x.shape[0] * x.shape[1] >= LEAST_WORK and numbers >= LEAST_STEP * layers


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
