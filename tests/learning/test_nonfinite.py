"""NaN and infinity: their source is named, with the step, and what is on disk stays finite."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.learning.small_runs import OPTIONS, SAMPLE, write_text
from tests.learning.toy_task import Slope, Toy, make_loop
from torch import Tensor, nn

from unspool.errors import DataError, DivergenceError, TrainingError
from unspool.learning import throughput
from unspool.learning.events import Event, Saved, Stepped
from unspool.learning.files import read_tensors
from unspool.learning.loop import Loop
from unspool.learning.nonfinite import diagnose, find_absurd_loss, find_nonfinite, refuse_huge_weights, trace_nonfinite
from unspool.learning.run_folder import RunFolder
from unspool.learning.stopping import Stop
from unspool.models.catalogue import make_learner
from unspool.runs.train import plan, train
from unspool.tasks import lm as language_model


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
    """All that a run has on disk can be resumed."""
    files = [*RunFolder(run).checkpoints(), *run.glob("model.safetensors")]
    assert files
    for path in files:
        tensors, _ = read_tensors(path)
        assert all(tensor.isfinite().all() for tensor in tensors.values())


# ── what cannot be ──


@pytest.mark.parametrize(
    ("loss", "first", "absurd"),
    [
        (2.3, None, False),
        (9e11, None, False),  # there is nothing to compare it to
        (1e28, None, True),  # but nothing starts from there
        (-1e28, None, True),
        (math.nan, None, True),
        (1e28, 2.3, True),
        (-4.84e23, 2.3, True),
        (-4.84, 2.3, True),  # a −log P is not negative
        (-1e-5, 2.3, False),  # by rounding
        (9e5, 2.3, False),
        (2e6, 1e5, False),  # it was large from the start
        (2e8, 1e5, True),
    ],
)
def test_a_loss_that_only_a_diverged_model_has(loss: float, first: float | None, absurd: bool) -> None:
    assert bool(find_absurd_loss(loss, first)) == absurd


def test_weights_whose_squares_are_infinite_are_refused() -> None:
    refuse_huge_weights(Chain(1e18, -1e18, 1.0))
    with pytest.raises(DivergenceError, match=r"a weight is beyond 1.8e\+19"):
        refuse_huge_weights(Chain(1.0, -2e19, 1.0))
    refuse_huge_weights(Chain(1.0, 1.0, 1.0).double())


# ── where it came from ──


def test_a_parameter_that_holds_nan_is_named() -> None:
    assert trace_nonfinite(Chain(1.0, math.nan, 1.0), torch.ones(2), None) == "the parameter middle.factor holds NaN"
    assert find_nonfinite(Chain(1.0, 1.0, -math.inf)) == "the parameter last.factor holds infinity"
    assert find_nonfinite(Chain(1.0, 1.0, 1e38)) is None


def test_the_first_layer_whose_output_overflows_is_named() -> None:
    fault = trace_nonfinite(Chain(1e30, 1e30, 0.0), torch.ones(2), None)
    assert fault == "the output of middle (Times) holds infinity"
    assert trace_nonfinite(Chain(1e30, 1e30, 0.0), torch.zeros(2), None) == (
        "the loss is not finite; the largest weight is 1e+30, in the parameter first.factor"
    )


def test_a_gradient_is_named_where_all_outputs_are_finite() -> None:
    chain = Chain(1.0, 1.0, 1.0)
    chain.middle.factor.grad = torch.tensor(math.nan)
    assert trace_nonfinite(chain, torch.ones(2), None) == "the gradient of middle.factor holds NaN"


def test_looking_changes_nothing() -> None:
    learner = Dropping()
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    assert trace_nonfinite(learner, torch.ones(4), None) == "the output of the model (Dropping) holds NaN"
    assert torch.equal(torch.rand(3), expected)
    assert learner.w.grad is None
    assert not learner._forward_hooks


def test_the_memory_of_the_optimizer_is_looked_at_too() -> None:
    slope = Slope()
    optimizer = torch.optim.Adam(slope.parameters(), lr=0.1)
    slope.w.grad = torch.full((1,), 1e30)
    optimizer.step()  # its square is beyond float32
    assert find_nonfinite(slope) is None
    found = "the optimizer's exp_avg_sq of the parameter w holds infinity"
    assert find_nonfinite(slope, optimizer) == found


# ── in use ──


class Masked(nn.Module):
    """A mask with −∞ in it, as attention and a CRF have them, and a layer."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.mask, self.layer = Constant(-math.inf), Times(factor)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x) + self.mask(x)
        return scores.softmax(0)


