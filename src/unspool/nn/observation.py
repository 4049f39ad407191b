"""Observation: while it lasts, every recurrence of a model runs by an observer's hand, who sees all that passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from unspool.nn.job import Tensors
    from unspool.nn.recurrence import Recurrence
    from unspool.nn.unroll import States, Trace


class Observer(Protocol):
    """One who runs recurrences for others."""

    def recur(
        self,
        recurrence: Recurrence,
        parameters: Tensors,
        x: Tensor,
        states: States,
        ends: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, States, Trace]:
        """What `recurrence.run` would give, traced; the parameters are those of its layout."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observed_by(observer: Observer | None) -> Iterator[None]:
    """Within, recurrences of this thread run by `observer`; by themselves again if it is None."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def current_observer() -> Observer | None:
    """Who observes now."""
    return _OBSERVER.get()
