"""The only list of cells' names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from unspool.cells.antisymmetric import Antisymmetric
from unspool.cells.cell import Cell
from unspool.cells.deep_transition import DeepTransition
from unspool.cells.elementwise import QRNN, SRU, IndRNN
from unspool.cells.elman import Elman, Jordan, Linear
from unspool.cells.fast import FastGRNN
from unspool.cells.gru import GRU, MGU, ResetAfterGRU
from unspool.cells.highway import RHN
from unspool.cells.linear_attention import RWKV7, DeltaNet, GatedLinearAttention
from unspool.cells.liquid import LTC, CfC
from unspool.cells.lstm import JANET, LSTM, LayerNormLSTM, OpenLSTM, PeepholeLSTM
from unspool.cells.minimal import MinGRU, MinLSTM
from unspool.cells.oscillators import LEM, CoRNN, UnICORNN
from unspool.cells.residual import Leaky, Residual, Skip
from unspool.cells.saved import SavedCell
from unspool.cells.spelling import Option, check_options, names_file, options_of, read_spelling, write_spelling
from unspool.cells.state_space import LRU, RGLRU, S4D
from unspool.cells.xlstm import MLSTM, SLSTM
from unspool.errors import ArgumentError, ArgumentTypeError, UnknownNameError

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
        "lstm-peephole": PeepholeLSTM,
        "lstm-layernorm": LayerNormLSTM,
        "janet": JANET,
        "mgu": MGU,
        "mingru": MinGRU,
        "minlstm": MinLSTM,
        "indrnn": IndRNN,
        "sru": SRU,
        "qrnn": QRNN,
        "rhn": RHN,
        "fastgrnn": FastGRNN,
        "antisymmetric": Antisymmetric,
        "lem": LEM,
        "cornn": CoRNN,
        "unicornn": UnICORNN,
        "ltc": LTC,
        "cfc": CfC,
        "lru": LRU,
        "rg-lru": RGLRU,
        "s4d": S4D,
        "slstm": SLSTM,
        "mlstm": MLSTM,
        "gla": GatedLinearAttention,
        "deltanet": DeltaNet,
        "rwkv7": RWKV7,
    }
)


def find_cell(cell: str | Cell | type[Cell], own: Mapping[str, Cell] | None = None) -> Cell:
    """The cell that a text, a class or a cell itself stands for.

    No file is read and no text is evaluated; a user's file is for `cell_file.load_cell_file`.

    Args:
        cell: A name of `CATALOGUE` in any case, with options in parentheses if wanted; a Cell; or a class of cells
            that needs no options.
        own: Further cells by name, such as those of a run folder. They are looked up first, by the exact name.

    Returns:
        The cell.

    Raises:
        UnknownNameError: No cell has this name; the message suggests the nearest.
        ArgumentError: An option is unknown or has a value that cannot be used.
        ArgumentTypeError: `cell` is none of these.

    Example:
        >>> find_cell("deep-transition(depth=3)")
        DeepTransition(depth=3, activation='tanh')
    """
    if isinstance(cell, Cell):
        return cell
    if isinstance(cell, str):
        return own[cell] if own is not None and cell in own else _from_text(cell, own or {})
    if isinstance(cell, type) and issubclass(cell, Cell):
        return _from_class(cell)
    raise ArgumentTypeError.of(
        "cell", cell, "is neither a name, a Cell nor a class of cells", "Give 'lstm', LSTM or LSTM(projection=32)"
    )


def _from_class(kind: type[Cell]) -> Cell:
    try:
        return kind()
    except TypeError as error:
        raise ArgumentTypeError.of(
            "cell", kind, f"cannot be made without options: {error}", f"Give an instance, {kind.__name__}(…)"
        ) from error


def cell_name(cell: Cell) -> str:
    """The canonical text of a cell: what a config holds.

    Args:
        cell: Any cell.

    Returns:
        For a built-in cell the shortest text that `find_cell` turns into an equal one, with the options that differ
        from their defaults. For a user's cell the name of its class, which `find_cell` does not know.

    Example:
        >>> cell_name(DeepTransition(depth=3)), cell_name(Elman("relu"))
        ('deep-transition(depth=3)', 'elman-relu')
    """
    if isinstance(cell, SavedCell):
        return cell.title
    texts = [(options, name) for name in CATALOGUE if (options := _options_given(name, cell)) is not None]
    if not texts:
        return type(cell).__name__
    options, name = min(texts, key=lambda text: len(text[0]))
    return write_spelling(name, options)


def name_cells(cells: Iterable[Cell]) -> tuple[list[str], dict[str, Cell]]:
    """A name for every cell of a model, and the cells that are not built in.

    Cells with equal equations and roles share a name. Where a name is taken, by the catalogue or by another of these
    cells, it gets a number.

    Args:
        cells: The cells, usually one per layer.

    Returns:
        The names, one per cell; and the users' cells by name, ready for `saved.cells_document`. Together they lead
        back: `find_cell(name, own)`.

    Example:
        >>> class Mine(Cell):
        ...     def step(self, x, h):
        ...         return h + self.linear("h", x)
        >>> name_cells([LSTM(), Mine()])
        (['lstm', 'Mine'], {'Mine': Mine()})
    """
    names: list[str] = []
    own: dict[str, Cell] = {}
    known: dict[object, str] = {}
    for cell in cells:
        name = cell_name(cell)
        if _is_built_in(cell):
            names.append(name)
            continue
        content = SavedCell.of(cell).content
        if content not in known:
            taken = {*CATALOGUE, *(each.lower() for each in own)}
            number, free = 2, name
            while free.lower() in taken:
                number, free = number + 1, f"{name}-{number}"
            known[content], own[free] = free, cell
        names.append(known[content])
    return names, own


def _from_text(text: str, own: Mapping[str, Cell]) -> Cell:
    if names_file(text):
        problem = "is a file, and only training reads a user's file"
        raise ArgumentError.of("cell", text, problem, "Give a name, or load it by unspool.cells.load_cell_file")
    name, options = read_spelling(text)
    make = CATALOGUE.get(name.lower())
    if make is None:
        raise UnknownNameError.among("cell", name, [*CATALOGUE, *own])
    check_options(text, name.lower(), options, options_of(make, _fixed(make)))
    try:
        return make(**options)
    except ArgumentError as error:
        raise ArgumentError(f"`cell` (={text!r}) cannot be made: {error}") from error


def _is_built_in(cell: Cell) -> bool:
    return any(_options_given(name, cell) is not None for name in CATALOGUE)


def _fixed(make: Callable[..., Cell]) -> Mapping[str, object]:
    """The options that a name of the catalogue has settled."""
    return make.keywords if isinstance(make, partial) else {}


def _options_given(name: str, cell: Cell) -> dict[str, Option] | None:
    """The options by which a name of the catalogue makes this cell, without defaults; None if it never does."""
    make = CATALOGUE[name]
    fixed = _fixed(make)
    kind: Any = make.func if isinstance(make, partial) else make
    if type(cell) is not kind or any(getattr(cell, option) != value for option, value in fixed.items()):
        return None
    found = {option: (getattr(cell, option), each.default) for option, each in options_of(make, fixed).items()}
    return {option: value for option, (value, default) in found.items() if value != default}
