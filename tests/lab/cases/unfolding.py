"""Numbers of unfolding that refute the claim; its own measurement is exact."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "cells": {"elman": {"values": 1e-16, "gradients": 1e-3}},
    "pendulum": {"simulation": 1e-16, "error": 1e-6},
}
UNDECIDED = None
