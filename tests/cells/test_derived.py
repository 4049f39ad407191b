"""Derived equations: masks as columns of matrices, forms that leave a cell as it was, names, and writing them down."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from tests.variants import VARIANTS, as_states, each_cell, random_layer, random_tensors, sizes
from torch import Tensor

from unspool.cells import Cell, Symbol, derived, document
from unspool.cells.evaluate import Evaluator
from unspool.nn.operations import OPERATIONS

close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)

#: Matrices that read what a step has computed, not a state or a product of one.
INNER = {
    "lstm-projection": {"U_p"},
    "jordan": {"U_y"},
    "jordan-output": {"U_y"},
    "deep-transition": {"U_h2"},
    "deep-transition-2": {"U_h2"},
    "deep-transition-3": {"U_h2", "U_h3"},
    "ThreeStages": {"U1_v", "U1_w", "U2_w"},
    "ThreeStates": {"U1_m"},
}
#: Matrices that read another state than the first.
OTHERS = {
    "skip": {"U2_h": "h_1"},
    "skip-2": {"U2_h": "h_1"},
    "skip-3": {"U2_h": "h_2"},
    "ThreeStates": {"U2_a": "m", "U2_m": "m"},
}


@each_cell
def test_a_mask_on_what_matrices_read_is_one_on_their_columns(cell: Cell) -> None:
    """For a batch of one row U(m⊙h) is (U diag m)h, so the plain cell can do it."""
    name = next(name for name, variant in VARIANTS.items() if variant is cell)
    layer = random_layer(cell)
    equations, parameters = layer.equations, layer.cell_parameters()
    x, state = random_tensors(cell, 5, 1)
    reads = {
        matrix: OTHERS.get(name, {}).get(matrix, next(iter(equations.states)))
        for matrix in equations.recurrent_matrices
        if matrix not in INNER.get(name, ())
    }
    masks = {read: torch.rand(1, equations.size(equations.states[read], *sizes(cell)), dtype=x.dtype)
             for read in equations.states if read in reads.values()}  # fmt: skip
    masked = derived.with_masks(equations)
    assert list(masked.states) == [*equations.states, *(f"mask_{read}" for read in masks)]
    step, states = Evaluator(masked, OPERATIONS), (*as_states(state), *masks.values())
    scaled = {key: value * masks[reads[key]] if key in reads else value for key, value in parameters.items()}
    plain = as_states(state)
    for t in range(len(x)):
        states, named = step(parameters, x[t], states)
        plain, _ = layer.step(scaled, x[t], plain)
        close(states[: len(plain)], plain)
        same(states[len(plain) :], tuple(masks.values()))
        close(named[next(iter(equations.states))], plain[0])


@each_cell
def test_forms_that_leave_a_cell_as_it_was(cell: Cell) -> None:
    """Masks of one, no digits and a p of nought change nothing; and every form survives being written."""
    layer = random_layer(cell)
    equations, (x, state) = layer.equations, random_tensors(cell)
    start, parameters = as_states(state), layer.cell_parameters()
    expected, values = layer.step(parameters, x[0], start)
    masked = derived.with_masks(equations)
    states = tuple(equations.states)
    for made in (masked, derived.with_zoneout(masked, states), derived.with_expected_zoneout(masked, states)):
        assert document.dump(document.load(document.dump(made))) == document.dump(made)

        def size(width: str) -> int:
            return equations.size(width, *sizes(cell))

        further = [
            torch.full((x.shape[1], size(width)), float(name.startswith("mask")), dtype=x.dtype)
            for name, width in list(made.states.items())[len(states) :]
        ]
        vectors = {
            name: torch.zeros(size(widths[0]), dtype=x.dtype)
            for name, widths in made.parameters.items()
            if name not in parameters
        }
        results, named = Evaluator(made, OPERATIONS)({**parameters, **vectors}, x[0], (*start, *further))
        same(results, (*expected, *further))
        same({name: named[name] for name in values}, values)


def test_digits_say_which_units_stay() -> None:
    layer = random_layer(VARIANTS["gru"])
    made = Evaluator(derived.with_zoneout(layer.equations, ("h",)), OPERATIONS)
    h: Tensor = torch.randn(1, 4, dtype=torch.float64)
    digits = torch.tensor([[0.625, 0.5, 0.375, 0.0]], dtype=torch.float64)  # 0.101, 0.100, 0.011, 0.000
    for stays in ([1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]):
        x = torch.randn(1, 3, dtype=torch.float64)
        (new,), _ = layer.step(layer.cell_parameters(), x, (h,))
        expected = torch.where(torch.tensor(stays) == 1, h, new)
        (h, digits), _ = made(layer.cell_parameters(), x, (h, digits))
        same(h, expected)


def test_names_give_way_to_the_cells_own() -> None:
    class Taken(Cell):
        def step(self, x: Any, h: Any, mask_h: Any) -> Any:
            stays_h = self.linear("h", x, h)
            return stays_h + mask_h, mask_h * 0.5

    masked = derived.with_masks(Taken().equations())
    assert list(masked.states) == ["h", "mask_h", "mask_h_"]
    assert list(derived.with_zoneout(masked, ("h",)).states) == ["h", "mask_h", "mask_h_", "stays_h_"]
    assert "stays_h_" in derived.with_expected_zoneout(masked, ("h",)).parameters


class Powers(Cell):
    """Matrices read a high power of the state, and a long product."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        product = h
        for place in range(3000):
            product = product * self.vector(f"v{place % 7}", 1.0)
        return self.linear("a", x, h**1_000_000_000) + self.linear("b", product)


def test_masks_on_high_powers_and_long_products() -> None:
    """Each factor is masked, and the number of values stays small."""
    equations = derived.with_masks(Powers().equations())
    assert list(equations.states) == ["h", "mask_h"]
    assert len(equations.nodes) < 12_000
    step = Evaluator(equations, OPERATIONS)
    shapes = equations.shapes(2, 2)
    parameters = {
        name: torch.ones(shape) / 4 if name[0] in "WU" else torch.ones(shape) for name, shape in shapes.items()
    }
    one = torch.ones(1, 2)
    kept, _ = step(parameters, one, (one, one))
    dropped, _ = step(parameters, one, (one, torch.tensor([[0.0, 1.0]])))
    assert torch.allclose(kept[0] - dropped[0], torch.full((1, 2), 2 / 4))  # one unit of each of the two products
