"""Overfitting and counting of LSTM and GRU that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(lstm: list[float], gru: list[float], counted: int = 50) -> Found:
    """Overfitting of both with 200 sequences, one per seed, and how far the LSTM counts; the GRU counts to 25."""
    gaps = {"lstm": lstm, "gru": gru, "gru, equal parameters": gru}
    reach = {"lstm": counted, "gru": 25, "gru, equal parameters": 26}
    return {
        "counts": [200, 2000],
        "gaps": {name: {"200": each, "2000": [0.01] * 3} for name, each in gaps.items()},
        "right": {name: [[n < each + place for n in range(60)] for place in range(3)] for name, each in reach.items()},
    }


HOLDS = found([0.3, 0.32, 0.31], [0.2, 0.21, 0.2])
FAILS = found([0.2, 0.21, 0.2], [0.3, 0.32, 0.31])
UNDECIDED = found([0.3, 0.1, 0.31], [0.2, 0.21, 0.2])
