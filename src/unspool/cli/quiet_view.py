"""A view that prints nothing; the base of views without a screen."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from unspool.learning.events import Event


class QuietView:
    """Prints nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put back."""

    def __call__(self, event: Event) -> None:
        """Nothing."""
