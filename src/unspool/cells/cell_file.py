"""A user's cell from a user's file. Nothing else in the package runs such a file."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from unspool.cells.cell import Cell
from unspool.cells.spelling import FILE, Option, check_options, options_of, read_spelling
from unspool.errors import ArgumentError, CellError

Made = TypeVar("Made")


def load_cell_file(text: str) -> Cell:
    """The cell that a user's file defines.

    The file is run. While it is, modules beside it can be imported; afterwards `sys.path` is as it was, and neither
    the file nor those modules stay in `sys.modules`. The cell's `step` is read once, so that a mistake in it is
    reported here.

    Args:
        text: `PATH.py:NAME`, where NAME is a class of cells, with options in parentheses if wanted, or a cell;
            or `PATH.py`, if the file defines one class of cells.

    Returns:
        The cell: a new one of the class, or the one that the file made.

    Raises:
        ArgumentError: There is no such file, it fails, it has no such name, or the name is not a cell's. The message
            shows the line of the file.
        CellError: `step` cannot be read as equations.

    Example:
        >>> load_cell_file("mine.py:Minimal")  # doctest: +SKIP
        Minimal()
    """
    found = FILE.fullmatch(text)
    if found is None:
        raise ArgumentError.of("cell", text, "is not a Python file", "Give it as in 'mine.py:Minimal'")
    path = _find(text, found[1])
    with _importable(path.parent) as name:
        module = _run(text, path, name)
        wanted = found[2] if found[2] else _only_class(text, module)
        cell = _make(text, path, module, wanted)
        _guarded(text, path, "whose `step` fails", cell.equations)
    return cell


def _find(text: str, given: str) -> Path:
    path = Path(os.path.expanduser(given))
    if path.is_file():
        return path.absolute()
    near = sorted(file.name for file in path.parent.glob("*.py")) if path.parent.is_dir() else []
    there = f"{path.parent} has {', '.join(near[:5])}{'…' if len(near) > 5 else ''}. " if near else ""
    raise ArgumentError.of("cell", text, f"names a file that does not exist, {path}", f"{there}Check the path")


@contextmanager
def _importable(folder: Path) -> Iterator[str]:
    """Modules in this folder can be imported until the end of the block; yields a module name that is free."""
    paths, modules = list(sys.path), set(sys.modules)
    name = "cell_file"
    while name in modules:
        name += "_"
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield name
    finally:
        sys.path[:] = paths
        sys.modules.pop(name, None)
        for other in _found_in(folder, set(sys.modules) - modules):
            sys.modules.pop(other)


def _found_in(folder: Path, names: set[str]) -> list[str]:
    """The modules among these that lie in a folder, with all in its packages. Another folder may have the same."""

    def lies_there(top: str) -> bool:
        file = getattr(sys.modules[top], "__file__", None) if top in names else None
        if not isinstance(file, str):
            return False
        place = Path(file)
        return folder == (place.parent.parent if place.name == "__init__.py" else place.parent)

    return [name for name in names if lies_there(name.partition(".")[0])]


def _run(text: str, path: Path, name: str) -> ModuleType:
    """The file as a module. It is compiled here, as a compiled copy on disk may be older than it looks."""
    module = ModuleType(name)
    module.__file__ = str(path)

    def run() -> None:
        source = importlib.util.decode_source(path.read_bytes())
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))

    sys.modules[name] = module
    linecache.checkcache(str(path))
    _guarded(text, path, "names a file that fails", run)
    return module


def _guarded(text: str, path: Path, problem: str, call: Callable[..., Made], **options: Any) -> Made:
    """Call what runs code of the file; a mistake in it is shown with its line."""
    try:
        return call(**options)
    except (Exception, SystemExit) as raised:  # a user's file may raise anything
        cause = raised.__cause__
        if isinstance(raised, CellError) and (cause is None or isinstance(cause, TypeError | AttributeError)):
            raise  # it says how equations are written
        error = cause if isinstance(raised, CellError) and cause is not None else raised
        what = f"{type(error).__name__}: {_said(path, error)}".rstrip(".: ")
        raise ArgumentError.of("cell", text, f"{problem}{_line(path, error)}: {what}", "Correct the file") from error


def _said(path: Path, error: BaseException) -> str:
    """What an error says, without the line: the text of a SyntaxError in the file names it, too."""
    return error.msg if isinstance(error, SyntaxError) and error.filename == str(path) else str(error)


def _line(path: Path, error: BaseException) -> str:
    """Which line of the file an error came through last, as words; empty if through none."""
    number = None
    if isinstance(error, SyntaxError) and error.filename == str(path):
        number = error.lineno
    place: TracebackType | None = error.__traceback__
    while place is not None:
        if place.tb_frame.f_code.co_filename == str(path):
            number = place.tb_lineno
        place = place.tb_next
    if number is None:
        return ""
    line = linecache.getline(str(path), number).strip()
    return f" in line {number} ({line})" if line else f" in line {number}"


def _cells(module: ModuleType) -> dict[str, type[Cell] | Cell]:
    """Every cell and class of cells that the file defines, by name, without those it imports."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Cell)
        or (isinstance(value, type) and issubclass(value, Cell) and value.__module__ == module.__name__)
    }


def _only_class(text: str, module: ModuleType) -> str:
    classes = {
        value: name for name, value in _cells(module).items() if isinstance(value, type) and value.step is not Cell.step
    }
    if len(classes) == 1:
        return next(iter(classes.values()))
    if not classes:
        raise ArgumentError.of("cell", text, "defines no class of cells", "Write a class Mine(Cell) with a `step`")
    names = ", ".join(classes.values())
    first = next(iter(classes.values()))
    raise ArgumentError.of("cell", text, f"defines several cells: {names}", f"Choose one, as in {text}:{first}")


def _make(text: str, path: Path, module: ModuleType, wanted: str) -> Cell:
    name, options = read_spelling(wanted)
    if name not in vars(module):
        raise _no_such_name(text, name, _cells(module))
    value = vars(module)[name]
    if isinstance(value, Cell):
        if options:
            raise ArgumentError.of("cell", text, f"gives options to {name}, which is a cell already", "Leave them out")
        return value
    if not isinstance(value, type) or not issubclass(value, Cell):
        problem = f"names {name}, which is {_article(value)} and not a cell"
        raise ArgumentError.of("cell", text, problem, "Name a class that inherits from unspool.Cell")
    return _instance(text, path, name, value, options)


def _no_such_name(text: str, name: str, known: Mapping[str, object]) -> ArgumentError:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
    has = f"It has {', '.join(known)}" if known else "It defines no cells"
    return ArgumentError.of("cell", text, f"has no {name!r} in its file", f"{hint}{has}")


def _instance(text: str, path: Path, name: str, kind: type[Cell], options: Mapping[str, Option]) -> Cell:
    taken = options_of(kind, {})
    anything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in inspect.signature(kind).parameters.values())
    if not anything:
        check_options(text, name, options, taken)
    missing = [each.name for each in taken.values() if each.default is each.empty and each.name not in options]
    if missing:
        needed = ", ".join(f"{option}=…" for option in missing)
        raise ArgumentError.of(
            "cell", text, f"names {name}, which needs options", f"Give them, as in {path.name}:{name}({needed})"
        )
    return _guarded(text, path, f"names {name}, which cannot be made", kind, **options)


def _article(value: object) -> str:
    if isinstance(value, type):
        return "another class"
    return "a function" if callable(value) else f"of type {type(value).__name__}"
