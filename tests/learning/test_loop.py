"""The loop: updates by hand, when it evaluates, saves and ends, and which model it keeps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learning.toy_task import PLAIN, Slope, SlowToy, Toy, make_loop, weight
from torch import Tensor
from torch.nn import functional

from unspool.data.corpus import Division, prepare
from unspool.learning import throughput
from unspool.learning.events import Evaluated, Event, Finished, Saved, Stepped
from unspool.learning.files import read_tensors
from unspool.learning.loop import Loop
from unspool.learning.run_folder import RunFolder
from unspool.models.catalogue import make_learner
from unspool.models.language_model import LanguageModel
from unspool.settings.model import LanguageModelSettings
from unspool.tasks.lm import LanguageModelling

TEXT = "the quick brown fox jumps over the lazy dog; then it sleeps.\n" * 8


def steps_of(events: list[Event], kind: type[Any]) -> list[int]:
    return [event.step for event in events if isinstance(event, kind)]


# ── an update ──


def test_an_update_descends_by_the_mean_of_the_accumulated_gradients() -> None:
    loop, _ = make_loop(Toy([1.0, 2.0, 4.0, 8.0, 16.0]), steps=4, grad_accum=2)
    assert loop.updates == 3
    positions = []
    for _ in range(4):
        loop._update(0.0)
        positions.append((weight(loop), loop.position.epoch, loop.position.batch))
    # the epoch's last update has what is left, one slope; the next starts again
    assert positions == [
        (-0.5 * 1.5, 0, 2),
        (-0.5 * (1.5 + 6), 0, 4),
        (-0.5 * (1.5 + 6 + 16), 1, 0),
        (-0.5 * (1.5 + 6 + 16 + 1.5), 1, 2),
    ]


def test_the_state_is_carried_within_an_epoch_and_starts_again_with_the_next() -> None:
    loop, _ = make_loop(Toy([1.0, 2.0, 4.0]), steps=4)
    carried = []
    for _ in range(4):
        loop._update(0.0)
        carried.append(loop.state.item())
    assert carried == [1.0, 3.0, 0.0, 1.0]


def test_the_fraction_of_clipped_updates_is_that_of_gradients_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "REPORT_EVERY", 0.0)
    loop, events = make_loop(Toy([0.5, 2.0, -3.0, 1.0]), steps=8, clip=1.0)
    loop.run()
    stepped = [event for event in events if isinstance(event, Stepped)]
    assert [event.norm for event in stepped] == pytest.approx([0.5, 2, 3, 1] * 2, rel=1e-6)
    assert [event.clipped for event in stepped] == [0, 1 / 2, 2 / 3, 2 / 4, 2 / 5, 3 / 6, 4 / 7, 4 / 8]
    assert weight(loop) == pytest.approx(-0.5 * 2 * (0.5 + 1 - 1 + 1), rel=1e-6)


def test_the_learning_rate_is_that_of_the_schedule_at_every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "REPORT_EVERY", 0.0)
    loop, events = make_loop(Toy([1.0]), steps=4, schedule="linear", warmup=2, lr=1.0)
    loop.run()
    assert [event.lr for event in events if isinstance(event, Stepped)] == [0.5, 0.75, 0.5, 0.25]
    assert weight(loop) == -2.0


# ── a language model's windows ──


def language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[LanguageModelling, LanguageModel]:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    task = LanguageModelling(prepare(tmp_path / "text.txt", Division()))
    torch.manual_seed(5)
    settings = {"hidden": 6, "layers": 2, "embedding": 5, "engine": "torch"}
    return task, make_learner(task, LanguageModelSettings.model_validate(settings))


def rows_of(task: LanguageModelling, rows: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of the whole text, (time, rows), cut out by hand."""
    ids = torch.from_numpy(np.asarray(task.corpus.training).astype(np.int64))
    length = (len(ids) - 1) // rows
    inputs = torch.stack([ids[row * length : (row + 1) * length] for row in range(rows)], 1)
    targets = torch.stack([ids[row * length + 1 : (row + 1) * length + 1] for row in range(rows)], 1)
    return inputs, targets


