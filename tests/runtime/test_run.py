"""A run folder is played without torch: the same metrics and logits; damaged or mixed folders are refused."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learning import odd_files
from tests.runs.tiny_run import OPTIONS, TinyRun

from unspool.errors import DataError, DivergenceError
from unspool.learning.files import read_tensors, write_tensors
from unspool.runs.load import load_run
from unspool.runs.train import train
from unspool.runtime.play import make_player
from unspool.runtime.run import read_run
from unspool.storage.documents import seal

pytestmark = pytest.mark.usefixtures("own_cache", "without_kernels")


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new cache has none, and compiling them takes long."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


@pytest.fixture
def run(tiny_run: TinyRun, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


@torch.no_grad()
def test_a_run_is_played_as_it_was_trained(tiny_run: TinyRun) -> None:
    kept = read_run(tiny_run.path)
    _, _, learner = load_run(tiny_run.path)
    player: Any = make_player(kept.network)
    ids = np.arange(12).reshape(4, 3)
    model: Any = learner
    expected, _ = model.predict(ids, None)
    found, _ = player.predict(ids, None)
    assert np.abs(found - np.asarray(expected)).max() <= 1e-6 * np.abs(np.asarray(expected)).max()
    assert kept.network.task == kept.config["task"] == "lm"
    assert kept.facts["step"] > 0


def test_the_file_is_written_when_training_starts_and_kept_when_it_resumes(run: Path, tiny_run: TinyRun) -> None:
    before = (run / "network.json").read_bytes()
    digest = read_run(run).digest
    assert digest == read_run(tiny_run.path).digest
    train(out=run, resume=True, steps=OPTIONS["steps"] + 1, quiet=True)
    assert (run / "network.json").read_bytes() == before
    (run / "network.json").unlink()
    with pytest.raises(DataError, match=r"has no network.json.*`resume=True`"):
        read_run(run)
    train(out=run, resume=True, steps=OPTIONS["steps"] + 2, quiet=True)
    assert (run / "network.json").read_bytes() == before


def test_a_baseline_has_no_network(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one two three\n" * 300, encoding="utf-8")
    options = {**OPTIONS, "backbone": "mlp", "steps": 2, "eval_every": 1}
    del options["engine"]
    train(text, out=tmp_path / "run", quiet=True, **options)
    assert not (tmp_path / "run" / "network.json").exists()
    with pytest.raises(DataError, match="a baseline without recurrent layers"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("name", ["network.json", "vocabulary.json", "model.safetensors", "config.toml"])
def test_a_missing_file(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(DataError):
        read_run(run)


@pytest.mark.parametrize("kind", odd_files.KINDS)
@pytest.mark.parametrize("name", ["network.json", "vocabulary.json", "model.safetensors"])
def test_what_is_not_a_regular_file_is_refused_at_once(run: Path, name: str, kind: str) -> None:
    (run / name).unlink()
    odd_files.check_refused(run / name, kind, [lambda _: read_run(run)], "cannot be read")


def check_damage(run: Path, seed: int, expected: str) -> bool:
    """Whether a folder with one damaged file is refused; else it is the same model."""
    chance = random.Random(seed)
    path = run / chance.choice(["network.json", "vocabulary.json", "model.safetensors"])
    content = path.read_bytes()
    damaged = bytearray(content)
    place = chance.randrange(len(content))
    match chance.randrange(4):
        case 0:
            damaged[place] ^= 1 << chance.randrange(8)
        case 1:
            del damaged[place : place + chance.randrange(1, 50)]
        case 2:
            damaged[place:place] = chance.randbytes(chance.randrange(1, 20))
        case _:
            del damaged[place:]
    path.write_bytes(bytes(damaged))
    try:
        assert read_run(run).digest == expected, f"seed {seed}: {path.name} was changed, and nobody noticed"
    except DataError:
        return True
    finally:
        path.write_bytes(content)
    return False


def test_damage_is_noticed(run: Path) -> None:
    expected = read_run(run).digest
    assert sum(check_damage(run, seed, expected) for seed in range(150)) > 100


@pytest.mark.long
def test_much_damage_is_noticed(run: Path) -> None:
    expected = read_run(run).digest
    assert sum(check_damage(run, seed, expected) for seed in range(1000, 21_000)) > 15_000


def edit(path: Path, **changed: Any) -> None:
    """Change a sealed document and seal it again, as somebody might who wants to be believed."""
    document = json.loads(path.read_text(encoding="utf-8"))
    document.pop("digest")
    path.write_text(json.dumps(seal({**document, **changed})), encoding="utf-8")


def test_files_of_another_run_are_not_taken_for_its_own(run: Path) -> None:
    origin = json.loads((run / "network.json").read_text(encoding="utf-8"))["origin"]
    other = {**origin, "settings": {**origin["settings"], "hidden": 13}}
    edit(run / "network.json", origin=other)
    with pytest.raises(DataError, match="network.json is not the one that .*model.safetensors was made with"):
        read_run(run)
    edit(run / "network.json", origin={**origin, "settings": {**origin["settings"], "of a later version": 1}})
    read_run(run)
    edit(run / "network.json", origin=None)
    with pytest.raises(DataError, match="does not say what it was made with"):
        read_run(run)
    edit(run / "network.json", origin=origin, task="classify")
    with pytest.raises(DataError, match="is of another task than 'lm'"):
        read_run(run)
    edit(run / "network.json", task="lm")
    edit(run / "vocabulary.json", more=1)
    with pytest.raises(DataError, match="vocabulary.json is not the one"):
        read_run(run)


def test_weights_that_are_not_finite(run: Path) -> None:
    tensors, facts = read_tensors(run / "model.safetensors")
    tensors["head"][0, 0] = float("nan")
    write_tensors(run / "model.safetensors", tensors, facts)
    with pytest.raises(DivergenceError, match="has diverged, at step .*: the parameter head holds NaN"):
        read_run(run)


def test_nothing_of_it_imports_torch(tiny_run: TinyRun) -> None:
    code = f"""
import sys
sys.modules["torch"] = sys.modules["pydantic"] = sys.modules["polars"] = None
import numpy as np
from unspool.runtime.play import make_player
from unspool.runtime.run import read_run
player = make_player(read_run({str(tiny_run.path)!r}).network)
print(player.predict(np.array([[1], [2]]), None)[0].shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("(1, ")
