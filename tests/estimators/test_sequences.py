"""Whatever X comes as, the same sequences are read from it; what is not a sequence is refused by its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch
from sklearn.base import BaseEstimator

from unspool.errors import ArgumentTypeError, DTypeError, ShapeError, UnspoolError
from unspool.estimators.sequences import read_new, read_training

WORDS = ["play", "stop", "放歌"]
GRID = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
RAGGED = [np.array([1.0, 2.0]), np.array([3.0])]


class Bare(BaseEstimator):  # type: ignore[misc]
    """An estimator that has nothing but what reading X gives it."""

    n_features_in_: int


def learn(X: Any) -> tuple[Any, str, Bare]:
    estimator = Bare()
    raw, kind = read_training(estimator, X)
    return raw, kind, estimator


@pytest.mark.parametrize(
    "X",
    [
        WORDS,
        tuple(WORDS),
        np.array(WORDS),
        np.array(WORDS, object),
        np.array(WORDS, object)[:, None],
        polars.Series(WORDS),
        pandas.Series(WORDS, index=[5, 6, 7]),
        polars.DataFrame({"text": WORDS}),
        pandas.DataFrame({"text": WORDS}),
    ],
    ids=["list", "tuple", "array", "objects", "column", "polars", "pandas", "polars frame", "pandas frame"],
)
def test_texts(X: Any) -> None:
    raw, kind, estimator = learn(X)
    assert (kind, raw.texts, raw.series) == ("texts", WORDS, None)
    assert not hasattr(estimator, "n_features_in_")
    assert read_new(estimator, X, "texts").texts == WORDS
    assert raw.place(2) == "X[2]"


@pytest.mark.parametrize(
    "X",
    [GRID, GRID.tolist(), GRID.astype(int), polars.DataFrame(GRID, ["a", "b", "c"]), pandas.DataFrame(GRID)],
    ids=["array", "lists", "integers", "polars", "pandas"],
)
def test_a_row_of_a_table_is_a_sequence_of_one_feature(X: Any) -> None:
    raw, kind, estimator = learn(X)
    assert (kind, estimator.n_features_in_) == ("table", 3)
    assert np.array_equal(raw.series, GRID[:, :, None])


@pytest.mark.parametrize(
    ("X", "features"),
    [
        ([one[:, None] for one in RAGGED], 1),
        (RAGGED, 1),
        ([[1.0, 2.0], [3.0]], 1),
        ([torch.tensor([1.0, 2.0]), torch.tensor([3.0])], 1),
        (polars.Series([[1.0, 2.0], [3.0]]), 1),
        (np.array([RAGGED[0], RAGGED[1]], object), 1),
        ([[[1.0, 5.0], [2.0, 6.0]], [[3.0, 7.0]]], 2),
    ],
    ids=["matrices", "vectors", "lists", "tensors", "polars", "objects", "lists of steps"],
)
def test_ragged_sequences(X: Any, features: int) -> None:
    raw, kind, estimator = learn(X)
    assert (kind, estimator.n_features_in_) == ("sequences", features)
    assert [one.shape[1] for one in raw.series] == [features] * 2
    assert [one[:, 0].tolist() for one in raw.series] == [[1, 2], [3]]


def test_an_array_of_three_axes() -> None:
    X = np.arange(24).reshape(2, 3, 4)
    raw, kind, estimator = learn(X)
    assert (kind, estimator.n_features_in_) == ("sequences", 4)
    assert np.array_equal(raw.series, X)


def test_what_was_learned_from_a_table_reads_as_many_columns_and_what_was_not_any_number() -> None:
    _, _, estimator = learn(GRID)
    assert np.array_equal(read_new(estimator, list(GRID), "table").series or (), GRID[:, :, None])
    with pytest.raises(ShapeError, match=r"`X\[1\]`.*\(2, 1\).*is not \(3,\).*list of arrays"):
        read_new(estimator, [GRID[0], RAGGED[0]], "table")
    _, _, estimator = learn(RAGGED)
    assert np.array_equal(read_new(estimator, GRID, "sequences").series or (), GRID[:, :, None])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("play", ArgumentTypeError, r"`X` \(='play'\) is one text. Give a list"),
        (["play", None], ArgumentTypeError, r"`X\[1\]` \(=None\) is not a text.*Fill it in"),
        (["play", 3], ArgumentTypeError, r"`X\[1\]` \(=3\) is not a text"),
        (["play"], ShapeError, r"`X` .*has 1 sample\(s\).*Give at least two"),
        ([RAGGED[0], np.zeros((1, 1, 1))], ShapeError, r"`X\[1\]` \(=\(1, 1, 1\)\) is not \(steps, features\)"),
        ([RAGGED[0], np.array(["a"])], DTypeError, r"`X\[1\]` .*does not hold numbers"),
        ([RAGGED[0], 1j * RAGGED[0]], DTypeError, r"`X\[1\]` .*complex128.*does not hold numbers"),
        ([[[1.0], [2.0]], [[1.0], [2.0, 3.0]]], ArgumentTypeError, r"`X\[1\]` .*is not an array.*steps, features"),
        ([], ShapeError, r"`X` \(=\[\]\) has 0 sample\(s\)\. Give texts, or arrays"),
        (np.zeros(0), ShapeError, r"`X` .*has 0 sample\(s\)\. Give texts, or arrays"),
        (np.zeros((4, 3, 2, 2)), ShapeError, r"`X` \(=\(4, 3, 2, 2\)\) has 4 axes.*X.reshape\(\*X.shape\[:2\], -1\)"),
        (None, ValueError, "array"),
        ([{"a": 1}, {"a": 2}], TypeError, "number, not 'dict'"),
    ],
)
def test_what_is_not_a_list_of_sequences_is_refused(X: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        learn(X)


def test_texts_and_numbers_are_not_mixed_up() -> None:
    with pytest.raises(UnspoolError, match=r"`X` (?s:.*)is numbers, and the model was fitted on texts"):
        read_new(Bare(), GRID, "texts")
    with pytest.raises(UnspoolError, match="`X` .*is texts, and the model was fitted on numbers"):
        read_new(learn(GRID)[2], WORDS, "table")
    with pytest.raises(ShapeError, match=r"0 sample\(s\)|2D array"):
        read_new(Bare(), np.zeros((0, 2, 2)), "sequences")
