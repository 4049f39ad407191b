"""Processes that train together come to what one process comes to, and begin and fail as one."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.learning.several_processes import run_training, summary, together
from tests.learning.small_runs import OPTIONS, metrics, write_text
from tests.tensors import tensor_batches
from torch import Tensor

from unspool.data.corpus import Division, prepare
from unspool.errors import ArgumentError, DataError, DivergenceError, OthersFailedError, StorageError
from unspool.learning import optimizers as optimizers
from unspool.learning.bptt import detach
from unspool.learning.events import Event
from unspool.learning.files import read_tensors, write_tensors
from unspool.learning.loop import Loop
from unspool.learning.ranks import MEETING, Ranks, joined
from unspool.learning.run_folder import RunFolder
from unspool.models.catalogue import make_learner
from unspool.models.language_model import LanguageModel
from unspool.nn.leaves import leaves
from unspool.runs.train import train
from unspool.settings.model import LanguageModelSettings
from unspool.tasks.lm import LanguageModelling

#: Nothing is drawn by chance, so that rows come to the same wherever they are.
CALM: dict[str, Any] = OPTIONS | {"dropout": 0.0, "average": None, "eval_every": 4, "clip": 0.05}
#: Everything that a checkpoint must hold.
NOISY: dict[str, Any] = OPTIONS | {"steps": 12, "eval_every": 6, "checkpoint_every": 2, "grad_accum": 2}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


# ── gradients and weights ──


def make_model(text: Path, engine: str, dtype: torch.dtype) -> tuple[LanguageModelling, LanguageModel]:
    task = LanguageModelling(prepare([str(text)], Division()))
    torch.manual_seed(3)
    settings = {"hidden": 12, "layers": 2, "embedding": 6, "engine": engine}
    return task, make_learner(task, LanguageModelSettings.model_validate(settings)).to(dtype)


def find_gradients(text: Path, engine: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """Of two windows, the second of which goes on with the state of the first."""
    with joined() as ranks:
        task, learner = make_model(text, engine, dtype)
        batches = tensor_batches(task, 8, 10, 0, ranks.rank, ranks.count)
        carried = learner.initial_state(8 // ranks.count)
        model = ranks.wrap(learner, lambda model: model(batches[0], carried).loss)
        with ranks.no_sync(model):
            first = model(batches[0], carried)
            first.loss.backward()
        model(batches[1], detach(first.state)).loss.backward()
    assert not hasattr(model, "reducer")  # it could wait for itself for ever when `model` is let go
    return {name: parameter.grad for name, parameter in learner.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("engine", ["torch", pytest.param("kernel", marks=pytest.mark.long)])
def test_gradients_are_those_of_one_process(tmp_path: Path, dtype: torch.dtype, tolerance: float, engine: str) -> None:
    text = write_text(tmp_path)
    task, learner = make_model(text, engine, dtype)
    batches, carried = tensor_batches(task, 8, 10, 0), learner.initial_state(8)
    for number in range(2):
        found = learner(batches[number], carried)
        found.loss.backward()
        carried = detach(found.state)
    for gradients in together(tmp_path, 2, find_gradients, text, engine, dtype):
        for name, parameter in learner.named_parameters():
            assert parameter.grad is not None
            assert parameter.grad.abs().max() > 1e-5
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=0, atol=tolerance)


@pytest.mark.long
def test_processes_part_in_peace(tmp_path: Path) -> None:
    text = write_text(tmp_path)
    for _ in range(50):
        assert len(together(tmp_path, 2, find_gradients, text, "torch", torch.float32)[0]) > 0


def train_with_large_embeddings(text: Path, run: Path, options: dict[str, Any]) -> Any:
    """Every embedding counts as large, so that one process alone makes its gradients sparse."""
    optimizers.LARGE = 1
    trained = train(text, out=run, **options)
    assert isinstance(trained.learner, LanguageModel)
    return summary(trained) | {"sparse": trained.learner.embedding.sparse}


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "sgd", "lr": 2.0, "grad_accum": 2},
        pytest.param({"optimizer": "adamw", "lr": 0.02, "engine": "kernel", "grad_accum": 2}, marks=pytest.mark.long),
        pytest.param(
            {"optimizer": "sgd", "momentum": 0.9, "lr": 1.0, "engine": "kernel", "cell": "gru"},
            marks=pytest.mark.long,
        ),
    ],
)
def test_weights_and_losses_are_those_of_one_process(tmp_path: Path, options: dict[str, Any]) -> None:
    text, given = write_text(tmp_path), CALM | {"steps": 12} | options
    (alone,) = together(tmp_path, 1, train_with_large_embeddings, text, tmp_path / "alone", given)
    both = together(tmp_path, 2, train_with_large_embeddings, text, tmp_path / "both", given)
    assert (alone["sparse"], both[0]["sparse"]) == (
        "momentum" not in options and "adamw" not in options.values(),
        False,
    )
    for name, weight in alone["weights"].items():
        torch.testing.assert_close(both[0]["weights"][name], weight, rtol=0, atol=1e-5)
        assert torch.equal(both[1]["weights"][name], both[0]["weights"][name])
    evaluated = [[one for one in metrics(tmp_path / run) if one["event"] == "evaluated"] for run in ("alone", "both")]
    assert [one["step"] for one in evaluated[0]] == [4, 8, 12]
    for ours, theirs in zip(*evaluated, strict=True):
        assert theirs["training"] == pytest.approx(ours["training"], abs=1e-6)
        assert theirs["validation"]["loss"] == pytest.approx(ours["validation"]["loss"], abs=1e-6)
    assert evaluated[0][-1]["training"] < evaluated[0][0]["training"] - 0.05


# ── what processes say to each other ──


def converse() -> Any:
    with joined() as ranks:
        mine = torch.arange(3.0) + 10 * ranks.rank
        return {
            "sum": ranks.sum([1, 2.5 * ranks.rank]),
            "broadcast": [ranks.broadcast([ranks.rank + 0.5]), ranks.broadcast([ranks.rank + 0.5], source=1)],
            "text": ranks.broadcast_text("Größe\udcff" if ranks.first else "else"),
            "nothing": ranks.broadcast_bytes(b"" if ranks.first else b"else"),
            "gather": [[part.tolist() for part in one] for one in ranks.gather([mine, mine.to(torch.uint8)])],
            "knows": ranks.broadcast_from(f"I, {ranks.rank}", ranks.rank == 1),
            "none knows": ranks.broadcast_from(f"I, {ranks.rank}", False),
            "seeds": [ranks.seed(seed) for seed in range(4)],
        }


def test_processes_agree(tmp_path: Path) -> None:
    first, second = together(tmp_path, 2, converse)
    assert first["sum"] == second["sum"] == [2, 2.5]
    assert first["broadcast"] == second["broadcast"] == [[0.5], [1.5]]
    assert first["text"] == second["text"] == "Größe\udcff"
    assert first["nothing"] == second["nothing"] == b""
    assert first["gather"] == [[[0, 1, 2], [0, 1, 2]], [[10, 11, 12], [10, 11, 12]]]
    assert second["gather"] == []
    assert first["knows"] == second["knows"] == "I, 1"
    assert first["none knows"] == second["none knows"] == "I, 0"
    assert len({*first["seeds"], *second["seeds"]}) == 8


def test_one_process_is_alone() -> None:
    with joined() as ranks:
        assert (ranks.rank, ranks.count, ranks.first, ranks.together) == (0, 1, True, False)
        assert ranks.sum([1, 2]) == ranks.broadcast([1, 2]) == [1, 2]
        assert ranks.broadcast_from("I", False) == "I"
        assert ranks.seed(5) == 5


def tick(seconds: float) -> SimpleNamespace:
    """A clock that goes on by so much whenever it is looked at."""
    now = [0.0]

    def look() -> float:
        now[0] += seconds
        return now[0]

    return SimpleNamespace(monotonic=look, perf_counter=look)


def train_by_clocks(text: Path, run: Path, options: dict[str, Any]) -> Any:
    clock = tick(0.2 if os.environ["RANK"] == "0" else 1000.0)
    pytest.MonkeyPatch().setattr("unspool.learning.loop.time", clock)
    return run_training(text, run, options)


def test_time_is_that_of_the_first(tmp_path: Path) -> None:
    first, second = together(
        tmp_path, 2, train_by_clocks, write_text(tmp_path), tmp_path / "run", CALM | {"minutes": 1}
    )
    assert 20 < first["step"] == second["step"]
    assert all(torch.equal(first["weights"][name], weight) for name, weight in second["weights"].items())


# ── failures ──


def spoil(text: Path, run: Path, options: dict[str, Any]) -> Any:
    """The second process's state becomes NaN after two updates."""
    update = Loop._update

    def poison(self: Loop, *given: Any) -> None:
        if self.position.step == 2 and not self.ranks.first:
            leaves(self.state)[0].fill_(torch.nan)
        update(self, *given)

    pytest.MonkeyPatch().setattr(Loop, "_update", poison)  # for the rest of this process
    return run_training(text, run, options)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_nan_in_one_stops_all(tmp_path: Path, accumulate: int) -> None:
    given = CALM | {"steps": 6, "grad_accum": accumulate, "checkpoint_every": 2}
    first, second = together(tmp_path, 2, spoil, write_text(tmp_path), tmp_path / "run", given)
    assert type(first) is DivergenceError
    assert "diverged at step 3: the output of backbone" in str(first)
    assert "step-000000002.safetensors" in str(first)
    assert type(second) is OthersFailedError
    assert str(second) == str(first)


