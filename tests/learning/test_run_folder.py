"""The folder of a run: who may have it, what can be resumed, and what is refused."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.learning.small_runs import OPTIONS, SAMPLE, begin_or_resume, metrics, outcome, write_text
from tests.learning.toy_task import CONFIG

from unspool.errors import ArgumentError, DataError
from unspool.learning.events import Advised, Event
from unspool.learning.files import read_tensors, write_tensors
from unspool.learning.lock import LOCK_NAME
from unspool.learning.run_folder import RunFolder, check_free
from unspool.runs.load import load_run
from unspool.runs.train import train
from unspool.storage.run import FORMAT, check_run
from unspool.tasks import lm as language_model

STEPS: dict[str, Any] = {"steps": 12, "eval_every": 6, "checkpoint_every": 3, "save_total_limit": 3}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(language_model, "SAMPLE", SAMPLE)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that is over: checkpoints of steps 6, 9 and 12."""
    train(write_text(tmp_path), out=tmp_path / "run", **OPTIONS | STEPS)
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ── what a new run may take ──


def test_a_new_run_takes_a_folder_that_is_not_there_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty", "deep/below"):
        folder = RunFolder(tmp_path / name)
        folder.begin(CONFIG, overwrite=False)
        folder.close()
        assert check_run(tmp_path / name) == CONFIG


def test_a_new_run_takes_a_folder_in_which_one_was_killed_before_it_began(tmp_path: Path) -> None:
    (tmp_path / ".config.toml-0123abcd").write_text("format = ")
    check_free(tmp_path, overwrite=False)
    folder = RunFolder(tmp_path)
    folder.begin(CONFIG, overwrite=False)
    assert sorted(os.listdir(tmp_path)) == [".lock", "config.toml"]
    folder.close()
    assert os.listdir(tmp_path) == ["config.toml"]


def test_the_lock_that_a_crash_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text("any content")
    check_free(tmp_path, overwrite=False)
    folder = RunFolder(tmp_path)
    folder.begin(CONFIG, overwrite=False)
    folder.close()
    (tmp_path / LOCK_NAME).touch()
    RunFolder.open(tmp_path).close()


def test_a_file_and_a_run_are_refused_and_nothing_is_changed(run: Path, tmp_path: Path) -> None:
    before = contents(tmp_path)
    for path, message in (
        (run, "exists. Give another, resume it with `resume=True`, or"),
        (run / "config.toml", "file"),
    ):
        with pytest.raises(ArgumentError, match=message):
            train(tmp_path / "text.txt", out=path, **OPTIONS | STEPS)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "config",
    [
        None,
        'baseURL = "https://example.org"\ntitle = "my site, not a run"\n',
        "format = 1\n",
        "format = 1\n[data]\n[model]\n",
        "format = [not toml",
        f'format = {FORMAT + 1}\ntask = "lm"\n[data]\n[model]\n[training]\n',
    ],
)
def test_overwrite_takes_no_folder_that_is_not_a_run_s(tmp_path: Path, config: str | None) -> None:
    folder = tmp_path / "precious"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "thesis.txt").write_text("irreplaceable")
    (folder / ".letters-0123abcd").write_text("irreplaceable too")
    if config is not None:
        (folder / "config.toml").write_text(config)
    before = contents(folder)
    with pytest.raises(ArgumentError, match="exists and is not the folder of a run"):
        train(write_text(tmp_path), out=folder, overwrite=True, **OPTIONS | STEPS)
    with pytest.raises(ArgumentError, match="exists and is not the folder of a run"):
        RunFolder(folder).begin(CONFIG, overwrite=True)
    assert contents(folder) == before


def test_overwrite_starts_a_new_run_and_leaves_what_is_not_its_own(run: Path, tmp_path: Path) -> None:
    (run / "notes.md").write_text("my own")
    train(tmp_path / "text.txt", out=run, overwrite=True, **OPTIONS | STEPS | {"steps": 6, "seed": 1})
    train(tmp_path / "text.txt", out=tmp_path / "fresh", **OPTIONS | STEPS | {"steps": 6, "seed": 1})
    assert outcome(run) == outcome(tmp_path / "fresh")
    assert contents(run).keys() - contents(tmp_path / "fresh").keys() == {"notes.md"}


