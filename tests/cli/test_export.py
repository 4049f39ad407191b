"""unspool export: files that compile and agree with the run, or one clear line and nothing written."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser import fits, opened, wait_for

import unspool
from unspool.cli.main import main
from unspool.exchange.c.sizes import weigh
from unspool.runtime.run import read_run

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")
SMALL: dict[str, Any] = {"hidden": 8, "steps": 3, "batch_size": 4}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, a classifier of words and a forecaster, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "book.txt").write_text("the cat sat on the mat.\na dog ran.\n" * 200)
    pairs = "".join(f"good fine day{i % 5},pos\nbad poor day{i % 3},neg\n" for i in range(40))
    (folder / "words.csv").write_text("text,label\n" + pairs)
    values = "".join(f"{i},{10 + 3 * math.sin(i):.4f}\n" for i in range(120))
    (folder / "series.csv").write_text("time,value\n" + values)
    unspool.train(folder / "book.txt", out=folder / "book", tokenizer="char", **SMALL)
    unspool.train(folder / "words.csv", out=folder / "words", **SMALL)
    unspool.train(folder / "series.csv", out=folder / "series", task="forecast", horizon=4, season=1, **SMALL)
    return folder


def run(*arguments: Any) -> int:
    """The exit code of the command."""
    with pytest.raises(SystemExit) as left:
        main([*map(str, arguments)])
    return int(left.value.code or 0)


def build(folder: Path, name: str, *options: str) -> Path:
    """The program of an exported file."""
    command = ["gcc", *STRICT, *options, str(folder / f"{name}.c"), "-o", str(folder / name), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return folder / name


def answer(program: Path, text: str, *arguments: str) -> list[str]:
    said = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=True)
    return said.stdout.splitlines()


def predictions(capsys: pytest.CaptureFixture[str], *arguments: Any) -> list[list[str]]:
    """The table that `unspool predict` prints, without its head."""
    capsys.readouterr()
    assert run("predict", *arguments) == 0
    return [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]


def test_programs_predict_what_the_run_predicts(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", runs / "words", "--c", tmp_path / "words.c", "--main") == 0
    lines = ["good fine day1", "unseen Words bad"]
    (tmp_path / "asked.csv").write_text("\n".join(["text", *lines]) + "\n")
    expected = predictions(capsys, runs / "words", tmp_path / "asked.csv")
    found = answer(build(tmp_path, "words"), "\n".join(lines) + "\n")
    for line, row in zip(found, expected, strict=True):
        label, probability = line.split("\t")
        assert label == row[1]
        assert float(probability) == pytest.approx(max(map(float, row[2:])), abs=2e-6)
    assert run("export", runs / "series", "--c", tmp_path / "series.c", "--main") == 0
    expected = predictions(capsys, runs / "series", runs / "series.csv")
    past = [line.split(",")[1] for line in (runs / "series.csv").read_text().splitlines()[1:]]
    found = answer(build(tmp_path, "series"), "\n".join(past) + "\n")
    for line, row in zip(found, expected, strict=True):
        assert [*map(float, line.split("\t"))] == pytest.approx([*map(float, row[3:])], rel=1e-5)


def test_a_forecasting_program_refuses_what_it_cannot_use(runs: Path, tmp_path: Path) -> None:
    assert run("export", runs / "series", "--c", tmp_path / "series.c", "--main") == 0
    program = build(tmp_path, "series", "-fsanitize=address,undefined")
    past = "".join(f"{10 + i % 3}.5\n" for i in range(150))
    assert len(answer(program, past, "9")) == 9
    said = {}
    for text in ("nan", "1e39", "x", "", "1 2", "1" * 20_000_000):
        done = subprocess.run([program], input=f"{past}{text}\n{past}", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        said[text[:9]] = done.stderr
    assert said.pop("1" * 9) == "line 151 is longer than 16777216 bytes\n"
    assert {*said.values()} == {"line 151 does not have 1 finite number\n"}
    for asked in ("abc", "-1", "0", "99999999999999999999", "1000001"):
        done = subprocess.run([program, asked], input=past, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("usage: ")
    lookback = read_run(runs / "series").vocabulary["lookback"]
    assert len(answer(program, "1.5\n" * lookback)) == 4
    for count in (0, 1, lookback - 1):  # what `unspool predict` refuses as well
        done = subprocess.run([program], input="1.5\n" * count, capture_output=True, text=True, check=False)
        expected = f"the past needs at least {lookback} steps, and has {count}\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)


def test_a_language_model_in_all_forms(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ziglang")
    targets = ("--c", tmp_path / "book.c", "--main", "--wasm", tmp_path / "book.wasm", "--html", tmp_path / "book.html")
    assert run("export", runs / "book", *targets) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book.c", "book.h", "book.html", "book.wasm"]
    assert "book.wasm" in capsys.readouterr().out
    assert len("\n".join(answer(build(tmp_path, "book"), "", "50", "1", "7"))) == 50
    before = (tmp_path / "book.c").read_bytes(), (tmp_path / "book.wasm").read_bytes()
    assert run("export", runs / "book", *targets, "--overwrite") == 0
    assert ((tmp_path / "book.c").read_bytes(), (tmp_path / "book.wasm").read_bytes()) == before


def test_weights_of_eight_bits_in_a_file_of_their_own(runs: Path, tmp_path: Path) -> None:
    targets = ("--c", tmp_path / "my-book.c", "--int8", "--weights", "separate")
    assert run("export", runs / "book", *targets) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my-book.bin", "my-book.c", "my-book.h"]
    command = ["gcc", *STRICT, "-c", str(tmp_path / "my-book.c"), "-o", str(tmp_path / "my-book.o")]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{runs}/book"], "nothing to export"),
        (["{runs}/book", "--main"], "Give --c"),
        (["{runs}/book", "--c", "{here}/there.c"], "exists already. Give another, or --overwrite"),
        (["{runs}/book", "--c", "{here}"], "is a folder"),
        (["{runs}/book", "--c", "{here}/no/such/folder.c"], "there is no folder {here}/no/such. Make it"),
        (["{runs}/book", "--wasm", "{here}/there.c/x.wasm"], "there is no folder {here}/there.c. Make it"),
        (["{runs}/book", "--c", "/proc/x.c"], "Give a place that you may write to"),
        (["{runs}/nothing", "--c", "{here}/x.c"], "there is no run"),
        (["{here}/unfinished", "--c", "{here}/x.c"], "has no model yet"),
        (
            ["{runs}/book", "--c", "{here}/x.c", "--main", "--weights", "separate"],
            "Leave out --main or --weights separate",
        ),
        (["{runs}/book", "--c", "{here}/pipe", "--overwrite"], "a pipe or a socket. Give the name of a file"),
        (["{runs}/book", "--c", "{here}/y.c", "--onnx", "{here}/unfinished/../y.c"], "two files of this export"),
        (["{runs}/book", "--c", "{here}/y.h"], "two files of this export"),
        (["{runs}/book", "--c", "{here}/y.bin", "--weights", "separate"], "two files of this export"),
        (["{runs}/book", "--c", "{here}/stdio.c"], "a header stdio.h, which C itself has"),
        (["{runs}/book", "--c", "{here}/Math.c"], "a header Math.h, which C itself has"),
        (["{runs}/book", "--c", '{here}/a"b.c'], "which C cannot include"),
    ],
)
def test_bad_input_gives_one_line_and_no_file(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "there.c").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "config.toml").write_bytes((runs / "book" / "config.toml").read_bytes())
    before = sorted(tmp_path.rglob("*"))
    assert run("export", *(one.format(runs=runs, here=tmp_path) for one in arguments)) != 0
    said = capsys.readouterr().err
    assert message.format(here=tmp_path) in said
    assert len(said.strip().splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.c").read_text() == "mine"
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("stem", ["foo bar", "-", "é中", "my.book", "2%d@_x"])
def test_the_header_has_the_name_of_the_file(runs: Path, tmp_path: Path, stem: str) -> None:
    assert run("export", runs / "book", "--c", tmp_path / f"{stem}.c") == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{stem}.c", f"{stem}.h"}
    subprocess.run(["gcc", *STRICT, "-c", str(tmp_path / f"{stem}.c"), "-o", str(tmp_path / "out.o")], check=True)


def test_without_zig_one_line_says_what_to_install(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run("export", runs / "book", "--wasm", tmp_path / "x.wasm", "--c", tmp_path / "x.c") == 1
    assert "unspool[wasm]" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_large_model_says_how_to_have_less(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.cli.export.LARGE", 1_000)
    kept = read_run(runs / "words").network
    for int8 in (False, True):
        options = ["--int8"] if int8 else []
        inside, beside = tmp_path / f"in{int8}.c", tmp_path / f"out{int8}.c"
        assert run("export", runs / "words", "--c", inside, *options) == 0
        said = capsys.readouterr().out
        assert "which is slow to compile." in said
        assert "--weights separate keeps them in a file of" in said
        assert ("--int8 makes that" in said) is not int8
        assert run("export", runs / "words", "--c", beside, "--weights", "separate", *options) == 0
        assert "slow to compile" not in capsys.readouterr().out
        sizes = weigh(kept, int8)
        assert beside.with_suffix(".bin").stat().st_size == pytest.approx(sizes.binary, rel=0.02)
        text = inside.stat().st_size - beside.stat().st_size
        assert text == pytest.approx(sizes.text, rel=0.2)


def test_what_is_not_exported_is_said(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tokenizers")
    unspool.train(runs / "book.txt", out=tmp_path / "bpe", tokenizer="bpe", vocab_size=270, **SMALL)
    pairs = "".join(f"{'abc'[i % 3]}{'de'[i % 2]}\t{'xyz'[i % 3]}{'uv'[i % 2]}\n" for i in range(40))
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + pairs)
    unspool.train(tmp_path / "pairs.tsv", out=tmp_path / "pairs", task="seq2seq", beam_size=3, **SMALL)
    capsys.readouterr()
    assert run("export", tmp_path / "bpe", "--c", tmp_path / "ids.c", "--main") == 0
    said = capsys.readouterr().out
    assert "The tokenizer (bpe) is not exported: the model reads and writes token ids." in said
    assert "train with --tokenizer byte, char or word" in said
    assert len(answer(build(tmp_path, "ids"), "", "5", "1", "1", "65 66")[0].split()) == 5
    assert run("export", tmp_path / "pairs", "--c", tmp_path / "pairs.c") == 0
    assert "not a beam of 3. For beams, use unspool predict or unspool.load" in capsys.readouterr().out
    assert run("export", runs / "book", "--c", tmp_path / "book.c") == 0
    assert "is not" not in capsys.readouterr().out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield found
        found.close()


def test_pages_answer_as_programs_do(runs: Path, tmp_path: Path, browser: Any) -> None:
    pytest.importorskip("ziglang")
    asked = {"words": "good fine day1\nunseen Words bad", "series": "\n".join(f"{10 + i % 3}.5" for i in range(60))}
    for name, text in asked.items():
        targets = ("--c", tmp_path / f"{name}.c", "--main", "--html", tmp_path / f"{name}.html")
        assert run("export", runs / name, *targets) == 0
        expected = answer(build(tmp_path, name), text + "\n")
        with opened(browser, tmp_path, (tmp_path / f"{name}.html").read_text(), 360) as page:
            assert page.locator("#output").is_hidden()  # no empty boxes
            assert page.locator("#drawn").is_hidden()
            page.fill("#input", text)
            page.click("#go")
            wait_for(page, "document.body.dataset.done === '1'")
            assert {"words": "red above", "series": "median"}[name] in str(page.text_content("#caption"))
            found = str(page.text_content("#output")).splitlines()
            assert fits(page)
            drawn = int(page.evaluate("document.getElementById('canvas').dataset.steps"))
            assert drawn == {"words": 3, "series": 36 + 4}[name]  # a column per word of the last line, and not per line
            page.fill("#input", " " if name == "words" else "1 x")
            page.click("#go")
            wait_for(page, "document.getElementById('output').className === 'problem'")
            said = {"words": "the input is empty. Give at least one line.", "series": "“x” is not a number."}[name]
            assert page.text_content("#output") == f"This did not work: {said}"
            assert page.locator("#drawn").is_hidden()
        if name == "series":  # without the head and the numbers of the steps
            assert found.pop(0).split() == ["step", "10", "%", "50", "%", "90", "%"]
            found = [line.split(maxsplit=1)[1] for line in found]
        assert len(found) == len(expected)
        for line, said in zip(found, expected, strict=True):
            if name == "series":
                numbers = [[*map(float, one.split())] for one in (line, said)]
                assert numbers[0] == pytest.approx(numbers[1], rel=1e-5)
            else:
                label, probability = said.split("\t")
                assert line.startswith(f"{label} {100 * float(probability):.1f} %")
