"""Cells by name, by class and by options; whatever is not one of these is refused with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.variants import VARIANTS

from unspool.cells import CATALOGUE, GRU, LSTM, Cell, DeepTransition, Elman, Jordan, Leaky, Residual, Skip, find_cell
from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, UnknownNameError


def test_the_tests_run_over_the_whole_catalogue() -> None:
    assert set(CATALOGUE) <= set(VARIANTS)
    assert all(VARIANTS[name].latex() == make().latex() for name, make in CATALOGUE.items())


def test_every_name_is_another_cell() -> None:
    assert len({make().latex() for make in CATALOGUE.values()}) == len(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_name_in_any_case(name: str) -> None:
    assert repr(find_cell(name)) == repr(find_cell(name.upper())) == repr(CATALOGUE[name]())


def test_a_class_and_an_instance() -> None:
    assert isinstance(find_cell(GRU), GRU)
    cell = LSTM(projection=3)
    assert find_cell(cell) is cell


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("ltsm", "lstm"), ("gruu", "gru"), ("ellman", "elman"), ("GRU_reset_after", "gru-reset-after")],
)
def test_an_unknown_name_suggests_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(
        UnknownNameError, match=f"`cell` .='{name}'. is not known. Did you mean '{nearest}'. Known: "
    ) as caught:
        find_cell(name)
    assert isinstance(caught.value, KeyError)
    assert all(known in str(caught.value) for known in CATALOGUE)


def test_an_unknown_name_far_from_all_lists_them() -> None:
    with pytest.raises(UnknownNameError, match=f"is not known. Known: {min(CATALOGUE)}, ") as caught:
        find_cell("xxxxxxxx")
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("wrong", [3, None, torch.nn.LSTM, ["lstm"]], ids=repr)
def test_what_is_no_cell(wrong: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`cell` .*neither a name, a Cell nor a class of cells. Give 'lstm'"):
        find_cell(wrong)


def test_a_class_that_needs_options() -> None:
    class Picky(Cell):
        def __init__(self, size: int) -> None:
            self.size = size

    with pytest.raises(ArgumentTypeError, match=r"cannot be made without options: .*'size'. Give an instance, Picky\("):
        find_cell(Picky)


@pytest.mark.parametrize("make", [Elman, Residual, DeepTransition, Skip, Jordan])
def test_unknown_activation(make: Callable[..., Cell]) -> None:
    with pytest.raises(UnknownNameError, match=r"`activation` \(='tahn'\) is not known. Did you mean 'tanh'"):
        make(activation="tahn")
    with pytest.raises(ArgumentError, match="`activation`"):
        make(activation=["tanh"])


BAD_SIZES: list[tuple[Any, type[ArgumentError]]] = [
    (0, ArgumentError),
    (-3, ArgumentError),
    (True, ArgumentTypeError),
    (2.0, ArgumentTypeError),
    (float("nan"), ArgumentTypeError),
    ("8", ArgumentTypeError),
    (None, ArgumentTypeError),
    (np.float64(2), ArgumentTypeError),
    (np.array(2.5), ArgumentTypeError),
    (np.array([2, 3]), ArgumentTypeError),
    (torch.tensor(2.5), ArgumentTypeError),
]


@pytest.mark.parametrize(("size", "kind"), BAD_SIZES, ids=lambda value: repr(value))
def test_sizes_that_are_none(size: Any, kind: type[ArgumentError]) -> None:
    for name in ("input_size", "hidden_size"):
        with pytest.raises(kind, match=rf"`{name}` \(=.*Give a whole number from 1 on, such as {name}=128"):
            GRU().count_parameters(**{"input_size": 3, "hidden_size": 4, name: size})


@pytest.mark.parametrize("size", [7, np.int32(7), np.array(7), torch.tensor(7)], ids=repr)
def test_whole_numbers_of_any_kind_are_sizes(size: Any) -> None:
    assert check_size("size", size) == 7
    assert type(check_size("size", size)) is int


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LSTM(projection=0), r"`projection` \(=0\) is not positive"),
        (lambda: Jordan(output_size=1.5), r"`output_size` \(=1.5\)"),  # type: ignore[arg-type]
        (lambda: DeepTransition(depth=-1), r"`depth` \(=-1\) is not positive"),
        (lambda: Skip(1), r"`span` \(=1\) does not skip anything. Give 2 or more, or take the Elman cell"),
        (lambda: Leaky(dt=0), r"`dt` \(=0\) is not a positive number"),
        (lambda: Leaky(dt=float("nan")), r"`dt` \(=nan\)"),
        (lambda: Leaky(dt=True), r"`dt` \(=True\)"),
        (lambda: Leaky(dt="1"), r"`dt` \(='1'\)"),  # type: ignore[arg-type]
        (lambda: Leaky(alpha=float("inf")), r"`alpha` \(=inf\) is not a finite number"),
        (lambda: Leaky(alpha=None), r"`alpha` \(=None\)"),  # type: ignore[arg-type]
    ],
)
def test_bad_options(make: Callable[[], Cell], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
