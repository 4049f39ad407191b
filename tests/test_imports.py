"""Imports point down only: the rooms' arrows, what they take from outside, and no circles; read from the source.

The rooms are listed in tools/rooms.py. A circle is one between modules or, at any level of the tree, between packages;
imports for type checkers count. Every module can be imported on Windows: that is tried with its missing modules hidden.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest
from tools.rooms import ROOMS, SOURCE, STANDARD_LIBRARY_ONLY, WITHOUT_TORCH, below
from tools.write_rooms import PAGE, written

BELOW = below()

#: Circles of imports for type checkers alone that are still there; each goes with the rebuilding of its modules.
KNOWN_CIRCLES = (
    {"unspool.nn.observation", "unspool.nn.recurrence"},
    {f"unspool.insight.report.{name}" for name in ("contract", "page", "parts", "terminal")},
)


@dataclass(frozen=True)
class Arrow:
    """One import: which module names which, where, and whether only for type checkers."""

    module: str
    target: str
    line: int
    for_types: bool = False

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}: imports {self.target}"


@cache
def read_modules(source: Path) -> dict[str, ast.Module]:
    """Every module below `source` by its full name, parsed."""
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return modules


@cache
def read_arrows(source: Path) -> list[Arrow]:
    """Every import in every module, wherever it stands."""
    modules = read_modules(source)
    packages = {module.rpartition(".")[0] for module in modules} | {source.name}
    arrows: list[Arrow] = []
    for module, tree in modules.items():
        package = module if module in packages else module.rpartition(".")[0]
        for node, for_types in _walk(tree, False):
            targets = _targets(node, package, modules)
            arrows.extend(Arrow(module, target, node.lineno, for_types) for target in targets)
    return arrows


def _walk(node: ast.AST, for_types: bool) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    """Every statement and expression below, and whether it stands under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        guarded = isinstance(node, ast.If) and child in node.body and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(child, ast.stmt | ast.expr):
            yield child, for_types or guarded
        yield from _walk(child, for_types or guarded)


