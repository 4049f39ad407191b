"""Numbers of directions that refute the claim: a forward chain that knows the future."""

from __future__ import annotations

from unspool.lab.chapters.directions import STEPS

everywhere = [[1.0] * STEPS for _ in range(STEPS)]

HOLDS = None
FAILS = {"cells": {"elman": {"ahead": everywhere, "back": everywhere, "apart": 0.0}}}
UNDECIDED = None
