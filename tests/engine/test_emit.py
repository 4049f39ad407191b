"""From equations to C++: the engine's graph, its reverse, what is kept, the order of work, and the text."""

from __future__ import annotations

import hashlib
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.agreement import assert_agree, by_kernel, by_loop, draw, needs_compiler, weights
from tests.engine.random_cells import clear_call, random_cell
from tests.variants import VARIANTS, cell_of, each_cell

from unspool import cells
from unspool.cells import Cell, Symbol, find_cell, maximum, minimum, tanh, where
from unspool.cells.equations import Equations
from unspool.engine import record_length
from unspool.engine.emit import emit
from unspool.engine.graph import Graph, Lowered, Node, lower
from unspool.engine.reverse import reverse
from unspool.engine.schedule import schedule
from unspool.errors import CellError

pytestmark = pytest.mark.usefixtures("compiling")

Array = NDArray[np.float64]


def body(source: str, function: str) -> str:
    """The text of one function of a kernel."""
    return source.split(f"static void {function}(")[1].split("template <")[0]


def test_the_kernel_of_the_gru_can_be_recognised() -> None:
    source = emit(find_cell("gru").equations())
    assert source.startswith("// GRU:\n//   r_t &= \\sigma")
    first, second = body(source, "forward_0"), body(source, "forward_1")
    assert re.search(r"auto r_ = vsigmoid<real>\(", first)
    assert re.search(r"auto z_ = vsigmoid<real>\(", first)
    assert re.search(r"auto n_ = vtanh<real>\(", second)
    assert re.search(r"auto h_ = .* \+ ", second)
    assert "// W_r, U_r, b_r, W_z, U_z, b_z, W_n, U_n, b_n" in source
    assert "if constexpr (KEEP)" in first
    assert "if constexpr (TRACE)" in first
    assert "d_before_0" in body(source, "backward_1")


def test_each_value_is_computed_once() -> None:
    for name in ("gru", "lstm", "NormalisedLSTM"):
        for function in ("forward_0", "backward_0"):
            right = re.findall(r"const auto \w+ = (.*);", body(emit(VARIANTS[name].equations()), function))
            assert len(right) == len(set(right))


def digests() -> dict[str, str]:
    """A short form of every kernel's text."""
    named = {**VARIANTS, **{str(seed): random_cell(seed) for seed in range(20)}}
    return {name: hashlib.sha256(emit(cell.equations()).encode()).hexdigest() for name, cell in named.items()}


def test_the_text_is_the_same_in_every_process() -> None:
    """It is part of the name under which a kernel is kept."""
    script = "from tests.engine.test_emit import digests; print(digests())"
    variables = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    said = subprocess.run([sys.executable, "-c", script], env=variables, text=True, capture_output=True, check=True)
    assert said.stdout.strip() == str(digests())


WORDS = (
    *("int", "class", "template", "auto", "real", "lanes", "vec", "broadcast", "loop", "r", "b", "j", "f", "main"),
    *("v1", "v2_", "total_0", "before_0_p", "INFINITY", "NAN", "sizes", "0", "7up", "a__", "unspool", "Cell"),
    *("aσ", "nom_d_état", "n" * 5000),
)


class Hostile(Cell):
    """Names that mean something in C++, that C++ does not allow, and that the emitted code uses itself."""

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"int": 3, "σ": 2}

    @property
    def states(self) -> tuple[str, ...]:
        return "class", "0"

    def step(self, x: Symbol, *before: Symbol) -> tuple[Symbol, ...]:
        value = sum((self.linear(word, x) for word in ("int", "r", "0", "eπ")), start=before[0])
        for word in WORDS:
            value = self.name(word, tanh(value + 0.1 * self.vector(f"p{word}")))
        σ = self.linear("narrow", value, width="int") + self.vector("template", width="int")
        名 = self.linear("v", value, width="σ")
        return tanh(self.linear("u", σ, 名)), value