def spoil_before_saving(text: Path, run: Path, options: dict[str, Any]) -> Any:
    """The second process's state becomes NaN between an update and the checkpoint after it."""
    save = Loop.save

    def poison(self: Loop) -> None:
        if self.position.step == 2 and not self.ranks.first:
            leaves(self.state)[0].fill_(torch.nan)
        save(self)

    pytest.MonkeyPatch().setattr(Loop, "save", poison)  # for the rest of this process
    return run_training(text, run, options)


def test_nan_in_the_state_of_one_is_not_saved_and_stops_all(tmp_path: Path) -> None:
    given = CALM | {"steps": 6, "checkpoint_every": 2}
    first, second = together(tmp_path, 2, spoil_before_saving, write_text(tmp_path), tmp_path / "run", given)
    assert type(first) is DivergenceError
    assert "diverged at step 2: the carried state holds NaN. The last good checkpoint is" in str(first)
    assert (type(second), str(second)) == (OthersFailedError, str(first))
    assert [path.stem for path in RunFolder(tmp_path / "run").checkpoints()] == ["step-000000000"]


def test_a_checkpoint_with_nan_in_the_state_of_one_is_refused_by_all(tmp_path: Path) -> None:
    run = tmp_path / "run"
    together(tmp_path, 2, run_training, write_text(tmp_path), run, CALM | {"steps": 3})
    path = RunFolder(run).checkpoints()[-1]
    tensors, facts = read_tensors(path)
    tensors["state.1.0"].fill_(torch.nan)
    write_tensors(path, tensors, facts)
    first, second = together(tmp_path, 2, run_training, None, run, {"steps": 6})
    assert type(first) is DivergenceError
    assert "diverged at step 3: the carried state holds NaN" in str(first)
    assert (type(second), str(second)) == (OthersFailedError, str(first))


