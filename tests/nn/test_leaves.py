"""Leaves of nested tuples, lists and dicts: every tensor is met once, in order, and the nesting stays."""

from __future__ import annotations

from collections import UserDict
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from unspool.nn.leaves import leaves, map_leaves


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def number(value: float) -> Tensor:
    return torch.tensor(value)


def test_map_keeps_the_nesting() -> None:
    tree = (number(1), [Pair(number(2), number(3)), None], {"a": number(4), "b": "text"})
    found = map_leaves(lambda part: 10 * part, tree)
    assert found == (10, [Pair(number(20), number(30)), None], {"a": 40, "b": "text"})
    assert type(found[1][0]) is Pair


def test_map_of_several_trees_joins_what_stands_in_the_same_place() -> None:
    one, other = {"a": (number(1), [number(2)])}, {"a": (number(10), [number(20)])}
    assert map_leaves(torch.add, one, other) == {"a": (11, [22])}
    with pytest.raises(ValueError, match="longer"):
        map_leaves(torch.add, [number(1)], [number(1), number(2)])


def test_a_shape_is_a_leaf_and_not_a_tuple() -> None:
    assert [part.shape for part in map_leaves(torch.zeros, [torch.Size((2, 3)), torch.Size(())])] == [(2, 3), ()]


def test_leaves_come_in_order() -> None:
    tree = (number(1), [Pair(number(2), number(3)), None], UserDict({"a": number(4), "b": "text"}), 5)
    assert leaves(tree) == [1, 2, 3, 4]
    assert leaves("text") == leaves(None) == []
    packed = pack_sequence([torch.ones(2, 1), torch.ones(1, 1)])
    assert leaves(packed)[0] is packed.data
