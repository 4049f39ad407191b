"""Truncated backpropagation through time for any module that takes a state and returns one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError
from unspool.nn.leaves import map_leaves


def detach(state: Any) -> Any:
    """Detach every tensor of a nested state from its graph.

    Args:
        state: Tensors in nested tuples, lists and dicts; None and other values stay as they are.

    Returns:
        The same nesting, with tensors that share memory with the given ones.

    Example:
        output, state = lstm(x, detach(state))
    """
    return map_leaves(Tensor.detach, state)


class TruncatedBPTT:
    """A long sequence in spans of `stride` steps, each differentiable through at most the last `window` steps.

    - A span's window starts `window` − `stride` steps before the span, in the state that was reached there, without
      gradient. Steps before the span run once more, and dropout draws new masks for them.
    - By default the stride equals the window: chunks, each run once. Paths that cross from chunk to chunk are cut.
    - `stride=1`: the loss at each step t reaches steps t − `window` + 1 … t, no more and no fewer; 1 is step t alone.
    - `window=None`: exact, the whole sequence in one span.

    No part of a window's graph is kept. If x itself has a graph, such as that of an embedding, move it into the module,
    or call `backward` once, on the sum of the losses: torch goes back through a graph once.

    Args:
        module: Any callable `(x, state) -> (output, state)` in which a step sees no later one: a layer of torch.nn or
            unspool.nn, or your own. The output may be nested; its tensors have the time axis where x has it.
        window: Steps that a gradient flows back; None for all.
        stride: Steps per span, at most `window`.
        time: The time axis of x.

    Attributes:
        state: The module's state at the end of the last span, without gradient; None before the first.

    Example:
        bptt = TruncatedBPTT(lstm, window=35)
        for x, targets in batches:  # each sequence of a batch continues that of the batch before
            for output, span in bptt.over(x, bptt.state):
                loss(output, targets[span]).backward()
    """

    def __init__(
        self, module: Callable[[Tensor, Any], Any], window: int | None, stride: int | None = None, *, time: int = 0
    ) -> None:
        if not callable(module):
            raise ArgumentTypeError.of("module", module, "cannot be called", "Give (x, state) -> (output, state)")
        self.module = module
        self.window = None if window is None else check_size("window", window)
        self.stride = self.window if stride is None else check_size("stride", stride)
        self.time = check_size("time", time, least=0)
        self.state: Any = None
        self._check_stride(window, stride)

    def _check_stride(self, window: int | None, stride: int | None) -> None:
        if self.stride is None:
            return
        if self.window is None:
            raise ArgumentError.of(
                "stride", stride, "divides a sequence that window=None runs as a whole", "Give a window, or no stride"
            )
        if self.stride > self.window:
            raise ArgumentError.of(
                "stride", stride, f"is longer than window (={window}): steps would be left out", "Give at most window"
            )

    def over(self, x: Tensor, state: Any = None) -> Iterator[tuple[Any, slice]]:
        """Run the module over a sequence, span by span.

        Args:
            x: The sequence.
            state: Where the module starts; None for its own initial state, `bptt.state` to continue the last call. No
                gradient reaches it, unless `window` is None: exact gradients do.

        Returns:
            Pairs (output, span); `span` is the slice of the steps of x that the output covers.
        """
        if not isinstance(x, Tensor):
            raise ArgumentTypeError.of("x", type(x).__name__, "is not a torch tensor", "Convert it by torch.as_tensor")
        if x.dim() <= self.time:
            problem = f"has no axis {self.time}, the time axis"
            raise ShapeError.of("x", tuple(x.shape), problem, "Give the right `time`")
        if not x.shape[self.time]:
            raise ShapeError.of("x", tuple(x.shape), "has no steps", "Leave empty sequences out")
        self._check_time_axis(x)
        return self._spans(x, state if self.window is None else detach(state))

    def _check_time_axis(self, x: Tensor) -> None:
        batch_first = getattr(self.module, "batch_first", None)
        if isinstance(batch_first, bool) and x.dim() == 3 and self.time != batch_first:
            problem = f"is not the time axis of a module with batch_first={batch_first}"
            raise ArgumentError.of("time", self.time, problem, f"Give time={int(batch_first)}")

    def _spans(self, x: Tensor, start: Any) -> Iterator[tuple[Any, slice]]:
        steps = x.shape[self.time]
        stride = self.stride or steps
        overlap = self.window - stride if self.window else 0
        first = 0  # where the window begins, in the state `start`
        for begin in range(0, steps, stride):
            end = min(begin + stride, steps)
            following = first if end == steps else max(0, end - overlap)
            output, self.state, start = self._run_window(x, (first, begin, following, end), start)
            first = following
            yield output, slice(begin, end)
            del output  # else it would keep its graph while the next window is run

    def _run_window(self, x: Tensor, times: tuple[int, int, int, int], state: Any) -> tuple[Any, Any, Any]:
        """The output of steps begin … end, the state at `end` and the one at `following`, where the next window begins.

        The run from `first` to `end` stops at `following` only to look at the state: the gradient flows on.
        """
        first, begin, following, end = times
        outputs, start = [], detach(state)
        for since, until in ((first, following), (following, end)):
            if since == until:
                continue
            output, state = self._call(x.narrow(self.time, since, until - since), state)
            if until == following:
                start = detach(state)
            if until > begin:
                outputs.append(output if since >= begin else self._after(output, begin - since))
        output = outputs[0] if len(outputs) == 1 else map_leaves(lambda *parts: torch.cat(parts, self.time), *outputs)
        return output, detach(state), start

    def _after(self, output: Any, steps: int) -> Any:
        """The output without its first steps."""
        return map_leaves(lambda part: part.narrow(self.time, steps, part.shape[self.time] - steps), output)

    def _call(self, x: Tensor, state: Any) -> tuple[Any, Any]:
        result = self.module(x, state)
        if not isinstance(result, tuple | list) or len(result) != 2:
            got = f"{len(result)} values" if isinstance(result, tuple | list) else type(result).__name__
            raise ArgumentTypeError(f"`module` returned {got}. Let it return (output, state).")
        output, state = result

        def check(part: Tensor) -> Tensor:
            if part.dim() <= self.time or part.shape[self.time] != x.shape[self.time]:
                problem = f"does not have x's {x.shape[self.time]} steps along axis {self.time}"
                raise ShapeError.of(
                    "output", tuple(part.shape), problem, "Return one output per step, and give the time axis"
                )
            return part

        return map_leaves(check, output), state
