"""Balanced brackets against a stack in Python."""

from __future__ import annotations

import pytest

from unspool.errors import ArgumentError
from unspool.lab.data import dyck


@pytest.mark.parametrize(("T", "depth", "kinds"), [(20, 8, 2), (30, 3, 1), (2, 4, 5)])
def test_brackets_are_balanced(T: int, depth: int, kinds: int) -> None:
    tokens, targets, depths = dyck(T, 50, depth=depth, kinds=kinds, seed=1)
    for sequence in range(50):
        stack: list[int] = []
        for t in range(T):
            token = int(tokens[t, sequence])
            if token < kinds:
                stack.append(token)
            else:
                assert stack.pop() == token - kinds
            assert depths[t, sequence] == len(stack) <= depth
            assert targets[t, sequence] == (kinds + stack[-1] if stack else -1)
        assert not stack
    assert set(tokens.ravel()) == set(range(2 * kinds))


def test_depth_is_reached_and_sequences_differ() -> None:
    tokens, _, depths = dyck(40, 200, depth=5)
    assert depths.max() == 5
    assert len({tuple(column) for column in tokens.T}) > 190


def test_an_odd_length_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`T` \(=7\) is odd"):
        dyck(7, 1)
