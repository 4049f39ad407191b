"""The README's examples run as printed and print what is true; its make targets and pictures exist."""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.cli.calling import call

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TOOL = ROOT / "tools" / "run_readme.py"


#: Screenshots are to load fast.
LARGEST_PICTURE = 150_000


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The lines that the examples print, without the words and the indented source that the tool shows."""
    done = subprocess.run([sys.executable, "-W", "error", str(TOOL)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line and not line.startswith("    ")]


def test_the_tours_numbers(printed: list[str]) -> None:
    z, n = 128 * (64 + 1), 128 * (64 + 128 + 1)  # W_z, b_z; W_n, U_n, b_n
    assert f"parameters: {z + n}" in printed
    assert "trained: 40 updates" in printed
    assert "output (10, 3, 128) · state (3, 128) · named values ['z', 'n', 'h']" in printed
    assert f"sequence 1 ends after 4 steps: {[True] * 4 + [False] * 6}" in printed
    assert "stack: (10, 3, 48)" in printed
    assert "accelerated: ['0']" in printed


def test_the_tours_model_has_learned(printed: list[str]) -> None:
    (line,) = (line for line in printed if line.startswith("validation: "))
    metrics = ast.literal_eval(line.removeprefix("validation: "))
    assert metrics["loss"] < 3.5  # a guess among the text's 97 characters has 4.57
    assert math.isclose(metrics["perplexity"], math.exp(metrics["loss"]))


def test_the_tours_equations(printed: list[str]) -> None:
    first = printed.index(r"\begin{aligned}")
    assert printed[first + 1 : first + 5] == [
        r"z_t &= \sigma\left(W_{z} x_t + b_{z}\right) \\",
        r"n_t &= \tanh\left(W_{n} x_t + U_{n} \left(z_t \odot h_{t-1}\right) + b_{n}\right) \\",
        r"h_t &= \left(1 - z_t\right) \odot h_{t-1} + z_t \odot n_t",
        r"\end{aligned}",
    ]


def test_the_tours_measurements(printed: list[str]) -> None:
    text = "\n".join(printed)
    mean, difference = (
        float(re.findall(rf"^{words}: (\S+)$", text, re.MULTILINE)[0])
        for words in ("mean of z in sequence 0", "largest difference")
    )
    assert 0.4 < mean < 0.6  # σ of small weights
    assert difference < 2e-6


def test_the_tours_mistake(printed: list[str]) -> None:
    (line,) = (line for line in printed if "Did you mean 'lstm'?" in line)
    assert line.startswith("`cell` (='lstn') is not known.")


def load_tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("run_readme", TOOL)
    assert specification is not None
    assert specification.loader is not None
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    return tool


def test_every_block_of_python_is_in_the_tour() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(load_tool().tour(text)) == text.count("```python\n") > 0


def run_text(text: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The tool's exit code for another README."""
    path.write_text(text, encoding="utf-8")
    tool = load_tool()
    monkeypatch.setattr(tool, "README", path)
    code: int = tool.main()
    return code


SHORT = """Words.
<!-- tour -->
Read.
```python
from pathlib import Path
book = Path("book.txt").read_text()
```
Count.
```python
print("characters:", len(book))
```
<!-- end of tour -->
"""


BREAKS = {  # what is replaced by what
    "NameError": ("len(book)", "len(books)"),
    "ZeroDivisionError": ("from pathlib", "1 / 0; from pathlib"),
    "SyntaxError": ("len(book)", "len(book"),
    "FileNotFoundError": ("book.txt", "another.txt"),
}


@pytest.mark.parametrize("error", BREAKS)
def test_a_broken_block_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: str,
) -> None:
    assert run_text(SHORT.replace(*BREAKS[error]), tmp_path / "README.md", monkeypatch) == 1
    out, err = capsys.readouterr()
    assert error in err
    assert "Next:" not in out


def test_blocks_run_in_order_beside_a_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that the failures above come from the blocks; and the tool leaves the folder that it ran in."""
    before = Path.cwd()
    assert run_text(SHORT, tmp_path / "README.md", monkeypatch) == 0
    shown = 'Count.\n\n    print("characters:", len(book))\n\ncharacters: 60000\n'
    assert shown in capsys.readouterr().out
    assert Path.cwd() == before


def test_the_cell_can_be_trained_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--cell mine.py:Minimal`, with the README's own class; afterwards the file is not needed."""
    text = README.read_text(encoding="utf-8")
    (source,) = (block for _, block in load_tool().tour(text) if "class Minimal" in block)
    assert "--cell mine.py:Minimal" in text
    monkeypatch.chdir(tmp_path)
    load_tool().write_book(tmp_path)
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    small = ("--hidden", 8, "--steps", 2, "--eval-limit", 1000, "--quiet")
    assert call("train", "book.txt", "--cell", "mine.py:Minimal", *small) == 0
    (tmp_path / "mine.py").unlink()
    assert (tmp_path / "runs" / "book" / "cell.json").is_file()
    capsys.readouterr()
    assert call("generate", "runs/book", "--count", 20, "--seed", 0) == 0
    assert len(capsys.readouterr().out.strip("\n")) > 0


def test_pictures_are_small_and_whole() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert len(pictures) == 3
    for name in pictures:
        content = (ROOT / name).read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert content.endswith(b"IEND\xaeB`\x82")
        assert len(content) < LARGEST_PICTURE


def test_the_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = dict(re.findall(r"^([\w-]+):.*\n((?:\t.*\n)*)", makefile, re.MULTILINE))
    commands = set(re.findall(r"make ([\w-]+)", README.read_text(encoding="utf-8")))
    assert {"demo", "tour", "test", "test-long"} <= commands <= set(targets)
    assert TOOL.name in targets["tour"]
    assert "unspool demo" in targets["demo"]
    assert "$(TEST)" in targets["test"]
