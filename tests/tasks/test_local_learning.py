"""Training by predictive coding: gradients without a graph across layers, what it learns, and what it is not for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from tests.tensors import tensor_batches
from torch import Tensor

from unspool.data.labelled import Raw
from unspool.errors import ArgumentError
from unspool.learning.contract import Learner
from unspool.learning.events import Evaluated, Event
from unspool.learning.loop import Loop
from unspool.learning.penalties import objective
from unspool.learning.rules import make_rule
from unspool.learning.stopping import Stop
from unspool.models.catalogue import make_learner
from unspool.models.pooled import PooledModel
from unspool.runs.train import plan, train
from unspool.settings.data import LabelledData
from unspool.settings.model import PooledSettings
from unspool.settings.training import Training
from unspool.tasks.classify import Classification
from unspool.tasks.contract import Batches

MODEL: dict[str, Any] = {"cell": "elman", "hidden": 24, "layers": 2, "bidirectional": False, "pooling": "last"}


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


@pytest.fixture(scope="module")
def digits() -> Classification:
    """Images of eight by eight, read row by row."""
    found = load_digits()
    images, labels = found.images / 16, [(str(label),) for label in found.target]
    raws = {}
    for name, rows in {"training": range(600), "validation": range(600, 900)}.items():
        series = [np.asarray(images[row], np.float64) for row in rows]
        names = [str(row) for row in rows]
        raws[name] = Raw(None, series, names, "digit {}".format, [labels[row] for row in rows])
    return Classification.of(raws, LabelledData(files=("digits",)))


def make(task: Classification, **settings: Any) -> PooledModel:
    torch.manual_seed(0)
    model = make_learner(task, PooledSettings.model_validate(MODEL | settings))
    assert isinstance(model, PooledModel)
    return model


def loop(task: Classification, model: Learner, **settings: Any) -> tuple[Loop, list[Evaluated]]:
    told: list[Evaluated] = []

    def tell(event: Event) -> None:
        if isinstance(event, Evaluated):
            told.append(event)

    given = {"bptt": "all", "lr": 0.01, "batch_size": 50, "steps": 60, "eval_every": 30, **settings}
    return Loop(task, model, Training.model_validate(given), None, tell, Stop()), told


def leaves(loss: Tensor) -> Iterator[Tensor]:
    """The parameters that a loss's graph leads to."""
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [following for following, _ in node.next_functions]


# ── gradients ──


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "attention"])
@pytest.mark.parametrize("cell", ["elman", "lstm"])
def test_gradients_are_back_propagation_s_with_no_graph_across_layers(
    digits: Classification, cell: str, pooling: str
) -> None:
    settings = Training.model_validate({"activation_penalty": 0.1, "learning_rule": "predictive-coding"})
    batches = tensor_batches(digits, 20, None, 0)
    both = []
    for learn in ("bptt", "predictive-coding"):
        model = make(digits, cell=cell, pooling=pooling, hidden=5).double()
        batch = batches[0]._replace(inputs=batches[0].inputs.double())
        if learn == "bptt":
            outcome = model(batch)
            (0.5 * objective(outcome, settings)).backward()
        else:
            outcome = make_rule(model, settings, Doubled(batches)).learn(model, batch, None, 1.0, 0.5)
        inside = {id(parameter) for parameter in model.encoder.parameters()}
        reached = {id(leaf) for leaf in leaves(outcome.loss)}
        assert bool(reached & inside) == (learn == "bptt")
        assert reached - inside  # the head's
        both.append((outcome.loss.detach(), [parameter.grad for parameter in model.parameters()]))
    torch.testing.assert_close(both[0], both[1], rtol=0, atol=1e-10)


