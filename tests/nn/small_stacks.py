"""Stacks of every shape, listed once for the tests that run over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.variants import VARIANTS

from unspool.nn.leaves import map_leaves
from unspool.nn.stack import Stack

F64 = torch.float64

SHAPES: dict[str, Callable[[], Stack]] = {
    "one": lambda: Stack("gru", 3, 4, dtype=F64),
    "three": lambda: Stack("lstm", 3, 4, 3, dtype=F64),
    "sizes": lambda: Stack("gru", 3, [5, 2, 4], dtype=F64),
    "cells": lambda: Stack(["elman", "lstm", VARIANTS["ThreeStates"]], 3, 4, dtype=F64),
    "projection": lambda: Stack(VARIANTS["lstm-projection"], 3, 4, 3, bias=False, dtype=F64),
    "bidirectional": lambda: Stack("gru", 3, 4, 3, bidirectional=True, dtype=F64),
    "some bidirectional": lambda: Stack(["lstm", "gru"], 3, [2, 4], bidirectional=[True, False], dtype=F64),
    "residual": lambda: Stack("gru", 4, 4, 3, residual=True, dtype=F64),
    "some residual": lambda: Stack("gru", 3, 4, 3, residual=[False, True, True], dtype=F64),
    "residual bidirectional": lambda: Stack("gru", 4, 2, 2, residual=True, bidirectional=True, dtype=F64),
    "skip": lambda: Stack("gru", 3, 4, 4, skip=True, dtype=F64),
    "skip bidirectional": lambda: Stack("lstm", 3, 2, 3, skip=True, bidirectional=True, dtype=F64),
    "skip residual": lambda: Stack("elman", 3, [3, 6, 9], skip=True, residual=True, dtype=F64),
    "all at once": lambda: Stack(
        ["gru", "lstm", "skip"], 4, [2, 4, 12], bidirectional=[True, True, False], residual=[True, False, True],
        skip=True, learn_initial=True, dtype=F64,
    ),
}  # fmt: skip
each_shape = pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)


def random_state(stack: Stack, rows: int = 5) -> Any:
    """A state for the stack, drawn from torch's generator."""
    return map_leaves(lambda shape: torch.randn(shape, dtype=F64), stack.state_shapes(rows))
