"""PlayOptions: how networks are played."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlayOptions:
    """How networks are played.

    Attributes:
        threads: The most threads that a call uses.
        int8: Round embeddings and the matrices of layers and heads to integers from −127 to 127, times one number per
            row: a quarter of their memory. What flows between them stays as it is.
    """

    threads: int = 1
    int8: bool = False


PLAIN = PlayOptions()
