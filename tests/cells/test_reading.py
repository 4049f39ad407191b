"""A `step` read as equations: which values get which names, and which parameters they need."""

from __future__ import annotations

import cProfile
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.variants import (
    VARIANTS,
    Heir,
    NormalisedLSTM,
    PeepholeLSTM,
    ThreeStates,
    cell_of,
    every_cell,
    random_batch,
    random_parameters,
)

from unspool.cells import GRU, LSTM, Cell, DeepTransition, ResetAfterGRU, Skip, Symbol, relu, sigmoid, tanh, where
from unspool.cells.evaluate import Evaluator
from unspool.engine import run
from unspool.engine.reference import OPERATIONS


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        (GRU(), "r z n h"),
        (ResetAfterGRU(), "r z n h"),
        (LSTM(), "i f g o c h"),
        (LSTM(projection=2), "i f g o c h"),
        (DeepTransition(3), "v1 v2 h"),
        (Skip(3), "h h_1 h_2"),
        (Heir(), "z n old g h"),
        (PeepholeLSTM(), "i f c o h"),
        (NormalisedLSTM(), "i f o g c h"),
        (ThreeStates(), "a s m h"),
    ],
    ids=repr,
)
def test_named_values_in_the_order_of_their_computation(cell: Cell, names: str) -> None:
    assert list(cell.equations().named) == names.split()


def test_a_state_assigned_anew_keeps_the_states_name_for_its_last_value() -> None:
    equations = LSTM().equations()
    assert equations.named["c"] is equations.results[1]
    assert equations.named["h"] is equations.results[0]


def test_parameters_are_named_and_shaped_as_in_the_equations() -> None:
    square, wide = ("hidden", "hidden"), ("hidden", "input")
    assert GRU().equations().parameters == {
        name: widths
        for gate in "rzn"
        for name, widths in ((f"W_{gate}", wide), (f"U_{gate}", square), (f"b_{gate}", ("hidden",)))
    }
    assert list(Skip(2).equations().parameters) == ["W_h", "U1_h", "U2_h", "b_h"]
    assert LSTM(projection=2).equations().shapes(5, 7)["U_p"] == (2, 7)
    assert LSTM(projection=2).equations().shapes(5, 7)["U_i"] == (7, 2)
    assert "b_hn" in ResetAfterGRU().equations().parameters
    assert PeepholeLSTM().equations().initial == {"p_i": 0.1, "p_f": 0.2, "p_o": 0.0}


@every_cell
def test_without_biases_the_same_parameters_but_those(cell: Cell) -> None:
    whole, without = cell.equations().parameters, cell.equations(bias=False).parameters
    assert without == {name: widths for name, widths in whole.items() if not name.startswith("b_")}


@every_cell
def test_nodes_come_after_their_inputs_and_lead_to_a_result_or_a_name(cell: Cell) -> None:
    equations = cell.equations()
    seen: set[Symbol] = set()
    for node in equations.nodes:
        assert seen.issuperset(node.inputs)
        seen.add(node)
    used = {value for node in equations.nodes for value in node.inputs}
    leaves = set(equations.nodes[: 1 + len(equations.states)])
    assert seen == used | leaves | set(equations.results) | set(equations.named.values())
    assert set(equations.states) <= set(equations.named)


def test_equal_expressions_are_one_value() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        first = sigmoid(self.linear("a", x, h)) * 2
        again = sigmoid(self.linear("a", x, h)) * 2.0
        return first + again

    equations = cell_of(step).equations()
    assert [node.operation for node in equations.nodes].count("linear") == 1
    assert equations.results[0].inputs[0] is equations.results[0].inputs[1]
    assert list(equations.parameters) == ["W_a", "U_a", "b_a"]
    assert list(equations.named) == ["first", "h"]


def test_a_value_that_nothing_needs_is_kept_if_it_has_a_name() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        seen = tanh(self.linear("s", x))
        sigmoid(seen)
        return h * 0.5 + relu(self.linear("h", x))

    operations = [node.operation for node in cell_of(step).equations().nodes]
    assert "tanh" in operations
    assert "sigmoid" not in operations


