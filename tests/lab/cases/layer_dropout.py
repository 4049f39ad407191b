"""Accuracies with solved rates and with one rate."""

from __future__ import annotations

from unspool.lab import Found


def found(solved: list[float]) -> Found:
    """Numbers with these accuracies of solved rates, beside 0.80 to 0.82 of one rate."""
    runs = [
        {
            "rates": [0.3, 0.4, 0.5],
            "results": {"none": [1.0, 0.75], "same for all": [0.9, 0.80 + 0.01 * seed], "solved per layer": [0.9, one]},
        }
        for seed, one in enumerate(solved)
    ]
    return {"steps": 600, "runs": runs}


HOLDS = found([0.84, 0.85, 0.86])
FAILS = found([0.75, 0.76, 0.77])
UNDECIDED = found([0.84, 0.70, 0.83])
