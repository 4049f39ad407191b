"""PackedCell: the values of the reference, and the same bits however time and the batch are cut."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.variants import LENGTHS, VARIANTS, each_kernel, random_batch, random_parameters, sizes

from unspool.cells import Cell, find_cell
from unspool.engine import reference
from unspool.engine.kernel import Kernel
from unspool.engine.packed import PackedCell, address
from unspool.errors import ArgumentError, DTypeError, ShapeError

Array = NDArray[np.float32]


def narrow(value: NDArray[Any]) -> Array:
    return np.ascontiguousarray(value, np.float32)


def pack(cell: Cell, int8: bool = False, threads: int = 1) -> PackedCell:
    parameters = {name: narrow(value) for name, value in random_parameters(cell).items()}
    return PackedCell(cell.equations(), *sizes(cell), parameters, int8=int8, threads=threads)


@each_kernel
@pytest.mark.parametrize("reverse", [False, True], ids=["ahead", "back"])
def test_the_values_are_those_of_the_reference(cell: Cell, reverse: bool) -> None:
    x, states = random_batch(cell)
    expected, final, _ = reference.run(cell, random_parameters(cell), x, states, lengths=LENGTHS, reverse=reverse)
    found, after = pack(cell).run(narrow(x), [narrow(one) for one in states], np.array(LENGTHS), reverse)
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * max(1, abs(expected).max()))
    for one, other in zip(after, final, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=3e-6 * max(1, abs(other).max()))


@each_kernel
@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
def test_steps_alone_have_the_bits_of_the_whole_batch(cell: Cell, int8: bool) -> None:
    x = narrow(random_batch(cell, steps=8)[0])
    packed = pack(cell, int8)
    together, final = packed.run(x)
    first, between = packed.run(x[:3])
    rest, cut = packed.run(x[3:], between)
    assert np.array_equal(np.concatenate((first, rest)), together)
    assert all(map(np.array_equal, cut, final))
    for row in range(x.shape[1]):
        stepper = packed.stepper(1)
        for t in range(len(x)):
            stepper.x[:] = x[t, row]
            stepper.step()
            assert np.array_equal(stepper.out[0], together[t, row])
        assert all(np.array_equal(one[0], other[row]) for one, other in zip(stepper.states, final, strict=True))


@pytest.mark.parametrize("name", ["lstm", "gru", "elman"])
def test_wide_layers_have_the_same_bits_for_any_batch_and_any_number_of_threads(name: str) -> None:
    """Sums so long that a product takes several passes, batches that take several tiles, units split among threads."""
    cell, random = find_cell(name), np.random.default_rng(0)
    equations = cell.equations()
    shapes = equations.shapes(531, 80)
    parameters = {key: narrow(random.normal(size=shape) / 9) for key, shape in shapes.items()}
    one, two = (PackedCell(equations, 531, 80, parameters, threads=threads) for threads in (1, 2))
    x = narrow(random.normal(size=(6, 40, 531)))
    expected, _ = one.run(x)
    assert np.array_equal(two.run(x)[0], expected)
    for rows in (1, 2, 3, 7, 13):
        part = np.ascontiguousarray(x[:, :rows])
        assert np.array_equal(one.run(part)[0], expected[:, :rows])
        assert np.array_equal(two.run(part)[0], expected[:, :rows])


@each_kernel
def test_whole_numbers_are_those_nearest_to_the_weights(cell: Cell) -> None:
    """The reference on weights that NumPy rounds: each row to 127 steps of its largest entry."""
    parameters = random_parameters(cell)
    rounded = {name: round_rows(narrow(value)) if value.ndim == 2 else value for name, value in parameters.items()}
    x, states = random_batch(cell)
    expected, _, _ = reference.run(cell, rounded, x, states)
    found, _ = pack(cell, int8=True).run(narrow(x), [narrow(one) for one in states])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, abs(expected).max()))


def round_rows(matrix: Array) -> NDArray[np.float64]:
    scale = abs(matrix).max(1, keepdims=True) / np.float32(127)
    return np.asarray(np.rint(matrix / scale).astype(np.float64) * scale)


def test_whole_numbers_take_a_quarter_of_the_memory() -> None:
    equations = find_cell("lstm").equations()
    kernel = Kernel(equations, 256, 256)
    arrays = [np.zeros(shape, np.float32) for shape in equations.shapes(256, 256).values()]
    places = [address(array) for array in arrays]
    assert kernel.packed_size(4, places, int8=True) < 0.26 * kernel.packed_size(4, places)


def test_a_copy_of_the_parameters_is_played() -> None:
    cell = VARIANTS["gru"]
    parameters = {name: narrow(value) for name, value in random_parameters(cell).items()}
    packed = PackedCell(cell.equations(), *sizes(cell), parameters)
    x = narrow(random_batch(cell)[0])
    before, _ = packed.run(x)
    for value in parameters.values():
        value[:] = 7
    assert np.array_equal(packed.run(x)[0], before)


def test_double_precision_is_played_as_it_is() -> None:
    cell = VARIANTS["gru"]
    x, states = random_batch(cell)
    packed = PackedCell(cell.equations(), *sizes(cell), random_parameters(cell))
    expected, _, _ = reference.run(cell, random_parameters(cell), x, states)
    np.testing.assert_allclose(packed.run(x, states)[0], expected, rtol=0, atol=1e-13)


def test_addresses_are_checked() -> None:
    kernel = Kernel(find_cell("gru").equations(), 2, 3)
    with pytest.raises(ArgumentError, match="addresses"):
        kernel.pack(4, [1, 2], 3)
    with pytest.raises(DTypeError, match="itemsize"):
        kernel.pack(2, [1] * 9, 3)


def test_a_step_keeps_the_memory_that_it_reads_and_writes() -> None:
    packed = pack(find_cell("lstm"))
    stepper = packed.stepper(1)
    step, owned = stepper.step, [weakref.ref(one) for one in (packed, stepper.x, stepper.out, *stepper.states)]
    del packed, stepper
    step()
    assert all(one() is not None for one in owned)
    del step
    assert all(one() is None for one in owned)


def test_what_does_not_fit_is_refused_before_native_code() -> None:
    equations = find_cell("gru").equations()
    parameters = {name: np.ones(shape, np.float32) for name, shape in equations.shapes(2, 3).items()}
    cell = PackedCell(equations, 2, 3, parameters)
    for wrong in (np.zeros((4, 1, 3)), np.zeros((4, 2))):
        with pytest.raises(ShapeError, match="time, batch"):
            cell.run(wrong)
    for x in (np.zeros((1, 2)), np.zeros((1, 3), np.float32), np.zeros((2, 1), np.float32).T[:, ::2]):
        with pytest.raises(ShapeError, match="one row after the other"):
            cell.stepper(1, x)
    with pytest.raises(ShapeError, match="own parameters"):
        PackedCell(equations, 3, 3, parameters)
    with pytest.raises(DTypeError, match="float32"):
        cell.kernel.pack(8, [1] * len(parameters), 3, int8=True)


def test_rows_too_small_for_a_scale_are_zero() -> None:
    equations = find_cell("elman").equations()
    parameters = {name: np.full(shape, 1e-40, np.float32) for name, shape in equations.shapes(2, 3).items()}
    found, _ = PackedCell(equations, 2, 3, parameters, int8=True).run(np.ones((2, 1, 2)))
    assert np.abs(found).max() < 1e-30
