"""Kernels in the wheel: built-in cells need no compiler, and only what fits, and is whole, is ever loaded."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from tests.engine.agreement import needs_compiler

from unspool import nn
from unspool.cells import CATALOGUE, document
from unspool.cli import check
from unspool.engine import build, prebuilt, wheel
from unspool.engine.emit import emit
from unspool.errors import BuildError, UnknownNameError

ROOT = Path(__file__).parent.parent.parent
DEFINES = ("UNSPOOL_REAL=float", "UNSPOOL_TRACE=0")


def answering(answer: int | str) -> str:
    """A kernel that only answers; WIDTH is that of the vectors it was compiled for."""
    return f"""
#if defined __AVX512F__
#define WIDTH 512
#elif defined __AVX2__
#define WIDTH 256
#else
#define WIDTH 128
#endif
extern "C" __attribute__((visibility("default"))) int unspool_forward() {{ return {answer}; }}
"""


def ask(answer: int | str) -> int:
    return int(build.load(answering(answer), *DEFINES).unspool_forward())


def ship(folder: Path, instructions: str, *answers: int | str) -> Path:
    """A library of such kernels, as it would come with a wheel."""
    wheel.compile_one(folder, [answering(answer) for answer in answers], instructions, "float", 0)
    (library,) = (folder / instructions).iterdir()
    return library


@pytest.fixture
def folder(compiling: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of shipped kernels, empty; so is the cache."""
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path / "kernels")
    return tmp_path / "kernels"


def hide_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: None)


@needs_compiler
def test_a_shipped_kernel_is_used_without_a_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ship(folder, build.instruction_set(), 1, 2)
    hide_compiler(monkeypatch)
    assert [ask(1), ask(2)] == [1, 2]
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        ask(3)
    assert not list((folder.parent / "cache").iterdir())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda whole: whole[: len(whole) // 2],
    "one byte short": lambda whole: whole[:-1],
    "one bit": lambda whole: whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:],
    "signed, but no library": lambda _: hashlib.sha256(b"").digest(),
}


def spoil(library: Path, content: bytes) -> None:
    """Replace a library: whoever has the old one loaded keeps it, as its end would crash without it."""
    library.unlink()
    library.write_bytes(content)


