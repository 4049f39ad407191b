"""Differences of Jacobians: the claim is an error of the document, and `FAILS` are numbers with which it would hold."""

from __future__ import annotations

HOLDS = None
FAILS = {"steps": [2, 3], "stated": [1e-16, 1e-16], "right": [0.1, 0.2]}
UNDECIDED = None
