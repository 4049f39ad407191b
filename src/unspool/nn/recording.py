"""Recording: what a layer does while torch writes a model down: torch.jit.trace, torch.fx and the ONNX exporters.

torch.jit.trace writes down the operations of one example. A loop over time would become as many steps as the example
has, and sequences of other lengths would be cut without a word. So a layer is recorded whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.fx import Proxy

from unspool.errors import ArgumentError


def is_traced() -> bool:
    """Whether torch.jit.trace runs, or torch.onnx.export(dynamo=False), which uses it."""
    return torch._C._get_tracing_state() is not None


@contextmanager
def untraced() -> Iterator[None]:
    """A part of a traced call that torch.jit.trace does not see, such as a check."""
    tracing = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch._C._set_tracing_state(tracing)  # type: ignore[attr-defined]


def is_exported_to_onnx() -> bool:
    """Whether torch.onnx.export(dynamo=True) runs."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()


def refuse(title: str) -> ArgumentError:
    """The error about a recurrence that cannot be recorded whole."""
    return ArgumentError(
        f"{title} cannot be traced by torch.jit or exported to ONNX: the result would only fit sequences as long as "
        "the example. Use torch.export, or nn.RNN, nn.GRU or nn.LSTM, called without `lengths` and `trace`."
    )


def refuse_if_recorded(title: str, remedy: str) -> None:
    """Refuse a loop of Python's that would be recorded with as many rounds as the example needs."""
    if is_traced() or is_exported_to_onnx():
        raise ArgumentError(
            f"{title} cannot be traced by torch.jit or exported to ONNX: its loop would be kept with as many rounds as "
            f"the example needs. {remedy}."
        )


def refuse_script(module: nn.Module) -> ArgumentError:
    """The error about a layer that torch.jit.script cannot read."""
    return ArgumentError(
        f"torch.jit.script cannot read {type(module).__name__}, whose equations are no TorchScript. "
        "Use torch.export, or nn.RNN, nn.GRU or nn.LSTM."
    )


def find_symbol(*values: object) -> Proxy | None:
    """The first of the values, or of what tuples and lists among them hold, for which torch.fx has no number yet."""
    for value in values:
        found = find_symbol(*value) if isinstance(value, tuple | list) else value
        if isinstance(found, Proxy):
            return found
    return None


def record_call(module: nn.Module, proxy: Any, *args: Any, **kwargs: Any) -> Proxy:
    """A call of the module as one node of torch.fx's graph, which is how torch.nn's own modules are written down.

    Args:
        module: what is called.
        proxy: one of the arguments, which knows the graph.
        *args: the arguments by position, without those at the end that are None.
        **kwargs: the others; those that are None or False are left out.

    Returns:
        What stands for the result.
    """
    while args and args[-1] is None:
        args = args[:-1]
    path = proxy.tracer.path_of_module(module)
    if not path:
        raise ArgumentError(f"torch.fx cannot look inside {type(module).__name__}. Trace a model that contains it.")
    given = {name: value for name, value in kwargs.items() if value is not None and value is not False}
    call: Proxy = proxy.tracer.create_proxy("call_module", path, args, given)
    return call