def test_operands_other_than_x_are_numbered_in_their_order() -> None:
    def step(self: Cell, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        return tanh(self.linear("a", c, x, h)), c

    equations = cell_of(step).equations()
    linear = next(node for node in equations.nodes if node.operation == "linear")
    assert linear.detail.matrices == ("U1_a", "W_a", "U2_a")
    assert [value.detail for value in linear.inputs] == ["c", None, "h"]


@pytest.mark.parametrize("number", [2, 2.5, np.float64(2.5), np.float32(2.5), np.int64(3), np.array(2.5)], ids=repr)
def test_numbers_of_any_kind_are_constants(number: Any) -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Any:
        return number * h + self.linear("a", x) / number

    constants = [node.detail for node in cell_of(step).equations().nodes if node.operation == "constant"]
    assert constants == [float(number)]


def test_comparisons_either_way_round() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        a = self.linear("a", x)
        return where(h > a, h, a) + where(a < h, h, a) + where(h >= 1, h, a) + where(h <= 1, h, a)

    operations = [node.operation for node in cell_of(step).equations().nodes]
    assert [name for name in operations if name.startswith("less")] == [
        "less",
        "less_equal",
        "less_equal",
    ]


def test_a_power_is_a_repeated_product() -> None:
    (result,) = cell_of(lambda self, x, h: h**3).equations().results
    assert result.operation == "multiply"
    assert [value.operation for value in result.inputs] == ["multiply", "state"]


@pytest.mark.parametrize("exponent", [1, 2, 3, 7, 64, 1000, 1_000_000_000])
def test_a_power_takes_few_products(exponent: int) -> None:
    class Power(Cell):
        def step(self, x: Symbol, h: Symbol) -> Symbol:
            return h**exponent + 0 * self.linear("a", x)

    products = [node for node in Power().equations().nodes if node.operation == "multiply"]
    assert len(products) <= 2 * exponent.bit_length()
    start = 1 + np.arange(-3, 4)[None] / exponent
    zero = {"W_a": np.zeros((7, 1)), "b_a": np.zeros(7)}
    _, (final,), _ = run(Power, zero, np.zeros((1, 1, 1)), [start])
    np.testing.assert_allclose(final, start**exponent, rtol=1e-6)


def test_a_state_that_is_returned_unchanged_or_as_another() -> None:
    equations = cell_of(lambda self, x, h, c: (c, h)).equations()
    assert [result.detail for result in equations.results] == ["c", "h"]
    assert {name: node.detail for name, node in equations.named.items()} == {"h": "c", "c": "h"}


def test_one_value_for_two_states_is_named_by_both() -> None:
    def step(self: Cell, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        new = tanh(self.linear("a", x, h, c))
        return new, new

    equations = cell_of(step).equations()
    assert equations.named["h"] is equations.named["c"] is equations.results[0]


def test_helper_methods_and_parents_give_names() -> None:
    class Parent(Cell):
        def candidate(self, x: Symbol, h: Symbol) -> Symbol:
            mixed = self.linear("a", x, h)
            return tanh(mixed)

        def step(self, x: Symbol, h: Symbol) -> Symbol:
            n = self.candidate(x, h)
            return 0.5 * (n + h)

    class Child(Parent):
        def step(self, x: Symbol, h: Symbol) -> Symbol:
            kept = sigmoid(self.linear("k", x))
            return kept * super().step(x, h)

    assert list(Parent().equations().named) == ["mixed", "n", "h"]
    assert list(Child().equations().named) == ["kept", "mixed", "n", "h"]


def test_helper_functions_keep_their_names_to_themselves() -> None:
    def squash(v: Symbol) -> Symbol:
        inner = 2 * v
        return tanh(inner)

    assert list(cell_of(lambda self, x, h: squash(self.linear("a", x, h))).equations().named) == ["h"]


def test_reading_leaves_the_cell_as_it_was_and_gives_the_same_twice() -> None:
    for cell in VARIANTS.values():
        before = dict(vars(cell))
        first, second = cell.equations(), cell.equations()
        assert vars(cell) == before
        assert first.nodes[0] is not second.nodes[0]
        assert [node.operation for node in first.nodes] == [node.operation for node in second.nodes]
        assert first.parameters == second.parameters
        assert list(first.named) == list(second.named)


def test_reading_under_a_profiler_gives_the_same_and_lets_it_go_on() -> None:
    def after() -> int:
        return sum(range(10))

    plain, profiler = GRU().equations(), cProfile.Profile()
    profiler.enable()
    read = GRU().equations()
    assert after() == 45
    profiler.disable()
    assert list(read.named) == list(plain.named)
    assert read.parameters == plain.parameters
    profiler.create_stats()
    assert "after" in {function for _, _, function in profiler.stats}


def test_a_profiler_written_in_python_goes_on_too() -> None:
    seen: list[str] = []

    def see(frame: FrameType, event: str, _argument: object) -> None:
        seen.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        LSTM().equations()
        assert sys.getprofile() is see
    finally:
        sys.setprofile(before)
    assert "equations" in seen


def test_keeps_and_writes_name_values_of_the_equations() -> None:
    for cell in VARIANTS.values():
        (x, states), step = random_batch(cell), Evaluator(cell.equations(), OPERATIONS)
        _, named = step(random_parameters(cell), x[0], states)
        gates = {*cell.keeps, *cell.writes}
        assert gates <= set(named), cell
        assert all((named[gate] >= 0).all() and (named[gate] <= 1).all() for gate in gates), cell


def test_repr_says_the_options() -> None:
    assert repr(Skip(3, "relu")) == "Skip(span=3, activation='relu')"
    assert repr(GRU()) == "GRU()"