@needs_compiler
def test_hostile_names_compile() -> None:
    call = draw(Hostile(), 3, 2, 3, 5)
    assert {*WORDS[:-1], "σ", "名"} <= set(call.layer.equations.named)  # the last is the state itself
    assert_agree(by_kernel(call), by_loop(call), 1e-11)


INJECTION = 'a\n#error "reached the compiler"\n'


@pytest.mark.parametrize("where_to", ["title", "size", "state", "map", "vector", "value"])
def test_no_name_is_code(where_to: str) -> None:
    def at(place: str, harmless: str) -> str:
        return INJECTION if place == where_to else harmless

    class Mine(Cell):
        sizes = {at("size", "narrow"): 2}
        states = (at("state", "h"),)

        def step(self, x: Symbol, h: Symbol) -> Symbol:
            a = self.linear(at("map", "a"), x, h, width=at("size", "narrow"))
            return tanh(self.linear("b", self.name(at("value", "v"), tanh(a)), h) + self.vector(at("vector", "p")))

    Mine.__name__ = at("title", "Mine")
    try:
        source = emit(Mine().equations())
    except CellError:
        return  # refused by name
    assert not re.search(r"^\s*#error", source, re.MULTILINE)


@needs_compiler
def test_odd_numbers() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        a = tanh(self.linear("a", x, h))
        b = minimum(a, math.inf) + maximum(a, -math.inf) + where(a < 1e300, 0.1, math.nan) + where(h > 9, math.nan, 1)
        return b * (1 / 3) + 5e-324 - -0.0 * a

    call = draw(cell_of(step), 3, 2, 3, 5)
    assert_agree(by_kernel(call), by_loop(call), 1e-14)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """An error if it takes longer."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_many_operations_in_a_row() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        v = self.linear("a", x, h)
        for _ in range(500):
            v = tanh(v) * 0.9
        return v

    with within(20):
        source = emit(cell_of(step).equations())
    assert body(source, "forward_0").count("vtanh<real>") == 500


def test_values_used_twice_again_and_again() -> None:
    """Written out in full, this would be 3⁴⁰ symbols long."""

    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        v = tanh(h)
        for _ in range(40):
            v = 0.5 * (v * v + v)
        return v * tanh(self.linear("a", x, h))

    with within(20):
        source = emit(cell_of(step).equations())
    assert len(source) < 100_000


# The graph


def test_equal_expressions_are_one_node() -> None:
    graph = Graph()
    x, h = graph.node("x", width="hidden"), graph.node("before", width="hidden", detail=0)
    assert graph.node("add", x, h) is graph.node("add", x, h)
    assert graph.node("add", x, h) is not graph.node("add", h, x)
    assert graph.node("add", x, graph.constant(0)) is x
    assert graph.node("multiply", graph.constant(1), x) is x
    assert graph.node("negative", graph.constant(2)).is_number(-2)
    assert graph.node("less", x, graph.constant(0)).width == "hidden"


def test_normalisation_becomes_sums_over_a_row() -> None:
    lowered = lower(VARIANTS["NormalisedLSTM"].equations())
    operations = [node.operation for node in lowered.nodes]
    assert operations.count("row_sum") == 2 * 5
    assert "normalise" not in operations


# What is kept


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("lstm", "ifgo"),
        ("lstm-projection", "ifgo"),
        ("lstm-open", "ifg"),
        ("gru", "rzn"),
        ("elman", ""),
        ("elman-relu", ""),
        ("elman-sigmoid", ""),
        ("linear", ""),
        ("jordan", "h"),
        ("residual", "f"),
        ("skip-3", ""),
        ("Minimal", "zn"),
        ("PeepholeLSTM", "ifo"),
    ],
)
def test_only_what_cannot_be_recomputed_is_kept(name: str, kept: str) -> None:
    """tanh(c), for one, follows from c, and the slope of tanh from the new state."""
    lowered = lower(VARIANTS[name].equations())
    names = {node: name for name, node in lowered.named.items()}
    slots = [names.get(slot, "") for slot in reverse(lowered).slots]
    unnamed = {"PeepholeLSTM": 1}.get(name, 0)  # the tanh of g has no name there
    assert sorted(filter(None, slots)) == sorted(kept)
    assert slots.count("") == unnamed


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("lstm", 4 * 7 + 7),  # the gates, and c
        ("lstm-projection", 4 * 7 + 7),
        ("gru", 3 * 7),
        ("gru-reset-after", 3 * 7 + 7),  # r multiplies a product, which is kept too
        ("elman", 0),
        ("skip-3", 2 * 7),  # the two states behind h
        ("ThreeStates", None),
    ],
)
def test_record_length(name: str, numbers: int | None) -> None:
    equations = VARIANTS[name].equations()
    lowered = lower(equations)
    widths = [slot.width for slot in reverse(lowered).slots] + list(equations.states.values())[1:]
    sizes = {"input": 5, "hidden": 7, **equations.sizes}
    expected = sum(sizes.get(str(width), 1) for width in widths)
    assert record_length(equations, 5, 7) == expected
    assert numbers in (None, expected)


# The reverse, evaluated in NumPy, against torch


class Numbers:
    """Evaluates nodes of the engine for one step of a batch: a plain reading of what each operation means."""

    def __init__(self, equations: Equations, values: Mapping[str, Array], x: Array, states: list[Array]) -> None:
        self.parameters, self.x, self.states = values, x, states
        self.sizes = {"input": x.shape[1], **equations.sizes}
        self.known: dict[Node, Any] = {}
        self.after: list[Array] = []
        self.d_after: list[Array] = []
        self.stored: list[Array] = []
        self.hidden = next(
            (values[name].shape[w.index("hidden")] for name, w in equations.parameters.items() if "hidden" in w), 0
        )

    def __call__(self, node: Node) -> Any:
        if node not in self.known:
            inputs = [self(value) for value in node.inputs]
            self.known[node] = self._compute(node, inputs)
        return self.known[node]

    def _compute(self, node: Node, inputs: list[Any]) -> Any:
        match node.operation:
            case "x":
                return self.x
            case "before" | "after" | "d_after" | "stored":
                table = {"before": self.states, "after": self.after, "d_after": self.d_after, "stored": self.stored}
                return table[node.operation][node.detail]
            case "vector":
                return self.parameters[node.detail]
            case "constant":
                return node.detail
            case "per_unit":
                return 1 / {"hidden": self.hidden, **self.sizes}[node.detail]
            case "map":
                total = sum(v @ self.parameters[m].T for v, m in zip(inputs, node.detail.matrices, strict=True))
                return total + (self.parameters[node.detail.bias] if node.detail.bias else 0)
            case "back":
                return sum(g @ self.parameters[m] for g, m in zip(inputs, node.detail, strict=True))
            case "row_sum":
                whole = np.broadcast_to(inputs[0], (len(self.x), np.shape(inputs[0])[-1]))
                return whole.sum(-1, keepdims=True)
        functions: dict[str, Callable[..., Any]] = {
            "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
            "negative": np.negative, "minimum": np.minimum, "maximum": np.maximum, "tanh": np.tanh, "exp": np.exp,
            "log": np.log, "sqrt": np.sqrt, "absolute": np.abs, "less": np.less, "less_equal": np.less_equal,
            "where": np.where, "relu": lambda v: np.maximum(v, 0), "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        }  # fmt: skip
        return functions[node.operation](*inputs)


def gradients_by_graph(lowered: Lowered, numbers: Numbers, d_after: list[Array]) -> dict[str, Array]:
    """All gradients of one step, from the reverse graph."""
    found = reverse(lowered)
    rows = len(numbers.x)
    numbers.after = [np.broadcast_to(numbers(node), d.shape) for node, d in zip(lowered.results, d_after, strict=True)]
    numbers.stored = [numbers(node) for node in found.slots]
    numbers.d_after = d_after
    states = list(lowered.equations.states)
    total: dict[str, Any] = dict.fromkeys(("x", *states, *lowered.equations.parameters), 0.0)
    for index, node in found.d_before.items():
        total[states[index]] += numbers(node)
    if found.d_x is not None:
        total["x"] += numbers(found.d_x)
    for name, node in found.d_vectors.items():
        whole = np.broadcast_to(numbers(node), (rows, len(numbers.parameters[name])))
        total[name] += whole.sum(0)
    for map_node in (node for node in lowered.nodes if node.operation == "map" and node.detail in found.d_maps):
        linear = map_node.detail
        width = len(numbers.parameters[linear.matrices[0]])
        gradient = np.broadcast_to(numbers(found.d_maps[linear]), (rows, width))
        for matrix, operand in zip(linear.matrices, map_node.inputs, strict=True):
            value = numbers(found.operands.get(operand, operand))
            total[matrix] += gradient.T @ np.broadcast_to(value, (rows, np.shape(value)[-1]))
            if operand.operation == "x":
                total["x"] += gradient @ numbers.parameters[matrix]
            elif operand.operation == "before":
                total[states[operand.detail]] += gradient @ numbers.parameters[matrix]
        if linear.bias:
            total[linear.bias] += gradient.sum(0)
    return total


def check_reverse(cell: Cell, seed: int = 0) -> None:
    call = clear_call(cell, seed, 1, 3, 4, 5)
    expected = by_loop(call)
    lowered = lower(call.layer.equations)
    values = {name: tensor.detach().numpy() for name, tensor in call.layer.cell_parameters().items()}
    states = [state.detach().numpy() for state in call.states]
    numbers = Numbers(call.layer.equations, values, call.x.detach().numpy()[0], states)
    names = list(lowered.equations.states)
    d_after = [weights(f"final {name}", state).numpy() for name, state in zip(names, call.states, strict=True)]
    d_after[0] = d_after[0] + weights("output", expected["output"]).numpy()[0]
    found = gradients_by_graph(lowered, numbers, d_after)
    for index, name in enumerate(names):
        np.testing.assert_allclose(numbers.after[index], expected[f"final {name}"], rtol=1e-12, atol=1e-12)
    for name, gradient in found.items():
        exact = expected[f"d {name}"].numpy().reshape(np.shape(gradient) or expected[f"d {name}"].shape)
        np.testing.assert_allclose(gradient, exact, rtol=1e-11, atol=1e-11, err_msg=name)


OPERATIONS: dict[str, Callable[[Symbol, Symbol], Symbol]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "square": lambda a, b: a * a,
    "divide": lambda a, b: a / (b * b + 1),
    "negative": lambda a, b: -a,
    "minimum": minimum,
    "maximum": maximum,
    "minimum of equals": lambda a, b: minimum(a, a + 0 * b),
    "where": lambda a, b: where(a < b, a * b, b),
    "where of an earlier comparison": lambda a, b: where(a + b <= 0.2, a * b, where(a + b <= 0.2, 1.0, b)),
    "a number": lambda a, b: where(a < 0.1, 0.3, -0.4) * b,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_reverse_of_each_operation(name: str) -> None:
    """Of states, vectors, maps and maps of intermediate values."""

    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        a = self.linear("a", x, h)
        b = self.linear("b", tanh(a))
        pairs = ((a, h), (h, self.vector("v")), (self.vector("w"), a), (a, b), (b, h))
        return sum((OPERATIONS[name](*pair) for pair in pairs), start=0 * h)

    for seed in range(3):
        check_reverse(cell_of(step), seed)


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu", "exp", "log", "sqrt", "absolute", "normalise"])
def test_reverse_of_each_function(name: str) -> None:
    function: Callable[[Symbol], Symbol] = getattr(cells, name)
    inner: Callable[[Symbol], Symbol] = (lambda v: v * v + 0.5) if name in ("log", "sqrt") else lambda v: v

    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        outside = function(inner(self.linear("a", x, h)))
        return outside * function(inner(h)) + self.linear("b", function(inner(self.vector("v"))))

    check_reverse(cell_of(step))


@each_cell
def test_reverse_of_every_cell(cell: Cell) -> None:
    check_reverse(cell)


@pytest.mark.parametrize("tens", range(10))
def test_reverse_of_random_cells(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        check_reverse(random_cell(seed), seed)


# The order of work


def check_schedule(cell: Cell) -> None:
    lowered = lower(cell.equations())
    plan = schedule(lowered, reverse(lowered))
    # every product exactly once, its maps side by side, after the level that makes its operand
    products = [(plan.maps[k], group.operand) for group in plan.groups for k in _run(group)]
    wanted = [(node, operand) for node in plan.maps for operand in node.inputs]
    assert sorted(map(id, sum(products, ()))) == sorted(map(id, sum(wanted, ())))
    assert set(products) == set(wanted)
    for group in plan.groups:
        matrices = [plan.maps[k].detail.matrices[plan.maps[k].inputs.index(group.operand)] for k in _run(group)]
        assert list(group.matrices) == matrices
    # every map in one block, with all its operands, after the level that makes them and before the one that reads it
    assert [k for block in plan.blocks for k in _run(block)] == list(range(len(plan.maps)))
    for block in plan.blocks:
        operands = [plan.groups[g].operand for g in block.groups]
        assert all(set(plan.maps[k].inputs) == set(operands) for k in _run(block))
        assert all(plan.forward.levels[plan.maps[k]] == block.level for k in _run(block))
        assert all(plan.forward.levels[it] < block.level for it in operands if it.operation not in ("x", "before"))
    # every result, every named value and every kept value is stored exactly once
    stored = [(sink.kind, sink.index) for level in plan.forward.sinks for sink in level]
    assert len(stored) == len(set(stored))
    for kind, count in (
        ("after", len(lowered.results)),
        ("trace", len(lowered.named)),
        ("slot", len(plan.reversed.slots)),
    ):
        assert {index for found, index in stored if found == kind} == set(range(count))
    # what a level reads from a buffer, an earlier level has put there
    for program in (plan.forward, plan.backward):
        put = {}
        for level, sinks in enumerate(program.sinks):
            for sink in sinks:
                if sink.kind in ("cut", "sum"):
                    put[sink.kind, sink.index] = level
        for index, cut in enumerate(program.cuts):
            assert put["cut", index] == program.levels[cut]
            assert cut.operation not in ("less", "less_equal")
        for index, total in enumerate(program.sums):
            assert put["sum", index] < program.levels[total]


def _run(group: Any) -> range:
    return range(group.first, group.first + group.count)


@each_cell
def test_schedule_of_every_cell(cell: Cell) -> None:
    check_schedule(cell)


def test_schedule_of_random_cells() -> None:
    for seed in range(100):
        check_schedule(random_cell(seed))


def test_products_that_share_an_operand_are_one() -> None:
    lowered = lower(find_cell("lstm").equations())
    plan = schedule(lowered, reverse(lowered))
    assert [(group.operand.operation, group.count) for group in plan.groups] == [("x", 4), ("before", 4)]
    assert len(plan.forward.sinks) == 1
    lowered = lower(find_cell("gru").equations())
    plan = schedule(lowered, reverse(lowered))
    assert [(group.operand.operation, group.count) for group in plan.groups] == [
        ("x", 3),
        ("before", 2),
        ("multiply", 1),
    ]
    assert [len(level) > 0 for level in plan.forward.sinks] == [True, True]
