"""Imports point down only: the rooms' arrows, what they take from outside, and no circles; read from the source.

`unspool/__init__.py` imports nn, and so torch: whether a room needs torch shows only in its own text, or when it is
loaded without the package's front door. Both are done here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "unspool"

#: Room → the rooms that it may import besides itself.
BELOW: Mapping[str, tuple[str, ...]] = {
    "errors": (),
    "cells": ("errors",),
    "engine": ("errors", "cells"),
    "nn": ("errors", "cells", "engine"),
    "exchange": ("errors", "cells", "engine", "nn"),
    "data": ("errors",),
    "learning": ("errors", "cells", "engine", "nn", "data"),
    "tasks": ("errors", "cells", "engine", "nn", "data", "learning"),
    "estimators": ("errors", "cells", "engine", "nn", "data", "tasks", "learning"),
    "insight": ("errors", "cells", "engine", "nn", "data", "tasks", "learning"),
    "lab": ("errors", "cells", "engine", "nn", "data", "tasks", "learning", "insight"),
    "runtime": ("errors", "cells", "engine"),
    "server": ("errors", "runtime"),
    "cli": (
        *("unspool", "errors", "cells", "engine", "nn", "exchange", "data", "tasks"),
        *("learning", "insight", "lab", "runtime", "server"),
    ),
    "__main__": ("cli",),
}
STANDARD_LIBRARY_ONLY = ("errors", "cells")
WITHOUT_TORCH = ("engine", "runtime", "server")


@dataclass(frozen=True)
class Arrow:
    """One import: which module names which, where, and whether only for type checkers."""

    module: str
    target: str
    line: int
    for_types: bool = False

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}: imports {self.target}"


def read_modules(source: Path) -> dict[str, ast.Module]:
    """Every module below `source` by its full name, parsed."""
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return modules


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
    return faults + find_circle(source)


def find_circle(source: Path) -> list[str]:
    """The first circle of modules that import each other, imports for type checkers aside."""
    graph: dict[str, set[str]] = {module: set() for module in read_modules(source)}
    for arrow in read_arrows(source):
        if arrow.target in graph and not arrow.for_types:
            graph[arrow.module].add(arrow.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"modules import each other in a circle: {' ← '.join(error.args[1])}"]
    return []


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_imports_point_down() -> None:
    assert find_faults(SOURCE) == []


def test_the_arrows_of_the_source_are_seen() -> None:
    """So that an empty list of faults means something."""
    arrows = {(arrow.module, arrow.target): arrow for arrow in read_arrows(SOURCE)}
    for module, target in (
        ("unspool", "unspool.nn"),
        ("unspool", "unspool.nn.accelerate"),
        ("unspool.nn", "unspool.nn.init"),
        ("unspool.nn.rnn", "unspool.cells"),
        ("unspool.nn.recurrent", "torch"),
        ("unspool.engine.reference", "numpy"),
        ("unspool.engine.reference", "unspool.cells.evaluate"),
        ("unspool.cells.cell", "unspool.cells.reading"),
    ):
        assert not arrows[module, target].for_types
    assert arrows["unspool.cells.reading", "unspool.cells.cell"].for_types


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
    "__init__.py": "from unspool import nn as nn\nfrom unspool.cells.cell import Cell as Cell",
    "errors.py": "import difflib",
    "cells/cell.py": "from unspool.cells.reading import read\nfrom unspool.errors import CellError",
    "cells/reading.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from unspool.cells.cell import Cell",
    "cells/__init__.py": "from unspool.cells.cell import Cell as Cell",
    "cells/gate.py": "from unspool.cells import Cell",
    "engine/reference.py": "import numpy as np\nfrom unspool.cells import Cell\nfrom . import build",
    "engine/build.py": "from ..errors import CellError",
    "nn/layer.py": "import torch\nfrom unspool import cells\nfrom unspool.engine.reference import run",
    "exchange/onnx.py": "from unspool.nn.layer import Layer",
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
        r"in a circle: (unspool\.cells\.(cell|reading)( ← )?){3}$",
    ),
    "circle through the package": (
        "cells/cell.py",
        "import unspool.cells.gate",
        r"in a circle: (unspool\.cells(\.cell|\.gate)?( ← )?){4}$",
    ),
}


def test_a_sound_tree_has_no_faults(tmp_path: Path) -> None:
    assert find_faults(make_tree(tmp_path, SOUND)) == []


@pytest.mark.parametrize(("file", "text", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(tmp_path: Path, file: str, text: str, message: str) -> None:
    faults = find_faults(make_tree(tmp_path, SOUND | {file: text}))
    assert re.search(message, "\n".join(faults), re.MULTILINE)


ALONE = """
import sys, types
package = types.ModuleType("unspool")
package.__path__ = [sys.argv[1]]
sys.modules["unspool"] = package
__import__("unspool." + sys.argv[2])
print(*sorted({"numpy", "torch"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("room", "loaded"), [("errors", ""), ("cells", ""), ("engine", "numpy"), ("nn", "numpy torch")]
)
def test_what_a_room_loads_when_it_stands_alone(room: str, loaded: str) -> None:
    command = [sys.executable, "-c", ALONE, str(SOURCE), room]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == loaded.split()