def _targets(node: ast.stmt | ast.expr, package: str, modules: Mapping[str, object]) -> Iterator[str]:
    """The modules that a statement imports: the submodule where there is one, else the package."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=name, names=names, level=level):
            parents = package.split(".")
            base = ".".join([*parents[: len(parents) + 1 - level], *([name] if name else [])]) if level else name or ""
            yield from {inner if (inner := f"{base}.{alias.name}") in modules else base for alias in names}
        case ast.Call(
            func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield name


def find_faults(source: Path) -> list[str]:
    """What is wrong with the imports below `source`; nothing, if all is well."""
    rooms = {name.split(".")[1] for name in read_modules(source) if "." in name}
    faults = [f"the room {room!r} is not in the table" for room in sorted(rooms.difference(BELOW))]
    for arrow in read_arrows(source):
        here, there = _room(arrow.module), _room(arrow.target)
        outside = arrow.target.split(".")[0]
        if here == source.name:  # the front door shows what it likes
            continue
        if outside == source.name:
            if there not in (here, *BELOW.get(here, ())):
                faults.append(f"{arrow}, which is not below {here}")
        elif here in STANDARD_LIBRARY_ONLY and outside not in sys.stdlib_module_names:
            faults.append(f"{arrow}, but {here} needs the standard library alone")
        elif here in WITHOUT_TORCH and outside == "torch":
            faults.append(f"{arrow}, but {here} runs without torch")
    return faults + find_circles(source)


def find_circles(source: Path) -> list[str]:
    """Modules, and parts of a package, that import each other, imports for type checkers included.

    The parts of a package are its modules, its subpackages, each as a whole, and its own `__init__.py`.
    """
    modules = read_modules(source)
    # the front door shows what it likes, and nobody below may come in by it
    arrows = [arrow for arrow in read_arrows(source) if arrow.target in modules and arrow.module != source.name]
    packages = sorted({module.rpartition(".")[0] for module in modules if "." in module})
    views: list[Callable[[str], str | None]] = [str, *(partial(_part, package) for package in packages)]
    circles = {frozenset(circle) for view in views for circle in _circles(arrows, view)}
    return [
        f"these import each other: {', '.join(sorted(circle))}"
        for circle in sorted(circles, key=sorted)
        if not any(circle <= known for known in KNOWN_CIRCLES)
    ]


def _part(package: str, module: str) -> str | None:
    """The part of a package that a module belongs to; None if it lies outside."""
    if module == package:
        return package
    depth = package.count(".") + 2
    return ".".join(module.split(".")[:depth]) if module.startswith(f"{package}.") else None


def _circles(arrows: Iterable[Arrow], view: Callable[[str], str | None]) -> Iterator[set[str]]:
    """The groups of nodes that lead to each other, when `view` says which node each module stands for."""
    graph: dict[str, set[str]] = {}
    for arrow in arrows:
        here, there = view(arrow.module), view(arrow.target)
        if here is not None and there is not None and here != there:
            graph.setdefault(here, set()).add(there)
    reached = {node: _reached(graph, node) for node in graph}
    for node, others in reached.items():
        if node in others:
            yield {other for other in others if node in reached.get(other, ())}


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """The nodes that can be reached from one, itself only if a circle leads back to it."""
    found: set[str] = set()
    pending = [start]
    while pending:
        new = graph.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_imports_point_down() -> None:
    assert find_faults(SOURCE) == []


def test_the_arrows_of_the_source_are_seen() -> None:
    """So that an empty list of faults means something."""
    arrows = {(arrow.module, arrow.target): arrow for arrow in read_arrows(SOURCE)}
    for module, target in (
        ("unspool.nn", "unspool.nn.init"),
        ("unspool.nn.rnn", "unspool.cells"),
        ("unspool.nn.recurrent", "torch"),
        ("unspool.engine.reference", "numpy"),
        ("unspool.engine.reference", "unspool.cells.evaluate"),
        ("unspool.cells.cell", "unspool.cells.reading"),
    ):
        assert not arrows[module, target].for_types
    assert arrows["unspool", "unspool.nn"].for_types


def test_the_list_of_rooms_goes_up() -> None:
    """Each names only rooms that stand before it, and every room that is there is in it."""
    names = ["unspool", *(room.name for room in ROOMS)]
    assert all(names.index(named) < names.index(room.name) for room in ROOMS for named in room.imports)
    assert len(names) == len(set(names))
    assert {"nn", "settings", "engine", "cells", "data", "errors"} <= set(BELOW["learning"])
    assert not {"learning", "models", "runs", "cli"} & set(BELOW["learning"])
    assert BELOW["server"] == ("errors", "runtime")
    assert set(BELOW["cli"]) >= {room.name for room in ROOMS}.difference(("cli", "__main__"))


def test_the_table_of_rooms_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert written(text) == text, "run: make docs"


def make_tree(root: Path, files: Mapping[str, str]) -> Path:
    """A package `unspool` below `root` with these modules and the `__init__.py`s that they need."""
    source = root / "unspool"
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for folder in [source, *(path for path in source.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()
    return source


SOUND = {
    "__init__.py": "from unspool import nn as nn\nfrom unspool.cells.cell import Cell as Cell\n__version__ = '1'",
    "errors.py": "import difflib",
    "cells/cell.py": "from unspool.cells.reading import read\nfrom unspool.errors import CellError",
    "cells/reading.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from unspool.cells.kinds import A",
    "cells/kinds.py": "import enum",
    "cells/__init__.py": "from unspool.cells.cell import Cell as Cell",
    "cells/gate.py": "from unspool.cells import Cell",
    "engine/reference.py": "import numpy as np\nfrom unspool.cells import Cell\nfrom . import build",
    "engine/build.py": "from ..errors import CellError",
    "nn/layer.py": "import torch\nfrom unspool import cells\nfrom unspool.engine.reference import run",
    "exchange/onnx.py": "from unspool.nn.layer import Layer",
    "insight/xray.py": "from unspool.insight.measures.flow import flow\nfrom unspool.insight.report.page import page",
    "insight/measures/flow.py": "from unspool.insight.unit import Unit",
    "insight/measures/gates.py": "from unspool.insight.measures.flow import flow",
    "insight/report/page.py": "from unspool.insight.measures.flow import flow",
    "insight/report/plain.py": "",
    "insight/unit.py": "from unspool.nn import layer",
    "server/page.py": "from unspool.runtime import play",
    "runtime/play.py": "import unspool.engine.reference",
    "cli/main.py": "import unspool",
}

FAULTS = {
    "up": ("cells/cell.py", "from unspool.nn.layer import Layer", r"imports unspool\.nn\.layer, which is not below"),
    "up by import": ("engine/build.py", "import unspool.nn.layer", r"unspool\.nn\.layer, which is not below engine"),
    "up by a name": ("engine/build.py", "from unspool import nn", r"unspool\.nn, which is not below engine"),
    "up in a function": ("cells/cell.py", "def f():\n    from unspool.nn import layer", r"line 2: .*not below cells"),
    "up for types": (
        "cells/cell.py",
        "import typing\nif typing.TYPE_CHECKING:\n    from unspool.engine.build import x",
        r"line 3: .*not below cells",
    ),
    "up, relative": ("nn/layer.py", "from ..exchange import onnx", r"unspool\.exchange\.onnx, which is not below nn"),
    "up, two dots": ("nn/layer.py", "from .. import exchange", r"unspool\.exchange, which is not below nn"),
    "up, in a package": ("cells/__init__.py", "from ..nn.layer import Layer", r"^unspool\.cells, line 1: .*not below"),
    "up, at run time": (
        "cells/cell.py",
        "import importlib\nimportlib.import_module('unspool.nn')",
        r"unspool\.nn, which is not below cells",
    ),
    "everything": ("cells/cell.py", "from unspool.nn.layer import *", "not below cells"),
    "errors look at nothing": ("errors.py", "from unspool.cells import Cell", "not below errors"),
    "the front door": ("nn/layer.py", "from unspool import Cell", "imports unspool, which is not below nn"),
    "past the runtime": ("server/page.py", "from unspool.engine import run", "not below server"),
    "runtime beside nn": ("runtime/play.py", "from unspool.nn import layer", "not below runtime"),
    "numpy in cells": ("cells/cell.py", "import numpy as np", "cells needs the standard library alone"),
    "torch in cells for types": (
        "cells/reading.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch import Tensor",
        "line 3: imports torch, but cells needs the standard library alone",
    ),
    "torch in engine": (
        "engine/build.py",
        "def f():\n    import torch.nn.functional as F",
        "engine runs without torch",
    ),
    "torch in runtime": ("runtime/play.py", "import torch", "runtime runs without torch"),
    "unknown room": ("attic/box.py", "", "the room 'attic' is not in the table"),
    "circle": (
        "cells/reading.py",
        "def f():\n    from unspool.cells.cell import Cell",
        r"import each other: unspool\.cells\.cell, unspool\.cells\.reading$",
    ),
    "circle for types": (
        "cells/reading.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from unspool.cells.cell import Cell",
        r"import each other: unspool\.cells\.cell, unspool\.cells\.reading$",
    ),
    "circle of three": (
        "insight/unit.py",
        "import unspool.insight.xray",
        r"import each other: unspool\.insight\.measures\.flow, (.*\.page, ).*\.unit, unspool\.insight\.xray$",
    ),
    "circle through the package": (
        "cells/cell.py",
        "import unspool.cells.gate",
        r"import each other: unspool\.cells, unspool\.cells\.cell, unspool\.cells\.gate$",
    ),
    "circle of packages": (
        "insight/measures/gates.py",
        "from unspool.insight.report import plain",
        r"import each other: unspool\.insight\.measures, unspool\.insight\.report$",
    ),
    "circle of a package and a module": (
        "insight/measures/gates.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from unspool.insight.xray import xray",
        r"import each other: unspool\.insight\.measures, unspool\.insight\.report, unspool\.insight\.xray$",
    ),
}


def test_a_sound_tree_has_no_faults(tmp_path: Path) -> None:
    assert find_faults(make_tree(tmp_path, SOUND)) == []


@pytest.mark.parametrize(("file", "text", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(tmp_path: Path, file: str, text: str, message: str) -> None:
    faults = find_faults(make_tree(tmp_path, SOUND | {file: text}))
    assert re.search(message, "\n".join(faults), re.MULTILINE)


LOADED = """
import sys
__import__("unspool." + sys.argv[1])
print(*sorted({"numpy", "torch", "polars", "pydantic", "plotly", "rich"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("room", "loaded"),
    [
        *(("errors", ""), ("cache", ""), ("cells", ""), ("engine", "numpy"), ("decoding.generation", "numpy")),
        *(("tasks.catalogue", "numpy"), ("nn", "numpy torch"), ("cli.main", "")),
        *((f"cli.{command}", "numpy rich") for command in ("generate", "predict", "evaluate")),
    ],
)
def test_what_a_room_loads(room: str, loaded: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, room], capture_output=True, text=True, check=True)
    assert done.stdout.split() == loaded.split()


#: Python's modules that are not there on Windows, and parts of those that are.
ABSENT = ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty", "_curses")
PARTS = {"os": ("fork", "getuid", "register_at_fork", "sched_getaffinity"), "signal": ("SIGTSTP", "SIGSTOP", "SIGKILL")}

#: What modules import at once; libraries have their own ways on Windows.
LIBRARIES = ("filelock", "numpy", "platformdirs", "plotly", "polars", "pydantic", "rich", "sklearn", "torch", "typer")

#: Imports the modules that a file lists where those are missing for all but the libraries.
ON_WINDOWS = """
import importlib, importlib.abc, os, signal, sys, traceback

libraries = [__import__(name) for name in sys.argv[2].split(",")]
absent, parts = set(sys.argv[3].split(",")), sys.argv[4].split(",")

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in absent:
    sys.modules.pop(name, None)
for part in parts:
    module, name = part.split(".")
    delattr({"os": os, "signal": signal}[module], name)
for name in open(sys.argv[1]).read().split():
    try:
        importlib.import_module(name)
    except Exception:
        print(name, traceback.format_exc())
"""


def test_every_module_is_imported_where_posix_is_not(tmp_path: Path) -> None:
    names = sorted({"unspool_command", *read_modules(SOURCE)} - {"unspool.__main__"})
    (tmp_path / "names").write_text("\n".join(names))
    parts = ",".join(f"{module}.{name}" for module, missing in PARTS.items() for name in missing)
    command = [sys.executable, "-c", ON_WINDOWS, str(tmp_path / "names"), ",".join(LIBRARIES), ",".join(ABSENT), parts]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert len(names) > 200
