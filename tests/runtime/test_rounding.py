"""Networks in int8: rounded once, by one rule, and without the weights that they were made of."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from tests.runtime.small_models import CASES, tensors_of
from tests.runtime.test_read import document_of

from unspool.cells import LSTM
from unspool.engine.rounding import quantize, round_rows
from unspool.runtime import packing
from unspool.runtime.network import Embedding, Language, Layer, Linear, Recurrence, Stack
from unspool.runtime.options import PlayOptions
from unspool.runtime.play import make_player
from unspool.runtime.read import read_network
from unspool.runtime.recurrence import RecurrencePlayer
from unspool.runtime.rounding import RoundedMatrix, round_network


def draw(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_a_rounded_matrix_gives_the_rows_of_the_rounded_array() -> None:
    matrix = draw(7, 5)
    matrix[2] = 0
    matrix[3] = 1e-38  # too small for a scale
    rounded, whole = RoundedMatrix(matrix), round_rows(matrix)
    assert np.array_equal(np.asarray(rounded), whole)
    ids = np.array([[6, 0], [2, 3]])
    assert np.array_equal(rounded[ids], whole[ids])
    assert np.array_equal(rounded[4], whole[4])
    assert (rounded.shape, len(rounded)) == ((7, 5), 7)
    assert rounded[4].dtype == np.float32
    assert not whole[2:4].any()
    assert np.abs(whole - matrix).max() <= np.abs(matrix).max() / 254 * (1 + 1e-6)
    assert np.array_equal(quantize(whole)[0], quantize(matrix)[0])  # what a kernel finds again


def make_language(tokens: int, size: int) -> Language:
    equations = LSTM().equations()
    shapes = equations.shapes(size, size)
    recurrence = Recurrence(equations, size, size, False, {name: draw(*shape) for name, shape in shapes.items()}, None)
    table = draw(tokens, size)
    stack = Stack((Layer((recurrence,), False),), False, 0)
    return Language("lm", Embedding(table, None), stack, None, Linear(table, draw(tokens)))


def test_a_tied_matrix_is_rounded_once() -> None:
    rounded = round_network(make_language(11, 4))
    assert rounded.embedding.weight is rounded.head.weight


@pytest.mark.parametrize(("int8", "most"), [(False, 1.1), (True, 0.6)])
def test_what_a_player_takes_beside_the_network(int8: bool, most: float) -> None:
    """The packed weights; in int8 also a rounded network, and then the one that it was made of can go."""
    make_player(make_language(11, 4), options=PlayOptions(int8=int8))  # what is made once for all
    network = make_language(2000, 128)
    arrays = (network.head.weight, *network.stack.layers[0].directions[0].parameters.values())
    size = sum(one.nbytes for one in arrays)
    gc.collect()
    tracemalloc.start()
    player = make_player(network, options=PlayOptions(int8=int8))
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert player is not None
    assert taken < most * size


@pytest.mark.parametrize("case", ["language-0", "classify-0", "tag-0", "forecast-0", "translate-0"])
def test_a_player_in_int8_holds_no_matrix_of_the_file(case: str) -> None:
    made = CASES[case]()
    tensors = tensors_of(made.model)
    player: Any = make_player(read_network(document_of(made), tensors), **made.extras, options=PlayOptions(int8=True))
    held = {id(one) for one in arrays_of(player.network)}
    assert not held & {id(one) for name, one in tensors.items() if one.ndim == 2 and not name.startswith("crf")}


def arrays_of(part: Any) -> list[Any]:
    """Every array in a network, and those that they are views of."""
    if isinstance(part, np.ndarray):
        return [part, *arrays_of(part.base)]
    if isinstance(part, tuple | list):
        return [one for each in part for one in arrays_of(each)]
    if isinstance(part, dict):
        return arrays_of(list(part.values()))
    return arrays_of(list(vars(part).values())) if hasattr(part, "__dataclass_fields__") else []


def test_cells_of_very_many_operations_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler would take minutes, and a run folder from anywhere could ask for it."""
    monkeypatch.setattr(packing, "MOST_COMPILED", 10)
    recurrence = make_language(11, 4).stack.layers[0].directions[0]
    with pytest.warns(RuntimeWarning, match=r"runs by NumPy: it has \d+ operations, and more than 10 are not compiled"):
        player = RecurrencePlayer(recurrence)
    assert player.packed is None
    output, _ = player.run(draw(3, 2, 4))
    assert output.shape == (3, 2, 4)
