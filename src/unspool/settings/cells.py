"""The setting `cell`: what it may be given as, and the name and the cell that a config keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import PlainSerializer, WrapValidator

from unspool.cells import Cell, find_cell
from unspool.cells.catalogue import name_cells
from unspool.cells.cell_file import load_cell_file
from unspool.cells.saved import SavedCell
from unspool.cells.spelling import names_file
from unspool.errors import ArgumentError


class NamedCell(str):
    """The name of a cell in a config, with the cell itself.

    `own` tells a user's cell, whose equations the run folder keeps in cell.json, from a built-in one.
    """

    cell: Cell
    own: bool

    def __new__(cls, name: str, cell: Cell, own: bool = False) -> Self:
        found = super().__new__(cls, name)
        found.cell, found.own = cell, own
        return found

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.cell, self.own


def read_cells(given: Any) -> NamedCell | tuple[NamedCell, ...]:
    """One cell, or one per layer, each as a name, a file (`mine.py:Minimal`), a cell or a class of cells."""
    if not isinstance(given, list | tuple):
        return _read_each([given])[0]
    return tuple(_read_each(given))


def _read_each(given: Any) -> list[NamedCell]:
    cells = [_find(one) for one in given]
    names, own = name_cells(cells)
    return [_name(*each, own) for each in zip(given, cells, names, strict=True)]


def _name(given: Any, cell: Cell, name: str, own: Mapping[str, Cell]) -> NamedCell:
    """What a config keeps of a cell: the text that was given, or the name of its class."""
    if isinstance(given, NamedCell):
        return given
    if isinstance(given, str) and not names_file(given):
        return NamedCell(given, cell)
    if not isinstance(given, str) and name not in own:
        return NamedCell(name, cell)
    # A user's cell is trained by its equations alone, as it will be when the run is loaded.
    return NamedCell(given if isinstance(given, str) else name, SavedCell.of(cell), own=True)


def _find(given: Any) -> Cell:
    if isinstance(given, NamedCell):
        return given.cell
    return _find_named(given) if isinstance(given, str) else find_cell(given)


def _find_named(given: str) -> Cell:
    if names_file(given):
        return load_cell_file(given)
    if "," in given and "(" not in given:
        several = [name.strip() for name in given.split(",")]
        raise ArgumentError.of("cell", given, "is several names in one", f"Give one per layer: `cell={several}`")
    if ":" in given:
        raise ArgumentError.of("cell", given, "names no .py file", "Give the file too, as in `cell='mine.py:Mine'`")
    return find_cell(given)


def own_cells(cell: str | tuple[str, ...]) -> dict[str, Cell]:
    """The user's cells among those of a checked setting, by name."""
    each = cell if isinstance(cell, tuple) else (cell,)
    return {str(one): one.cell for one in each if isinstance(one, NamedCell) and one.own}


def with_own_cells(model: Mapping[str, Any], own: Mapping[str, Cell]) -> dict[str, Any]:
    """The section [model] of a config with a user's cells in place of their names."""

    def replace(name: Any) -> Any:
        return NamedCell(name, own[name], own=True) if isinstance(name, str) and name in own else name

    given = model.get("cell")
    if given is None:
        return dict(model)
    return {**model, "cell": [replace(one) for one in given] if isinstance(given, list | tuple) else replace(given)}


def _check(given: Any, _: Any) -> Any:
    return read_cells(given)


def _write(cell: str | tuple[str, ...]) -> str | list[str]:
    return str(cell) if isinstance(cell, str) else [str(one) for one in cell]


#: One cell for all layers, or one per layer; a config keeps the names.
Cells = Annotated[str | tuple[str, ...], WrapValidator(_check), PlainSerializer(_write)]
