"""Compiling and keeping kernels: what is damaged is built again, and what cannot be built is said and run eagerly."""

from __future__ import annotations

import os
import platform
import re
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import assert_agree, by_kernel, by_loop, draw, needs_compiler, ragged
from tests.variants import VARIANTS

from unspool.engine import build
from unspool.engine.emit import emit
from unspool.errors import BuildError
from unspool.nn.recurrent import Recurrent
from unspool.nn.unroll import unroll

pytestmark = [needs_compiler, pytest.mark.usefixtures("compiling", "own_cache")]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache and a place for temporary files of the test's own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    build._temporary_folder.cache_clear()
    yield
    build._temporary_folder.cache_clear()


def answering(number: int) -> str:
    """A source that compiles at once."""
    return f'extern "C" __attribute__((visibility("default"))) int answer() {{ return {number}; }}\n'


def answer(number: int) -> bool:
    return bool(build.load(answering(number)).answer() == number)


def in_child(work: Callable[[], bool]) -> ForkProcess:
    """A process that does some work; it dies alone where a damaged library kills it."""

    def finish() -> None:
        sys.exit(0 if work() else 1)

    process = get_context("fork").Process(target=finish)
    process.start()
    return process


def outcome(process: ForkProcess) -> int | None:
    process.join(60)
    return process.exitcode


def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make this script the system's compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    file = folder / "c++"
    file.write_text(script)
    file.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def runs_eagerly(why: str) -> None:
    """A layer computes without a kernel, with one warning that gives the reason, however often it is called."""
    call = draw(VARIANTS["elman"], 3, 2, 3, 4)
    layer = call.layer
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            output, _ = layer(call.x, call.states[0])
    expected, *_ = unroll(layer.step, layer.cell_parameters(), call.x, call.states)
    assert torch.equal(output, expected)
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert "Elman runs eagerly" in str(caught[0].message)
    assert why in str(caught[0].message)
    assert layer.engine.startswith("eager: ")
    assert why in layer.engine


def test_a_library_is_compiled_once_and_kept_privately(tmp_path: Path) -> None:
    assert answer(1)
    folder = tmp_path / "cache"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (library,) = folder.iterdir()
    made = library.stat()
    assert not made.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    build._load.cache_clear()
    assert answer(1)
    assert (library.stat().st_ino, library.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)
    assert list(folder.iterdir()) == [library]