def test_a_mistake_in_the_settings_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="longer than the text"):
        train(write_text(tmp_path), out=tmp_path / "run", **OPTIONS | {"bptt": 10_000, "steps": 3})
    assert not (tmp_path / "run").exists()


# ── what is a run ──


def test_what_is_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.toml").write_text("title = 'not a run'\n")
    (tmp_path / "file").touch()
    for name, message in (
        ("missing", "there is no run"),
        ("file", "there is no run"),
        ("empty", "is not the folder of a run: it has no config.toml"),
        ("other", "is not the folder of a run"),
    ):
        before = contents(tmp_path)
        with pytest.raises(DataError, match=message):
            train(out=tmp_path / name, resume=True)
        assert contents(tmp_path) == before


def test_a_run_of_a_newer_version_is_refused(run: Path) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    assert tomllib.loads(config)["format"] == FORMAT
    (run / "config.toml").write_text(config.replace(f"format = {FORMAT}", f"format = {FORMAT + 1}"), encoding="utf-8")
    with pytest.raises(DataError, match=f"newer unspool .format {FORMAT + 1}; .*Update unspool"):
        train(out=run, resume=True)


def test_a_checkpoint_of_a_newer_version_is_refused_and_not_passed_over(run: Path) -> None:
    folder = RunFolder(run)
    folder.write_checkpoint(13, {"model.w": torch.ones(1)}, {"format": FORMAT + 1})
    before = contents(run)
    with pytest.raises(DataError, match="step-000000013.safetensors was written by a newer unspool"):
        train(out=run, resume=True)
    assert contents(run) == before


OLDER = r"was written by an older unspool \(format 1; this one reads 2\)\. Train it again: .*`overwrite=True`"


def test_a_run_of_an_older_version_is_refused_and_may_be_replaced(run: Path, tmp_path: Path) -> None:
    """Its positions have a fact `advice`, and its vocabulary no digest."""
    config, vocabulary = run / "config.toml", run / "vocabulary.json"
    config.write_text(config.read_text(encoding="utf-8").replace(f"format = {FORMAT}", "format = 1"), encoding="utf-8")
    document = json.loads(vocabulary.read_text(encoding="utf-8"))
    del document["digest"]
    vocabulary.write_text(json.dumps(document), encoding="utf-8")
    for path in RunFolder(run).checkpoints():
        make_older(path)
    before = contents(run)
    with pytest.raises(DataError, match=f"run {OLDER}"):
        train(out=run, resume=True)
    with pytest.raises(DataError, match=f"run {OLDER}"):
        load_run(run)
    with pytest.raises(ArgumentError, match="exists"):
        train(tmp_path / "text.txt", out=run, **OPTIONS | STEPS)
    assert contents(run) == before
    train(tmp_path / "text.txt", out=run, overwrite=True, **OPTIONS | STEPS)
    assert check_run(run)["task"] == "lm"


def make_older(path: Path) -> None:
    """Turn a checkpoint into one of format 1."""
    tensors, facts = read_tensors(path)
    position = {name: value for name, value in facts["position"].items() if name != "advised"}
    write_tensors(path, tensors, {**facts, "format": 1, "position": {**position, "advice": ""}})


def test_a_checkpoint_of_an_older_version_is_not_said_to_be_damaged(run: Path) -> None:
    for path in RunFolder(run).checkpoints():
        make_older(path)
    with pytest.raises(DataError, match=rf"step-\d+.safetensors {OLDER}"):
        train(out=run, resume=True)
    with pytest.raises(DataError, match=rf"step-\d+.safetensors {OLDER}"):
        RunFolder(run).read_checkpoint()


def test_a_run_whose_settings_are_said_again_is_refused(run: Path) -> None:
    with pytest.raises(ArgumentError, match="was started with other settings: `lr` is 0.003 in the run and 0.1 here"):
        train(out=run, resume=True, lr=0.1)


