"""unspool evaluate: figures of a text by hand, those of the run's own data, and data that is gone."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call, refused
from tests.runs.tiny_run import LINES, OPTIONS, TEXT, ByHand, TinyRun, content

from unspool.learning.files import read_tensors, write_tensors
from unspool.runs.train import train

pytestmark = pytest.mark.usefixtures("own_cache")
Capture = pytest.CaptureFixture[str]


def lines(capsys: Capture, *arguments: object) -> list[dict[str, Any]]:
    """The objects that `evaluate --json` prints."""
    capsys.readouterr()
    assert call("evaluate", *arguments, "--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_text_is_judged_as_by_hand(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    text = "疑是地上霜。 a dog sleeps over it\n" + LINES * 15
    (tmp_path / "other.txt").write_text(text, encoding="utf-8")
    loss = ByHand(tiny_run.path).loss(text)
    (found,) = lines(capsys, tiny_run.path, tmp_path / "other.txt")
    assert found["data"] == str(tmp_path / "other.txt")
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    assert found["bits"] == pytest.approx(loss / math.log(2), rel=1e-5)
    assert call("evaluate", tiny_run.path, tmp_path / "other.txt") == 0
    said = capsys.readouterr().out
    assert f"loss {found['loss']:.4f} · perplexity {found['perplexity']:.4f} · bits {found['bits']:.4f}\n" in said


def test_several_files_are_one_text(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    for name, text in (("a.txt", LINES), ("b.txt", LINES[:20])):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (found,) = lines(capsys, tiny_run.path, tmp_path / "a.txt", tmp_path / "b.txt")
    assert found["loss"] == pytest.approx(ByHand(tiny_run.path).loss(LINES + LINES[:20]), rel=1e-5)


def test_the_run_s_own_data_gives_the_figures_it_ended_with(tiny_run: TinyRun, capsys: Capture) -> None:
    before = content(tiny_run.path)
    validation, test = lines(capsys, tiny_run.path)
    assert validation == {"data": "validation", **tiny_run.finished.validation}
    assert test == {"data": "test", **tiny_run.finished.test}
    assert content(tiny_run.path) == before


def test_own_data_that_is_gone_or_other_is_said_with_a_remedy(tmp_path: Path, capsys: Capture) -> None:
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(TEXT, encoding="utf-8")
    train(text, out=run, **OPTIONS | {"steps": 2, "eval_every": 2, "test": 0.0})
    assert len(lines(capsys, run)) == 1  # there is no test data
    remedy = f"Restore it, or name a file: unspool evaluate {run} FILE."
    text.write_text(TEXT.replace("lazy", "idle"), encoding="utf-8")
    said = refused(capsys, "evaluate", run)
    assert "the run's own data has changed since training. " + remedy in said
    text.unlink()
    said = refused(capsys, "evaluate", run)
    assert f"the run's own data cannot be read: there is no file {text}." in said
    assert remedy in said
    (tmp_path / "other.txt").write_text(LINES, encoding="utf-8")
    assert len(lines(capsys, run, tmp_path / "other.txt")) == 1


def test_a_perplexity_beyond_all_numbers_is_null_in_json(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "run")
    tensors, facts = read_tensors(tmp_path / "run" / "model.safetensors")
    tensors["head_bias"][0] = 1e4
    write_tensors(tmp_path / "run" / "model.safetensors", tensors, facts)
    (found,) = lines(capsys, tmp_path / "run", tiny_run.text)
    assert found["loss"] == pytest.approx(1e4, rel=1e-2)
    assert found["perplexity"] is None


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "x.txt has 0 character(s)"),
        (b"a", "x.txt has 1 character(s)"),
        (b"ab\0c", "byte 2 is zero"),
        (None, "there is no file"),
    ],
)
def test_files_that_are_no_text_are_refused(
    raw: bytes | None, said: str, tiny_run: TinyRun, tmp_path: Path, capsys: Capture
) -> None:
    if raw is not None:
        (tmp_path / "x.txt").write_bytes(raw)
    assert said in refused(capsys, "evaluate", tiny_run.path, tmp_path / "x.txt")
