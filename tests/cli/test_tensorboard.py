"""TensorBoard: what was told is read back by its own reader, also after a run went on."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call
from tests.cli.made_up import EVALUATED, FINISHED, STARTED, STEPPED
from tests.runs.tiny_run import TEXT

from unspool.learning.events import Event

pytestmark = [
    pytest.mark.usefixtures("own_cache"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of TensorBoard's own making
]


def read(run: Path) -> Any:
    """TensorBoard's own reader of a run's folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(run / "tensorboard")).Reload()


def scalars(run: Path, name: str) -> dict[int, float]:
    return {point.step: point.value for point in read(run).Scalars(name)}


def tell(run: Path, *events: Event) -> list[Event]:
    """Tell a fresh writer; what it passed on."""
    from unspool.cli.tensorboard import TensorBoard

    heard: list[Event] = []
    writer = TensorBoard(heard.append)
    for event in events:
        writer(event)
    return heard


def test_what_is_told_is_written_and_passed_on(tmp_path: Path) -> None:
    events = (replace(STARTED, run=str(tmp_path)), STEPPED, EVALUATED, FINISHED)
    assert tell(tmp_path, *events) == list(events)
    for name in ("loss", "lr", "speed", "norm", "clipped"):
        expected = getattr(STEPPED, name)
        assert scalars(tmp_path, f"training/{name}") == {STEPPED.step: pytest.approx(expected, rel=1e-6)}
    for name, value in EVALUATED.validation.items():
        assert scalars(tmp_path, f"validation/{name}") == {EVALUATED.step: pytest.approx(value, rel=1e-6)}
    (sample,) = read(tmp_path).Tensors("sample/text_summary")
    assert sample.tensor_proto.string_val[0].decode() == f"```\n{EVALUATED.sample}\n```"


def test_figures_are_on_disk_at_an_evaluation_whatever_happens_then(tmp_path: Path) -> None:
    tell(tmp_path, replace(STARTED, run=str(tmp_path)), STEPPED, EVALUATED)
    assert list(scalars(tmp_path, "validation/loss")) == [EVALUATED.step]


def test_a_run_that_goes_on_replaces_what_came_after_its_checkpoint_and_nothing_before(tmp_path: Path) -> None:
    """Killed after step 30, it goes on from 20: the evaluation at 20 stays, that at 30 is the new one."""
    first = replace(STARTED, run=str(tmp_path))

    def at(step: int, loss: float) -> Event:
        return replace(EVALUATED, step=step, validation={"loss": loss})

    tell(tmp_path, first, at(10, 4.0), at(20, 3.0), at(30, 2.0))
    tell(tmp_path, replace(first, step=20), at(30, 2.5), FINISHED)
    assert scalars(tmp_path, "validation/loss") == {10: 4.0, 20: 3.0, 30: 2.5}


def test_of_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unspool.tasks.lm.SAMPLE", 20)
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    options = "--engine torch --hidden 8 --batch-size 4 --bptt 8 --steps 6 --eval-every 3 --quiet --tensorboard"
    assert call("train", "book.txt", "--out", "run", *options.split()) == 0
    found = scalars(tmp_path / "run", "validation/loss")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    evaluated = [event for event in map(json.loads, lines) if event["event"] == "evaluated"]
    assert found == {event["step"]: pytest.approx(event["validation"]["loss"], rel=1e-6) for event in evaluated}
    assert list(found) == [3, 6]


def test_without_the_package_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    assert call("train", "book.txt", "--tensorboard", "--steps", "1") == 1
    assert "--tensorboard needs tensorboard: pip install 'unspool[tensorboard]'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
