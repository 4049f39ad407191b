"""Folders from anywhere: a run is resumed only in plain files and folders, and nothing outside them is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from tests.learning import odd_files
from tests.learning.small_runs import SAMPLE
from tests.runs.tiny_run import TinyRun, content

from unspool.errors import DataError
from unspool.learning.files import read_tensors, write_tensors
from unspool.learning.run_folder import FILES, RunFolder
from unspool.runs.train import train
from unspool.tasks import lm as language_model


@pytest.fixture
def run(tiny_run: TinyRun, tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that is over, to be resumed."""
    monkeypatch.setattr(language_model, "SAMPLE", SAMPLE)
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside" / "folder").mkdir(parents=True)
    for name in ("precious.txt", "folder/step-000000001.safetensors", "folder/.notes-0123abcd"):
        (tmp_path / "outside" / name).write_text("irreplaceable\n" * 100)
    return tmp_path / "outside"


@pytest.mark.parametrize("name", [*sorted({*FILES} - {"cell.json"}), "checkpoints", "tensorboard"])
def test_a_run_is_not_resumed_through_a_link(name: str, run: Path, tiny_run: TinyRun, tmp_path: Path) -> None:
    away = outside(tmp_path)
    path, folder = run / name, name in ("checkpoints", "tensorboard")
    if path.is_dir():
        path.rename(run / "moved")
    path.unlink(missing_ok=True)
    if name == "config.toml":  # otherwise there is no run to resume
        shutil.copyfile(tiny_run.path / name, away / "precious.txt")
    path.symlink_to(away / ("folder" if folder else "precious.txt"))
    before = content(away)
    with pytest.raises(DataError, match=f"{name} is a link, and a run writes there only if it is a"):
        train(out=run, resume=True, steps=42)
    assert content(away) == before


@pytest.mark.parametrize("name", ["metrics.jsonl", "samples.txt"])
def test_a_log_with_another_name_elsewhere_is_copied_before_it_is_written(name: str, run: Path, tmp_path: Path) -> None:
    """A hard link cannot be told from the file that it is."""
    away = outside(tmp_path)
    (away / "precious.txt").write_bytes((run / name).read_bytes() + b"more\n")
    (run / name).unlink()
    os.link(away / "precious.txt", run / name)
    before = content(away)
    train(out=run, resume=True, steps=42)
    assert content(away) == before
    assert (run / name).stat().st_nlink == 1
    assert b"more\n" not in (run / name).read_bytes()


@pytest.mark.parametrize("name", ["metrics.jsonl", "MODEL_CARD.md", "model.safetensors", "checkpoints", "tensorboard"])
@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_what_is_neither_a_file_nor_a_folder_is_refused_before_training(name: str, kind: str, run: Path) -> None:
    if kind == "folder" and name in ("checkpoints", "tensorboard"):
        pytest.skip("it is one")
    path = run / name
    path.rename(run / "moved") if path.exists() else None
    with odd_files.place(path, kind), pytest.raises(DataError, match=f"{name} is a "):
        train(out=run, resume=True, steps=42)


def test_an_odd_checkpoint_is_refused_or_passed_over(run: Path) -> None:
    for kind in ("folder", "pipe", "loop"):
        with odd_files.place(run / "checkpoints" / "step-000000099.safetensors", kind):
            with pytest.raises(DataError, match="step-000000099.safetensors is a "):
                train(out=run, resume=True, steps=42)
            found = RunFolder(run).read_checkpoint()  # as evaluating does
        assert found is not None
        assert [path.name for path in found.damaged] == ["step-000000099.safetensors"]
    train(out=run, resume=True, steps=42)


def test_a_run_whose_best_model_is_lost_says_so_before_it_trains(run: Path) -> None:
    (run / "model.safetensors").unlink()
    before = content(run)
    with pytest.raises(DataError, match="model.safetensors cannot be read: No such file"):
        train(out=run, resume=True, steps=42)
    assert content(run) == before


def test_a_best_model_older_than_the_run_knows_is_refused(run: Path) -> None:
    tensors, facts = read_tensors(run / "model.safetensors")
    write_tensors(run / "model.safetensors", dict(tensors), {**facts, "step": 0})
    with pytest.raises(DataError, match="model.safetensors is of step 0, and the best model so far is of step"):
        train(out=run, resume=True, steps=42)


def test_a_best_model_of_other_shapes_is_refused_before_training(run: Path) -> None:
    tensors, facts = read_tensors(run / "model.safetensors")
    name, one = next((name, one) for name, one in tensors.items() if one.dim() == 1)
    write_tensors(run / "model.safetensors", {**tensors, name: torch.cat([one, one])}, facts)
    before = content(run)
    with pytest.raises(DataError, match=rf"model.safetensors does not fit the model: {name} is of shape"):
        train(out=run, resume=True, steps=42)
    assert content(run) == before


def test_tensors_that_a_run_does_not_have_are_refused(run: Path) -> None:
    newest = RunFolder(run).checkpoints()[-1]
    tensors, facts = read_tensors(newest)
    whole = {name: tensor.clone() for name, tensor in tensors.items()}
    for changed, said in (
        ({**whole, "extra": torch.ones(1)}, "extra is of shape .1,. in the file and missing in the model"),
        ({name: one for name, one in whole.items() if name != "random.0"}, "random.0 is missing in the file"),
        ({**whole, "random.0": whole["random.0"][:-1].clone()}, "random.0 is of shape"),
        ({**whole, "random.0": whole["random.0"] * 0 + 255}, "has no state of random numbers"),
        ({**whole, "state.0.0": whole["state.0.0"][:1].clone()}, "state.0.0 is of shape"),
        ({**whole, "average.ema.count": torch.tensor(3)}, "average.ema.count is of shape"),
    ):
        write_tensors(newest, changed, facts)
        with pytest.raises(DataError, match=said):
            train(out=run, resume=True, steps=42)
