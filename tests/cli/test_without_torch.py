"""generate, predict and evaluate where torch is not installed: what is printed, said and returned is the same as where
it is, up to the rounding of numbers; and every mistake is one line."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cli.calling import call
from tests.runs.small_folders import OPTIONS, OWN, TASKS, Minimal, write_data

from unspool.cli.evaluate import relative_change
from unspool.errors import EXTRAS
from unspool.learning.files import read_tensors, write_tensors
from unspool.runs.train import train

ROOT = Path(__file__).parents[2]
#: The command line's own package brings pydantic; unspool must not need it there.
MISSING = tuple(name for name in EXTRAS["train"] if name != "pydantic")
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
TEXTS = ("red hot", "blue cold hot")

#: Runs commands, given as JSON, where some packages are missing, and pydantic is for unspool.
CALLS = """
import builtins, contextlib, io, json, sys, traceback

missing = sys.argv[1].split()
sys.modules.update(dict.fromkeys(missing))
real = builtins.__import__

def without_pydantic(name, globals=None, locals=None, fromlist=(), level=0):
    if name.split(".")[0] == "pydantic" and (globals or {}).get("__name__", "").startswith("unspool"):
        raise ModuleNotFoundError("No module named 'pydantic'", name="pydantic")
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = without_pydantic
from unspool.cli.main import main

found = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as left:
            code = left.code
        except BaseException:
            code = traceback.format_exc()
    found.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""


class Said(NamedTuple):
    """What a command leaves behind."""

    code: int | str
    out: str
    err: str


class Small(NamedTuple):
    """A run, its training data, and new data without targets."""

    run: Path
    training: Path
    new: Path


def call_all(commands: Sequence[Sequence[object]], missing: Sequence[str], cache: Path) -> list[Said]:
    """Run commands in one other process, where packages are missing; where none is, in this one, which has torch."""
    words = [[str(word) for word in command] for command in commands]
    own = {"UNSPOOL_ENGINE": "off", "UNSPOOL_CACHE": str(cache)}  # nothing has to be compiled
    if not missing:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in own.items():
                patch.setenv(name, value)
            return [call_here(one) for one in words]
    done = subprocess.run(
        [sys.executable, "-c", CALLS, " ".join(missing)],
        input=json.dumps(words),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **own},
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return [Said(*one) for one in json.loads(done.stdout)]


def call_here(words: Sequence[str]) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = call(*words)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("without torch")


@pytest.fixture(scope="module")
def runs(folder: Path) -> Mapping[str, Small]:
    """A run of every task, and one of a user's cell."""
    return {task: make_run(folder / task, task) for task in TASKS}


def make_run(folder: Path, task: str) -> Small:
    folder.mkdir()
    training, new = write_data(folder, task)
    own = {**OWN.get(task, {}), "engine": "torch"} if task != "own cell" else {**OWN[task], "cell": Minimal}
    train(training, out=folder / "run", quiet=True, **{**OPTIONS, **own, "task": "lm" if task == "own cell" else task})
    return Small(folder / "run", training, new)


def commands_of(small: Small) -> list[list[object]]:
    """Every command on a run; those that its task has not are refused."""
    texts = [word for text in TEXTS for word in ("--text", text)]
    return [
        *(["generate", small.run, "--seed", 1, "--count", 30, "--prompt", "the œ", "--top-k", 5],),
        *(["generate", small.run, "--beam", 2, "--count", 6],),
        *(["predict", small.run, small.new], ["predict", small.run, small.new, "--json"]),
        *(["predict", small.run, *texts], ["predict", small.run, *texts, "--top", 2]),
        *(["evaluate", small.run], ["evaluate", small.run, small.training, "--json"]),
    ]


def assert_same(found: Said, expected: Said) -> None:
    """Equal but for the rounding of numbers."""
    assert found.code == expected.code
    assert found.err == expected.err
    assert NUMBER.sub("#", found.out) == NUMBER.sub("#", expected.out)
    numbers = [[float(one.replace(",", "")) for one in NUMBER.findall(said.out)] for said in (found, expected)]
    assert numbers[0] == pytest.approx(numbers[1], rel=2e-5, abs=1e-4 if "·" in found.out else 1e-6)


def test_every_command_on_every_task_is_as_with_torch(runs: Mapping[str, Small], folder: Path) -> None:
    commands = [command for small in runs.values() for command in commands_of(small)]
    tables = tuple(name for name in MISSING if name != "polars")
    pairs = zip(call_all(commands, tables, folder / "a"), call_all(commands, (), folder / "b"), strict=True)
    for command, (found, expected) in zip(commands, pairs, strict=True):
        print(*command)  # for the report of a failure
        assert_same(found, expected)
    codes = [found.code for found in call_all(commands_of(runs["lm"]), MISSING, folder / "c")]
    assert codes == [0, 0, 2, 2, 2, 2, 0, 0]


