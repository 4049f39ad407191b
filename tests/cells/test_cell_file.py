"""Cells from users' files: what is loaded, what stays behind, and what is said of a file that is wrong."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.variants import Minimal

from unspool.cells import LSTM, cells_document, document, load_cell_file, load_cells
from unspool.errors import ArgumentError, CellError

MINIMAL = textwrap.dedent("""
    from unspool import Cell, sigmoid, tanh

    class Minimal(Cell):
        def step(self, x, h):
            z = sigmoid(self.linear("z", x))
            n = tanh(self.linear("n", x))
            return (1 - z) * h + z * n
""")
SEVERAL = textwrap.dedent("""
    import math
    from unspool.cells import LSTM, Cell, tanh

    class Base(Cell):
        def __init__(self, factor: float = 0.5, *, power: int = 1) -> None:
            self.factor, self.power = factor, power

    class Slow(Base):
        def step(self, x, h):
            return self.factor**self.power * h + self.linear("h", x)

    class Fast(Base):
        def step(self, x, h):
            return tanh(self.factor * h + self.linear("h", x))

    class Picky(Cell):
        def __init__(self, size, shape, name="x"):
            self.size = size

        def step(self, x, h):
            return h + self.linear("h", x)

    class Loose(Cell):
        def __init__(self, **options):
            self.options = options

        def step(self, x, h):
            return self.options["factor"] * h + self.linear("h", x)

    ready = Slow(0.125)
    number = 3
""")

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a user's file and gives its path."""

    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture(autouse=True)
def nothing_stays() -> object:
    """Every test here leaves the paths and modules of the process as they were."""
    paths, modules = list(sys.path), dict(sys.modules)
    yield
    assert sys.path == paths
    new = {name: module for name, module in sys.modules.items() if name not in modules}
    assert not [name for name in new if name.startswith(("cell_file", "mine", "helper", "parts"))]


def test_a_class_by_name_and_alone(write: Write) -> None:
    path = write(MINIMAL)
    expected = document.dump(Minimal().equations())
    for text in (f"{path}:Minimal", str(path), f"{path}:Minimal()"):
        assert document.dump(load_cell_file(text).equations()) == expected


