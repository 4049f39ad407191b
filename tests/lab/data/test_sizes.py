"""Generators refuse sizes that make no data."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.cli.lab_data import find_generators
from unspool.errors import ArgumentError
from unspool.lab.data.sizes import check_sizes

SIZES = ("T", "count", "sentences")


@pytest.mark.parametrize("name", [one for one in find_generators() if one != "digits"])
@pytest.mark.parametrize("wrong", [0, -5, 2.5, True])
def test_sizes_are_whole_numbers_from_one(name: str, wrong: float) -> None:
    generator = find_generators()[name]
    taken = [size for size in SIZES if size in generator.__code__.co_varnames[: generator.__code__.co_argcount]]
    assert taken
    for size in taken:
        with pytest.raises(ArgumentError, match=f"`?{size}`? \\(=.*is not a whole number from 1"):
            generator(**(dict.fromkeys(taken, 12) | {size: wrong}))


def test_numbers_of_numpy_are_whole_numbers() -> None:
    check_sizes(T=np.int64(3))
