"""Rows of nested states, of arrays and of tensors alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from unspool.decoding.states import take_rows


class Pair(NamedTuple):
    h: Any
    c: Any


@pytest.mark.parametrize("make", [np.arange, torch.arange], ids=["numpy", "torch"])
def test_rows_are_taken_from_every_array(make: Callable[[int], Any]) -> None:
    state = Pair(make(6).reshape(3, 2), [{"c": make(3)}, None, 5])
    found = take_rows(state, np.array([2, 0, 2]))
    assert isinstance(found, Pair)
    assert found.h.tolist() == [[4, 5], [0, 1], [4, 5]]
    assert found.c[0]["c"].tolist() == [2, 0, 2]
    assert found.c[1:] == [None, 5]
    assert take_rows(None, np.array([0])) is None