def test_a_run_whose_data_has_changed_is_refused_and_can_be_resumed_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, path = write_text(tmp_path), tmp_path / "run"
    train(text, out=path, **OPTIONS | STEPS)
    expected, before, old = outcome(path), contents(path), text.read_text(encoding="utf-8")
    text.write_text(old.replace("fox", "cat"), encoding="utf-8")
    with pytest.raises(DataError, match="the data has changed since the run was started"):
        train(out=path, resume=True)
    assert contents(path) == before
    text.unlink()
    with pytest.raises(DataError, match="there is no file"):
        train(out=path, resume=True)
    text.write_text(old, encoding="utf-8")
    train(out=path, resume=True)  # the refusals left no lock
    assert outcome(path) == expected


# ── checkpoints ──


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-50] ^= 4
    path.write_bytes(bytes(raw))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace(path: Path) -> None:
    safetensors.torch.save_file({"weight": torch.ones(2)}, path)


@pytest.mark.parametrize("damage", [cut, flip, empty, replace])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it(run: Path, tmp_path: Path, damage: Any) -> None:
    expected = outcome(run)
    newest = RunFolder(run).checkpoints()[-1]
    damage(newest)
    events: list[Event] = []
    train(out=run, resume=True, tell=events.append)
    assert events[0].as_json()["step"] == 9
    (advised,) = (event for event in events if isinstance(event, Advised) and "cannot be read" in event.text)
    assert (advised.step, str(newest) in advised.text) == (9, True)
    assert outcome(run) == expected
    assert [event["text"] for event in metrics(run) if event["event"] == "advised"][-1] == advised.text


def test_two_damaged_checkpoints_are_passed_over_too_and_make_room_for_new_ones(run: Path, tmp_path: Path) -> None:
    """With the oldest alone to resume from, the ones that are kept must not be the damaged ones."""
    folder = RunFolder(run)
    expected = outcome(run)
    for path in folder.checkpoints()[1:]:
        cut(path)
    config = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(config.replace("save_total_limit = 3", "save_total_limit = 1"), encoding="utf-8")

    def stop(event: Event) -> None:
        if event.kind == "saved":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(out=run, resume=True, tell=stop)
    found = folder.read_checkpoint()
    assert found is not None
    assert (found.facts["position"]["step"], found.damaged) == (9, ())
    train(out=run, resume=True)
    assert outcome(run) == expected


def test_a_run_without_any_checkpoint_that_can_be_read_says_so(run: Path) -> None:
    for path in RunFolder(run).checkpoints():
        cut(path)
    before = contents(run)
    with pytest.raises(DataError, match="none of the 3 checkpoint.s. of .* can be read: .*`overwrite=True`"):
        train(out=run, resume=True)
    assert contents(run) == before


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_with_its_settings(run: Path, tmp_path: Path) -> None:
    expected = outcome(run)
    for path in RunFolder(run).checkpoints():
        path.unlink()
    (run / "model.safetensors").unlink()
    (run / "vocabulary.json").unlink()
    begin_or_resume(tmp_path / "text.txt", run)
    assert outcome(run) == expected
    assert (run / "vocabulary.json").exists()


def test_a_run_that_is_over_is_the_same_when_it_is_resumed(run: Path) -> None:
    before = outcome(run)
    for _ in range(2):
        train(out=run, resume=True)
        assert outcome(run) == before


def test_logs_have_one_line_of_json_an_event_and_null_for_what_json_has_not(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(CONFIG, overwrite=False)
    folder.log(Advised(3, "é\n"))
    folder.log_sample(3, "two\nlines")
    sizes = {name: (tmp_path / name).stat().st_size for name in ("metrics.jsonl", "samples.txt")}
    folder.log(Advised(4, "later"))
    folder.log_sample(4, "later")
    folder.truncate_logs(sizes)
    logged = {"event": "advised", "step": 3, "text": "é\n", "is_note": False}
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == logged
    assert (tmp_path / "samples.txt").read_text() == "── step 3 ──\ntwo\nlines\n\n"
    folder.truncate_logs({})
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""


def test_a_model_without_checkpoints_is_not_trained_again(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(DataError, match="has a model, but no checkpoint to resume from"):
        RunFolder(tmp_path).read_checkpoint()
