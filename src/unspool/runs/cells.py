"""A user's cells in a run folder: `cell.json` holds their equations, so that no file of the user is read again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.cells import Cell, saved
from unspool.cells.saved import SavedCell, cells_document, load_cells
from unspool.cells.spelling import names_file
from unspool.errors import ArgumentError, CellError, DataError
from unspool.runs.config import Config, read_config
from unspool.settings.cells import NamedCell, own_cells, with_own_cells
from unspool.storage.documents import read_text
from unspool.storage.run import CELLS as NAME
from unspool.storage.run import check_run

#: Bytes of the longest cell.json: every character of the longest document takes four at most.
LONGEST = 4 * saved.LONGEST
REMEDY = "Leave it out there, and give it as `cell`"


def dump_cells(config: Config) -> str:
    """The text of a run's cell.json; empty if all cells are built in."""
    own = own_cells(config.model.cell)
    return cells_document(own) if own else ""


def load_own_cells(folder: Path) -> dict[str, Cell]:
    """The cells that a folder's cell.json holds, by the names that its config uses; none without such a file."""
    path = folder / NAME
    if not os.path.lexists(path):
        return {}
    try:
        return load_cells(read_text(path, LONGEST))
    except (OSError, ValueError, CellError) as error:
        raise DataError(f"{path} cannot be read: {str(error).removesuffix('.')}. Restore it from a copy.") from error


def read_run_config(run: Path) -> Config:
    """The checked config of a run folder, with its own cells. No file of the user is read."""
    document = check_run(run)
    own = load_own_cells(run)
    for name in _named_cells(document):
        if names_file(name) and name not in own:
            raise DataError(f"{run / NAME} does not have the cell {name}. Restore it from a copy.")
    return read_config(with_cells(document, own))


def _named_cells(document: Mapping[str, Any]) -> list[str]:
    """The cells that a document names: one, or one per layer."""
    model = document.get("model")
    given = model.get("cell") if isinstance(model, Mapping) else None
    return [name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str)]


def keep_cells(document: Mapping[str, Any], kept: Config) -> Mapping[str, Any]:
    """A document of sections in which the names of a run's own cells stand for those cells, not for files."""
    return with_cells(document, own_cells(kept.model.cell))


def compare_cells(kept: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """The setting `cell` with both its values, if cells have the same names and other equations."""
    before, after = own_cells(kept.model.cell), own_cells(new.model.cell)
    for name in before.keys() & after.keys():
        if SavedCell.of(before[name]).content != SavedCell.of(after[name]).content:
            return {"cell": (f"{name} (as the run has it)", f"{name} with other equations")}
    return {}


def refuse_cell_files(document: Mapping[str, Any], config: str | Path) -> None:
    """A config may come from anywhere, so that it never runs a file: only the user who names one as `cell` does."""
    for name in _named_cells(document):
        if not isinstance(name, NamedCell) and names_file(name):
            raise ArgumentError.of("config", str(config), f"names the file {name}, and no config runs a file", REMEDY)


def with_cells(document: Mapping[str, Any], own: Mapping[str, Cell]) -> Mapping[str, Any]:
    """A document of sections with a user's cells in place of their names."""
    model = document.get("model")
    return {**document, "model": with_own_cells(model, own)} if own and isinstance(model, Mapping) else document
