"""Equations as JSON: what is written is read back, and what is wrong is refused by its name and by nothing else."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.random_cells import random_cell
from tests.variants import VARIANTS, ThreeStates, cell_of, every_cell, random_batch, random_parameters

from unspool.cells import Cell, Symbol, document, find_cell, maximum, normalise, where
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.engine.emit import emit
from unspool.engine.reference import OPERATIONS
from unspool.errors import CellError

Path = tuple[str | int, ...]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@every_cell
def test_round_trip(cell: Cell, bias: bool) -> None:
    equations = cell.equations(bias)
    text = document.dump(equations)
    read = document.load(text)
    assert document.dump(read) == text
    assert document.dump(cell.equations(bias)) == text
    assert emit(read) == emit(equations)
    for name in ("title", "sizes", "states", "parameters", "initial"):
        assert getattr(read, name) == getattr(equations, name)
    assert list(read.named) == list(equations.named)
    assert list(read.parameters) == list(equations.parameters)


def test_round_trip_of_random_cells() -> None:
    for seed in range(100):
        equations = random_cell(seed).equations()
        text = document.dump(equations)
        assert document.dump(document.load(text)) == text
        assert emit(document.load(text)) == emit(equations)


@every_cell
def test_what_is_read_computes_the_same(cell: Cell) -> None:
    p, (x, states) = random_parameters(cell), random_batch(cell)
    equations = cell.equations()
    mine = Evaluator(document.load(document.dump(equations)), OPERATIONS)(p, x[0], states)
    other = Evaluator(equations, OPERATIONS)(p, x[0], states)
    for a, b in zip((*mine[0], *mine[1].values()), (*other[0], *other[1].values()), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("number", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e-300])
def test_numbers_are_kept_to_the_last_bit(number: float) -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        return maximum(self.linear("a", x, h), number) + self.vector("v", 0.1)

    read = document.load(document.dump(cell_of(step).equations()))
    (found,) = [node.detail for node in read.nodes if node.operation == "constant"]
    assert np.float64(found).tobytes() == np.float64(number).tobytes()
    assert read.initial == {"v": 0.1}


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        return where(h < 1, normalise(self.linear("a", x, h), 0.125), 0.25)

    text = document.dump(cell_of(step).equations())
    for written in ('"0.125"', '"0.25"'):
        with pytest.raises(CellError, match=r"node \d+ .* is wrong: the number (nan|-?inf) stands in the equations"):
            document.load(text.replace(written, f'"{number}"'))


def test_it_is_plain_json_without_code() -> None:
    text = document.dump(find_cell("gru").equations())
    assert set(json.loads(text)) >= {"format", "title", "nodes", "results"}

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    for cell in VARIANTS.values():
        json.loads(document.dump(cell.equations()), parse_constant=refuse)


# What is wrong


def whole() -> dict[str, Any]:
    """A document with every kind of entry: sizes, several states, vectors, comparisons, numbers, normalisation."""

    class Everything(ThreeStates):
        def step(self, x: Symbol, h: Symbol, s: Symbol, m: Symbol) -> tuple[Symbol, Symbol, Symbol]:
            h, s, m = super().step(x, h, s, m)
            n = normalise(h) * self.vector("v", 0.5) + where(h < 0.25, s, -s)
            return n, s, m

    read: dict[str, Any] = json.loads(document.dump(Everything().equations()))
    return read


def node_of(found: dict[str, Any], operation: str) -> dict[str, Any]:
    entry: dict[str, Any] = next(node for node in found["nodes"] if node["operation"] == operation)
    return entry


def index_of(found: dict[str, Any], operation: str) -> int:
    return next(index for index, node in enumerate(found["nodes"]) if node["operation"] == operation)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    found = whole()
    change(found)
    return json.dumps(found)


def second_input(found: dict[str, Any]) -> None:
    found["nodes"].append({"operation": "input", "width": "hidden"})


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another format": (lambda d: d.update(format=2), "format 1"),
    "no format": (lambda d: d.pop("format"), "format 1"),
    "no title": (lambda d: d.pop("title"), "'title'"),
    "a title that is a number": (lambda d: d.update(title=3), "'title' is 3"),
    "no nodes": (lambda d: d.pop("nodes"), "'nodes'"),
    "nodes that are a dict": (lambda d: d.update(nodes={}), "'nodes'"),
    "no states": (lambda d: d.update(states={}), "state"),
    "a state without a node": (lambda d: d["states"].update(q="hidden"), "'q'|states"),
    "a state without a width": (lambda d: d["states"].update(h=None), "'h'|states"),
    "no input": (lambda d: node_of(d, "input").update(operation="state", detail="h", width="hidden"), "input"),
    "two inputs": (second_input, "input"),
    "an input of another width": (lambda d: node_of(d, "input").update(width="few"), "input"),
    "a size of zero": (lambda d: d["sizes"].update(few=0), "'few' is 0"),
    "a size that is a fraction": (lambda d: d["sizes"].update(few=2.5), "'few' is 2.5"),
    "a size that is true": (lambda d: d["sizes"].update(few=True), "'few' is True"),
    "a size that hides another": (lambda d: d["sizes"].update(hidden=3), "'hidden'|hidden"),
    "a size too large for memory": (lambda d: d["sizes"].update(few=2**70), "'few'"),
    "an operation that does not exist": (
        lambda d: node_of(d, "tanh").update(operation="system"),
        r"node \d+ \('system'\)",
    ),
    "an operation that is a list": (lambda d: node_of(d, "tanh").update(operation=[]), r"node \d+ \(\[\]\)"),
    "a node that is a number": (lambda d: d["nodes"].__setitem__(3, 7), r"node 3 \(7\)"),
    "too few inputs": (lambda d: node_of(d, "add").update(inputs=[0]), r"node \d+ \('add'\)"),
    "too many inputs": (lambda d: node_of(d, "tanh").update(inputs=[1, 2]), r"node \d+ \('tanh'\)"),
    "an input of its own": (lambda d: d["nodes"][4].update(inputs=[4]), "node 4 "),
    "an input that comes later": (lambda d: node_of(d, "tanh").update(inputs=[99]), "99"),
    "an input before the first": (lambda d: node_of(d, "tanh").update(inputs=[-1]), "-1"),
    "an input that is true": (lambda d: node_of(d, "tanh").update(inputs=[True]), "True"),
    "widths that differ": (lambda d: node_of(d, "add").update(inputs=[1, 3]), "widths differ"),
    "a comparison as a value": (lambda d: d["results"].__setitem__(0, index_of(d, "less")), "result|width|vector"),
    "a value as a comparison": (lambda d: node_of(d, "where").update(inputs=[1, 1, 2]), r"node \d+ \('where'\)"),
    "a number that is none": (lambda d: node_of(d, "constant").update(detail="one"), r"node \d+ \('constant'\)"),
    "a number that is too large": (lambda d: node_of(d, "constant").update(detail=10**400), r"node \d+ \('constant'\)"),
    "an epsilon that is none": (lambda d: node_of(d, "normalise").update(detail={}), r"node \d+ \('normalise'\)"),
    "a state that is not declared": (lambda d: node_of(d, "state").update(detail="q"), "'q'|node 1 "),
    "a state of another width": (lambda d: node_of(d, "state").update(width="few"), "'h'"),
    "a width that is not declared": (lambda d: node_of(d, "linear").update(width="many"), "'many'"),
    "a map without operands": (lambda d: node_of(d, "linear").update(inputs=[], matrices=[]), r"node \d+ \('linear'\)"),
    "a map with a matrix too few": (lambda d: node_of(d, "linear")["matrices"].pop(), r"node \d+ \('linear'\)"),
    "a map that reads a value twice": (lambda d: node_of(d, "linear")["inputs"].__setitem__(2, 1), "twice|node"),
    "a map with one matrix twice": (lambda d: node_of(d, "linear")["matrices"].__setitem__(2, "U1_a"), "U1_a"),
    "a map with a wrong name": (lambda d: node_of(d, "linear").update(name="a\n#error"), r"node \d+ \('linear'\)"),
    "a map whose name is a number": (lambda d: node_of(d, "linear").update(name=3), r"node \d+ \('linear'\)"),
    "a matrix that is not declared": (lambda d: d["parameters"].pop("W_a"), "'W_a'"),
    "a matrix whose name is a number": (lambda d: node_of(d, "linear")["matrices"].__setitem__(0, 5), "5"),
    "a matrix of another shape": (lambda d: d["parameters"].update(W_a=["hidden", "hidden"]), "'W_a'"),
    "a matrix of one dimension": (lambda d: d["parameters"].update(W_a=["hidden"]), "'W_a'"),
    "a parameter of three dimensions": (lambda d: d["parameters"].update(free=["hidden"] * 3), "'free'"),
    "a parameter without dimensions": (lambda d: d["parameters"].update(free=[]), "'free'"),
    "a parameter whose widths are a number": (lambda d: d["parameters"].update(W_a=3), "'W_a'"),
    "a parameter whose widths are lists": (lambda d: d["parameters"].update(W_a=[[], []]), "'W_a'"),
    "a parameter of an unknown width": (lambda d: d["parameters"].update(free=["many"]), "'free'"),
    "a bias of another shape": (lambda d: d["parameters"].update(b_a=["few"]), "'b_a'"),
    "a first value that is none": (lambda d: d["initial"].update(v="half"), "'v'"),
    "a first value that is a list": (lambda d: d["initial"].update(v=[0.5]), "'v'"),
    "a first value that is too large": (lambda d: d["initial"].update(v=10**400), "'v'"),
    "a first value of nothing": (lambda d: d["initial"].update(nobody=1.0), "'nobody'"),
    "a first value of a matrix": (lambda d: d["initial"].update(W_a=1.0), "'W_a'"),
    "a result too few": (lambda d: d["results"].pop(), "results"),
    "a result that does not exist": (lambda d: d["results"].__setitem__(0, 999), "999"),
    "a result of another width": (lambda d: d["results"].reverse(), "width"),
    "a name of a node that does not exist": (lambda d: d["named"].update(a="first"), "'first'"),
    "a state without a name": (lambda d: d["named"].pop("h"), "'h'"),
    "a state whose name is another value's": (lambda d: d["named"].update(h=0), "'h'|named|vector"),
    "a name with a space": (lambda d: d["named"].update({"a b": 5}), "name"),
    "a name that is code": (lambda d: d["named"].update({"a\n#error": 5}), "name"),
    "an entry that nobody knows": (lambda d: d.update(code="import os"), "'code'"),
    "a node with an entry that nobody knows": (lambda d: node_of(d, "tanh").update(code="x"), r"node \d+ \('tanh'\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_document_is_refused_by_name(name: str) -> None:
    change, said = WRONG[name]
    with pytest.raises(CellError, match=said):
        document.load(changed(change))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"format"',
        "[" * 100_000,
        '{"format": 1' + "0" * 5000 + "}",
        '{"format": 1}',
        "\ud800",
    ],
    ids=["empty", "open", "null", "list", "number", "string", "deep", "long number", "bare", "half a character"],
)
def test_what_is_no_document_at_all(text: str) -> None:
    with pytest.raises(CellError):
        document.load(text)


def test_operations_on_numbers_alone_are_refused() -> None:
    """A value that depends on nothing has no width, and neither rows nor units to compute it for."""
    for operation, inputs in (("tanh", [0]), ("add", [0, 0]), ("normalise", [0]), ("less", [0, 0])):
        found = whole()
        at = len(found["nodes"])
        found["nodes"] += [
            {"operation": "constant", "detail": "1.0"},
            {"operation": operation, "inputs": [at + index for index in inputs], "detail": "0.1"},
        ]
        with pytest.raises(CellError, match=f"node {at + 1} "):
            document.load(json.dumps(found))


def test_the_input_and_the_states_come_first() -> None:
    """Derived equations count on it; here everything else is right."""
    found = json.loads(document.dump(find_cell("lstm").equations()))
    order = [1, 0, *range(2, len(found["nodes"]))]
    for node in found["nodes"]:
        node["inputs"] = [order[index] for index in node.get("inputs", [])]
        if not node["inputs"]:
            del node["inputs"]
    found["nodes"][:2] = reversed(found["nodes"][:2])
    with pytest.raises(CellError, match="do not begin with the input and the states, in their order"):
        document.load(json.dumps(found))


@pytest.mark.parametrize("tied", ["between maps", "within a map"])
def test_one_matrix_for_two_products_is_refused(tied: str) -> None:
    """Every map has its own parameters, in the gradient's layout as in the reading of a cell."""
    found = json.loads(document.dump(find_cell("gru").equations()))
    maps = [node for node in found["nodes"] if node["operation"] == "linear"]
    if tied == "between maps":
        maps[1]["matrices"] = maps[0]["matrices"]
    else:
        maps[0].update(inputs=[1, 1], matrices=["U_r", "U_r"])
    with pytest.raises(CellError, match="'U_r'|'W_r'|twice"):
        document.load(json.dumps(found))


