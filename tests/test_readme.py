"""The README's tour runs as printed, prints what is true, and its commands exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TOOL = ROOT / "tools" / "run_readme.py"


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The lines that the tour's blocks print: all but the words and the indented source that the tool shows."""
    done = subprocess.run([sys.executable, "-W", "error", str(TOOL)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line and not line.startswith("    ")]


def test_the_tours_numbers(printed: list[str]) -> None:
    z, n = 128 * (64 + 1), 128 * (64 + 128 + 1)  # W_z, b_z; W_n, U_n, b_n
    assert f"parameters: {z + n}" in printed
    assert "output (10, 3, 128) · state (3, 128) · named values ['z', 'n', 'h']" in printed
    assert f"row 1 is over after 4 steps: {[True] * 4 + [False] * 6}" in printed
    assert "stack: (10, 3, 48)" in printed
    assert "now ours: ['0']" in printed


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
        for words in ("mean of z over row 0", "largest difference")
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


def run_copy(path: Path, change: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The tool's exit code for a changed README."""
    text = README.read_text(encoding="utf-8")
    path.write_text(change(text), encoding="utf-8")
    tool = load_tool()
    monkeypatch.setattr(tool, "README", path)
    code: int = tool.main()
    return code


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("sigmoid(self", "sigmoidal(self", "NameError"),
        ("lengths=[10, 4, 0]", "lengths=[10, 4, 11]", "ArgumentError"),
        ("import torch\n", "import torch as\n", "SyntaxError"),
        ("import unspool\n", "import unspool; 1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_a_broken_block_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    error: str,
) -> None:
    assert old in README.read_text(encoding="utf-8")
    assert run_copy(tmp_path / "README.md", lambda text: text.replace(old, new), monkeypatch) == 1
    out, err = capsys.readouterr()
    assert error in err
    assert "Next:" not in out


def test_a_shortened_tour_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that the failures above come from the blocks and not from the copy."""
    short = "<!-- tour -->\nAdd.\n```python\nprint(1 + 1)\n```\n<!-- end of tour -->"
    assert run_copy(tmp_path / "README.md", lambda _: short, monkeypatch) == 0
    assert "    print(1 + 1)\n\n2\n" in capsys.readouterr().out


def test_the_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = dict(re.findall(r"^([\w-]+):.*\n((?:\t.*\n)*)", makefile, re.MULTILINE))
    commands = set(re.findall(r"make ([\w-]+)", README.read_text(encoding="utf-8")))
    assert {"demo", "tour", "test", "test-long"} <= commands <= set(targets)
    assert TOOL.name in targets["tour"]
    assert "unspool demo" in targets["demo"]
    assert "$(TEST)" in targets["test"]