def test_relative_and_home_paths(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(MINIMAL)
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("HOME", str(path.parent))
    for text in ("mine.py:Minimal", "./mine.py", "~/mine.py:Minimal"):
        assert type(load_cell_file(text)).__name__ == "Minimal"


def test_options_an_instance_and_an_imported_class(write: Write) -> None:
    path = write(SEVERAL)
    assert vars(load_cell_file(f"{path}:Slow")) == {"factor": 0.5, "power": 1}
    assert vars(load_cell_file(f"{path}:Slow(factor=0.25, power=2)")) == {"factor": 0.25, "power": 2}
    assert vars(load_cell_file(f"{path}:ready")) == {"factor": 0.125, "power": 1}
    assert vars(load_cell_file(f"{path}:Loose(factor=2)")) == {"options": {"factor": 2}}
    assert isinstance(load_cell_file(f"{path}:LSTM"), LSTM)


def test_the_folder_can_be_imported_from_and_each_has_its_own_helpers(tmp_path: Path) -> None:
    """Two folders with modules of the same names: neither sees the other's."""
    for factor in (0.5, 0.25):
        folder = tmp_path / str(factor)
        (folder / "parts").mkdir(parents=True)
        (folder / "helper.py").write_text(f"FACTOR = {factor}\n")
        (folder / "parts" / "__init__.py").write_text("from parts.inner import SHIFT\n")
        (folder / "parts" / "inner.py").write_text(f"SHIFT = {10 * factor}\n")
        (folder / "mine.py").write_text(
            "import helper\nimport parts\nfrom unspool import Cell\n\nclass Mine(Cell):\n    def step(self, x, h):\n"
            "        return helper.FACTOR * h + self.linear('h', x) + parts.SHIFT\n"
        )
        nodes = load_cell_file(str(folder / "mine.py")).equations().nodes
        assert [node.detail for node in nodes if node.operation == "constant"] == [factor, 10 * factor]


def test_an_edit_within_the_same_second_is_seen(write: Write) -> None:
    for factor in ("0.5", "0.7"):  # of one size, so that a compiled copy would look new
        path = write(f"""
            from unspool import Cell

            class Mine(Cell):
                def step(self, x, h):
                    return {factor} * h + self.linear("h", x)
        """)
        os.utime(path, (1_000_000_000, 1_000_000_000))
        nodes = load_cell_file(str(path)).equations().nodes
        assert [node.detail for node in nodes if node.operation == "constant"] == [float(factor)]


def test_a_dataclass_with_postponed_annotations(write: Write) -> None:
    path = write("""
        from __future__ import annotations
        from dataclasses import dataclass
        from unspool import Cell

        @dataclass
        class Mine(Cell):
            factor: float = 0.5

            def step(self, x, h):
                return self.factor * h + self.linear("h", x)
    """)
    assert load_cell_file(f"{path}:Mine(factor=0.25)").factor == 0.25  # type: ignore[attr-defined]


def test_another_encoding_than_utf8(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(("# coding: latin-1\n# größer" + MINIMAL).encode("latin-1"))
    assert type(load_cell_file(str(path))).__name__ == "Minimal"


def test_a_file_that_changes_the_paths_leaves_no_trace(write: Write) -> None:
    path = write("import sys\nsys.path.append('/nowhere')\n" + MINIMAL)
    load_cell_file(str(path))  # the fixture looks


def test_the_cell_outlives_its_file(write: Write) -> None:
    path = write(MINIMAL)
    text = cells_document({"Minimal": load_cell_file(str(path))})
    path.unlink()
    assert document.dump(load_cells(text)["Minimal"].equations()) == document.dump(Minimal().equations())


NO_STEP = """
    from unspool import Cell

    class Mine(Cell):
        def step(self, x, h):
            {}
"""

WRONG: dict[str, tuple[str, str, str]] = {
    "several": (SEVERAL, "", r"defines several cells: Slow, Fast, Picky, Loose. Choose one, as in .*mine\.py:Slow\."),
    "none": ("number = 3", "", "defines no class of cells. Write a class Mine"),
    "only imported": ("from unspool.cells import LSTM", "", "defines no class of cells"),
    "no such name": (MINIMAL, ":Minimla", r"has no 'Minimla' in its file. Did you mean 'Minimal'\? It has Minimal\."),
    "no cells at all": ("number = 3", ":Mine", "has no 'Mine' in its file. It defines no cells"),
    "a number": (SEVERAL, ":number", "names number, which is of type int and not a cell. Name a class that inherits"),
    "a function": (MINIMAL, ":sigmoid", "names sigmoid, which is a function and not a cell"),
    "another class": ("class Mine: ...", ":Mine", "names Mine, which is another class and not a cell"),
    "a module": (SEVERAL, ":math", "names math, which is of type module"),
    "needs options": (SEVERAL, ":Picky", r"which needs options. Give them, as in mine\.py:Picky\(size=…, shape=…\)"),
    "unknown option": (SEVERAL, ":Slow(factr=2)", r"'factr'. Did you mean 'factor'\? Slow takes factor, power"),
    "options of an instance": (SEVERAL, ":ready(factor=2)", "gives options to ready, which is a cell already"),
    "code in place of options": (SEVERAL, ":Slow(factor=print(3))", "option factor that is neither a number"),
    "syntax": (MINIMAL + "\ndef step(:\n", "", r"fails in line 10 \(def step\(:\): SyntaxError: invalid syntax"),
    "an import": (
        "# two lines\nimport nothing_of_this_name" + MINIMAL,
        "",
        r"line 2 \(import nothing_of_this_name\): ModuleNotFoundError: No module named 'nothing_of_this_name'",
    ),
    "an error": ("a = 1\nb = a / 0", ":a", r"fails in line 2 \(b = a / 0\): ZeroDivisionError: division by zero"),
    "an exit": ("raise SystemExit(3)", "", r"fails in line 1 \(raise SystemExit\(3\)\): SystemExit: 3"),
    "a null byte": ("a = '\0'", "", "fails.*null byte"),
    "a constructor that fails": (
        "from unspool import Cell\nclass Mine(Cell):\n    def __init__(self):\n        self.a = self.b\n"
        "    def step(self, x, h):\n        return h",
        "",
        r"names Mine, which cannot be made in line 4 \(self.a = self.b\): AttributeError",
    ),
    "a step that fails": (
        NO_STEP.format("return h + nothing"),
        "",
        r"`step` fails in line 6 \(return h \+ nothing\): NameError: name 'nothing' is not defined",
    ),
}


@pytest.mark.parametrize(("source", "name", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files(source: str, name: str, message: str, write: Write) -> None:
    path = write(source)
    with pytest.raises(ArgumentError, match=message) as caught:
        load_cell_file(f"{path}{name}")
    assert str(caught.value).startswith("`cell` (=")


def test_a_step_that_is_no_equation(write: Write) -> None:
    path = write(NO_STEP.format("return h if h > 0 else -h"))
    with pytest.raises(CellError, match=r"`if`.*mine\.py, line 6"):
        load_cell_file(str(path))


def test_files_that_are_not_there(tmp_path: Path, write: Write) -> None:
    path = write(MINIMAL)
    with pytest.raises(ArgumentError, match=r"does not exist, .*mien\.py. .* has mine\.py. Check the path"):
        load_cell_file(f"{path.parent}/mien.py:Minimal")
    with pytest.raises(ArgumentError, match="does not exist"):
        load_cell_file(f"{tmp_path}/no/folder.py")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ArgumentError, match="does not exist"):
        load_cell_file(f"{tmp_path}/folder.py")
    with pytest.raises(ArgumentError, match="is not a Python file. Give it as in 'mine.py:Minimal'"):
        load_cell_file("lstm")


def test_a_failed_file_leaves_no_trace(tmp_path: Path, write: Write) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 1\n")
    path = write("import helper\nraise RuntimeError('stop')")
    with pytest.raises(ArgumentError, match=r"line 2 .*RuntimeError: stop"):
        load_cell_file(str(path))  # the fixture looks


def test_a_module_that_was_there_before_stays(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_the_cell.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import beside_the_cell  # type: ignore[import-not-found]

    try:
        load_cell_file(str(write("import beside_the_cell" + MINIMAL)))
        assert sys.modules["beside_the_cell"] is beside_the_cell
    finally:
        del sys.modules["beside_the_cell"]
