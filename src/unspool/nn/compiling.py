"""Marks for torch.compile that do not need torch's compiler to be imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def constant_result(function: Function) -> Function:
    """Let torch.compile call this function once and take its result as a constant.

    This sets the mark that `torch.compiler.assume_constant_result` sets. That one first imports torch's compiler, which
    takes longer than importing all of unspool.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def uncompiled(function: Function) -> Function:
    """Let torch.compile leave this function alone, with all that it calls, unless it compiles its caller too.

    Where torch.compile gives up on a caller, it tries each function that is called in turn. For a layer that runs as
    one kernel, these parts take longer to recognise than to run. The means are not public; without them such calls are
    slower.
    """
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function
