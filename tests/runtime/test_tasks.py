"""Runs of every task, played: the metrics and predictions of the torch model, from the same folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.small_folders import OPTIONS, OWN, TASKS, Minimal, write_data

import unspool
from unspool.decoding.sampling import Sampling
from unspool.runs.generator import TextGenerator
from unspool.runs.load import load_run
from unspool.runs.train import train
from unspool.runtime.run_player import RunPlayer

pytestmark = pytest.mark.usefixtures("own_cache")


def assert_close(found: Any, expected: Any) -> None:
    """Rows and metrics agree; texts and whole numbers exactly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(found[name], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_close(*pair)
    elif isinstance(expected, float | np.floating):
        assert math.isclose(found, expected, rel_tol=2e-6, abs_tol=1e-6)
    else:
        assert found == expected


@pytest.mark.parametrize("name", TASKS)
def test_a_run_is_played(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    data, used = write_data(tmp_path, name)
    own = {**OWN.get(name, {"engine": "torch"}), **({"cell": Minimal} if name == "own cell" else {})}
    kind = "lm" if name == "own cell" else name
    train(data, out=tmp_path / "run", quiet=True, **{**OPTIONS, **own, "task": kind})
    _, task, learner = load_run(tmp_path / "run")
    player = unspool.load(tmp_path / "run")
    own_task, model = player.task, player.model
    assert_close(own_task.evaluate_files(model, [str(data)]), task.evaluate_files(learner, [str(data)]))
    if task.generates:
        check_text(player, tmp_path / "run")
        return
    rows = list(own_task.predict_files(model, [str(used)]))
    assert_close(rows, list(task.predict_files(learner, [str(used)])))
    assert rows


def check_text(player: RunPlayer, run: Path) -> None:
    """The text of the torch model by the same seed: by the player, and by a session that was saved on its way."""
    generator = TextGenerator.load(run)
    prompt = player.decode([3, 1, 4, 1, 5])
    expected = "".join(generator.stream(prompt, 30, Sampling(0.9, 20, 0.95, generator.banned), seed=7))
    options: dict[str, Any] = {"temperature": 0.9, "top_k": 20, "top_p": 0.95, "seed": 7}
    assert "".join(player.generate(prompt, 30, **options)) == expected
    session = player.start()
    session.feed(player.generator().prompt(prompt))
    assert "".join(player.restore(session.save()).generate(30, **options)) == expected
