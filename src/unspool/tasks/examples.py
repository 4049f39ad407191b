"""Tasks whose data are examples, each a sequence and what is to be said of it: batches, evaluation, prediction."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from unspool.data.sequences import Rows, divide, shuffled_batches, sorted_batches
from unspool.data.text import Source, find_files
from unspool.errors import ArgumentError, DataError
from unspool.learning.contract import Batches, Learner, Outcome, Task
from unspool.learning.settings import Count, Files, Portion, Section, Size
from unspool.tasks.layered import with_lower

#: Examples that are read together when nothing is learned.
TOGETHER = 128
#: Examples that a sample shows.
SHOWN = 6


class ExampleData(Section):
    """Where examples come from, and which of them are for what."""

    files: Annotated[Files, Field(min_length=1)]
    """files, folders and patterns"""
    validation: Portion = 0.1
    """share of the examples, or files, to validate on"""
    test: Portion = 0.0
    """share of the examples, or files, to test on at the end"""
    split_seed: Count = 0
    """of the chance by which examples are divided"""
    longest: Size = 10_000
    """steps of a sequence beyond which it is refused, as memory grows with them"""


class Batch(NamedTuple):
    """Some examples, padded."""

    inputs: Any  # what the model reads, time first
    lengths: Tensor  # of each row
    targets: Any  # what is right; None where nobody knows
    units: float  # by which a sum of losses is divided: where processes share a batch, its units / processes


class Part(Protocol):
    """The examples of one part of the data: training, validation or test, or those to predict."""

    @property
    def lengths(self) -> Rows:
        """Steps of each example, by which batches are formed."""

    @property
    def counts(self) -> Rows:
        """Units of each example: what losses are a mean over."""

    def batch(self, rows: Rows) -> Batch:
        """Some examples as tensors."""


class Scores(NamedTuple):
    """What a model makes of a batch."""

    levels: list[Tensor]  # of the layers that have heads, from the lowest up; the last is what counts
    output: Tensor | None = None  # the recurrent layers' sequence
    extra: Tensor | None = None  # a penalty of the model's own


class ExampleLearner(Learner):
    """A model of examples: how it scores them, the loss of scores, and what they say."""

    #: Weights of the auxiliary losses, one for each level below the last.
    supervision: Sequence[float] = ()

    @abstractmethod
    def score(self, batch: Batch) -> Scores:
        """What the model makes of a batch."""

    @abstractmethod
    def total(self, scores: Tensor, batch: Batch) -> Tensor:
        """The loss, summed over the batch's units."""

    @abstractmethod
    def answer(self, scores: Tensor, batch: Batch) -> Sequence[Any]:
        """What is said of each row."""

    def forward(self, batch: Batch, carried: Any = None, truth: float = 1.0) -> Outcome:  # noqa: ARG002
        return self.judge(self.score(batch), batch)

    def judge(self, found: Scores, batch: Batch) -> Outcome:
        """L = L_top + Σ_ℓ λ_ℓ L_ℓ; the loss that is told is the top's."""
        *below, loss = (self.total(scores, batch) / batch.units for scores in found.levels)
        extra = with_lower(found.extra, self.supervision, below)
        return Outcome(loss, round(batch.units), None, found.output, batch.lengths, extra)

    def carry(self, rows: int) -> Any:  # noqa: ARG002
        """Nothing: every sequence begins anew."""
        return None


class ExampleBatches(Batches):
    """An epoch of examples, in batches of about equal length."""

    def __init__(self, part: Part, rows: int, seed: int, epoch: int, rank: int, ranks: int) -> None:
        self._part, self._rank, self._ranks = part, rank, ranks
        self._batches = shuffled_batches(part.lengths, rows, seed, epoch)
        if ranks > 1:  # what does not fill a batch cannot be shared evenly; another epoch leaves out others
            self._batches = [batch for batch in self._batches if len(batch) == rows]
            if not self._batches:
                raise ArgumentError.of("batch", rows, f"is more than {len(part.lengths)} examples", "Give less")

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: int) -> Batch:
        rows = self._batches[number]
        batch = self._part.batch(rows[self._rank :: self._ranks])
        return batch._replace(units=float(self._part.counts[rows].sum()) / self._ranks)


