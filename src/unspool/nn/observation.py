"""Observation: while an observer is set, it runs every recurrence of a model and sees all values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from torch import Tensor

from unspool.nn.layout import Tensors
from unspool.nn.unroll import States, Trace


class Observer(Protocol):
    """Something that runs recurrences in place of their runners."""

    def recur(
        self,
        runner: Any,  # a Runner; its module imports this one
        parameters: Tensors,
        x: Tensor,
        states: States,
        ends: Tensor | None,
        reverse: bool,
        /,
    ) -> tuple[Tensor, States, Trace]:
        """What `runner.run` would return, with a trace. The parameters are those of the runner's layout."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observed_by(observer: Observer | None) -> Iterator[None]:
    """Let `observer` run the recurrences of this thread; None lets them run as usual again."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def current_observer() -> Observer | None:
    """The observer that is set now, if any."""
    return _OBSERVER.get()
