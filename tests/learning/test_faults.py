"""NaN and infinity: where they came from is said, with the step, and what is on disk stays finite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.learning.small_runs import OPTIONS, SAMPLE, write_text
from tests.learning.toy_task import Slope, Toy, make_loop
from torch import Tensor, nn

from unspool.errors import TrainingError
from unspool.learning.events import Event, Saved
from unspool.learning.faults import find_bad_number, find_fault
from unspool.learning.files import read_tensors
from unspool.learning.loop import Loop
from unspool.learning.run import RunFolder
from unspool.learning.stopping import Stop
from unspool.tasks import language_model
from unspool.tasks.train import plan, train


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(language_model, "SAMPLE", SAMPLE)


class Times(nn.Module):
    """The input times a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Dropping(nn.Module):
    """A layer that draws random numbers, and a bad end."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.w = nn.Dropout(0.5), nn.Parameter(torch.ones(4))

    def forward(self, batch: Tensor, carried: Any) -> Tensor:
        result: Tensor = self.drop(batch) * self.w - math.nan
        return result


class Chain(nn.Module):
    """Three layers; called as a learner is."""

    def __init__(self, *factors: float) -> None:
        super().__init__()
        self.first, self.middle, self.last = map(Times, factors)

    def forward(self, batch: Tensor, carried: Any) -> Tensor:
        result: Tensor = self.last(self.middle(self.first(batch)))
        return result.sum()


def assert_finite(run: Path) -> None:
    """All that a run has on disk can be gone on with."""
    files = [*RunFolder(run).checkpoints(), *run.glob("model.safetensors")]
    assert files
    for path in files:
        tensors, _ = read_tensors(path)
        assert all(tensor.isfinite().all() for tensor in tensors.values())


# ── where it came from ──


def test_a_parameter_that_holds_nan_is_named() -> None:
    assert find_fault(Chain(1.0, math.nan, 1.0), torch.ones(2), None) == "the parameter middle.factor holds NaN"
    assert find_bad_number(Chain(1.0, 1.0, -math.inf)) == "the parameter last.factor holds infinity"
    assert find_bad_number(Chain(1.0, 1.0, 1e38)) is None


def test_the_first_layer_whose_output_overflows_is_named() -> None:
    fault = find_fault(Chain(1e30, 1e30, 0.0), torch.ones(2), None)
    assert fault == "the output of middle (Times) holds infinity"
    assert find_fault(Chain(1e30, 1e30, 0.0), torch.zeros(2), None) == "the loss is not finite"


def test_a_gradient_is_named_where_all_outputs_are_finite() -> None:
    chain = Chain(1.0, 1.0, 1.0)
    chain.middle.factor.grad = torch.tensor(math.nan)
    assert find_fault(chain, torch.ones(2), None) == "the gradient of middle.factor holds NaN"


def test_looking_changes_nothing() -> None:
    learner = Dropping()
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    assert find_fault(learner, torch.ones(4), None) == "the output of the model (Dropping) holds NaN"
    assert torch.equal(torch.rand(3), expected)
    assert learner.w.grad is None
    assert not learner._forward_hooks


def test_the_memory_of_the_optimiser_is_looked_at_too() -> None:
    slope = Slope()
    optimiser = torch.optim.Adam(slope.parameters(), lr=0.1)
    slope.w.grad = torch.full((1,), 1e30)
    optimiser.step()  # its square is beyond float32
    assert find_bad_number(slope) is None
    found = "the optimiser's exp_avg_sq of the parameter w holds infinity"
    assert find_bad_number(slope, optimiser) == found


# ── runs ──


def test_a_rate_that_is_far_too_high_ends_with_layer_step_and_remedy(tmp_path: Path) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    options = OPTIONS | {"steps": 50, "rate": 1e38, "warmup": 0, "checkpoint_every": 1, "keep": 100, "average": None}
    with pytest.raises(TrainingError) as caught:
        train(text, out=run, **options | {"optimiser": "sgd", "clip": None})
    last = RunFolder(run).checkpoints()[-1]
    step = int(last.stem.removeprefix("step-"))
    message = str(caught.value)
    assert f"at step {step + 1}: " in message
    assert any(f"{name} " in message for name in ("embedding", "body.layers", "read_out", "the model"))
    assert f"The last good checkpoint is {last}." in message
    assert "Lower --rate" in message
    assert_finite(run)


class Planted:
    """A language model in training, and a listener that puts a bad number into a parameter after a checkpoint."""

    def __init__(self, tmp_path: Path, step: int, parameter: str, value: float, **options: Any) -> None:
        settings = plan(write_text(tmp_path), **OPTIONS | {"steps": 40} | options)
        task = settings.task.prepare(settings.data, 0)
        self.step, self.parameter, self.value = step, parameter, value
        self.learner = task.make_learner(settings.model)
        self.folder = RunFolder(tmp_path / "run")
        self.folder.begin(settings.dump(), force=False)
        self.loop = Loop(task, self.learner, settings.training, self.folder, self.hear, Stop())

    def hear(self, event: Event) -> None:
        if isinstance(event, Saved) and event.step == self.step:
            with torch.no_grad():
                self.learner.get_parameter(self.parameter)[0, 0] = self.value


@pytest.mark.parametrize(
    ("engine", "parameter"),
    [("torch", "body.layers.weight_hh_l1"), pytest.param("kernel", "body.layers.1.W_f", marks=pytest.mark.long)],
)
def test_a_parameter_that_turns_bad_stops_the_next_update_and_is_named(
    tmp_path: Path, engine: str, parameter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "kernel":
        monkeypatch.delenv("UNSPOOL_CACHE")  # kernels are there already
    planted = Planted(tmp_path, 6, parameter, math.nan, engine=engine, checkpoint_every=3)
    with pytest.raises(TrainingError, match=f"at step 7: the parameter {parameter} holds NaN. .*step-000000006.safe"):
        planted.loop.run()
    assert_finite(tmp_path / "run")


def test_a_parameter_that_no_batch_reads_is_not_saved_when_it_is_bad(tmp_path: Path) -> None:
    """Id 0 stands for what is not in the vocabulary: training never sees it, and the loss stays finite."""
    planted = Planted(tmp_path, 6, "embedding.weight", math.inf, checkpoint_every=3, evaluate_every=100)
    with pytest.raises(TrainingError, match="at step 9: the parameter embedding.weight holds infinity.*step-000000006"):
        planted.loop.run()
    found = planted.folder.read_checkpoint()
    assert found is not None
    assert found.facts["position"]["step"] == 6
    assert_finite(tmp_path / "run")


def test_a_validation_loss_that_is_not_finite_ends_the_run_and_the_best_model_stays(tmp_path: Path) -> None:
    loop, _ = make_loop(Toy([1.0], [2.0, math.inf]), run=tmp_path / "run", steps=10, evaluate_every=2)
    with pytest.raises(TrainingError, match="at step 4: the validation loss is not finite; .*step-000000002.safe"):
        loop.run()
    assert_finite(tmp_path / "run")
    assert read_tensors(tmp_path / "run" / "model.safetensors")[0]["w"].item() == -0.5 * 2


def test_weights_that_overflow_in_an_update_are_neither_saved_nor_kept_as_the_best(tmp_path: Path) -> None:
    loop, _ = make_loop(Toy([0.5, 8.0]), run=tmp_path / "run", steps=10, checkpoint_every=1, rate=5e37)
    with pytest.raises(TrainingError, match="at step 2: the parameter w holds infinity.*step-000000001.safe"):
        loop.run()
    assert_finite(tmp_path / "run")


def test_a_model_that_cannot_be_evaluated_is_named_with_its_step(tmp_path: Path) -> None:
    """Weights may be finite, and so large that no logits are."""
    options = {**OPTIONS, "rate": 1e30, "clip": 1e30, "optimiser": "sgd", "evaluate_every": 1}
    with pytest.raises(TrainingError, match=r"training diverged at step \d+: .*(output|parameter|gradient|loss)"):
        train(write_text(tmp_path), out=tmp_path / "run", **options)
