"""The model card says what is true of the run: its data, seed, versions and figures."""

from __future__ import annotations

import math
import platform
import re
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import safetensors.torch
from tests.runs.tiny_run import OPTIONS, TEXT, TinyRun

from unspool.data.corpus import Division, prepare
from unspool.learning.run_folder import RunFolder
from unspool.models.catalogue import make_learner
from unspool.runs.card import write_card
from unspool.runs.train import plan
from unspool.tasks.lm import LanguageModelling

pytestmark = pytest.mark.usefixtures("own_cache")


def rows(card: str) -> dict[str, list[str]]:
    """The rows of its tables, by their first entry."""
    found = [[part.strip() for part in line.strip("|").split("|")] for line in card.splitlines() if line[:1] == "|"]
    return {first.strip("*"): rest for first, *rest in found}


def test_facts_and_figures(tiny_run: TinyRun) -> None:
    card = (tiny_run.path / "MODEL_CARD.md").read_text(encoding="utf-8")
    said = rows(card)
    finished = tiny_run.finished
    parameters = sum(t.numel() for t in safetensors.torch.load_file(tiny_run.path / "model.safetensors").values())
    assert card.startswith("# run\n")
    assert said["task"] == ["lm"]
    assert said["seed"] == [str(OPTIONS["seed"])]
    assert said["model"] == [f"1 × 12 lstm, {parameters:,} parameters"]
    assert said["data digest"] == [prepare(tiny_run.text, Division(test=0.1)).digest]
    assert re.fullmatch("[0-9a-f]{64}", said["data digest"][0])
    assert said["training"][0].startswith(f"{OPTIONS['steps']} updates in ")
    assert said["best"] == [f"after {finished.best_step} updates"]
    for name in ("unspool", "torch", "numpy", "safetensors"):
        assert f"{name} {metadata.version(name)}" in said["versions"][0]
    assert f"Python {platform.python_version()}" in said["versions"][0]
    for part, figures in (("validation", finished.validation), ("test", finished.test)):
        loss = figures["loss"]
        expected = [loss, math.exp(loss), loss / math.log(2)]
        assert [float(figure) for figure in said[part]] == pytest.approx(expected, abs=6e-5)
    assert float(said["uniform, validation"][0]) == pytest.approx(math.log(len(set(TEXT)) + 1), abs=6e-5)
    assert "\n".join("    " + line for line in finished.sample.splitlines()) in card


def test_other_data_has_another_hash(tiny_run: TinyRun, tmp_path: Path) -> None:
    text = tiny_run.text.read_text(encoding="utf-8")
    (tmp_path / "other.txt").write_text(text.replace("fox", "cat", 1), encoding="utf-8")
    (tmp_path / "same.txt").write_text(text, encoding="utf-8")
    ours, other, same = (
        prepare(path, Division()).digest for path in (tiny_run.text, tmp_path / "other.txt", tmp_path / "same.txt")
    )
    assert ours == same != other


def test_an_interrupted_run_has_no_figures_and_its_commands_can_be_copied(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    run.mkdir()
    task = LanguageModelling(prepare(tiny_run.text, Division()))
    settings = plan(tiny_run.text, **OPTIONS)
    finished = replace(
        tiny_run.finished, reason="interrupted", validation={}, test={}, baselines={}, sample="", test_baselines={}
    )
    write_card(RunFolder(run), settings, task, make_learner(task, settings.model), finished)
    card = (run / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "## Metrics" not in card
    assert "## Sample" not in card
    assert "; interrupted |" in card
    assert f"    unspool generate '{run}'\n" in card
