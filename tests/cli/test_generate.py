"""unspool generate: what it prints, when, and that a seed repeats it."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call, refused
from tests.runs.tiny_run import ByHand, TinyRun, content

from unspool.cli.generate import unescape
from unspool.decoding.generation import generate
from unspool.learning.files import read_tensors, write_tensors
from unspool.runs.generator import TextGenerator

pytestmark = pytest.mark.usefixtures("own_cache")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def say(tiny_run: TinyRun, capsys: Capture) -> Any:
    """What the tiny run says."""

    def text(*options: object, run: Path = tiny_run.path) -> str:
        capsys.readouterr()
        assert call("generate", run, *options) == 0
        return capsys.readouterr().out

    return text


def test_a_seed_repeats_and_samples_have_seeds_of_their_own(say: Any) -> None:
    first, second = (say("--seed", seed, "--count", 40) for seed in (3, 4))
    assert first == say("--seed", 3, "--count", 40) != second
    assert say("--seed", 3, "--count", 40, "--samples", 2) == first + second
    assert say("--count", 40) != say("--count", 40)  # another each time, if no seed is said


def test_temperature_0_is_the_likeliest_by_hand(say: Any, tiny_run: TinyRun) -> None:
    expected = "the " + ByHand(tiny_run.path).greedy("the ", 30)[0] + "\n"
    assert say("--prompt", "the ", "--count", 30, "--temperature", 0) == expected
    assert say("--prompt", "the ", "--count", 30, "--temperature", 5, "--top-k", 1) == expected
    assert say("--prompt", "the ", "--count", 30, "--temperature", 5, "--top-p", 1e-9) == expected


def test_without_a_prompt_it_goes_on_from_a_line_said_to_itself(say: Any, tiny_run: TinyRun) -> None:
    speaker = TextGenerator.load(tiny_run.path)
    line = speaker.vocabulary.decode(speaker.prompt(""))
    assert line[0] == line[-1] == "\n"
    assert say("--count", 20, "--temperature", 0) == ByHand(tiny_run.path).greedy(line, 20)[0] + "\n"


def test_top_k_leaves_out_the_others(say: Any, tiny_run: TinyRun) -> None:
    """At a high temperature all characters would come up; of three a step, those that are by hand the likeliest."""
    text = say("--prompt", "the", "--count", 60, "--temperature", 50, "--top-k", 3, "--seed", 1)[:-1]
    by_hand = ByHand(tiny_run.path)
    ids = by_hand.ids(text)
    for logits, chosen in zip(by_hand.logits(ids)[2:-1], ids[3:], strict=True):
        assert chosen in logits[1:].topk(3).indices + 1


@pytest.mark.parametrize("pattern", ["o", "床", "[一-龥]{2}", "[一-龥][a-z]", "[a-z]\n"])
def test_it_stops_before_a_string(pattern: str, say: Any) -> None:
    """Characters beyond Latin are what they are, and a new line is said as \\n."""
    options = ("--seed", 2, "--count", 400, "--temperature", 2)
    whole = say(*options)[:-1]
    found = re.search(pattern, whole[50:])
    assert found is not None
    stop = found[0].replace("\n", "\\n")
    expected = whole[: whole.index(found[0])] + "\n"
    assert say(*options, "--stop", stop) == say(*options, "--stop", "never said", "--stop", stop) == expected


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("\\n", "\n"),
        ("\\t|", "\t|"),
        ("é\\n的", "é\n的"),
        ("\\\\n", "\\n"),
        ("C:\\dir", "C:\\dir"),
        ("\\x41", "\\x41"),
        ("的", "的"),
        ("\\", "\\"),
    ],
)
def test_escapes(said: str, meant: str) -> None:
    assert unescape(said) == meant


def test_a_search_prints_scores_and_the_best_is_first(say: Any, tiny_run: TinyRun) -> None:
    said, score = ByHand(tiny_run.path).greedy("the ", 3)
    assert say("--prompt", "the ", "--count", 3, "--beam", 1) == f"{score:9.2f}  the {said}\n"
    lines = say("--prompt", "the ", "--count", 6, "--beam", 5).splitlines()
    scores = [float(line[:9]) for line in lines]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)


def test_a_search_keeps_to_lines_whatever_is_said(say: Any) -> None:
    """The run's text has new lines, which are shown as a symbol."""
    lines = say("--prompt", "sleeps.", "--count", 1, "--beam", 40).splitlines()
    assert len(lines) == 40
    assert any(line.endswith("sleeps.␊") for line in lines)


