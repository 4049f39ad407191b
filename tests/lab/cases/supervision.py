"""Results with and without deep supervision."""

from __future__ import annotations

from unspool.lab import Found


def runs(shares: list[float], accuracies: list[float]) -> list[Found]:
    return [{"shares": [share] * 5, "accuracy": one} for share, one in zip(shares, accuracies, strict=True)]


def found(accuracies: list[float]) -> Found:
    """Numbers with these accuracies with λ > 0, beside 0.80, 0.81, 0.82 without."""
    helped = runs([0.5, 0.6, 0.55], accuracies)
    return {"steps": 320, "runs": {"0.0": runs([0.2, 0.2, 0.25], [0.80, 0.81, 0.82]), "0.3": helped, "1.0": helped}}


HOLDS = found([0.90, 0.91, 0.91])
FAILS = found([0.70, 0.71, 0.71])
UNDECIDED = found([0.85, 0.78, 0.80])