class Constant(nn.Module):
    """A number in the first place, and 0 in all others."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        result = torch.zeros_like(x)
        result[0] = self.value
        return result


@pytest.mark.parametrize(
    ("factor", "error"),
    [
        (1.0, FileNotFoundError(2, "No such file", "nan.csv")),
        (1.0, ValueError("the column `b` is not there")),
        (1.0, ValueError("cannot convert float NaN to integer")),  # but none in the model
        (1e39, FileNotFoundError(2, "No such file", "nan.csv")),
        (1e39, DataError("t.csv, line 3: NaN is no label. Correct it.")),
        (1e39, RuntimeError("no memory is left")),
        (1e39, KeyError("nan")),
    ],
)
def test_an_error_that_is_not_about_numbers_passes_unchanged(factor: float, error: Exception) -> None:
    model = Masked(1.0)
    model.layer.factor = nn.Parameter(torch.tensor(factor, dtype=torch.float64), requires_grad=False)

    def use() -> None:
        model(torch.ones(3))
        raise error

    with pytest.raises(type(error)) as caught:
        diagnose(model, use)
    assert caught.value is error


def test_an_error_about_numbers_that_are_not_finite_is_divergence_and_its_cause_stays() -> None:
    model = Masked(1e30)

    def use() -> None:
        torch.multinomial(model(torch.full((3,), 1e30)), 1)

    found, fault = diagnose(model, use)
    assert (found, str(fault)) == (None, "the output of layer (Times) holds infinity")
    assert isinstance(fault, DivergenceError)
    assert isinstance(fault.__cause__, RuntimeError)
    assert "probability" in str(fault.__cause__)


def test_a_mask_is_not_blamed_for_a_result_that_is_not_finite() -> None:
    learner = nn.Sequential(Constant(-math.inf), nn.Flatten(0), Constant(math.nan))

    def use() -> None:
        learner(torch.ones(3))
        raise DivergenceError("the loss is not finite")

    _, fault = diagnose(learner, use)
    assert str(fault) == (
        "the loss is not finite; the output of 2 (Constant) holds NaN; "
        "before it, the output of 0 (Constant) holds −infinity"
    )
    _, fault = diagnose(Chain(1.0, -2.0, 1.5), use)
    assert str(fault) == "the loss is not finite; the largest weight is 2, in the parameter middle.factor"


def test_a_bad_gradient_is_named_rather_than_a_mask() -> None:
    class MaskedChain(Masked):
        def forward(self, x: Tensor, _state: Any = None) -> Tensor:
            return super().forward(x).sum()

    learner = MaskedChain(1.0)
    learner.layer.factor.grad = torch.tensor(math.nan)
    assert trace_nonfinite(learner, torch.ones(3), None) == "the gradient of layer.factor holds NaN"


# ── runs ──


def test_a_learning_rate_that_is_far_too_high_ends_with_layer_step_and_remedy(tmp_path: Path) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    # beyond float32: on some processors torch's LSTM saturates at lower rates, and its loss stays finite
    options = OPTIONS | {"steps": 50, "lr": 3e38, "warmup": 0, "checkpoint_every": 1, "average": None}
    with pytest.raises(TrainingError) as caught:
        train(text, out=run, **options | {"optimizer": "sgd", "clip": 0.0})
    last = RunFolder(run).checkpoints()[-1]
    step = int(last.stem.removeprefix("step-"))
    message = str(caught.value)
    assert f"at step {step + 1}: " in message
    assert re.search(r"the (parameter|output of|gradient of) (embedding|backbone|head|the model)", message)
    assert f"The last good checkpoint is {last}." in message
    assert "Lower `lr`" in message
    assert_finite(run)


class Planted:
    """A language model in training, and a listener that changes its parameters after an event."""

    def __init__(
        self,
        tmp_path: Path,
        kind: type[Saved | Stepped],
        step: int,
        change: Callable[[nn.Module], None],
        **options: Any,
    ) -> None:
        settings = plan(write_text(tmp_path), **OPTIONS | {"steps": 40} | options)
        task = settings.task.prepare(settings.data, 0)
        self.kind, self.step, self.change = kind, step, change
        self.learner = make_learner(task, settings.model)
        self.folder = RunFolder(tmp_path / "run")
        self.folder.begin(settings.dump(), overwrite=False)
        self.loop = Loop(task, self.learner, settings.training, self.folder, self.hear, Stop())

    def hear(self, event: Event) -> None:
        if isinstance(event, self.kind) and event.step == self.step:
            with torch.no_grad():
                self.change(self.learner)


def put(parameter: str, value: float) -> Callable[[nn.Module], None]:
    """A change that puts a number into a matrix."""

    def change(model: nn.Module) -> None:
        model.get_parameter(parameter)[0, 0] = value

    return change


@pytest.mark.parametrize(
    ("engine", "parameter"),
    [
        ("torch", "backbone.layers.weight_hh_l1"),
        pytest.param("kernel", "backbone.layers.1.W_f", marks=pytest.mark.long),
    ],
)
def test_a_parameter_that_turns_bad_stops_the_next_update_and_is_named(
    tmp_path: Path, engine: str, parameter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "kernel":
        monkeypatch.delenv("UNSPOOL_CACHE")  # kernels are there already
    planted = Planted(tmp_path, Saved, 6, put(parameter, math.nan), engine=engine, checkpoint_every=3)
    with pytest.raises(TrainingError, match=f"at step 7: the parameter {parameter} holds NaN. .*step-000000006.safe"):
        planted.loop.run()
    assert_finite(tmp_path / "run")


def test_a_parameter_that_no_batch_reads_is_not_saved_when_it_is_bad(tmp_path: Path) -> None:
    """Id 0 stands for what is not in the vocabulary: training never sees it, and the loss stays finite."""
    planted = Planted(tmp_path, Saved, 6, put("embedding.weight", math.inf), checkpoint_every=3, eval_every=100)
    with pytest.raises(TrainingError, match="at step 9: the parameter embedding.weight holds infinity.*step-000000006"):
        planted.loop.run()
    found = planted.folder.read_checkpoint()
    assert found is not None
    assert found.facts["position"]["step"] == 6
    assert_finite(tmp_path / "run")


def test_a_validation_loss_that_is_not_finite_ends_the_run_and_the_best_model_stays(tmp_path: Path) -> None:
    loop, _ = make_loop(Toy([1.0], [2.0, math.inf]), run=tmp_path / "run", steps=10, eval_every=2)
    with pytest.raises(TrainingError, match="at step 4: the validation loss is not finite. .*step-000000002.safe"):
        loop.run()
    assert_finite(tmp_path / "run")
    assert read_tensors(tmp_path / "run" / "model.safetensors")[0]["w"].item() == -0.5 * 2


@pytest.mark.parametrize("eval_every", [2, 10])
def test_a_first_validation_loss_that_cannot_be_ends_the_run(eval_every: int, tmp_path: Path) -> None:
    """The losses of training, before each update, say nothing of the weights after the last."""
    loop, _ = make_loop(Toy([1.0], [1e28]), run=tmp_path / "run", steps=eval_every, eval_every=eval_every)
    said = f"training diverged at step {eval_every}: the validation loss is 1e\\+28, after 0 at first"
    with pytest.raises(DivergenceError, match=said):
        loop.run()
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_weights_that_overflow_in_an_update_are_neither_saved_nor_kept_as_the_best(tmp_path: Path) -> None:
    loop, _ = make_loop(Toy([0.0, 8.0]), run=tmp_path / "run", steps=10, checkpoint_every=1, lr=5e37)
    with pytest.raises(TrainingError, match="at step 2: the parameter w holds infinity.*step-000000001.safe"):
        loop.run()
    assert_finite(tmp_path / "run")


def test_a_model_that_cannot_be_evaluated_is_named_with_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights may be finite, and so large that no loss is."""

    def change(model: nn.Module) -> None:
        model.get_parameter("head_bias").fill_(-3e38)[0] = 3e38

    monkeypatch.setattr(throughput, "REPORT_EVERY", 0.0)
    planted = Planted(tmp_path, Stepped, 6, change, eval_every=6, checkpoint_every=3, average=None)
    with pytest.raises(
        TrainingError,
        match=r"at step 6: the validation loss is not finite; the output of .* holds infinity\. .*-000000003",
    ):
        planted.loop.run()
    assert_finite(tmp_path / "run")
