"""Processes that share a batch: the mean of their gradients is that of the whole batch, however long sequences are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.tasks.small_tags import small_learner, small_task
from tests.tasks.test_seq2seq import make_learner, make_task
from tests.tensors import tensor_batches
from torch import Tensor

from unspool.learning.contract import Learner
from unspool.learning.penalties import objective
from unspool.settings.training import Training
from unspool.tasks.contract import Task

#: Of three lengths, so that one process has more steps than the other.
SENTENCES = ["to rome", "from Rome to new delhi now", "fly", "fly to new york"]
TAGS = ["O B-x", "O B-x O B-x I-x O", "O", "O O B-x I-x"]
PAIRS = [("12", "2"), ("123456", "21"), ("1", "654321"), ("3456", "6543")]
PENALTIES = [
    {},
    {"activation_penalty": 2.0},
    {"temporal_penalty": 3.0},
    {"gate_penalty": 4.0},
    {"deep_supervision": 0.5, "activation_penalty": 1.0, "temporal_penalty": 1.0, "gate_penalty": 1.0},
]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


@pytest.mark.parametrize("penalties", PENALTIES, ids=lambda one: ", ".join(one) or "none")
@pytest.mark.parametrize("kind", ["tag", "seq2seq"])
def test_the_mean_of_the_gradients_is_that_of_the_whole_batch(kind: str, penalties: dict[str, Any]) -> None:
    of_model = {name: one for name, one in penalties.items() if name in ("gate_penalty", "deep_supervision")}
    of_model = {"layers": 2, "engine": "kernel", **of_model}
    training = Training(**{name: one for name, one in penalties.items() if name not in of_model})
    task: Task
    learner: Learner
    if kind == "tag":
        task = small_task(SENTENCES, TAGS)
        learner = small_learner(task, dropout=0.0, word_dropout=0.0, **of_model)
    else:
        task = make_task(PAIRS)
        learner = make_learner(task, **of_model).double()
    learner.train()  # which has no dropout, and penalties on gates
    (whole,) = find_gradients(task, learner, training, processes=1)
    shares = find_gradients(task, learner, training, processes=2)
    for name, gradient in whole.items():
        together = torch.stack([own[name] for own in shares]).mean(0)
        torch.testing.assert_close(together, gradient, rtol=1e-9, atol=1e-12)
    assert max(float((shares[0][name] - shares[1][name]).abs().max()) for name in whole) > 1e-3


def find_gradients(task: Task, learner: Learner, training: Training, processes: int) -> list[dict[str, Tensor]]:
    """The gradients of each process for the only batch."""
    found = []
    for rank in range(processes):
        learner.zero_grad()
        batches = tensor_batches(task, 4, None, 0, rank, processes)
        assert len(batches) == 1
        objective(learner(batches[0], None), training).backward()
        found.append({name: one.grad.clone() for name, one in learner.named_parameters() if one.grad is not None})
    return found
