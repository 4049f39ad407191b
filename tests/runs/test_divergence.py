"""NaN and infinity are reported as divergence, with layer and step, whatever the task and wherever they show."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.cli.calling import call
from tests.cli.test_predict import DATA, TINY
from tests.runs.tiny_run import LINES
from torch import nn

from unspool.errors import DivergenceError
from unspool.learning import throughput
from unspool.learning.events import Event, Stepped
from unspool.learning.files import read_tensors, write_tensors
from unspool.learning.stopping import Stop
from unspool.models.catalogue import make_learner
from unspool.runs.fitting import prepare_task
from unspool.runs.train import make_loop, plan, train
from unspool.tasks import lm as language_model

Capture = pytest.CaptureFixture[str]
TASKS = ("lm", *DATA)
OPTIONS: dict[str, dict[str, Any]] = {"lm": {"bptt": 8}, "forecast": {"horizon": 3, "validation": 6}}
#: The first is in a weight, the second only in what is computed with it.
VALUES = (math.nan, 3e38)


class Files(NamedTuple):
    task: str
    training: Path
    new: Path
    options: dict[str, Any]


@pytest.fixture(params=TASKS)
def files(request: pytest.FixtureRequest, tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(language_model, "SAMPLE", 10)
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")  # nothing is compiled into an empty cache
    task: str = request.param
    suffix, training, new = DATA.get(task, ("txt", LINES * 12, LINES))
    paths = tmp_path / f"training.{suffix}", tmp_path / f"new.{suffix}"
    for path, text in zip(paths, (training, new), strict=True):
        path.write_text(text, encoding="utf-8")
    return Files(task, *paths, {**TINY, "task": task, **OPTIONS.get(task, {})})


def names_a_layer(message: str, learner: nn.Module) -> bool:
    """Whether a message has the name of one of the model's parameters or modules, after what holds what."""
    found = re.search(r"the (?:parameter|output of|gradient of) (\S+|the model)(?= \(| holds|\.)", message)
    names = {"the model", *dict(learner.named_modules()), *dict(learner.named_parameters())}
    return found is not None and found.group(1) in names


@pytest.mark.parametrize("average", [None, "ema"])
@pytest.mark.parametrize("value", VALUES)
def test_in_an_evaluation_during_training(
    value: float, average: str | None, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput, "REPORT_EVERY", 0.0)
    options = {**files.options, "steps": 4, "eval_every": 2, "average": average}
    settings = plan(files.training, **options)

    def spoil(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 2:
            with torch.no_grad():
                for parameter in [*loop.learner.parameters(), *(loop.average._averages if loop.average else ())]:
                    parameter.fill_(value)

    loop = make_loop(*prepare_task(settings), tell=spoil, stop=Stop())
    with pytest.raises(DivergenceError) as caught:
        loop.run()
    assert "training diverged at step 2: " in str(caught.value)
    assert names_a_layer(str(caught.value), loop.learner)
    assert "Lower `lr`" in str(caught.value)


@pytest.mark.parametrize("value", VALUES)
def test_in_a_model_that_is_used(value: float, files: Files, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    learner = train(files.training, out=run, **files.options).learner
    tensors, facts = read_tensors(run / "model.safetensors")
    spoiled = {name: torch.full_like(one, value) if one.is_floating_point() else one for name, one in tensors.items()}
    write_tensors(run / "model.safetensors", spoiled, facts)
    uses: list[list[object]] = [["evaluate", run], ["evaluate", run, files.training], ["xray", run]]
    uses.append(["generate", run] if files.task == "lm" else ["predict", run, files.new])
    for use in uses:
        capsys.readouterr()
        assert call(*use) == 1, use
        said = capsys.readouterr().err
        assert "has diverged, at step 3 or before: " in said
        assert names_a_layer(" ".join(said.split()), learner), said
        assert "Traceback" not in said
        assert not (run / "xray.html").exists()


@pytest.mark.parametrize(("lr", "said"), [(1e30, "its square is infinite"), (1e15, "the validation loss is")])
def test_a_loss_that_is_finite_but_absurd(lr: float, said: str, tmp_path: Path, own_cache: None) -> None:
    suffix, text, _ = DATA["tag"]
    file = tmp_path / f"training.{suffix}"
    file.write_text(text, encoding="utf-8")
    options = {**TINY, "task": "tag", "steps": 12, "lr": lr, "eval_every": 1}
    with pytest.raises(DivergenceError, match=r"training diverged at step \d+: ") as caught:
        train(file, out=tmp_path / "run", **options)
    settings, task = prepare_task(plan(file, **options))
    assert said in str(caught.value)
    assert names_a_layer(str(caught.value), make_learner(task, settings.model)), caught.value


def test_a_learning_rate_that_is_far_too_high(files: Files) -> None:
    options = {**files.options, "steps": 30, "lr": 3e38, "optimizer": "sgd", "clip": None, "eval_every": 1}
    with pytest.raises(DivergenceError, match=r"training diverged at step \d+: ") as caught:
        train(files.training, out=files.training.with_name("run"), **options)
    settings, task = prepare_task(plan(files.training, **options))
    assert names_a_layer(str(caught.value), make_learner(task, settings.model)), caught.value
