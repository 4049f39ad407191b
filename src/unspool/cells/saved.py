"""Cells as data: what a run folder keeps of a user's cell, so that nothing imports the user's file again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from unspool.cells import document
from unspool.cells.cell import Cell
from unspool.cells.derived import without_biases
from unspool.cells.equations import Equations
from unspool.cells.numbers import is_whole
from unspool.cells.symbols import Symbol
from unspool.errors import CellError

FORMAT = 1
#: Characters of the longest document: thousands of operations, many more than a kernel is made of.
LONGEST = 1 << 20
#: A layer's depth in time is no larger than this; a larger number is damage.
DEEPEST = 1 << 16
REMEDY = "Restore the file from a copy, or train again"


class SavedCell(Cell):
    """A cell known by its equations alone, as read from a document. It goes wherever a cell goes.

    Besides the equations it has what other parts of the package ask a cell for: `keeps` and `writes`, the roles of
    its gates, and `depth`, the layers between the old and the new state, if the original has one.

    Args:
        text: The equations with biases, by `document.dump`.
        keeps: Gates that keep the old state, see `Cell`.
        writes: Gates that let new values in, see `Cell`.
        depth: The original's `depth`, or None.

    Example:
        >>> SavedCell.of(find_cell("gru")).keeps
        {'z': -1}
    """

    def __init__(
        self, text: str, keeps: Mapping[str, int], writes: Mapping[str, int], depth: int | None = None
    ) -> None:
        self._text = text
        self._with_biases = document.load(text)
        self.keeps, self.writes = dict(keeps), dict(writes)
        self.input_width = str(self._with_biases.nodes[0].width)
        self.inputs = dict(self._with_biases.inputs)
        if depth is not None:
            self.depth = depth

    @classmethod
    def of(cls, cell: Cell) -> SavedCell:
        """The same cell without its class: what a document would hold of it."""
        if isinstance(cell, SavedCell):
            return cell
        depth = getattr(cell, "depth", None)
        known = is_whole(depth) and 1 <= depth <= DEEPEST
        title = type(cell).__name__
        keeps, writes = (_check_roles(title, role, getattr(cell, role)) for role in ("keeps", "writes"))
        return cls(document.dump(cell.equations()), keeps, writes, depth if known else None)

    @property
    def title(self) -> str:
        """The name of the class that the equations were read from."""
        return self._with_biases.title

    @property
    def content(self) -> str:
        """All that makes the cell what it is; equal for equal cells."""
        return json.dumps(self.entry())

    @property
    def sizes(self) -> Mapping[str, int | str]:
        return self._with_biases.sizes

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(self._with_biases.states)

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {state: width for state, width in self._with_biases.states.items() if width != "hidden"}

    def step(self, *_args: Symbol) -> Any:
        """Not available: the equations are known, not the code they came from."""
        raise CellError(f"{self.title} was loaded as equations and has no `step` to call. Use cell.equations().")

    def equations(self, bias: bool = True) -> Equations:
        """The equations that were loaded; without biases if `bias` is False."""
        return self._with_biases if bias else self._without_biases

    def entry(self) -> dict[str, Any]:
        """The cell as plain data for JSON."""
        depth = {"depth": self.depth} if hasattr(self, "depth") else {}
        return {"keeps": dict(self.keeps), "writes": dict(self.writes), **depth, "equations": json.loads(self._text)}

    @cached_property
    def _without_biases(self) -> Equations:
        return without_biases(self._with_biases)

    def __repr__(self) -> str:
        return f"SavedCell({self.title!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SavedCell, (self._text, self.keeps, self.writes, getattr(self, "depth", None))


def cells_document(cells: Mapping[str, Cell]) -> str:
    """Cells as JSON: data from a closed set of operations, never code.

    Args:
        cells: The cells by the names that a config uses for them.

    Returns:
        The text of a run folder's `cell.json`. Equal cells give equal text.

    Raises:
        CellError: A `step` cannot be read as equations, or there are too many of them.

    Example:
        >>> sorted(load_cells(cells_document({"Mine": find_cell("gru")})))
        ['Mine']
    """
    entries = {name: SavedCell.of(cell).entry() for name, cell in cells.items()}
    text = json.dumps({"format": FORMAT, "cells": entries}, ensure_ascii=False, separators=(",", ":"))
    if len(text) > LONGEST:
        raise CellError(
            f"the equations of {', '.join(cells)} take {len(text):,} characters, and {LONGEST:,} is the limit. "
            "Write `step` with fewer operations."
        )
    return text


def load_cells(text: str) -> dict[str, Cell]:
    """The cells of a document that `cells_document` wrote; every node of their equations is checked.

    Args:
        text: The text of a run folder's `cell.json`.

    Returns:
        The cells by name. They compute what the original cells compute, and no code of their authors runs.

    Raises:
        CellError: The text is not such a document; the message names the cell and the entry.

    Example:
        >>> load_cells(cells_document({"Mine": find_cell("gru")}))
        {'Mine': SavedCell('GRU')}
    """
    if len(text) > LONGEST:
        raise CellError(
            f"the cells' document has {len(text):,} characters, and {LONGEST:,} is the limit. It is damaged. {REMEDY}."
        )
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CellError(f"the cells' document is not JSON: {error}. {REMEDY}.") from error
    return {name: _load_entry(name, entry) for name, entry in _entries(found).items()}


def _entries(found: Any) -> dict[str, Any]:
    """What a document has on each cell, by its name."""
    if not isinstance(found, dict) or set(found) != {"format", "cells"} or found["format"] != FORMAT:
        raise CellError(f"the cells' document is not of format {FORMAT}. {REMEDY}.")
    cells = found["cells"]
    if not isinstance(cells, dict) or not all(cells):
        raise CellError(f"the cells' document has no cells by name. {REMEDY}.")
    return cells


def _load_entry(name: str, entry: Any) -> SavedCell:
    if not isinstance(entry, dict) or {"keeps", "writes", "equations"} != set(entry) - {"depth"}:
        raise CellError(f"cell {name!r} does not have the entries keeps, writes and equations. {REMEDY}.")
    depth = entry.get("depth", 1)
    if not is_whole(depth) or not 1 <= depth <= DEEPEST:
        raise CellError(f"cell {name!r} has the depth {depth!r}, not a whole number from 1 on. {REMEDY}.")
    keeps, writes = (_check_roles(name, role, entry[role]) for role in ("keeps", "writes"))
    try:
        return SavedCell(json.dumps(entry["equations"]), keeps, writes, entry.get("depth"))
    except (CellError, RecursionError) as error:
        raise CellError(f"cell {name!r} cannot be read: {error} {REMEDY}.") from error


def _check_roles(cell: str, role: str, given: Any) -> dict[str, int]:
    """`keeps` or `writes` as plain data: gates' names, each with +1 or −1."""
    if not isinstance(given, Mapping):
        raise CellError(f"`{role}` of {cell} is {given!r}. Give the gates' names with +1 or -1, such as {{'f': +1}}.")
    for gate, sign in given.items():
        if not _is_role(gate, sign):
            raise CellError(f"`{role}` of {cell} has {gate!r}: {sign!r}. Give a gate's name with +1 or -1.")
    return {gate: int(sign) for gate, sign in given.items()}


def _is_role(gate: Any, sign: Any) -> bool:
    named = isinstance(gate, str) and document.NAME.fullmatch(gate) is not None
    return named and not isinstance(sign, bool) and sign in (1, -1)
