"""Schedules against their formulas, and free running against loops written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, UnknownNameError
from unspool.learning.teacher_forcing import TeacherForcing, free_run

WORDS, STEPS, ROWS = 5, 7, 3
PROGRESS = [0.0, 0.01, 0.2, 1 / 3, 0.5, 0.77, 1.0]


@pytest.mark.parametrize("progress", PROGRESS)
def test_schedules_are_their_formulas(progress: float) -> None:
    assert TeacherForcing("always").probability(progress) == 1
    assert TeacherForcing("never").probability(progress) == 0
    assert TeacherForcing("linear").probability(progress) == pytest.approx(1 - progress, abs=1e-15)
    assert TeacherForcing("linear", 0.2, 0.6).probability(progress) == pytest.approx(0.2 + 0.4 * progress, rel=1e-14)
    expected = 0.9 * math.exp(progress * math.log(0.05 / 0.9))
    assert TeacherForcing("exponential", 0.9, 0.05).probability(progress) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("progress", PROGRESS)
@pytest.mark.parametrize("k", [1.5, 10.0, 100.0, 1e6])
def test_inverse_sigmoid_is_that_of_scheduled_sampling(k: float, progress: float) -> None:
    def published(iteration: float) -> float:
        return k / (k + math.exp(iteration / k))

    iterations = 2 * k * math.log(k)
    first, last, now = published(0), published(iterations), published(iterations * progress)
    expected = 0.1 + (0.8 - 0.1) * (now - last) / (first - last)
    assert TeacherForcing("inverse-sigmoid", 0.8, 0.1, steepness=k).probability(progress) == pytest.approx(
        expected, rel=1e-9
    )


@pytest.mark.parametrize("kind", ["linear", "exponential", "inverse-sigmoid"])
@pytest.mark.parametrize(("start", "end"), [(1.0, 0.3), (0.7, 0.1), (0.1, 0.9), (0.3, 0.3)])
def test_schedules_go_from_start_to_end_and_never_turn(kind: str, start: float, end: float) -> None:
    found = [TeacherForcing(kind, start, end).probability(step / 200) for step in range(201)]
    assert (found[0], found[-1]) == (start, end)
    assert all(min(start, end) <= p <= max(start, end) for p in found)
    slopes = [after - before for before, after in pairwise(found)]
    assert all(slope * (end - start) >= 0 for slope in slopes)


class Model(torch.nn.Module):
    """An embedding, a GRU and a head, for all steps at once or for one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding, self.gru = torch.nn.Embedding(WORDS, 4), torch.nn.GRU(4, 6)
        self.head = torch.nn.Linear(6, WORDS)
        self.read: list[list[int]] = []
        self.double()

    def forward(self, ids: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        output, state = self.gru(self.embedding(ids), state)
        return 3 * self.head(output), state

    def predict(self, ids: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        self.read.append(ids.tolist())
        logits, state = self(ids.unsqueeze(0), state)
        return logits[0], state


def some_ids(rows: int = ROWS) -> Tensor:
    return torch.randint(WORDS, (STEPS, rows), generator=torch.Generator().manual_seed(2))


def gradients(model: Model, logits: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((logits.sin() * torch.arange(WORDS)).sum(), list(model.parameters()))


@pytest.mark.parametrize("greedy", [False, True])
def test_all_truth_is_the_parallel_pass(greedy: bool) -> None:
    model, ids = Model(), some_ids()
    logits, state = free_run(model.predict, ids, None, 1.0, greedy=greedy)
    expected, last = model(ids, None)
    assert model.read == ids.tolist()
    torch.testing.assert_close((logits, state), (expected, last), rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(gradients(model, logits), gradients(model, expected), rtol=1e-11, atol=1e-12)


def test_greedy_without_truth_reads_its_own_words() -> None:
    model, ids = Model(), some_ids()
    logits, state = free_run(model.predict, ids, None, 0.0, greedy=True)
    hand: Any = None
    words, expected = ids[0], []
    for _ in range(STEPS):
        step, hand = model(words[None], hand)
        expected.append(step)
        words = step[0].argmax(-1)
    torch.testing.assert_close((logits, state), (torch.cat(expected), hand), rtol=0, atol=0)
    assert len({tuple(row) for row in model.read}) > 1
    # no gradient through the choice: the same words given as the truth have the same gradient
    again, _ = model(torch.tensor(model.read), None)
    torch.testing.assert_close(gradients(model, logits), gradients(model, again), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("truth", [0.25, 0.7])
def test_truth_is_drawn_for_each_row_with_its_probability(truth: float, greedy: bool) -> None:
    """The truth is always word 0, the model always says word 1: what is read says who spoke."""
    read: list[Tensor] = []

    def predict(ids: Tensor, state: int) -> tuple[Tensor, int]:
        read.append(ids)
        return torch.tensor([-math.inf, 0.0, -math.inf]).expand(len(ids), -1), state + 1

    generator = torch.Generator().manual_seed(3)
    logits, state = free_run(predict, torch.zeros(50, 400, dtype=torch.int32), 0, truth, generator, greedy)
    assert (state, tuple(logits.shape), read[1].dtype) == (50, (50, 400, 3), torch.int32)
    assert not read[0].any()
    told = (torch.stack(read[1:]) == 0).double()
    deviation = math.sqrt(truth * (1 - truth))
    assert told.mean().item() == pytest.approx(truth, abs=4 * deviation / math.sqrt(told.numel()))
    assert told.mean(0).std().item() == pytest.approx(
        deviation / math.sqrt(49), rel=0.15
    )  # rows have luck of their own
    assert told.mean(1).std().item() == pytest.approx(deviation / math.sqrt(400), rel=0.4)  # and so have steps


def test_words_are_drawn_from_the_softmax() -> None:
    logits = torch.tensor([0.3, -1.0, -math.inf, 1.2], dtype=torch.float64)
    read: list[Tensor] = []

    def predict(ids: Tensor, state: None) -> tuple[Tensor, None]:
        read.append(ids)
        return logits.expand(len(ids), -1), None

    free_run(predict, torch.full((41, 1000), 2), None, 0.0, torch.Generator().manual_seed(4))
    drawn = torch.stack(read[1:])
    weights = [math.exp(0.3), math.exp(-1.0), 0.0, math.exp(1.2)]
    for word, weight in enumerate(weights):
        p = weight / sum(weights)
        spread = 4 * math.sqrt(p * (1 - p) / drawn.numel())
        assert (drawn == word).double().mean().item() == pytest.approx(p, abs=spread)


def test_luck_is_the_generator_s() -> None:
    def run(seed: int) -> list[list[int]]:
        model = Model()
        free_run(model.predict, some_ids(), None, 0.5, torch.Generator().manual_seed(seed))
        return model.read

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TeacherForcing("liner"), UnknownNameError, "`kind` .* Did you mean 'linear'"),
        (lambda: TeacherForcing("linear", 1.5), ArgumentError, r"`start` \(=1.5\) is not a number from 0 to 1"),
        (lambda: TeacherForcing("linear", 1, math.nan), ArgumentError, r"`end` \(=nan\) is not a number from 0 to 1"),
        (lambda: TeacherForcing("exponential"), ArgumentError, r"`end` \(=0.0\) is 0, which .* such as end=0.01"),
        (lambda: TeacherForcing("exponential", 0.0, 0.5), ArgumentError, r"`start` \(=0.0\) is 0"),
        (lambda: TeacherForcing("never", 0.5), ArgumentError, "change nothing where kind is 'never'"),
        (
            lambda: TeacherForcing("inverse-sigmoid", steepness=1),
            ArgumentError,
            r"`steepness` \(=1\) is not a number above 1",
        ),
        (
            lambda: TeacherForcing("linear").probability(1.01),
            ArgumentError,
            r"`progress` \(=1.01\) is not a number from 0 to 1",
        ),
    ],
)
def test_bad_schedules(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("ids", "truth", "error", "message"),
    [
        ([1], 1.0, ArgumentTypeError, r"`ids` \(=\[1\]\) is not a torch tensor"),
        (torch.zeros(2, 2), 1.0, DTypeError, r"`ids` \(=torch.float32\) is not an integer dtype"),
        (torch.zeros(2, dtype=torch.long), 1.0, ShapeError, r"`ids` \(=\(2,\)\) is not \(time, batch\)"),
        (torch.zeros(0, 2, dtype=torch.long), 1.0, ShapeError, "with at least one step"),
        (
            torch.zeros(2, 2, dtype=torch.long),
            1.1,
            ArgumentError,
            r"`teacher_forcing` \(=1.1\) is not a number from 0 to 1",
        ),
    ],
)
def test_bad_runs(ids: Any, truth: float, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        free_run(lambda ids, state: pytest.fail("nothing may be computed"), ids, None, truth)


def test_bad_predictions() -> None:
    with pytest.raises(ShapeError, match=r"`logits` \(=\(1, 3, 5\)\) is not \(3, V\)"):
        free_run(lambda ids, state: (torch.zeros(1, ROWS, WORDS), state), some_ids(), None, 1.0)
    with pytest.raises(ArgumentError, match="gives NaN for logits"):
        free_run(lambda ids, state: (torch.full((ROWS, WORDS), math.nan), state), some_ids(), None, 0.0)