def test_pieces_come_as_they_are_drawn(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tokens the text of the first is written and flushed."""
    heard: list[str] = []

    class Pipe(io.StringIO):
        encoding = "utf-8"

        def write(self, text: str) -> int:
            heard.append(f"write {text!r}")
            return len(text)

        def flush(self) -> None:
            heard.append("flush")

    def listened(*arguments: Any) -> Iterator[int]:
        for token in generate(*arguments):
            heard.append("token")
            yield token

    monkeypatch.setattr("unspool.runs.generator.generate", listened)
    monkeypatch.setattr(sys, "stdout", Pipe())
    assert call("generate", tiny_run.path, "--prompt", "床", "--count", 5, "--seed", 1) == 0
    kinds = [one.split()[0] for one in heard]
    assert heard[:2] == ["write '床'", "flush"]
    assert kinds[2:17] == ["token", "write", "flush"] * 5


def test_the_unknown_token_is_never_printed(say: Any, tiny_run: TinyRun, tmp_path: Path) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "run")
    tensors, facts = read_tensors(tmp_path / "run" / "model.safetensors")
    tensors["head_bias"][0] = 50.0
    write_tensors(tmp_path / "run" / "model.safetensors", tensors, facts)
    for options in ([], ["--temperature", 0], ["--beam", 3]):
        assert "\ufffd" not in say("--count", 50, *options, run=tmp_path / "run")


def test_a_prompt_that_is_foreign_is_gone_on_from_and_said_to_be(tiny_run: TinyRun, capsys: Capture) -> None:
    """The prompt is repeated as it was given; what the model has not read is named beside the text, and not in it."""
    assert call("generate", tiny_run.path, "--prompt", "Zoë 的 dog", "--count", 10, "--seed", 1) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Zoë 的 dog")
    assert len(said.out) == len("Zoë 的 dog") + 11
    assert "the model has never seen 'Z', 'ë', '的'" in said.err
    assert call("generate", tiny_run.path, "--prompt", "床前 dog", "--count", 10) == 0
    assert capsys.readouterr().err == ""


def test_a_terminal_in_ascii_gets_question_marks(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert call("generate", tiny_run.path, "--prompt", "床前 dog", "--count", 5, "--temperature", 0) == 0
    assert raw.getvalue().startswith(b"?? dog")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--temperature", "-1"], "`temperature` (=-1.0) is not a number from 0 on"),
        (["--temperature", "nan"], "`temperature` (=nan) is not a number from 0 on"),
        (["--top-k", "0"], "top_k"),
        (["--top-p", "1.5"], "`top_p` (=1.5) is not a probability above 0"),
        (["--count", "0"], "--count"),
        (["--seed", "-1"], "--seed (=-1) is not a number"),
        (["--seed", str(2**70)], "--seed (=1180591620717411303424) is not a number"),
        (["--stop", ""], "has an empty string"),
        (["--beam", "0"], "--beam"),
        (["--beam", "2", "--top-k", "3"], "--beam (=2) is a search, and takes no --top-k"),
        (["--beam", "2", "--stop", "a", "--stop", "b"], "at most one --stop"),
        (["--beam", "2", "--stop", "two"], "--stop (='two') is not one token"),
        (["--prompt", "\udcff"], "is half of a pair"),
    ],
)
def test_bad_options_are_refused_before_a_word_is_said(
    options: list[str], said: str, tiny_run: TinyRun, capsys: Capture
) -> None:
    before = content(tiny_run.path)
    assert said in refused(capsys, "generate", tiny_run.path, *options)
    assert content(tiny_run.path) == before


@pytest.mark.parametrize("size", [0, 9, 500, -1])
@pytest.mark.parametrize("command", ["generate", "evaluate"])
def test_a_truncated_model_is_refused(
    command: str, size: int, tiny_run: TinyRun, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert re.search(r"model\.safetensors cannot be read: .*damaged", refused(capsys, command, tmp_path / "run"))
