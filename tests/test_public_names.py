"""The public names are exactly those that docs/reference.md documents, with the signatures that it shows.

A package's public names are those that its `__init__.py` imports as themselves (`from … import X as X`), where it
loads them lazily below `if TYPE_CHECKING`; a single module's are the functions and classes that it defines without an
underscore.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import unspool

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
PACKAGES = (
    *("unspool", "unspool.cells", "unspool.nn", "unspool.engine", "unspool.exchange", "unspool.learning"),
    *("unspool.estimators", "unspool.insight", "unspool.lab", "unspool.lab.data"),
)
MODULES = (*PACKAGES, "unspool.nn.init", "unspool.errors", "unspool.export")

#: Classes that unspool makes and a user only reads: the reference shows no call for them.
READ_ONLY = ("Symbol", "Equations", "Decoded", "Found")

each_module = pytest.mark.parametrize("module", MODULES)


def declared(path: Path) -> list[str]:
    """The public names of the module in this file."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    if path.name != "__init__.py":
        return [
            node.name
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        ]
    guarded = [node for part in body if isinstance(part, ast.If) for node in part.body]
    imports = [
        alias for node in (*body, *guarded) if isinstance(node, ast.ImportFrom | ast.Import) for alias in node.names
    ]
    return [alias.name for alias in imports if alias.name == alias.asname]


def documented(text: str) -> dict[str, dict[str, str]]:
    """Module → name → what its entry shows as code: the names of headings `### …` and of rows `| … |`.

    An entry shows `Name`, `Name(arguments)`, or, below its heading, a line that is nothing but such code.
    """
    entries: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    names, _, _ = text.partition("\n## Settings\n")
    for line in names.splitlines():
        if heading := re.fullmatch(r"## `?([\w.]+)`?", line):
            assert heading[1] not in entries, f"{heading[1]} has two sections"
            section = entries.setdefault(heading[1], {})
        elif entry := re.match(r"(?:### |\| )`(\w+)([^`]*)`", line):
            assert entry[1] not in section, f"{entry[1]} has two entries"
            section[entry[1]] = entry[1] + entry[2]
        elif section and (call := re.fullmatch(rf"`({next(reversed(section))}\(.*\))`", line)):
            section[next(reversed(section))] = call[1]
    return entries


def call(value: Callable[..., object], name: str) -> str | None:
    """How to call it, without annotations; None if it takes whatever another one takes."""
    signature = inspect.signature(value)
    parameters = signature.parameters.values()
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters):
        return None
    plain = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    return f"{name}{inspect.Signature(plain)}"


def values_of(module: str) -> dict[str, object]:
    """Everything that a module shows, by name; what is loaded when it is first used is loaded now."""
    imported = import_module(module)
    return {name: getattr(imported, name) for name in dir(imported)}


def file_of(module: str) -> Path:
    path = import_module(module).__file__
    assert path is not None
    return Path(path)


@each_module
def test_public_names_are_exactly_those_documented(module: str) -> None:
    names = declared(file_of(module))
    assert names
    assert sorted(documented(REFERENCE)[module]) == sorted(names)


def test_every_section_of_the_reference_is_a_module() -> None:
    assert sorted(documented(REFERENCE)) == sorted(MODULES)


def test_every_public_module_has_a_section() -> None:
    public = {"unspool"}
    for module in MODULES:
        values = values_of(module)
        shown = [values[name] for name in declared(file_of(module))]
        public |= {value.__name__ for value in shown if isinstance(value, ModuleType)}
    assert public == set(MODULES)


@pytest.mark.parametrize("module", PACKAGES)
def test_packages_hold_their_public_names_and_nothing_else(module: str) -> None:
    """Submodules are there too once something has imported them; they are not meant by that."""
    values = values_of(module)
    found = {name for name, value in values.items() if name[0] != "_" and not isinstance(value, ModuleType)}
    names = declared(file_of(module))
    assert found == {name for name in names if not isinstance(values[name], ModuleType)}
    assert len(names) == len(set(names))


def test_names_that_are_loaded_lazily_are_those_that_type_checkers_see() -> None:
    assert sorted(declared(file_of("unspool"))) == sorted(unspool.__all__)
    assert set(unspool._HOMES) <= set(unspool.__all__)
    with pytest.raises(AttributeError, match="module 'unspool' has no attribute 'trian'"):
        _ = unspool.trian  # type: ignore[attr-defined]


LIGHT = """
import sys
import unspool
heavy = {"torch", "numpy", "typer", "rich", "polars", "pydantic", "plotly", "platformdirs"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
unspool.Cell
assert not heavy & set(sys.modules), heavy & set(sys.modules)
unspool.nn
assert heavy & set(sys.modules) == {"torch", "numpy"}, heavy & set(sys.modules)
sys.modules["pydantic"] = None
try:
    unspool.train
except ImportError as error:
    assert isinstance(error, unspool.errors.UnspoolError)
    print(error)
"""


def test_a_name_brings_what_it_needs_and_no_more() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "unspool.train needs pydantic: pip install 'unspool[train]'\n"


@each_module
def test_calls_are_documented_as_they_are(module: str) -> None:
    shown = documented(REFERENCE)[module]
    wrong = {}
    for name, value in values_of(module).items():
        an_error = isinstance(value, type) and issubclass(value, Exception)
        if name not in shown or not callable(value) or name in READ_ONLY or an_error:
            continue
        true = call(value, name)
        if shown[name] != (true or name) and not (true is None and shown[name].startswith(f"{name}(")):
            wrong[name] = true
    assert wrong == {}


def test_the_rules_of_this_file(tmp_path: Path) -> None:
    package, module = tmp_path / "__init__.py", tmp_path / "init.py"
    package.write_text(
        "from a import b as b\nfrom a import c\nimport d as d\nfrom a import e as f\n__version__ = '1'\n"
        "if TYPE_CHECKING:\n    from a import g as g\n    from a import h"
    )
    module.write_text("from a import b as b\ndef f(): ...\nclass G: ...\ndef _h(): ...\nk = 1")
    assert declared(package) == ["b", "d", "g"]
    assert declared(module) == ["f", "G"]

    text = (
        "# T\n## unspool\n### `A`\n\n`A(x, *, y=1)`\n\nWords, `B(z)`.\n| `c(v)` | words |\n## `unspool.nn`\n### `D()`\n"
    )
    assert documented(text) == {"unspool": {"A": "A(x, *, y=1)", "c": "c(v)"}, "unspool.nn": {"D": "D()"}}
    assert call(lambda x, /, y=1, *, z="a": None, "f") == "f(x, /, y=1, *, z='a')"
    assert call(lambda *x: None, "f") is None
