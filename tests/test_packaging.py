"""What is installed with what: extras, the plain installation, versions and pins."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

import unspool
from unspool.errors import EXTRAS, MissingPackageError

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OPTIONAL: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]

#: Module → distribution, where the names differ.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "tomli_w": "tomli-w"}


def names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[\[<>=~! ]", requirement)[0] for requirement in requirements}


def test_errors_know_what_each_extra_brings() -> None:
    assert {*EXTRAS, "all"} == set(OPTIONAL)
    for extra, modules in EXTRAS.items():
        brought = {DISTRIBUTIONS.get(module, module) for module in modules}
        others = names(OPTIONAL["onnx"]) if extra == "peers" else set()
        assert brought | others == names(OPTIONAL[extra])
    assert OPTIONAL["all"] == [f"unspool[{','.join(extra for extra in EXTRAS if extra != 'peers')}]"]


def test_what_everybody_gets_is_in_no_extra() -> None:
    plain = names(PROJECT["project"]["dependencies"])
    assert plain == {"numpy", "platformdirs", "rich", "safetensors", "typer"}
    assert not any(plain & names(OPTIONAL[extra]) for extra in EXTRAS)


def test_everything_that_is_installed_is_pinned() -> None:
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    groups = [part for group in PROJECT["dependency-groups"].values() for part in group if isinstance(part, str)]
    wanted = [*PROJECT["project"]["dependencies"], *(part for extra in EXTRAS for part in OPTIONAL[extra]), *groups]
    assert names(wanted) - pinned == set()


def test_one_version_everywhere() -> None:
    assert PROJECT["project"]["version"] == unspool.__version__
    assert f"\nversion: {unspool.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("torch", "unspool.nn needs torch: pip install 'unspool[train]'"),
        ("onnx.checker", "unspool.nn needs onnx: pip install 'unspool[onnx]'"),
        ("jax", "unspool.nn needs jax: pip install 'unspool[peers]'"),
    ],
)
def test_a_missing_package_is_explained(module: str, said: str) -> None:
    with pytest.raises(MissingPackageError) as caught, MissingPackageError.explaining("unspool.nn"):
        raise ModuleNotFoundError(name=module)
    assert (str(caught.value), caught.value.name) == (said, module.partition(".")[0])
    with pytest.raises(MissingPackageError) as again, MissingPackageError.explaining("something above"):
        raise caught.value
    assert again.value is caught.value


@pytest.mark.parametrize("name", ["mine", "torchy", "unspool.nn", None])
def test_other_failed_imports_stay_what_they_are(name: str | None) -> None:
    error = ImportError(name=name)
    with pytest.raises(ImportError) as caught, MissingPackageError.explaining("unspool.nn"):
        raise error
    assert caught.value is error


#: A plain `pip install unspool`: the modules of every extra are hidden.
PLAIN = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import numpy
import unspool
from unspool import Cell, cells, engine, errors, sigmoid, tanh
from unspool.cli.main import main

class Mine(Cell):
    def step(self, x, h):
        return tanh(self.linear("a", x, h))

shapes = Mine().equations().shapes(2, 3)
out = engine.run(Mine(), {name: numpy.zeros(shape) for name, shape in shapes.items()}, numpy.ones((4, 1, 2)))[0]
assert (out == numpy.zeros((4, 1, 3))).all()
engine.Kernel(Mine().equations(), 2, 3)
try:
    unspool.train
except ImportError as error:
    print(error)
for command in sys.argv[2:]:
    try:
        main([command])
    except SystemExit as left:
        print(command, left.code)
"""


def test_a_plain_installation_has_cells_and_the_engine_and_says_what_the_rest_needs() -> None:
    modules = {module for modules in EXTRAS.values() for module in modules}
    hidden = ",".join(sorted(modules - {"pydantic"}))  # typer brings it too
    command = [sys.executable, "-c", PLAIN, hidden, "--version", "train"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    version = f"unspool {unspool.__version__}"
    needs = "unspool.train needs torch: pip install 'unspool[train]'"
    assert done.stdout.splitlines() == [needs, version, "--version 0", "train 1"]
    assert re.fullmatch(r"error: unspool train needs \w+: pip install 'unspool\[train\]'\n", done.stderr)
