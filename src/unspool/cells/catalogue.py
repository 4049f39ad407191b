"""The only list of cells' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from unspool.cells.cell import Cell
from unspool.cells.deep_transition import DeepTransition
from unspool.cells.elman import Elman, Jordan, Linear
from unspool.cells.gru import GRU, ResetAfterGRU
from unspool.cells.lstm import LSTM, OpenLSTM
from unspool.cells.residual import Leaky, Residual, Skip
from unspool.errors import ArgumentTypeError, UnknownNameError

CATALOGUE: Mapping[str, Callable[[], Cell]] = MappingProxyType(
    {
        "elman": Elman,
        "elman-relu": partial(Elman, activation="relu"),
        "linear": Linear,
        "jordan": Jordan,
        "lstm": LSTM,
        "lstm-open": OpenLSTM,
        "gru": GRU,
        "gru-reset-after": ResetAfterGRU,
        "deep-transition": DeepTransition,
        "residual": Residual,
        "skip": Skip,
        "leaky": Leaky,
    }
)


def find_cell(cell: str | Cell | type[Cell]) -> Cell:
    """The cell meant by a name of the catalogue, a Cell, or a class of cells that needs no options."""
    if isinstance(cell, Cell):
        return cell
    if isinstance(cell, str):
        if cell.lower() not in CATALOGUE:
            raise UnknownNameError.among("cell", cell, CATALOGUE)
        return CATALOGUE[cell.lower()]()
    if isinstance(cell, type) and issubclass(cell, Cell):
        try:
            return cell()
        except TypeError as error:
            raise ArgumentTypeError.of(
                "cell", cell, f"cannot be made without options: {error}", f"Give an instance, {cell.__name__}(…)"
            ) from error
    raise ArgumentTypeError.of(
        "cell", cell, "is neither a name, a Cell nor a class of cells", "Give 'lstm', LSTM or LSTM(projection=32)"
    )