class Doubled(Batches):
    """Batches in float64."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Any:
        return self.batches[number]._replace(inputs=self.batches[number].inputs.double())


def test_embeddings_learn_too() -> None:
    raw = Raw(["ab", "ba", "aab", "bba"], None, list("0123"), "line {}".format, [("x",), ("y",), ("x",), ("y",)])
    task = Classification.of({"training": raw, "validation": raw}, LabelledData(files=("texts",)))
    exact, local = make(task), make(task)
    batches = tensor_batches(task, 4, None, 0)
    exact(batches[0]).loss.backward()
    make_rule(local, Training(learning_rule="predictive-coding"), batches).learn(local, batches[0], None, 1.0, 1.0)
    for one, other in zip(exact.parameters(), local.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)
    gradient = dict(local.named_parameters())["encoder.embedding.weight"].grad
    assert gradient is not None
    assert gradient.abs().max() > 0


# ── learning ──


def test_digits_are_learned_as_by_back_propagation_and_the_alignment_is_told(digits: Classification) -> None:
    accuracy = {}
    for learn in ("bptt", "predictive-coding"):
        training, told = loop(digits, make(digits), learning_rule=learn)
        accuracy[learn] = training.run().validation["accuracy"]
        assert [event.step for event in told] == [30, 60]
        for event in told:
            if learn == "bptt":
                assert "alignment" not in event.validation
            else:
                assert event.validation["alignment"] == pytest.approx(1.0, abs=1e-4)
    assert accuracy["bptt"] > 0.6
    assert accuracy["predictive-coding"] > accuracy["bptt"] - 0.05


def test_measuring_changes_nothing_of_the_model(digits: Classification) -> None:
    model = make(digits)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batches = tensor_batches(digits, 20, None, 0)
    state = torch.get_rng_state()
    make_rule(model, Training(learning_rule="predictive-coding"), batches).measure(batches, 1, None)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training


def write_table(folder: Path) -> Path:
    path = folder / "waves.csv"
    rows = [
        f"{name},{step},{np.sin(step + name):.4f},{'up' if name % 2 else 'down'}"
        for name in range(12)
        for step in range(4)
    ]
    path.write_text("\n".join(["id,time,value,label", *rows]), encoding="utf-8")
    return path


def test_a_run_by_name_keeps_its_alignments(tmp_path: Path) -> None:
    options = {**MODEL, "id_column": "id", "time_column": "time", "learning_rule": "predictive-coding", "hidden": 4}
    run = train(
        write_table(tmp_path), out=tmp_path / "run", task="classify", steps=4, batch_size=4, eval_every=2, **options
    )
    assert run.finished.step == 4
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    evaluated = [event for event in map(json.loads, lines) if event["event"] == "evaluated"]
    assert [event["validation"]["alignment"] for event in evaluated] == pytest.approx([1.0, 1.0], abs=1e-4)


# ── what it is not for ──


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bidirectional": True}, "has one direction of time. Give `bidirectional=False`, or `learning_rule='bptt'`"),
        ({"engine": "torch"}, "does not know the layers of torch.nn. Give `engine='kernel'`"),
        ({"residual": True}, "has no connections around layers. Give `residual=False`"),
        ({"dropout": 0.1}, "has no dropout between layers. Give `dropout=0`"),
        ({"dropout": "auto"}, "has no dropout between layers. Give `dropout=0`"),
        (
            {"zoneout": 0.1},
            "has no dropout within layers. Give `recurrent_dropout=0`, `weight_dropout=0` and `zoneout=0`",
        ),
        ({"deep_supervision": 0.1}, "has one loss, that of the top. Give `deep_supervision=0`"),
        ({"cell": "lstm", "gate_penalty": 0.1}, "has no penalty on gates. Give `gate_penalty=0`"),
        ({"backbone": "bag"}, "is not for a Classifier without recurrent layers. Give `backbone='recurrent'`"),
    ],
)
def test_models_that_are_more_than_layers_are_refused_before_training(
    digits: Classification, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        loop(digits, make(digits, **settings), learning_rule="predictive-coding")
    assert "`learning_rule` (='predictive-coding')" in str(caught.value)
    assert said in str(caught.value)


def test_language_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("to be or not to be\n" * 30, encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"is not for a LanguageModel\. Use `learning_rule='bptt'`"):
        train(
            tmp_path / "text.txt", out=tmp_path / "run", task="lm", hidden=4, bptt=4, learning_rule="predictive-coding"
        )
    assert not (tmp_path / "run").exists()


def test_several_processes_are_refused(digits: Classification) -> None:
    with pytest.raises(ArgumentError, match="is not for 2 processes. Leave `nproc` out"):
        make_rule(
            make(digits), Training(learning_rule="predictive-coding"), tensor_batches(digits, 20, None, 0), processes=2
        )


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'bptt' or 'predictive-coding'"):
        plan("text.txt", task="lm", learning_rule="hebb")