def test_what_a_library_depends_on_is_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'extern "C" __attribute__((visibility("default"))) int answer() { return NUMBER; }\n'
    assert build.load(source, "NUMBER=2").answer() == 2
    assert build.load(source, "NUMBER=3").answer() == 3
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g"))
    build._load.cache_clear()
    assert build.load(source, "NUMBER=2").answer() == 2
    monkeypatch.setattr(build, "_headers", lambda: b"other headers")
    build._load.cache_clear()
    assert build.load(source, "NUMBER=2").answer() == 2
    assert len(list((tmp_path / "cache").iterdir())) == 4


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "text": lambda _: b"not a library",
    "one byte short": lambda whole: whole[:-1],
    "half": lambda whole: whole[: len(whole) // 2],
    "an eighth": lambda whole: whole[: len(whole) // 8],
    "zeros at the end": lambda whole: whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2),
    "zeros in the middle": lambda whole: whole[:4096] + bytes(4096) + whole[8192:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_library_is_built_again(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    assert outcome(in_child(lambda: answer(4))) == 0
    (library,) = (tmp_path / "cache").iterdir()
    whole = library.read_bytes()
    library.write_bytes(damage(whole))
    assert outcome(in_child(lambda: answer(4))) == 0
    assert library.read_bytes() == whole


COMMON = 'extern "C" int twice(int number) { return 2 * number; }\n'
LINKED = """
#if !UNSPOOL_LINKED
#error "not linked"
#endif
extern "C" int twice(int);
extern "C" __attribute__((visibility("default"))) int answer() { return twice(NUMBER); }
"""


def twice(number: int) -> bool:
    return bool(build.load(LINKED, f"NUMBER={number}", common=COMMON).answer() == 2 * number)


def test_what_libraries_have_in_common_is_compiled_once(tmp_path: Path) -> None:
    with patch("subprocess.run", wraps=subprocess.run) as ran:
        assert twice(3)
        assert twice(4)
    assert sum("-c" in command.args[0] for command in ran.call_args_list) == 3
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".o", ".so", ".so"]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_they_have_in_common_is_built_again_if_it_is_damaged(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    assert twice(5)
    (common,) = (tmp_path / "cache").glob("*.o")
    whole = common.read_bytes()
    common.write_bytes(damage(whole))
    assert twice(6)
    assert common.read_bytes() == whole


def test_what_cannot_be_linked_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="failed on the kernel"):
        build.load(LINKED, "NUMBER=7", common='extern "C" int twice(int) { return }')
    with pytest.raises(BuildError, match="twice"):
        build.load(LINKED, "NUMBER=7", common="int other;")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("speed", ["soon", pytest.param("optimised", marks=pytest.mark.long)])
def test_the_products_are_the_same_linked_and_not(speed: str, tmp_path: Path) -> None:
    """What a kernel leaves out with UNSPOOL_LINKED is all in what it is linked to, and computes the same bits."""
    calls = [draw(VARIANTS["lstm"], 7, 13, 9, 33, lengths=ragged(7, 13)) for _ in range(2)]
    linked = by_kernel(calls[0], 2)
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    build._load.cache_clear()
    with patch("unspool.engine.kernel.emit_products", return_value=""):
        alone = by_kernel(calls[1], 2)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".so"]
    assert all(torch.equal(value, alone[name]) for name, value in linked.items())


def test_processes_that_build_at_once_both_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits, within its compiler, until the other compiles too."""
    meeting, real = tmp_path / "meeting", build.find_compiler()
    meeting.mkdir()
    arrive, wait = f"touch {meeting}/$$", f'until [ "$(ls {meeting} | wc -l)" -ge 2 ]; do sleep 0.05; done'
    compiler(tmp_path, monkeypatch, f'#!/bin/sh\n{arrive}\n{wait}\nexec {real} "$@"\n')
    both = [in_child(lambda: answer(7)) for _ in range(2)]
    assert [outcome(process) for process in both] == [0, 0]
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".so"]


def test_threads_that_build_at_once_compile_once() -> None:
    with patch.object(build, "compile_library", wraps=build.compile_library) as compiled, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(answer, [6] * 8))
    assert compiled.call_count == 1


@pytest.mark.parametrize("how", ["cannot be made", "cannot be written", "is nobody's"])
def test_without_a_place_to_keep_them_kernels_are_built_anyway(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "cannot be made":
        (tmp_path / "file").touch()
        monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "file" / "cache"))
    elif how == "cannot be written":
        may = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / "cache" and may(path, mode))
    else:  # a user without a home, as in a container
        monkeypatch.delenv("UNSPOOL_CACHE")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert answer(8)
        assert answer(9)
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert "not kept" in str(caught[0].message)
    assert len(list((tmp_path / "temporary").glob("*/*.so"))) == 2
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())


def test_a_temporary_folder_goes_with_its_process(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    script = "from unspool.engine import build; build.load('')"
    folders = {"UNSPOOL_CACHE": str(tmp_path / "file" / "cache"), "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | folders, text=True, capture_output=True, check=True
    )
    assert f"kernels are built in {tmp_path / 'temporary'}" in done.stderr
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777], ids=oct)
def test_a_folder_that_others_can_write_is_refused(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(BuildError, match="can be written by others.*chmod 700"):
        answer(11)
    runs_eagerly(f"{folder}, can be written by others")
    assert not list(folder.iterdir())


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(BuildError, match="cannot be trusted"):
        answer(12)
    runs_eagerly("cannot be trusted")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho 'sorry, no licence' >&2\nexit 3\n", "sorry, no licence"),
        ("#!/bin/sh\nprintf 'caf\\351 ferm\\351' >&2\nexit 1\n", "ferm"),
        ("#!/bin/sh\nkill -9 $$\n", "failed"),
        ("not a program\n", "c++"),
        ("#!/nowhere/interpreter\n", "c++"),
        ("#!/bin/sh\nexit 0\n", "c++"),
        ('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho nonsense > "$2"\n', "c++"),
    ],
    ids=[
        "message",
        "message in latin-1",
        "killed",
        "not a program",
        "no interpreter",
        "writes nothing",
        "writes nonsense",
    ],
)
def test_a_compiler_that_fails(script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, monkeypatch, script)
    with pytest.raises(BuildError, match=re.escape(said)):
        answer(13)
    runs_eagerly(said)
    assert not list((tmp_path / "cache").iterdir())


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BuildError, match="No space left"):
        answer(14)
    runs_eagerly("No space left")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.find_compiler() is None
    with pytest.raises(BuildError, match="no C\\+\\+ compiler .* is on PATH. Install one"):
        answer(15)
    runs_eagerly("no C++ compiler (c++, g++ or clang++) is on PATH")


@pytest.mark.parametrize("word", ["off", "OFF"])
def test_switched_off(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", word)
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing is compiled, so nothing is missed
    call = draw(VARIANTS["elman"], 3, 2, 3, 4)
    output, _ = call.layer(call.x, call.states[0])
    expected, *_ = unroll(call.layer.step, call.layer.cell_parameters(), call.x, call.states)
    assert torch.equal(output, expected)
    assert call.layer.engine == "eager: UNSPOOL_ENGINE=off"
    assert not (tmp_path / "cache").exists()


def test_switched_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    layer = Recurrent("elman", 3, 4)
    assert layer.engine == "eager: UNSPOOL_ENGINE=off"
    monkeypatch.setenv("UNSPOOL_ENGINE", "on")
    assert layer.engine.startswith("kernel")


AVX2 = "avx avx2 fma bmi1 bmi2 abm movbe f16c"


@pytest.mark.parametrize(
    ("machine", "flags", "found"),
    [
        ("x86_64", f"fpu {AVX2} avx512f avx512bw avx512cd avx512dq avx512vl", "avx512"),
        ("x86_64", f"fpu {AVX2} avx512f", "avx2"),
        ("AMD64", f"fpu {AVX2}", "avx2"),
        ("x86_64", f"fpu {AVX2.replace('fma ', '')} avx512f avx512bw avx512cd avx512dq avx512vl", "baseline"),
        ("AMD64", "fpu avx avx2", "baseline"),
        ("x86_64", None, "baseline"),
        ("aarch64", "fp asimd", "baseline"),
        ("aarch64", f"fp {AVX2}", "baseline"),
    ],
)
def test_instruction_sets(machine: str, flags: str | None, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def cpuinfo(*_: object, **__: object) -> str:
        if flags is None:
            raise FileNotFoundError
        return f"processor\t: 0\nflags\t\t: {flags}\n"

    with monkeypatch.context() as here:
        here.setattr("platform.machine", lambda: machine)
        here.setattr(Path, "read_text", cpuinfo)
        build.instruction_set.cache_clear()
        assert build.instruction_set() == found
        assert found in build.instruction_sets()
    build.instruction_set.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.long)], ids=str)
def test_plain_vectors_compute_the_same(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a processor of another make gets: no instruction set is asked for."""
    monkeypatch.setattr(build, "instruction_set", lambda: "baseline")
    call = draw(VARIANTS["NormalisedLSTM"], 5, 13, 3, 17, lengths=ragged(5, 13))
    exact = by_loop(call)
    assert_agree(by_kernel(call.to(dtype), 2), exact, 1e-11 if dtype == torch.float64 else 1e-5)


def test_the_widest_instruction_set_compiles(tmp_path: Path) -> None:
    if build.find_compiler() is None or platform.machine() != "x86_64":
        pytest.skip("only a compiler for x86 knows it")
    flags = build.compiler_flags("avx512", ("UNSPOOL_REAL=float", "UNSPOOL_TRACE=0"))
    source = emit(VARIANTS["ThreeStates"].equations())
    build.compile_library(source, str(build.find_compiler()), flags, tmp_path / "kernel.so")
    assert (tmp_path / "kernel.so").stat().st_size > 0
