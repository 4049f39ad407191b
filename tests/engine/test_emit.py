"""From equations to C++: the engine's graph, and the text."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from tests.engine.agreement import assert_agree, by_kernel, by_loop, draw, needs_compiler
from tests.engine.random_cells import random_cell
from tests.variants import VARIANTS, cell_of

from unspool.cells import Cell, Symbol, find_cell, maximum, minimum, tanh, where
from unspool.engine.emit import emit
from unspool.engine.graph import Graph, lower
from unspool.errors import CellError

pytestmark = pytest.mark.usefixtures("compiling")


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
        b = minimum(a, 1e308) + maximum(a, -1e308) + where(a < 1e300, 0.1, -1e308) + where(h > 9, 1e308, 1)
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
    levels = int(source.split("FORWARD_LEVELS = ")[1].split(";")[0])
    counts = [body(source, f"forward_{level}").count("vtanh<real>") for level in range(levels)]
    assert sum(counts) == 500
    assert levels > 10  # no loop is so long that a compiler takes minutes for it


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
