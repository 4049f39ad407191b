"""Numbers of forgetting that refute the claim: the states of three cells stay apart."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "orthogonal": {"0.5": [1.0, 0.5]},
    "matrix": {"measured": [1.0, 0.9], "formula": [1.0, 0.9]},
    "tanh": [1.0, 0.7],
    "cells": {"elman": [1.0, 0.2], "gru": [1.0, 0.3], "lstm": [1.0, 0.9]},
}
UNDECIDED = None
