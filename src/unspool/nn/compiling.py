"""Marks for torch.compile that do not need torch's compiler to be imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def constant_result(function: Function) -> Function:
    """Let torch.compile call this function once and take its result as a constant.

    This sets the mark that `torch.compiler.assume_constant_result` sets. That one first imports torch's compiler, which
    takes longer than importing all of unspool.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