def logits_by_hand(model: LanguageModel, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
    """By torch.nn alone."""
    output, state = model.backbone.layers(functional.embedding(ids, model.embedding.weight), state)
    return output @ model.head.t() + model.head_bias, state


def test_windows_that_carry_the_state_have_the_loss_of_the_unbroken_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, model = language_model(tmp_path, monkeypatch)
    inputs, targets = rows_of(task, 3)
    with torch.no_grad():
        logits, _ = logits_by_hand(model, inputs, None)
        expected = functional.cross_entropy(logits.flatten(0, 1).double(), targets.flatten()).item()
    loop, _ = make_loop(task, learner=model, steps=1, batch_size=3, bptt=7, grad_accum=1000)  # one update: weights stay
    assert len(loop.batches) == math.ceil(len(inputs) / 7)
    loop._update(0.0)
    assert loop.position.units == inputs.numel()
    assert loop.position.loss / loop.position.units == pytest.approx(expected, rel=1e-6)


def test_accumulated_windows_give_the_mean_gradient_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, model = language_model(tmp_path, monkeypatch)
    inputs, targets = rows_of(task, 3)
    state, losses = None, []
    for first in (0, 7, 14):
        logits, state = logits_by_hand(model, inputs[first : first + 7], state)
        losses.append(functional.cross_entropy(logits.flatten(0, 1), targets[first : first + 7].flatten()))
        state = tuple(part.detach() for part in state)
    gradients = torch.autograd.grad(sum(losses) / 3, list(model.parameters()))  # type: ignore[arg-type]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    loop, _ = make_loop(task, learner=model, steps=10, batch_size=3, bptt=7, grad_accum=3, lr=1.0)
    loop._update(0.0)
    for parameter, start, gradient in zip(model.parameters(), before, gradients, strict=True):
        torch.testing.assert_close(start - parameter.detach(), gradient, rtol=1e-5, atol=1e-7)


# ── when it ends ──


def test_it_ends_after_the_updates_that_steps_or_epochs_say() -> None:
    for settings, updates in (
        ({"steps": 7}, 7),
        ({"epochs": 2.0}, 10),
        ({"epochs": 0.5}, 2),
        ({"epochs": 2.0, "grad_accum": 2}, 6),
        ({"epochs": 0.01}, 1),
    ):
        loop, events = make_loop(Toy([1.0] * 5), **settings)
        finished = loop.run()
        assert (finished.step, finished.reason, loop.steps) == (updates, "done", updates)
        assert steps_of(events, Evaluated) == [updates]  # the end is always evaluated


def test_it_ends_when_its_minutes_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowToy(monkeypatch)
    loop, events = make_loop(slow, minutes=1.0, schedule="linear", eval_every=None, lr=1.0)
    assert loop.steps is None
    finished = loop.run()
    assert (finished.step, finished.seconds) == (15, 60.0)  # updates of four seconds each
    evaluated = [event for event in events if isinstance(event, Evaluated)]
    assert [event.step for event in evaluated] == [2, 3, 5, 6, 8, 9, 11, 12, 14, 15]  # whenever a tenth is over
    assert weight(loop) == pytest.approx(-sum(1 - step / 15 for step in range(15)), rel=1e-6)


# ── when it evaluates, saves and keeps ──


def test_it_evaluates_at_its_intervals() -> None:
    for settings, steps in (
        ({"steps": 7, "eval_every": 3}, [3, 6, 7]),
        ({"steps": 40, "eval_every": None}, list(range(4, 41, 4))),
        ({"steps": 5, "eval_every": None}, [1, 2, 3, 4, 5]),
        ({"epochs": 3.0, "eval_every": None, "schedule": "epoch"}, [4, 8, 12]),
        ({"epochs": 2.0, "eval_every": None, "schedule": "plateau", "grad_accum": 3}, [2, 4]),
    ):
        loop, events = make_loop(Toy([1.0] * 4), **settings)
        loop.run()
        assert steps_of(events, Evaluated) == steps


def test_an_evaluation_says_the_mean_training_loss_since_the_last() -> None:
    loop, events = make_loop(Toy([1.0, 2.0, 4.0, 8.0]), steps=4, eval_every=2)
    loop.run()
    w = [0.0, -0.5, -1.5, -3.5]  # before each update
    assert [event.training for event in events if isinstance(event, Evaluated)] == [
        (1 * w[0] + 2 * w[1]) / 2,
        (4 * w[2] + 8 * w[3]) / 2,
    ]


def test_it_stops_early_after_as_many_evaluations_without_progress(tmp_path: Path) -> None:
    losses = [3.0, 2.0, 2.5, 1.0, 1.5, 1.0, 1.2]
    loop, events = make_loop(Toy([1.0], losses), run=tmp_path / "run", steps=50, eval_every=2, patience=3)
    finished = loop.run()
    assert (finished.reason, finished.step, finished.best_step) == ("stopped early", 14, 8)
    assert [event.best for event in events if isinstance(event, Evaluated)] == [True, True, False, True] + [False] * 3
    loop, _ = make_loop(Toy([1.0], losses), steps=50, eval_every=2)
    assert loop.run().reason == "done"


def test_a_run_that_stopped_early_makes_no_update_when_it_is_resumed(tmp_path: Path) -> None:
    loop, _ = make_loop(Toy([1.0], [1.0, 2.0]), run=tmp_path / "run", steps=50, eval_every=2, patience=1)
    assert loop.run().step == 4
    again = resumed(loop)
    assert weight(again) == -0.5 * 4
    assert again.run().reason == "stopped early"
    assert (again.position.step, again.position.evaluated) == (4, [2, 4])
    assert weight(again) == weight(loop) == -0.5 * 2  # the best, in the end


def resumed(loop: Loop) -> Loop:
    """A new loop that resumes what another has saved."""
    assert loop.folder is not None
    loop.folder.close()
    again = Loop(loop.task, Slope(), loop.settings, RunFolder.open(loop.folder.path), lambda event: None, loop._stop)
    again._stop.kept = False
    assert again.resume()
    return again


def test_the_model_that_is_kept_is_that_of_the_lowest_validation_loss(tmp_path: Path) -> None:
    run = tmp_path / "run"
    loop, _ = make_loop(Toy([1.0], [3.0, 1.0, 2.0, 1.0]), run=run, steps=8, eval_every=2)
    finished = loop.run()
    tensors, facts = read_tensors(run / "model.safetensors")
    assert finished.best_step == facts["step"] == 4
    assert facts["validation"] == {"loss": 1.0}
    assert tensors["w"].item() == weight(loop) == -0.5 * 4
    assert finished.sample == "w = -2"


def test_with_an_average_the_model_that_is_kept_is_the_mean_and_training_continues_without_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    loop, _ = make_loop(Toy([1.0]), run=run, steps=4, eval_every=4, average="swa", swa_start=0.5)
    loop.run()
    assert read_tensors(run / "model.safetensors")[0]["w"].item() == -(1.5 + 2) / 2
    assert loop.folder is not None
    found = loop.folder.read_checkpoint()
    assert found is not None
    assert found.tensors["model.w"].item() == -2.0


def test_without_a_folder_the_model_ends_as_the_mean() -> None:
    loop, _ = make_loop(Toy([1.0]), steps=4, average="swa", swa_start=0.5)
    loop.run()
    assert weight(loop) == (-1.5 - 2.0) / 2


@pytest.mark.parametrize(
    ("keep", "losses", "names"),
    [
        (1, [5.0, 4.0, 3.0, 2.0, 1.0], [10]),
        (2, [1.0, 4.0, 3.0, 2.0, 2.0], [2, 9, 10]),
        (3, [2.0, 1.0, 3.0, 2.0, 2.0], [4, 8, 9, 10]),
        (100, [1.0], list(range(11))),
    ],
)
def test_the_newest_checkpoints_and_the_best_are_kept(
    tmp_path: Path, keep: int, losses: list[float], names: list[int]
) -> None:
    settings: dict[str, Any] = {"steps": 10, "eval_every": 2, "checkpoint_every": 1, "save_total_limit": keep}
    loop, events = make_loop(Toy([1.0], losses), run=tmp_path / "run", **settings)
    loop.save()
    loop.run()
    assert [path.name for path in sorted((tmp_path / "run" / "checkpoints").iterdir())] == [
        f"step-{step:09d}.safetensors" for step in names
    ]
    assert steps_of(events, Saved) == list(range(11))


def test_a_checkpoint_is_made_every_minute_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = SlowToy(monkeypatch)
    loop, events = make_loop(slow, run=tmp_path / "run", steps=40)
    loop.run()
    assert steps_of(events, Saved) == [16, 32, 40]


@pytest.mark.parametrize("evaluate_every", [2, 1000])
def test_the_last_checkpoint_is_written_once_and_has_the_last_evaluation(tmp_path: Path, evaluate_every: int) -> None:
    options: dict[str, Any] = {"steps": 4, "checkpoint_every": 2, "eval_every": evaluate_every}
    loop, events = make_loop(Toy([1.0]), run=tmp_path / "run", **options)
    loop.run()
    assert steps_of(events, Saved) == [2, 4]
    assert resumed(loop).position.evaluated[-1] == 4


# ── resuming ──


def test_every_number_of_a_run_resumes_from_a_checkpoint(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        **{"epochs": 4.0, "eval_every": 4, "checkpoint_every": 1, "momentum": 0.9, "clip": 2.5},
        **{"average": "ema", "schedule": "cosine", "warmup": 3, "lr": 0.25},
    }
    slopes = [1.0, -2.0, 4.0, 8.0, 0.25]
    whole, _ = make_loop(Toy(slopes, [3.0, 2.0, 4.0, 1.0, 5.0]), run=tmp_path / "whole", **settings)
    whole.run()
    run = tmp_path / "run"
    loop, _ = make_loop(Toy(slopes, [3.0, 2.0, 4.0, 1.0, 5.0]), run=run, **settings)
    loop.save()
    while loop.position.step < 20:
        loop._advance()
        loop.save()
        loop = resumed(loop)
    loop.run()
    assert loop.folder is not None
    assert whole.folder is not None
    one, other = loop.folder.read_checkpoint(), whole.folder.read_checkpoint()
    assert one is not None
    assert other is not None
    assert {name: tensor.tolist() for name, tensor in one.tensors.items()} == {
        name: tensor.tolist() for name, tensor in other.tensors.items()
    }
    for position in (one.facts["position"], other.facts["position"]):
        del position["seconds"]
    assert one.facts == other.facts | {"logs": one.facts["logs"]}  # lines hold seconds, and so differ in length
    assert (run / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_logs_are_truncated_once_after_a_checkpoint_is_read(tmp_path: Path) -> None:
    loop, _ = make_loop(Toy([1.0]), run=tmp_path / "run", steps=2, eval_every=1)
    loop.run()
    assert loop.resume()
    loop.run()
    log = tmp_path / "run" / "metrics.jsonl"
    before = log.read_text()
    with log.open("a") as stream:
        stream.write('{"event": "finished"}\n')  # as `train` writes it after the loop
    loop.run()
    assert log.read_text() == before + '{"event": "finished"}\n'


def test_seconds_continue_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = SlowToy(monkeypatch)
    loop, _ = make_loop(slow, run=tmp_path / "run", minutes=1.0)
    for _ in range(3):
        loop._update(0.0)
    loop.save()
    slow.seconds += 1000  # while nothing runs
    again = resumed(loop)
    assert isinstance(finished := again.run(), Finished)
    assert (finished.step, finished.seconds) == (15, 60.0)


def test_a_stop_that_was_asked_for_ends_it_after_the_update(tmp_path: Path) -> None:
    loop, events = make_loop(Toy([1.0]), run=tmp_path / "run", steps=10, checkpoint_every=100)
    update = loop._update

    def stop_at_four(fraction: float) -> None:
        loop._stop.asked = loop.position.step == 3
        update(fraction)

    loop._update = stop_at_four  # type: ignore[method-assign, assignment]
    finished = loop.run()
    assert (finished.reason, finished.step, finished.validation) == ("interrupted", 4, {})
    assert steps_of(events, Saved) == [4]
    assert PLAIN["lr"] * 4 == -weight(loop)


def test_without_a_folder_the_best_weights_are_kept_in_memory() -> None:
    for average in (None, "ema"):
        options: dict[str, Any] = {"steps": 8, "eval_every": 2, "average": average, "ema_decay": 0.5}
        until, _ = make_loop(Toy([1.0], [3.0, 1.0]), **options | {"steps": 4})
        until.run()
        loop, _ = make_loop(Toy([1.0], [3.0, 1.0, 2.0, 2.5]), **options)
        assert loop.run().best_step == 4
        assert weight(loop) == weight(until)