def test_a_table_needs_the_package_that_reads_it_and_text_needs_none(runs: Mapping[str, Small], folder: Path) -> None:
    lines = folder / "lines.txt"
    lines.write_text("red hot\ncold\n")
    classify, tag = runs["classify"], runs["tag"]
    commands: list[list[object]] = [
        *(["predict", classify.run, classify.new], ["evaluate", classify.run, classify.training]),
        *(["evaluate", classify.run], ["predict", classify.run, lines], ["predict", classify.run, "--text", "red hot"]),
        *(["predict", tag.run, tag.new], ["evaluate", tag.run], ["predict", tag.run, tag.new, "--states", "x.npz"]),
    ]
    found = call_all(commands, MISSING, folder / "d")
    for said, path in zip(found[:3], (classify.new, classify.training, classify.training), strict=True):
        assert said == (1, "", f"error: reading {path} needs polars: pip install 'unspool[train]'\n")
    for said, expected in zip(found[3:7], call_all(commands[3:7], (), folder / "d"), strict=True):
        assert expected.code == 0
        assert_same(said, expected)
    assert found[7] == (1, "", "error: unspool predict --states needs torch: pip install 'unspool[train]'\n")


def test_runs_that_cannot_be_used_are_refused_in_one_line(runs: Mapping[str, Small], folder: Path) -> None:
    small = runs["lm"]
    broken = {name: folder / name for name in ("unfinished", "damaged", "newer", "diverged", "no network")}
    for path in broken.values():
        shutil.copytree(small.run, path)
    (broken["unfinished"] / "model.safetensors").unlink()
    (broken["no network"] / "network.json").unlink()
    weights = broken["damaged"] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    config = broken["newer"] / "config.toml"
    config.write_text(re.sub(r"^format = \d+", "format = 99", config.read_text(), flags=re.MULTILINE))
    tensors, facts = read_tensors(broken["diverged"] / "model.safetensors")
    tensors["head"][0, 0] = float("nan")
    write_tensors(broken["diverged"] / "model.safetensors", tensors, facts)
    names = ("unfinished", "damaged", "newer", "diverged")
    places = [*(broken[name] for name in names), folder / "nowhere", folder]
    commands: list[list[object]] = [
        command
        for path in places
        for command in (["generate", path], ["predict", path, small.new], ["evaluate", path, small.new])
    ]
    pairs = zip(call_all(commands, MISSING, folder / "e"), call_all(commands, (), folder / "e"), strict=True)
    for command, (found, expected) in zip(commands, pairs, strict=True):
        assert found == expected, command
        assert (found.code, found.out) == (1 if command[1] == broken["diverged"] else 2, "")
        assert found.err.startswith("error: ")
        assert found.err.count("\n") == 1
    (found,) = call_all([["generate", broken["no network"]]], MISSING, folder / "e")
    assert found.code == 2
    assert "has no network.json" in found.err
    assert "resume it with --resume" in found.err


def test_the_run_s_own_data_that_is_gone_or_other(runs: Mapping[str, Small], folder: Path) -> None:
    small, text = runs["own cell"], runs["own cell"].training.read_text()
    outcomes = []
    for changed in (text.replace("lazy", "idle"), None):
        small.training.write_text(changed) if changed else small.training.unlink()
        both = [call_all([["evaluate", small.run]], missing, folder / "f")[0] for missing in (MISSING, ())]
        assert both[0] == both[1]
        outcomes.append(both[0])
    small.training.write_text(text)
    assert [said.code for said in outcomes] == [2, 2]
    assert "the run's own data has changed since training" in outcomes[0].err
    assert "the run's own data cannot be read: there is no file" in outcomes[1].err


def test_eight_bits(runs: Mapping[str, Small], folder: Path) -> None:
    small = runs["classify"]
    commands: list[list[object]] = [
        *(["evaluate", small.run], ["evaluate", small.run, "--int8"], ["evaluate", small.run, "--int8", "--json"]),
        *(["predict", small.run, "--text", "red hot"], ["predict", small.run, "--text", "red hot", "--int8"]),
        *(["generate", runs["lm"].run, "--seed", 1, "--count", 30, "--int8"],),
        *(["predict", small.run, small.new, "--states", "x.npz", "--int8"],),
    ]
    plain, both, lines, predicted, rounded, text, states = call_all(commands, (), folder / "g")
    assert [said.code for said in (plain, both, lines, predicted, rounded, text)] == [0] * 6
    first, second, third = both.out.splitlines()
    assert f"{first}\n" == plain.out
    assert second.startswith("validation, int8: loss ")
    before, after = map(json.loads, lines.out.splitlines())
    assert (before["data"], after["data"], after["int8"]) == ("validation", "validation", True)
    change = after["loss"] / before["loss"] - 1
    assert 0 < abs(change) < 0.01
    assert after["loss_change"] == pytest.approx(change, rel=1e-6)
    assert third == f"validation, int8: the loss changes by {100 * change:+.2g} %"
    assert predicted.out.splitlines()[0] == rounded.out.splitlines()[0]
    assert predicted.out != rounded.out
    assert text.out.endswith("\n")
    assert states.code == 2
    assert "is about predictions" in states.err
    assert call_all(commands[1:3], tuple(name for name in MISSING if name != "polars"), folder / "g") == [both, lines]


@pytest.mark.parametrize(
    ("before", "after", "change"), [(2.0, 2.5, 0.25), (2.0, 1.0, -0.5), (0.0, 1.0, None), (None, None, None)]
)
def test_a_relative_change(before: float | None, after: float | None, change: float | None) -> None:
    assert relative_change(before, after) == change
