"""Cells as data: a loaded cell is its original in everything that is asked of a cell, and damage is refused by name."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.random_cells import random_cell
from tests.nn.gradients import leaves
from tests.variants import (
    LENGTHS,
    VARIANTS,
    Minimal,
    PeepholeLSTM,
    as_states,
    cell_of,
    every_cell,
    random_layer,
    random_tensors,
    sizes,
)

from unspool import nn
from unspool.cells import LSTM, Cell, DeepTransition, Symbol, cells_document, document, find_cell, load_cells
from unspool.cells.saved import LONGEST, SavedCell
from unspool.errors import ArgumentError, CellError
from unspool.nn.recurrent import Recurrent

same = partial(torch.testing.assert_close, rtol=0, atol=0)


def reloaded(cell: Cell) -> Cell:
    """The cell after a way through JSON."""
    return load_cells(cells_document({"mine": cell}))["mine"]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@every_cell
def test_it_has_all_that_is_asked_of_a_cell(cell: Cell, bias: bool) -> None:
    loaded = reloaded(cell)
    assert document.dump(loaded.equations(bias)) == document.dump(cell.equations(bias))
    assert loaded.latex(bias) == cell.latex(bias)
    assert loaded.count_parameters(*sizes(cell), bias) == cell.count_parameters(*sizes(cell), bias)
    for name in ("states", "sizes", "keeps", "writes", "input_width"):
        assert getattr(loaded, name) == getattr(cell, name), name
    assert dict(loaded.state_widths) == dict(cell.state_widths)
    assert getattr(loaded, "depth", None) == getattr(cell, "depth", None)


def test_random_cells_without_biases() -> None:
    for seed in range(100):
        cell = random_cell(seed)
        assert document.dump(reloaded(cell).equations(False)) == document.dump(cell.equations(False))


def test_a_map_that_nothing_reads_keeps_its_parameters_and_loses_its_bias() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        self.linear("unused", x, h)
        return h + self.linear("h", x)

    cell = cell_of(step)
    assert "b_unused" in cell.equations().parameters
    assert document.dump(reloaded(cell).equations(False)) == document.dump(cell.equations(False))


@every_cell
def test_a_layer_of_it_computes_the_same(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs, states, named values and gradients, bit for bit, with parameters of the same names."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    layer = random_layer(cell)
    other = Recurrent(reloaded(cell), *sizes(cell), dtype=torch.float64)
    assert list(other.state_dict()) == list(layer.state_dict())
    other.load_state_dict(layer.state_dict())
    results = []
    for each in (layer, other):
        x, state = random_tensors(cell)
        output, final, trace = each(x, state, lengths=LENGTHS, trace=True)
        loss = output.square().sum() + sum(part.sum() for part in leaves(final))
        inputs = [x, *as_states(state), *each.parameters()]
        results.append((output, final, trace, torch.autograd.grad(loss, inputs, materialize_grads=True)))
    same(results[0], results[1])


@every_cell
def test_initial_weights_are_drawn_alike(cell: Cell) -> None:
    drawn = []
    for each in (cell, reloaded(cell)):
        torch.manual_seed(0)
        drawn.append(Recurrent(each, *sizes(cell), learn_initial=True).state_dict())
    own = cell.first_values(cell.equations().shapes(*sizes(cell)), lambda low, _: low)  # not part of the equations
    for name, value in drawn[0].items():
        assert name in own or torch.equal(drawn[1][name], value), name


@pytest.mark.parametrize("fill", [nn.init.forget_bias_, lambda layer: nn.init.chrono_(layer, 9), nn.init.orthogonal_])
def test_gates_are_initialised_by_their_roles(fill: Callable[[Recurrent], Recurrent]) -> None:
    for cell in (LSTM(), PeepholeLSTM(), find_cell("gru"), find_cell("gru-reset-after")):
        filled = []
        for each in (cell, reloaded(cell)):
            torch.manual_seed(0)
            filled.append(fill(Recurrent(each, 3, 4)).state_dict())
        same(filled[0], filled[1])
    if fill is nn.init.forget_bias_:
        with pytest.raises(ArgumentError, match="SavedCell\\('Minimal'\\)"):
            fill(Recurrent(reloaded(Minimal()), 3, 4))


def test_it_reads_x_unit_by_unit_where_the_original_does() -> None:
    with pytest.raises(ArgumentError, match="UnitByUnit reads x unit by unit"):
        Recurrent(reloaded(VARIANTS["UnitByUnit"]), 3, 4)


def test_regularized_stacks_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    outputs = []
    for cell in (PeepholeLSTM(), reloaded(PeepholeLSTM())):
        torch.manual_seed(0)
        stack = nn.Stack(cell, 3, 4, 2, bidirectional=True, recurrent_dropout=0.3, weight_dropout=0.2, zoneout=0.1)
        outputs.append(stack(torch.ones(6, 2, 3)))
    same(outputs[0], outputs[1])


def test_it_can_be_copied_and_pickled() -> None:
    cell = reloaded(DeepTransition(3))
    for other in (copy.copy(cell), copy.deepcopy(cell), pickle.loads(pickle.dumps(cell)), reloaded(cell)):
        assert isinstance(other, SavedCell)
        assert cells_document({"mine": other}) == cells_document({"mine": cell})
        assert other.depth == 3
    layer = Recurrent(cell, 3, 4)
    same(pickle.loads(pickle.dumps(layer)).state_dict(), layer.state_dict())


def test_it_says_what_it_is() -> None:
    cell = reloaded(Minimal())
    assert repr(cell) == "SavedCell('Minimal')"
    with pytest.raises(CellError, match="Minimal was loaded as equations and has no `step` to call"):
        cell.step()


def test_several_cells_by_their_names() -> None:
    cells: dict[str, Cell] = {"Minimal": Minimal(), "deep/größer": DeepTransition(3), "lstm": LSTM(projection=2)}
    text = cells_document(cells)
    loaded = load_cells(text)
    assert list(loaded) == list(cells)
    for name, cell in cells.items():
        assert document.dump(loaded[name].equations()) == document.dump(cell.equations())
    assert cells_document(loaded) == text
    assert load_cells(cells_document({})) == {}


@pytest.mark.parametrize("depth", ["deep", 0, -1, True, 2.0, 10**9])
def test_a_depth_that_is_none_is_left_out(depth: object) -> None:
    assert not hasattr(reloaded(cell_of(lambda self, x, h: h + self.linear("h", x), depth=depth)), "depth")


@pytest.mark.parametrize(
    "roles", [{"z": 2}, {"z": True}, {"z": 0.5}, {"z": "+1"}, {3: 1}, {"a b": 1}, ["z"], "z", None], ids=repr
)
def test_roles_that_are_none(roles: object) -> None:
    for role in ("keeps", "writes"):
        with pytest.raises(CellError, match=f"`{role}` of Mine "):
            cells_document({"m": cell_of(lambda self, x, h: h + self.linear("z", x), **{role: roles})})


def test_equations_without_end_are_refused_before_training() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        for number in range(20_000):
            h = h + number
        return h + self.linear("h", x)

    with pytest.raises(CellError, match=r"the equations of Huge take [\d,]+ characters, and 1,048,576 is the limit"):
        cells_document({"Huge": cell_of(step)})


# Damage


def whole() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(cells_document({"Deep": DeepTransition(3), "Gate": PeepholeLSTM()}))
    return read


def entry(found: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = found["cells"]["Gate"]
    return inner


WRONG: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another format": (lambda d: d.update(format=2), "not of format 1"),
    "no cells": (lambda d: d.pop("cells"), "not of format 1"),
    "something else": (lambda d: d.update(code="import os"), "not of format 1"),
    "a list of cells": (lambda d: d.update(cells=[]), "has no cells by name"),
    "a cell without a name": (lambda d: d["cells"].update({"": entry(d)}), "has no cells by name"),
    "a cell that is a text": (lambda d: d["cells"].update(Gate="gru"), "cell 'Gate' does not have the entries"),
    "no roles": (lambda d: entry(d).pop("keeps"), "cell 'Gate' does not have the entries"),
    "a further entry": (lambda d: entry(d).update(code="x"), "cell 'Gate' does not have the entries"),
    "a role that is no sign": (lambda d: entry(d)["keeps"].update(f=3), "`keeps` of Gate has 'f': 3"),
    "a role of no gate": (lambda d: entry(d).update(writes={"a b": 1}), "`writes` of Gate has 'a b': 1"),
    "a depth of zero": (lambda d: d["cells"]["Deep"].update(depth=0), "cell 'Deep' has the depth 0"),
    "a depth that is true": (lambda d: d["cells"]["Deep"].update(depth=True), "cell 'Deep' has the depth True"),
    "a depth that is null": (lambda d: d["cells"]["Deep"].update(depth=None), "cell 'Deep' has the depth None"),
    "no equations": (lambda d: entry(d).update(equations=None), "cell 'Gate' cannot be read: .*format 1"),
    "an operation that is none": (
        lambda d: entry(d)["equations"]["nodes"][5].update(operation="system"),
        r"cell 'Gate' cannot be read: node 5 \('system'\)",
    ),
    "states before the input": (
        lambda d: entry(d)["equations"]["nodes"].insert(0, entry(d)["equations"]["nodes"].pop(1)),
        "cell 'Gate' cannot be read: ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_damage_is_refused_by_name(name: str) -> None:
    change, said = WRONG[name]
    found = whole()
    change(found)
    with pytest.raises(CellError, match=said) as caught:
        load_cells(json.dumps(found))
    assert "Restore the file from a copy, or train again." in str(caught.value) or "Give a gate's name" in str(caught)


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", "[" * 100_000, '{"format": 1' + "0" * 5000 + "}", " " * (LONGEST + 1)],
    ids=["empty", "open", "null", "list", "number", "deep", "long number", "large"],
)
def test_what_is_no_document_at_all(text: str) -> None:
    with pytest.raises(CellError, match="the cells' document"):
        load_cells(text)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.data())
def test_a_text_with_wrong_letters_is_refused_or_usable(data: st.DataObject) -> None:
    text = cells_document({"Gate": PeepholeLSTM()})
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from('"{}[],:0123456789abfizUWx_\\ -e\n'))
    try:
        loaded = load_cells(text[:at] + other + text[at + 1 :])
    except CellError:
        return
    for cell in loaded.values():
        assert load_cells(cells_document({"again": cell}))["again"].latex() == cell.latex()
        cell.equations(bias=False)
