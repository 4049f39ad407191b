"""Devices: which one a name means, what is moved there, and all tasks trained on a GPU that is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.learning.fake_gpu import FakeGPU, is_on_gpu
from tests.learning.small_runs import SAMPLE, write_text
from tests.learning.toy_task import Toy, make_loop
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.learning.components import device_of
from unspool.learning.device import (
    available_devices,
    choose_device,
    random_state,
    set_random_state,
    to_device,
    to_device_of,
)
from unspool.learning.events import Evaluated, Event, Stepped
from unspool.learning.files import read_tensors
from unspool.learning.loop import Loop
from unspool.learning.run_folder import RunFolder
from unspool.learning.stopping import Stop
from unspool.models.catalogue import make_learner
from unspool.nn.leaves import leaves
from unspool.runs.train import plan
from unspool.settings.training import Training
from unspool.tasks import lm as language_model

# ── which device ──


def pretend(monkeypatch: pytest.MonkeyPatch, gpus: int = 0, mps: bool = False) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("gpus", "mps", "name", "found"),
    [
        (0, False, "cpu", "cpu"),
        (0, False, "auto", "cpu"),
        (2, False, "cpu", "cpu"),
        (2, False, "auto", "cuda:0"),
        (2, True, "auto", "cuda:0"),
        (0, True, "auto", "mps"),
        (2, False, "cuda", "cuda:0"),
        (2, False, "cuda:1", "cuda:1"),
        (1, True, "mps", "mps"),
    ],
)
def test_a_name_means_a_device(monkeypatch: pytest.MonkeyPatch, gpus: int, mps: bool, name: str, found: str) -> None:
    pretend(monkeypatch, gpus, mps)
    assert choose_device(name) == torch.device(found)


@pytest.mark.parametrize(
    ("gpus", "mps", "name", "available"),
    [
        (0, False, "cuda", "`device='cpu'`"),
        (0, False, "mps", "`device='cpu'`"),
        (2, False, "cuda:2", "`device='cuda:0'`, `device='cuda:1'`, `device='cpu'`"),
        (0, True, "cuda", "`device='mps'`, `device='cpu'`"),
        (0, False, "tpu", "`device='cpu'`"),
        (0, False, "", "`device='cpu'`"),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, gpus: int, mps: bool, name: str, available: str
) -> None:
    pretend(monkeypatch, gpus, mps)
    with pytest.raises(ArgumentError) as caught:
        choose_device(name)
    assert str(caught.value) == f"`device` (={name!r}) is not available. Available: {available}."


def test_the_loop_refuses_it_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    with pytest.raises(ArgumentError, match=r"`device` \(='cuda'\) is not available"):
        make_loop(Toy([1.0]), device="cuda")
    pretend(monkeypatch, gpus=1)
    with pytest.raises(ArgumentError, match=r"`device` \(='cuda'\) is not for 2 processes"):
        device_of(Training(device="cuda"), 2)


def test_this_machine_has_a_cpu() -> None:
    assert available_devices()[-1] == "cpu"


# ── moving ──


class Words(NamedTuple):
    ids: Tensor
    characters: tuple[Tensor, list[Tensor]]
    name: str


def test_every_tensor_of_a_nesting_is_moved_and_nothing_else_changes() -> None:
    meta = torch.device("meta")
    batch = Words(torch.arange(3), (torch.ones(2, 2), [torch.zeros(1)]), "words")
    found = to_device({"words": batch, "targets": None, "units": 2.5}, meta)
    words = found["words"]
    assert isinstance(words, Words)
    assert isinstance(words.characters[1], list)
    assert [one.device for one in (words.ids, words.characters[0], words.characters[1][0])] == [meta] * 3
    assert (words.name, found["targets"], found["units"]) == ("words", None, 2.5)
    assert words.characters[0].shape == (2, 2)


def test_on_the_cpu_no_number_is_copied() -> None:
    ones, numbers = torch.ones(2), np.zeros(3, np.float32)
    for found in (
        to_device((ones, [numbers]), torch.device("cpu")),
        to_device_of(nn.Linear(2, 2), (ones, [numbers])),
        to_device_of(nn.Tanh(), (ones, [numbers])),
    ):
        assert found[0] is ones
        assert found[1][0].data_ptr() == numbers.ctypes.data
    assert [one.device.type for one in to_device_of(nn.Linear(2, 2, device="meta"), (ones, numbers))] == ["meta"] * 2


# ── random numbers ──


def test_the_state_of_random_numbers_comes_back() -> None:
    state = random_state(torch.device("cpu"))
    assert torch.equal(state, torch.get_rng_state())
    drawn = torch.rand(3)
    set_random_state(state, torch.device("cpu"))
    assert torch.equal(torch.rand(3), drawn)


def test_the_state_of_a_gpu_is_kept_beside_that_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda:0")
    states = {gpu: torch.arange(16, dtype=torch.uint8)}
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: states[device].clone())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: states.update({device: state.clone()}))
    both, cpu = random_state(gpu), random_state(torch.device("cpu"))
    drawn = torch.rand(3)
    states[gpu] = torch.zeros(16, dtype=torch.uint8)
    set_random_state(both, gpu)
    assert torch.equal(torch.rand(3), drawn)
    assert states[gpu].tolist() == list(range(16))
    states[gpu] = torch.ones(16, dtype=torch.uint8)
    set_random_state(cpu, gpu)  # of a run on the CPU
    set_random_state(both, torch.device("cpu"))  # and the other way round
    assert states[gpu].tolist() == [1] * 16
    assert torch.equal(torch.rand(3), drawn)


# ── a made-up GPU ──


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGPU:
    monkeypatch.setattr(language_model, "SAMPLE", SAMPLE)
    pretend(monkeypatch, gpus=1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.zeros(16, dtype=torch.uint8))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    return FakeGPU()


def test_it_is_refused_that_devices_meet(gpu: FakeGPU) -> None:
    with gpu:
        far, near = torch.ones(2).to("cuda:0"), torch.ones(2)
        assert (far.device.type, near.device.type, (far + far).device.type) == ("cuda", "cpu", "cuda")
        for meet in (lambda: far + near, lambda: torch.cat([far, near]), lambda: nn.Linear(2, 1)(far)):
            with pytest.raises(RuntimeError, match="same device"):
                meet()
        with pytest.raises(TypeError, match="numpy"):
            far.numpy()
        assert far.cpu().numpy().tolist() == [1, 1]
        assert (far * torch.tensor(2.0)).tolist() == [2, 2]  # a number of the CPU may meet anything


def write_data(folder: Path) -> dict[str, Path]:
    """A small file for each task."""
    draw = np.random.default_rng(0)
    words = ["".join(draw.choice(list("abc"), draw.integers(2, 6))) for _ in range(60)]
    files = {
        "classify.csv": "text,label\n" + "".join(f"{word},{word.count('a') > 1}\n" for word in words),
        "regress.csv": "text,value\n" + "".join(f"{word},{word.count('a')}\n" for word in words),
        "seq2seq.tsv": "".join(f"{word}\t{word[::-1]}\n" for word in words),
        "tag.txt": "".join(f"play O\n{word} B-name\n\n" for word in words),
        "forecast.csv": "date,value\n"
        + "".join(f"{t},{np.sin(t / 2) + 0.1 * draw.normal():.4f}\n" for t in range(120)),
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return {"lm": write_text(folder), **{name.split(".")[0]: folder / name for name in files}}


SMALL: dict[str, Any] = {"hidden": 6, "batch_size": 4, "steps": 4, "eval_every": 2, "seed": 3}
TASKS: dict[str, dict[str, Any]] = {
    "lm": {"bptt": 8, "layers": 2, "average": "ema", "teacher_forcing": "linear", "activation_penalty": 0.1},
    "classify": {"dropout": 0.2, "grad_accum": 2},
    "regress": {"target": ["value"], "optimizer": "sgd", "lr": 0.1},
    "seq2seq": {"beam_size": 2},
    "tag": {"char_hidden": 3},
    "forecast": {"horizon": 3, "season": 6, "layers": 2, "gate_penalty": 0.1, "deep_supervision": 0.1},
}


def make(file: Path, task: str, folder: Path | None = None, **options: Any) -> tuple[Loop, list[Event]]:
    config = plan(file, task=task, **SMALL | TASKS[task] | options)
    torch.manual_seed(0)
    prepared = config.task.prepare(config.data, 0)
    events: list[Event] = []
    run = None if folder is None else RunFolder(folder)
    if run is not None:
        run.begin(config.dump(), overwrite=False)
    return Loop(prepared, make_learner(prepared, config.model), config.training, run, events.append, Stop()), events


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_trained_on_it_as_on_the_cpu(
    task: str, tmp_path: Path, gpu: FakeGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.learning.throughput.REPORT_EVERY", 0.0)
    file = write_data(tmp_path)[task]
    loop, expected = make(file, task)
    loop.run()
    with gpu:
        loop, events = make(file, task, device="cuda")
        assert all(map(is_on_gpu, loop.learner.parameters()))
        assert all(map(is_on_gpu, leaves(loop.batches[0])))
        finished = loop.run()
        assert not any(map(is_on_gpu, loop.learner.state_dict().values()))
    assert finished.reason == "done"
    losses = [[event.loss for event in told if isinstance(event, Stepped)] for told in (events, expected)]
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    metrics = [[event.validation for event in told if isinstance(event, Evaluated)] for told in (events, expected)]
    for found, known in zip(*metrics, strict=True):
        assert found == pytest.approx(known, rel=1e-3)


def test_a_run_on_it_resumes_bit_for_bit(tmp_path: Path, gpu: FakeGPU) -> None:
    file = write_data(tmp_path)["lm"]
    with gpu:
        whole, _ = make(file, "lm", tmp_path / "whole", device="cuda", dropout=0.3, checkpoint_every=1)
        whole.run()
        cut, _ = make(file, "lm", tmp_path / "cut", device="cuda", dropout=0.3, checkpoint_every=1)
        cut._advance()
        cut._advance()
        cut.save()
        assert cut.folder is not None
        cut.folder.close()
        torch.manual_seed(99)
        model = plan(file, task="lm", **SMALL | TASKS["lm"] | {"dropout": 0.3}).model
        folder = RunFolder.open(tmp_path / "cut")
        again = Loop(cut.task, make_learner(cut.task, model), cut.settings, folder, lambda event: None, Stop())
        assert again.resume()
        again.run()
    last = "checkpoints/step-000000004.safetensors"
    tensors, others = (read_tensors(tmp_path / run / last)[0] for run in ("whole", "cut"))
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())
    assert len(tensors["random.0"]) > len(torch.get_rng_state())