def test_a_node_written_twice_is_refused_or_one() -> None:
    found = whole()
    found["nodes"].append(copy.deepcopy(found["nodes"][1]))
    try:
        read = document.load(json.dumps(found))
    except CellError:
        return
    usable(read)


# Every entry changed to anything


def places(found: Any, path: Path = ()) -> Iterator[Path]:
    """Where something stands in a document."""
    if path:
        yield path
    if isinstance(found, dict):
        for key, value in found.items():
            yield from places(value, (*path, key))
    elif isinstance(found, list):
        for index, value in enumerate(found):
            yield from places(value, (*path, index))


def usable(equations: Equations) -> None:
    """Equations that were let through are good for everything that equations are good for."""
    text = document.dump(equations)
    assert document.dump(document.load(text.encode().decode())) == text
    source = emit(equations)
    assert not re.search(r"^\s*#(?!include \"driver.h\"$)", source, re.MULTILINE)
    shapes = equations.shapes(4, 4)
    if max((size for shape in shapes.values() for size in shape), default=0) > 1000:
        return
    generator = np.random.default_rng(0)
    p = {name: generator.normal(size=shape) for name, shape in shapes.items()}
    x = generator.normal(size=(2, 4))
    states = [generator.normal(size=(2, equations.size(width, 4, 4))) for width in equations.states.values()]
    with np.errstate(all="ignore"):
        new, named = Evaluator(equations, OPERATIONS)(p, x, states)
    for value, state in zip(new, states, strict=True):
        assert np.broadcast_shapes(np.shape(value), state.shape) == state.shape
    assert set(equations.states) <= set(named)


