"""Runs that go on to another end: to the bits of a run that was as long from the first, or refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call, refused
from tests.learning.small_runs import OPTIONS, SAMPLE, assert_whole, outcome, write_text
from tests.runs.tiny_run import content

from unspool.errors import ArgumentError
from unspool.learning.events import Advised, Event
from unspool.runs.train import train
from unspool.tasks import lm as language_model

#: An epoch has 21 updates.
LEVEL: dict[str, Any] = OPTIONS | {"schedule": "constant", "warmup": 0, "eval_every": 5}


@pytest.fixture(autouse=True)
def small(own_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "SAMPLE", SAMPLE)


def came_to(run: Path) -> dict[str, Any]:
    """What a run came to; what share of it an evaluation came after depends on the end that was known then."""
    found = outcome(run)
    return found | {"evaluated": [{**event, "fraction": None} for event in found["evaluated"]]}


def ends(run: Path) -> dict[str, Any]:
    """What config.toml says about the end."""
    training = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))["training"]
    return {name: value for name, value in training.items() if name in ("epochs", "steps", "minutes", "patience")}


@pytest.mark.parametrize(
    ("first", "then"),
    [({"steps": 10}, {"steps": 20}), ({"epochs": 0.5}, {"epochs": 1.0}), ({"epochs": 0.5}, {"steps": 20})],
)
def test_a_run_is_extended_to_the_bits_of_a_longer_one(
    tmp_path: Path, first: dict[str, Any], then: dict[str, Any]
) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    whole = train(text, out=tmp_path / "whole", **LEVEL | then).finished
    assert train(text, out=run, **LEVEL | first).finished.step == 10
    assert train(out=run, resume=True, **then).finished.validation == whole.validation
    assert came_to(run) == came_to(tmp_path / "whole")
    assert ends(run) == then
    assert_whole(run)


def test_a_schedule_follows_the_new_end(tmp_path: Path) -> None:
    """The rate, which had fallen to nothing, is that of a run whose config had said the new end before it went on."""
    text, runs = write_text(tmp_path), [tmp_path / "said", tmp_path / "written"]
    for run in runs:
        train(text, out=run, **OPTIONS | {"steps": 10, "eval_every": 5})
    train(out=runs[0], resume=True, steps=30)
    config = (runs[1] / "config.toml").read_text(encoding="utf-8")
    (runs[1] / "config.toml").write_text(config.replace("steps = 10", "steps = 30"), encoding="utf-8")
    train(out=runs[1], resume=True)
    assert outcome(runs[0]) == outcome(runs[1])
    configs = [(run / "config.toml").read_text(encoding="utf-8") for run in runs]
    assert configs[0] == configs[1]


@pytest.mark.parametrize("name", ["epochs", "steps", "minutes"])
def test_an_end_that_is_behind_is_refused_and_nothing_changes(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    train(write_text(tmp_path), out=run, **LEVEL | {"steps": 21})
    before = content(run)
    behind: Any = {"epochs": 1.0, "steps": 20, "minutes": 1e-6}[name]
    with pytest.raises(ArgumentError) as caught:
        train(out=run, resume=True, **{name: behind})
    said = str(caught.value)
    assert said.startswith(f"`{name}` (={behind!r}) has been reached already: it has made 21 updates (1 epochs, ")
    remedy = {"epochs": "`epochs=2`", "steps": "`steps=42`", "minutes": "`minutes=1`"}[name]
    assert said.endswith(f"). Give {remedy}, or more.")
    with pytest.raises(ArgumentError, match=r"`patience` \(=3\) leaves nothing to train: .* Give `steps=42`, or more"):
        train(out=run, resume=True, patience=3)
    assert content(run) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": 30, "epochs": 2.0}, "give only one of `epochs`, `steps`"),
        ({"steps": -1}, r"`steps` \(=-1\) should be greater"),
        (
            {"steps": 30, "hidden": 9},
            r"`hidden` is \d+ in the run and 9 here.*`epochs`, `steps`, `minutes`, `patience`, `device` may change",
        ),
        ({"steps": 30, "recipe": "char-small"}, "`hidden` is .* and 256 here"),
    ],
)
def test_nothing_else_can_change(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    run = tmp_path / "run"
    train(write_text(tmp_path), out=run, **LEVEL | {"steps": 2})
    before = content(run)
    with pytest.raises(ArgumentError, match=said):
        train(out=run, resume=True, **given)
    assert content(run) == before


def test_a_run_that_stopped_early_goes_on_with_more_patience(tmp_path: Path) -> None:
    """At such a rate nothing is learned: the first evaluation is the best."""
    text, run = write_text(tmp_path), tmp_path / "run"
    hopeless = LEVEL | {"lr": 1e3, "clip": 0.0, "average": None, "optimizer": "sgd", "eval_every": 2}
    finished = train(text, out=run, **hopeless, steps=40, patience=2).finished
    assert (finished.reason, finished.step - finished.best_step) == ("stopped early", 4)
    with pytest.raises(
        ArgumentError, match=r"`steps` \(=60\) leaves nothing .* 2 evaluations .* Give `patience=4`, or"
    ):
        train(out=run, resume=True, steps=60)
    assert ends(run) == {"steps": 40, "patience": 2}
    events: list[Event] = []
    train(out=run, resume=True, tell=events.append)
    (advised,) = (event for event in events if isinstance(event, Advised) and "is finished" in event.text)
    assert advised.text.endswith("To train longer, resume it with `patience=4`.")
    assert train(out=run, resume=True, patience=4).finished.step > finished.step
    assert ends(run) == {"steps": 40, "patience": 4}


def test_a_run_that_is_over_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    train(text, out=run, **LEVEL | {"epochs": 0.5})
    assert call("train", run, "--resume") == 0
    said = capsys.readouterr().out
    assert "The run is finished: it has made 10 updates (0.4762 epochs, " in said
    assert "To train longer, resume it with --epochs 1.\n" in said
    assert call("train", run, "--resume", "--epochs", "1") == 0
    said = capsys.readouterr().out
    assert "is finished" not in said
    assert "Done after 21 steps" in said
    assert "--epochs (=0.7) has been reached already: " in refused(capsys, "train", run, "--resume", "--epochs", "0.7")


def test_a_run_that_was_ended_before_its_first_checkpoint_takes_a_new_end_too(tmp_path: Path) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    train(text, out=run, **LEVEL | {"steps": 2})
    for path in (run / "model.safetensors", *(run / "checkpoints").iterdir()):
        path.unlink()
    assert train(out=run, resume=True, steps=4).finished.step == 4
    assert ends(run) == {"steps": 4}


# ── the command that started a run resumes it ──

COMMAND = ["--hidden", "8", "--batch-size", "4", "--bptt", "8", "--eval-every", "3", "--engine", "torch", "--quiet"]


def test_the_same_command_with_resume_starts_a_run_and_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path).rename("book.txt")
    run = Path("runs/book")
    assert call("train", "book.txt", *COMMAND, "--steps", "6", "--resume") == 0  # there is none yet
    assert ends(run) == {"steps": 6}
    weights = (run / "model.safetensors").read_bytes()
    assert call("train", "book.txt", *COMMAND, "--steps", "6", "--resume") == 0  # it is finished
    assert (run / "model.safetensors").read_bytes() == weights
    assert call("train", "book.txt", *COMMAND, "--steps", "9", "--resume") == 0
    assert ends(run) == {"steps": 9}
    assert call("train", "book.txt", "--steps", "12", "--resume", "--quiet") == 0  # what is not given stays
    assert ends(run) == {"steps": 12}
    before = content(run)
    said = refused(capsys, "train", "book.txt", *COMMAND, "--layers", "2", "--lr", "0.1", "--resume")
    assert "--layers is 1 in the run and 2 here; --lr is 0.003 in the run and 0.1 here" in said
    assert "--epochs, --steps, --minutes, --patience, --device may change" in said
    Path("other.txt").write_text("something else\n" * 99, encoding="utf-8")
    config = ["--config", run / "config.toml", "--resume", "--quiet", "--steps", "15", "--out", "runs/again"]
    assert call("train", *config) == 0
    assert call("train", *config) == 0
    assert ends(Path("runs/again")) == {"steps": 15}
    said = refused(capsys, "train", "other.txt", "--out", run, "--resume")
    assert f"FILE is ['{tmp_path / 'book.txt'}'] in the run and ['{tmp_path / 'other.txt'}'] here" in said
    assert content(run) == before
