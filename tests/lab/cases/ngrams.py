"""Numbers of n-grams and networks that decide the claim, or leave it open."""

from __future__ import annotations

from typing import Any

from unspool.lab import Found


def found(with_64: list[float], parameters: tuple[int, ...] = (500, 500, 500)) -> Found:
    """Networks with a loss of 1.5 with four characters of context, and these with 64."""
    ngrams: list[dict[str, Any]] = [
        {"n": n, "table": 10**n, "seen": 9 * n, "new": 0.1 * n, "perplexity": 8.0 - n} for n in (1, 2, 3)
    ]
    networks = [
        {"losses": [2.5, 2.0, 1.5, 1.5, 1.5, 1.5, loss], "parameters": size}
        for loss, size in zip(with_64, parameters, strict=True)
    ]
    return {"V": 10, "ngrams": ngrams, "networks": networks}


HOLDS = found([1.3, 1.32, 1.31])
FAILS = found([1.3, 1.32, 1.31], parameters=(500, 500, 600))
UNDECIDED = found([1.3, 1.6, 1.5])
