"""Loading a run: sizes are compared before anything is allocated, and files that do not belong together are refused."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.learning import odd_files
from tests.runs.tiny_run import TinyRun

from unspool.cli.train import find_resumed
from unspool.errors import ArgumentError, DataError, DivergenceError
from unspool.insight.xray import xray
from unspool.learning.files import forms_of, read_tensors, write_tensors
from unspool.runs.load import expected_forms, load_run
from unspool.runs.train import train
from unspool.storage.tensors import read_header

#: Seconds within which a run of absurd sizes is refused, however busy the machine.
SOON = 10.0


@pytest.fixture
def run(tiny_run: TinyRun, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


def edit(run: Path, old: str, new: str) -> None:
    path = run / "config.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change tensors and facts of a file, with a checksum that fits."""
    tensors, facts = read_tensors(path)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors, facts)
    write_tensors(path, tensors, facts)


def forget_origin(run: Path) -> None:
    """Weights that do not know their settings: only their sizes are left to compare."""
    for path in (run / "model.safetensors", *(run / "checkpoints").iterdir()):
        rewrite(path, lambda _, facts: facts.pop("origin"))


def use(run: Path, how: str) -> None:
    if how == "load":
        load_run(run)
    else:
        train(out=run, resume=True)


def test_a_model_is_described_without_its_memory(tiny_run: TinyRun) -> None:
    config, task, learner = load_run(tiny_run.path)
    forms = expected_forms(task, config)
    assert forms == forms_of(learner.state_dict()) == read_header(tiny_run.path / "model.safetensors").forms


@pytest.mark.parametrize("how", ["load", "resume"])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("hidden = 1000000", "1000000"),
        ("hidden = 1048576", "1048576"),
        ("hidden = 100000000000000000000000", "hidden"),
        ("hidden = 12\nembedding = 1000000", "1000000"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_absurd_sizes_are_refused_at_once(setting: str, said: str, how: str, known: bool, run: Path) -> None:
    if not known:
        forget_origin(run)
    edit(run, "hidden = 12", setting)
    begun = time.monotonic()
    with pytest.raises(ArgumentError, match=said):
        use(run, how)
    assert time.monotonic() - begun < SOON


@pytest.mark.parametrize("layers", [1001, 100_000_000, 10**23])
@pytest.mark.parametrize("more", ["", "\nforget_bias = 1.0"])
def test_more_layers_than_any_network_has_are_refused_at_once(layers: int, more: str, run: Path) -> None:
    edit(run, "layers = 1", f"layers = {layers}{more}")
    begun = time.monotonic()
    with pytest.raises(ArgumentError, match=f"`layers` .={layers}. should be less than or equal to 1000"):
        load_run(run)
    assert time.monotonic() - begun < SOON


@pytest.mark.parametrize("how", ["load", "resume"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32])
def test_weights_of_another_type_are_refused(dtype: torch.dtype, how: str, run: Path) -> None:
    name = "model.safetensors" if how == "load" else sorted((run / "checkpoints").iterdir())[-1].name
    path = run / name if how == "load" else run / "checkpoints" / name
    key = "head_bias" if how == "load" else "model.head_bias"

    def change(tensors: dict[str, Any], _facts: dict[str, Any]) -> None:
        tensors[key] = tensors[key].to(dtype)

    rewrite(path, change)
    with pytest.raises(DataError, match="head_bias is of type .* in the file and of type F32 in the model"):
        use(run, how)


@pytest.mark.parametrize("name", ["config.toml", "vocabulary.json", "model.safetensors", "cell.json"])
@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_what_is_not_a_file_is_refused_at_once(name: str, kind: str, run: Path) -> None:
    (run / name).unlink(missing_ok=True)
    with odd_files.place(run / name, kind), pytest.raises(DataError, match=name):
        load_run(run)


def test_a_setting_that_shows_in_no_weight_is_refused_too(run: Path) -> None:
    """Without it the model would load, and read texts in another way."""
    edit(run, 'split = "tail"', 'split = "lines"')
    with pytest.raises(DataError, match="`split` is 'lines' in config.toml and 'tail' in .*model.safetensors"):
        load_run(run)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_reported_with_layer_and_step(value: float, run: Path) -> None:
    def spoil(tensors: dict[str, Any], _facts: dict[str, Any]) -> None:
        tensors["backbone.layers.weight_hh_l0"][0, 0] = value

    rewrite(run / "model.safetensors", spoil)
    step = read_header(run / "model.safetensors").facts["step"]
    said = (
        rf"model.safetensors has diverged, at step {step} or before: the parameter backbone.layers.weight_hh_l0 holds"
    )
    for command in (load_run, xray):
        with pytest.raises(DivergenceError, match=said):
            command(run)


@pytest.mark.parametrize("part", ["model.head_bias", "optimizer.0.exp_avg", "state.0.0"])
def test_a_checkpoint_that_is_not_finite_is_not_resumed(part: str, run: Path) -> None:
    def spoil(tensors: dict[str, Any], _facts: dict[str, Any]) -> None:
        tensors[part].view(-1)[0] = math.nan

    rewrite(sorted((run / "checkpoints").iterdir())[-1], spoil)
    with pytest.raises(DivergenceError, match="training diverged at step 40: .* holds NaN"):
        train(out=run, resume=True, steps=60)


@pytest.mark.parametrize("left", ["nothing", "pipe"])
@pytest.mark.parametrize("gone", [(), ("model.safetensors",), ("checkpoints",)])
def test_a_run_without_its_config_is_never_data(gone: tuple[str, ...], left: str, run: Path, tmp_path: Path) -> None:
    (run / "config.toml").unlink()
    if left == "pipe":
        os.mkfifo(run / "config.toml")
    for name in gone:
        shutil.rmtree(run / name, ignore_errors=True)
        (run / name).unlink(missing_ok=True)
    before = sorted(run.rglob("*"))
    with pytest.raises(DataError, match=r"is not the folder of a run: it has no config\.toml"):
        find_and_resume(run)
    with pytest.raises(ArgumentError, match="is a run folder"):
        train(run, out=tmp_path / "new", quiet=True)
    assert sorted(run.rglob("*")) == before
    assert not (tmp_path / "new").exists()


def find_and_resume(run: Path) -> None:
    """What the command line does with `train RUN --resume`."""
    files, out = find_resumed([str(run)], None, None)
    train(files, out=out, resume=True, quiet=True)


def test_a_message_about_cells_that_are_no_file_has_two_sentences(run: Path) -> None:
    os.mkfifo(run / "cell.json")
    with pytest.raises(
        DataError, match=r"cell\.json cannot be read: it is a pipe, not a file\. Restore it from a copy\.$"
    ):
        load_run(run)