class ExampleTask(Task):
    """A task over examples; what is its own is how files become parts, and what figures and words come of answers."""

    defaults = {"training": {"epochs": 20.0, "window": "all", "rate": 2e-3}}
    unit = "examples"
    digest = ""

    def __init__(self, parts: Mapping[str, Any], digest: str = "", seed: int = 0) -> None:
        self.parts, self.digest, self.seed = parts, digest, seed

    # ── a task's own ──

    @abstractmethod
    def read(self, source: Source, *, answers: bool = True) -> Any:
        """A part from files, in the terms of the training data; without `answers`, what is right may be missing."""

    @abstractmethod
    def figures(self, part: Any, rows: Rows, answers: Sequence[Any]) -> dict[str, float]:
        """What people read of the answers to some rows."""

    @abstractmethod
    def show(self, part: Any, row: int, answer: Any) -> str:
        """An example and its answer in a line."""

    @abstractmethod
    def record(self, part: Any, row: int, answer: Any) -> dict[str, Any]:
        """An answer as the row of a table."""

    # ── what all have ──

    def batches(self, rows: int, window: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:
        if window is not None:
            raise ArgumentError.of("window", window, f"is not for {self.name}, which reads whole sequences", "Leave it")
        return ExampleBatches(self.parts["training"], rows, self.seed, epoch, rank, ranks)

    def evaluate(self, learner: Any, part: str, rows: int = 1, limit: int | None = None) -> dict[str, float]:  # noqa: ARG002
        found = self.parts.get(part)
        return {} if found is None or not len(found.lengths) else self.assess(learner, found, limit)

    def evaluate_files(self, learner: Any, source: Source) -> dict[str, float]:
        return self.assess(learner, self.read(source))

    def assess(self, learner: ExampleLearner, part: Part, limit: int | None = None) -> dict[str, float]:
        """Loss and figures on a part, or on so many units of it."""
        rows = some_rows(part, limit)
        loss, answers = self.ask(learner, part, rows)
        return {"loss": loss, **self.figures(part, rows, answers)}

    @torch.no_grad()
    def ask(self, learner: ExampleLearner, part: Part, rows: Rows) -> tuple[float, list[Any]]:
        """The mean loss of some rows, NaN where nobody knows what is right, and the answers."""
        was = learner.training
        learner.eval()
        answers: list[Any] = [None] * len(rows)
        total, units = 0.0, 0.0
        for places in sorted_batches(part.lengths[rows], TOGETHER):
            batch = part.batch(rows[places])
            scores = learner.score(batch).levels[-1]
            if batch.targets is not None:
                total, units = total + float(learner.total(scores, batch)), units + batch.units
            for place, answer in zip(places, learner.answer(scores, batch), strict=True):
                answers[place] = answer
        learner.train(was)
        return total / units if units else float("nan"), answers

    def predict(self, learner: ExampleLearner, part: Part) -> Iterator[dict[str, Any]]:
        """A record for each example."""
        _, answers = self.ask(learner, part, np.arange(len(part.lengths)))
        return (self.record(part, row, answer) for row, answer in enumerate(answers))

    def sample(self, learner: Any, seed: int) -> str:
        part = self.parts["validation"]
        rows = np.random.default_rng(seed).permutation(len(part.lengths))[:SHOWN]
        _, answers = self.ask(learner, part, rows)
        return "\n".join(self.show(part, int(row), answer) for row, answer in zip(rows, answers, strict=True))

    def baselines(self) -> dict[str, dict[str, float]]:
        return {}


def some_rows(part: Part, limit: int | None) -> Rows:
    """All examples, or, by a draw that is always the same, as many as have `limit` units."""
    if not limit:
        return np.arange(len(part.lengths))
    rows = np.random.default_rng(0).permutation(len(part.lengths))
    return rows[: 1 + int(np.searchsorted(np.cumsum(part.counts[rows]), limit))]


def digest_files(*sources: Any) -> str:
    """Of all bytes of files: the same only if the data is."""
    digest = hashlib.sha256()
    for source in sources:
        for file in [] if isinstance(source, int | float) else find_files(source):
            digest.update(Path(file).read_bytes())
            digest.update(b"\0")
    return digest.hexdigest()


def read_divided(data: Any, read: Any) -> dict[str, Any]:
    """Training, validation and test: the examples of files of their own, and seeded draws of the others'."""
    whole = read(data, data.files)
    shares = [share if isinstance(share, float) else 0.0 for share in (data.validation, data.test)]
    rows = divide(len(whole), shares[0], shares[1], data.split_seed)
    found = {name: whole.take(own) for name, own in zip(("training", "validation", "test"), rows, strict=True)}
    for name in ("validation", "test"):
        given = getattr(data, name)
        if not isinstance(given, float):
            found[name] = read(data, given)
    if not len(found["validation"]):
        raise DataError("there is nothing to validate on. Give `validation`, a share above 0 or files.")
    return found