FOUND = whole()
PLACES = sorted(places(FOUND), key=str)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.sampled_from([10**400, -(2**70), 0.5, float("inf"), float("nan")])
    | st.text(max_size=4)
    | st.sampled_from(
        ["h", "s", "hidden", "few", "input", "W_a", "tanh", "linear", "where", "less", "constant", "v", "row"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None, max_examples=1500, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(["set", "drop", "copy"]), anything), min_size=1, max_size=2
    )
)
def test_a_changed_document_is_refused_or_usable(changes: list[tuple[Path, str, Any]]) -> None:
    found = copy.deepcopy(FOUND)
    for path, how, value in changes:
        try:
            holder: Any = found
            for key in path[:-1]:
                holder = holder[key]
            if how == "set":
                holder[path[-1]] = value
            elif how == "drop":
                del holder[path[-1]]
            elif isinstance(holder, list):
                holder.insert(0, copy.deepcopy(holder[path[-1]]))  # type: ignore[index]
            else:
                holder[str(value)] = copy.deepcopy(holder[path[-1]])
        except (KeyError, IndexError, TypeError):
            continue  # the first change took the place away
    try:
        read = document.load(json.dumps(found))
    except CellError:
        return
    usable(read)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.data())
def test_a_text_with_wrong_letters_is_refused_or_usable(data: st.DataObject) -> None:
    text = document.dump(find_cell("gru").equations())
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from('"{}[],:0123456789abrzUWx_\\ -e\n'))
    try:
        read = document.load(text[:at] + other + text[at + 1 :])
    except CellError:
        return
    usable(read)
