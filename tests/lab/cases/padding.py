"""Numbers of a batch that padding changes."""

from __future__ import annotations


def parts(difference: float) -> dict[str, float]:
    return dict.fromkeys(("logits", "states", "loss", "gradient"), difference)


HOLDS = None
FAILS = {
    "cells": [
        {"cell": "gru", "masked": parts(1e-16), "other padding": parts(1e-3), "unmasked": parts(0.5), "carried": 0.0}
    ]
}
UNDECIDED = None