def die(text: Path, run: Path, options: dict[str, Any], rank: str) -> Any:
    def listen(event: Event) -> None:
        raise StorageError("no room")

    def end(self: Loop, *given: Any) -> None:
        os._exit(1)

    if os.environ["RANK"] == rank == "1":
        pytest.MonkeyPatch().setattr(Loop, "_update", end)  # for the rest of this process
    return train(text, out=run, tell=listen if rank == "0" else lambda event: None, **options)


def test_none_stays_when_one_ends(tmp_path: Path) -> None:
    text = write_text(tmp_path)
    first, second = together(tmp_path, 2, die, text, tmp_path / "a", CALM, "0")
    assert str(first) == "no room"
    assert type(second) is OthersFailedError
    first, second = together(tmp_path, 2, die, text, tmp_path / "b", CALM, "1")
    assert type(first) is OthersFailedError
    assert "has ended. Resume from the last checkpoint with `resume=True`" in str(first)
    assert second is None


def try_in_turn(text: Path, folder: Path) -> list[Any]:
    found: list[Any] = []
    for options in ({"batch_size": 5}, {"bptt": 10_000}, {"cell": "lstn"}):
        try:
            with joined():
                train(text, out=folder / "run", **CALM | options)
        except Exception as error:
            found.append(error)
        os.environ[MEETING] += "+"
    return found


def test_a_mistake_is_said_once(tmp_path: Path) -> None:
    first, second = together(tmp_path, 2, try_in_turn, write_text(tmp_path), tmp_path)
    assert [type(error) for error in second] == [OthersFailedError] * 3
    assert [type(error) for error in first] == [ArgumentError, DataError, ArgumentError]
    assert "`batch_size` (=5) does not divide among 2 processes" in str(first[0])
    assert not (tmp_path / "run").exists()


def train_on_own_text(folder: Path) -> Any:
    text = folder / f"{os.environ['RANK']}.txt"
    text.write_text(f"{text}\n" * 200, encoding="utf-8")
    return train(text, out=folder / "run", **CALM)


def test_other_data_in_another_process_is_refused(tmp_path: Path) -> None:
    first, second = together(tmp_path, 2, train_on_own_text, tmp_path)
    assert type(first) is OthersFailedError
    assert type(second) is DataError
    assert "not that of the first process" in str(second)


def look_at_randomness(text: Path, run: Path, options: dict[str, Any]) -> Any:
    run_training(text, run, options)
    tensors, _ = read_tensors(RunFolder(run).checkpoints()[-1]) if Ranks().first else ({}, {})
    return [tensors[f"random.{rank}"].tolist() for rank in range(2)] if tensors else None


def test_each_has_its_own_randomness(tmp_path: Path) -> None:
    first, _ = together(tmp_path, 2, look_at_randomness, write_text(tmp_path), tmp_path / "run", NOISY | {"steps": 2})
    assert first[0] != first[1]