@needs_compiler
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_library_is_not_loaded(
    damage: Callable[[bytes], bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ship(folder, build.instruction_set(), 1)
    spoil(library, damage(library.read_bytes()))
    assert ask(1) == 1  # compiled here
    assert len(list((folder.parent / "cache").iterdir())) == 1
    build._load.cache_clear()
    hide_compiler(monkeypatch)
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        ask(1)


@needs_compiler
@pytest.mark.parametrize("what", ["FLAGS", "_headers"])
def test_a_stale_library_is_not_used(what: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = ship(folder, build.instruction_set(), 1)
    monkeypatch.setattr(build, what, (*build.FLAGS, "-g") if what == "FLAGS" else lambda: b"other headers")
    hide_compiler(monkeypatch)
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        ask(1)
    name = stale.parent.name
    shutil.copy(stale, build.shipped_path(folder, name, build.compiler_flags(name, DEFINES)))
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        ask(1)


@needs_compiler
def test_what_check_says(folder: Path) -> None:
    assert check.shipped().value.startswith("none")
    library = ship(folder, build.instruction_set(), 1)
    whole = library.read_bytes()
    for damage, said in (("half", "damaged"), ("signed, but no library", "cannot be loaded")):
        spoil(library, DAMAGES[damage](whole))
        assert said in check.shipped().value
        assert not check.shipped().ok
        assert check.shipped().remedy
    spoil(library, whole)
    assert check.shipped().value.startswith(f"1 libraries for {build.instruction_set()}")
    assert check.shipped().ok


needs_x86 = pytest.mark.skipif(len(build.instruction_sets()) == 1, reason="there is one instruction set here")


@needs_compiler
@needs_x86
def test_the_library_of_the_processors_instruction_set_is_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for instructions in build.instruction_sets():
        ship(folder, instructions, "WIDTH")
    hide_compiler(monkeypatch)
    for instructions, width in {"baseline": 128, "avx2": 256, "avx512": 512}.items():
        monkeypatch.setattr(build, "instruction_set", lambda chosen=instructions: chosen)
        build._load.cache_clear()
        assert ask("WIDTH") == width


@needs_compiler
@needs_x86
def test_a_library_for_a_wider_instruction_set_is_never_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wider = ship(folder, "avx512", "WIDTH")
    hide_compiler(monkeypatch)
    monkeypatch.setattr(build, "instruction_set", lambda: "avx2")
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        ask("WIDTH")
    narrower = build.shipped_path(folder, "avx2", build.compiler_flags("avx2", DEFINES))
    narrower.parent.mkdir()
    shutil.copy(wider, narrower)
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        ask("WIDTH")


def test_the_drop_ins_and_the_catalogue_are_among_the_sources() -> None:
    sources = wheel.sources()
    for name, bias in product(CATALOGUE, (True, False)):
        equations = CATALOGUE[name]().equations(bias)
        assert emit(equations) in sources
        assert emit(document.load(document.dump(equations))) in sources  # as torch's compiler hands it over
    for bias in (True, False):
        layers = (
            *(nn.RNN(3, 4, bias=bias, nonlinearity=phi) for phi in ("tanh", "relu")),
            *(nn.GRU(3, 4, bias=bias, reset=reset) for reset in ("before", "after")),
            *(nn.LSTM(3, 4, bias=bias, proj_size=width) for width in (0, 2, 3)),
        )
        for layer in layers:
            assert emit(layer.cell.equations(bias)) in sources


def test_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(wheel.cells()) > set(CATALOGUE)
    assert wheel.instruction_sets() == list(build.instruction_sets())
    monkeypatch.setenv("UNSPOOL_WHEEL_CELLS", "lstm gru")
    assert wheel.cells() == ["lstm", "gru"]
    assert len(wheel.sources()) == 4
    monkeypatch.setenv("UNSPOOL_WHEEL_INSTRUCTIONS", "avx3")
    with pytest.raises(UnknownNameError, match="UNSPOOL_WHEEL_INSTRUCTIONS.*baseline"):
        wheel.instruction_sets()
    monkeypatch.setenv("UNSPOOL_WHEEL_CELLS", "")
    monkeypatch.setenv("UNSPOOL_WHEEL_INSTRUCTIONS", "baseline")
    assert "UNSPOOL_WHEEL_CELLS" in wheel.why_none()
    monkeypatch.setenv("UNSPOOL_WHEEL_CELLS", "lstm")
    hide_compiler(monkeypatch)
    assert "no C++ compiler" in wheel.why_none()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert build.instruction_sets() == ("baseline",)


def make_wheel(folder: Path, optimized: bool = True, **environment: str) -> Path:
    """The wheel, built from a copy of the sources with what is installed here.

    Without the optimizer it is there in a fraction of the time, and has the same parts.
    """
    source = folder / "source"
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    if not optimized:
        flags = source / "src" / "unspool" / "engine" / "build.py"
        text = flags.read_text("utf-8")
        assert text.count('"-O2"') == 1
        flags.write_text(text.replace('"-O2"', '"-O0"'), "utf-8")
    command = ["wheel", "--verbose", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    (folder / "said").write_text(pip(*command, **environment))
    (made,) = folder.glob("*.whl")
    return made


def pip(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return run(command, os.environ | environment)


def run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def without_compiler(folder: Path, made: Path, *arguments: str) -> str:
    """Run Python with the wheel installed, no program on PATH, and an empty cache."""
    for name in ("bin", "cache"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    if not (folder / "installed").exists():
        pip("install", "--quiet", "--no-deps", "--target", str(folder / "installed"), str(made))
    own = {"PATH": str(folder / "bin"), "UNSPOOL_CACHE": str(folder / "cache"), "PYTHONPATH": str(folder / "installed")}
    said = run([sys.executable, *arguments], {**os.environ, "UNSPOOL_ENGINE": "on", **own})
    assert not list((folder / "cache").iterdir()), "something was compiled"
    return said


CHECK = """
from unspool.cli.main import main
try:
    main(["check"])
except SystemExit as left:
    print("exit", left.code)
"""
LSTM_AND_OWN = """
import sys, warnings, torch, unspool
assert unspool.__file__.startswith(sys.argv[1]), unspool.__file__
warnings.simplefilter("error")

for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
    for bias in (True, False):
        torch.manual_seed(0)
        theirs = torch.nn.LSTM(5, 7, num_layers=2, bidirectional=True, bias=bias, dtype=dtype)
        ours = unspool.nn.LSTM(5, 7, num_layers=2, bidirectional=True, bias=bias, dtype=dtype)
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(6, 3, 5, dtype=dtype)
        results = []
        for model in (theirs, ours):
            output, (h, c) = model(x)
            parameters = list(model.parameters())
            results.append([output, h, c, *torch.autograd.grad(output.square().sum() + c.sum(), parameters)])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
        traced, _, values = ours(x, trace=True)
        torch.testing.assert_close(traced, results[0][0], rtol=tolerance, atol=tolerance)
        layer = unspool.nn.Recurrent("lstm", 5, 7, bias=bias, dtype=dtype)
        assert layer.engine.startswith("kernel"), layer.engine


class Own(unspool.Cell):
    def step(self, x, h):
        return unspool.tanh(self.linear("own", x, 0.5 * h))


layer = unspool.nn.Recurrent(Own, 5, 7)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        layer(torch.randn(6, 3, 5))
assert [str(warning.message) for warning in caught if "Own runs eagerly" in str(warning.message)], caught
assert len(caught) == 1, caught
assert layer.engine.startswith("eager: no C++ compiler"), layer.engine
"""


@needs_compiler
def test_a_wheel_of_one_cell(tmp_path: Path) -> None:
    instructions = build.instruction_set()
    wanted = {"UNSPOOL_WHEEL_CELLS": "lstm", "UNSPOOL_WHEEL_INSTRUCTIONS": instructions}
    made = make_wheel(tmp_path, optimized=False, **wanted)
    assert made.name.startswith("unspool-")
    assert "-py3-none-linux_" in made.name
    installed = str(tmp_path / "installed")
    without_compiler(tmp_path, made, "-c", LSTM_AND_OWN, installed)
    said = without_compiler(tmp_path, made, "-c", CHECK)
    assert f"4 libraries for {instructions}" in said
    assert "users' cells run eagerly" in said
    assert re.search(r"✓ layer: LSTM +kernel: float32 on the CPU", said)
    assert re.search(r". layer: GRU +torch's own: no C\+\+ compiler", said)  # this wheel has no kernel of it
    assert said.endswith("exit 1\n")


def test_without_a_compiler_a_wheel_is_pure_and_says_so(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, PATH=str(tmp_path))
    assert made.name.endswith("-py3-none-any.whl")
    said = (tmp_path / "said").read_text()
    assert "no C++ compiler (c++, g++ or clang++) is on PATH: this wheel has no kernels" in said


ALONE = """
import sys
from types import ModuleType
sys.path.insert(0, sys.argv[1])
sys.modules["unspool.engine"] = ModuleType("unspool.engine")
sys.modules["unspool.engine"].__path__ = [sys.argv[1] + "/unspool/engine"]
from unspool.engine import wheel
assert len(wheel.sources()) > 20
"""


def test_wheels_are_built_without_any_other_library() -> None:
    run([sys.executable, "-S", "-c", ALONE, str(ROOT / "src")], dict(os.environ))


EVERY_CELL = """
import itertools, torch
from unspool.engine import build, wheel
from unspool.nn import Recurrent
from unspool.nn.unroll import unroll

sets = ("baseline", "avx2", "avx512")
for chosen in sets[: sets.index(build.instruction_set()) + 1]:
    build.instruction_set = lambda: chosen
    build._load.cache_clear()
    for name, bias, dtype in itertools.product(wheel.CELLS, (True, False), (torch.float32, torch.float64)):
        layer = Recurrent(wheel.CELLS[name](), 7, 7, bias=bias, dtype=dtype)
        assert layer.engine.startswith("kernel"), (chosen, name, bias, dtype, layer.engine)
        x = torch.randn(6, 3, 7, dtype=dtype)
        widths = [layer.equations.size(width, 7, 7) for width in layer.equations.states.values()]
        expected, *_ = unroll(layer.step, layer.cell_parameters(), x, tuple(x.new_zeros(3, width) for width in widths))
        parameters = list(layer.parameters())
        gradients = torch.autograd.grad(expected.square().sum(), parameters)
        output, _ = layer(x)
        traced, _, _ = layer(x, trace=True)
        found = [output, traced, *torch.autograd.grad(output.square().sum(), parameters)]
        tolerance = 1e-5 if dtype == torch.float32 else 1e-12
        for a, b in zip(found, [expected, expected, *gradients], strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(b.detach().abs().max()))
print("all")
"""


@needs_compiler
@pytest.mark.long
def test_the_whole_wheel(tmp_path: Path) -> None:
    made = make_wheel(tmp_path)
    assert made.stat().st_size < 15e6
    assert without_compiler(tmp_path, made, "-W", "error", "-c", EVERY_CELL).split() == ["all"]
