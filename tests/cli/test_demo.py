"""unspool demo: a whole run from the text that every Python brings along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calling import call, refused

from unspool.cli import demo
from unspool.lab.data import python_reference
from unspool.learning.files import read_tensors

pytestmark = pytest.mark.usefixtures("own_cache")


def test_the_text_is_the_language_reference() -> None:
    text = python_reference()
    assert 300_000 < len(text.encode()) < 1_000_000
    assert all(words in text for words in ('The "assert" statement', "list comprehension", "context manager"))


def test_a_few_seconds_leave_a_whole_run_that_has_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a part of the text, without kernels, which may take longer to build than this takes to train."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    monkeypatch.setattr("unspool.tasks.lm.SAMPLE", 20)
    part = python_reference()[:15_000]
    monkeypatch.setattr(demo, "python_reference", lambda: part)
    run = tmp_path / "run"
    assert call("demo", "--minutes", 0.05, "--out", run, "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    finished = events[-1]
    assert finished["event"] == "finished"
    assert finished["reason"] == "done"
    assert finished["validation"]["loss"] < finished["baselines"]["uniform"]["loss"]
    for name in ("config.toml", "vocabulary.json", "metrics.jsonl", "samples.txt", "MODEL_CARD.md"):
        assert (run / name).stat().st_size > 0
    read_tensors(run / "model.safetensors")
    assert sorted((run / "checkpoints").iterdir())

    # its text is still there, so that it can be evaluated and gone on with
    assert call("evaluate", run, "--json") == 0
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(finished["validation"]["loss"], rel=1e-12)
    assert call("train", run, "--resume", "--quiet") == 0
    assert "exists" in refused(capsys, "demo", "--out", run)


def test_a_time_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--minutes" in refused(capsys, "demo", "--minutes", "0")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*cannot be written|.*no cache:RuntimeWarning")
def test_without_a_cache_the_text_is_there_while_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "file"))
    with demo.kept_reference() as text:
        assert text.read_text(encoding="utf-8") == python_reference()
    assert not text.exists()
