"""What a task must offer, and what it asks of its model. A new task is one class in its own file of tasks/.

Nothing here knows how a model computes: batches are NumPy arrays, and so is what a model gives back. The torch models
of models/ are trained on them; a player of trained models computes with NumPy alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from unspool.decoding.generation import Predictor
from unspool.errors import ArgumentError
from unspool.tasks.batch import Batch

if TYPE_CHECKING:
    import polars as pl

    from unspool.data.glance import Glance
    from unspool.settings.defaults import DataFacts
    from unspool.settings.training import Training


# ── what a task asks of a model, in which nothing random happens then ──


class Inferred(NamedTuple):
    """What a model finds out about a batch."""

    loss: float | None  # summed over the units of the batch; None where targets are not known
    predictions: Sequence[Any]  # one per example; what they are is said by the task


class ExampleModel(Protocol):
    """A model of examples."""

    def infer(self, batch: Batch) -> Inferred:
        """The loss of a batch, and the prediction for each of its examples."""
        ...


class PairModel(ExampleModel, Protocol):
    """A model that writes a sequence for each sequence."""

    def measure(self, batch: Batch) -> tuple[float, int]:
        """The loss summed over the target tokens, each after the true ones, and how many of them are the likeliest."""
        ...


class TextModel(Predictor, Protocol):
    """A language model: it generates text, and measures how well it predicts one."""

    def initial_state(self, batch_size: int) -> Any:
        """The state before the first token."""
        ...

    def measure(self, window: tuple[NDArray[np.int64], NDArray[np.int64]], state: Any) -> tuple[float, Any]:
        """The mean cross-entropy of `(ids, targets)`, each (time, batch), in nats; and the state after them."""
        ...


# ── what training asks of a task ──


class Batches(ABC):
    """The training batches of one epoch, by number, so that training can resume in the middle."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, number: int) -> Any:
        """A batch: what the learner takes."""


# ── what a task answers when plan, X-ray and the guess ask it ──


class Proposal(NamedTuple):
    """A value for a setting, and why."""

    setting: str
    value: str | int | float | bool
    reason: str
    enough: bool = False  # the default, because it is enough for the memory: not said where that may be longer


class WholeSequence(NamedTuple):
    """That something is predicted from a whole sequence, in words."""

    source: str  # what it is predicted from: "sequence", "source"
    target: str  # what is predicted: "label", "number"
    shortcut: str  # what in the model shortens the way from a step to the prediction


@dataclass(frozen=True)
class TrainingSequences:
    """The sequences that a task trains on, as `plan` measures them."""

    unit: str  # what a step is, in the plural
    sides: Sequence[Sequence[NDArray[Any]]]  # ids (steps,) or numbers (steps, width); source and target are two sides
    detrend: bool = False  # whether a straight line is taken off numbers before these are measured
    whole: WholeSequence | None = None  # where something is predicted from a whole sequence
    longest: int | None = None  # steps that a prediction reads at most; None: all before it
    line_end: int | None = None  # the id that ends a line of text, where there is one


class Extent(NamedTuple):
    """How much data X-ray reads."""

    batch_size: int
    steps: int
    bptt: int | None  # steps that gradients flow back in training; None: all of them


class Material(NamedTuple):
    """A batch for X-ray, and what is known about it."""

    batch: Any
    batch_size: int
    tokens: Sequence[Sequence[str]] | None  # (time, batch), where steps are tokens
    source: str  # where it is from, in words
    missing: tuple[str, ...] = ()  # what could not be had, for the report


class Usage(NamedTuple):
    """What one who uses a trained model gives it, and what comes of it."""

    reads: str  # "text", "words" (a sentence in words), "numbers" (rows of them) or "series"
    unit: str  # what a step is, in the plural
    outputs: tuple[str, ...] = ()  # names of labels, of tags or of numbers; none where it writes text
    features: tuple[str, ...] = ()  # names of the numbers of a row
    horizon: int = 0  # steps of a forecast
    scales: tuple[tuple[float, float], ...] = ()  # mean and deviation of each output in training, where they are known
    season: int = 0  # steps of a season of the series; 0: none is known


class Claim(NamedTuple):
    """That a file looks like the data of a task: of several tasks, the one with the highest priority gets it."""

    priority: int
    reason: str
    settings: Mapping[str, Any] = {}  # with which it is read: the columns and what they are for


class PredictedRow(NamedTuple):
    """A prediction, and the entries of the table's row that it is for."""

    given: Mapping[str, Any]  # by column; none where the data has no columns, or no row is meant
    predicted: dict[str, Any]  # by `prediction_columns`, and `note` where there is none


class PredictedChunk(NamedTuple):
    """Some predictions of a file, and the rows of its table that they are for."""

    given: pl.DataFrame | None  # as many rows; None where the data has no columns, or no row is meant
    predicted: list[dict[str, Any]]  # as in `PredictedRow`


class Task(ABC):
    """Data, and what is learned from it."""

    #: The value of `task`; the task's settings have the same name in `settings/catalogue.py`.
    name: ClassVar[str]
    #: The metric by which the best model is chosen, and whether more of it is better.
    chosen_by: str = "loss"
    more_is_better: bool = False
    #: Whether models of this task generate text; the others predict a table.
    generates: ClassVar[bool] = False
    #: The unit of the loss, where it has one.
    loss_unit: ClassVar[str] = ""

    # ── data ──

    @classmethod
    @abstractmethod
    def prepare(cls, data: Any, seed: int) -> Self:
        """Read the data that section `[data]` of a config names."""

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:  # noqa: ARG003
        """Whether a file looks like data of this task; None if it does not."""
        return None

    @property
    @abstractmethod
    def unit(self) -> str:
        """What is counted in speeds: "characters", "examples"."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Of the data, so that a run is not resumed with other data."""

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """The data, in words."""

    @abstractmethod
    def batches(self, batch_size: int, bptt: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:
        """The batches of an epoch; of several processes, the part of each batch that belongs to this one."""

    def facts(self) -> DataFacts | None:
        """The size and kind of the training data, by which defaults are chosen; None where they depend on neither."""
        return None

    # ── the model ──

    def embedded_tokens(self) -> Mapping[str, int]:
        """Tokens and their rows in the model's embedding; none where tokens are not whole words or characters."""
        return {}

    @abstractmethod
    def evaluate(self, learner: Any, part: str, batch_size: int = 1, limit: int | None = None) -> dict[str, float]:
        """The loss and the metrics on "validation" or "test"; {} where there is no such data.

        With a batch size of 1 a text is read once from start to end; larger ones are faster. At most `limit` units
        are read.
        """

    @abstractmethod
    def evaluate_files(self, learner: Any, source: Any) -> dict[str, float]:
        """The loss and the metrics on other files."""

    def evaluate_examples(self, learner: Any, examples: Any, targets: Any = None) -> dict[str, float]:  # noqa: ARG002
        """The loss and the metrics on examples in memory."""
        raise ArgumentError.of(
            "task", self.name, "does not evaluate examples in memory", "Evaluate a file with `unspool evaluate`"
        )

    def predict_examples(self, learner: Any, examples: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Predictions for examples in memory, as rows of a table with `prediction_columns`."""
        raise ArgumentError.of(
            "task", self.name, "predicts no table", "Call `generate` for text, or `evaluate` with a text"
        )

    def predict_files(self, learner: Any, source: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Predictions for files whose targets need not be known, as rows of a table with `prediction_columns`."""
        raise ArgumentError.of(
            "task", self.name, "predicts no table", "Call `generate` for text, or `evaluate` with a text"
        )

    def predict_rows(self, learner: Any, source: Any) -> Iterator[PredictedRow]:
        """The same as `predict_files`, with the rows that predictions are for. These have what the first column has."""
        return (PredictedRow({}, record) for record in self.predict_files(learner, source))

    def predict_chunks(self, learner: Any, source: Any, size: int) -> Iterator[PredictedChunk]:
        """The same as `predict_rows`, at most `size` predictions at a time."""
        records = self.predict_files(learner, source)
        while chunk := list(islice(records, size)):
            yield PredictedChunk(None, chunk)

    def predict_texts(self, learner: Any, texts: Sequence[str]) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Predictions for texts in memory, as rows of a table with `prediction_columns`."""
        raise ArgumentError.of("task", self.name, "does not predict from texts", "Give a file")

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Columns that are read from tables, by which a table without a name is recognized; none where none is."""
        return ()

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        """The columns of `predict_files`; none for tasks whose models generate text."""
        return ()

    @abstractmethod
    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        """Metrics on "validation" or "test" of baselines that need no training, by name; {} without such data."""

    @abstractmethod
    def sample(self, learner: Any, seed: int) -> str:
        """Some output of the model for people to look at."""

    def prompt(self) -> str:
        """The beginning of a text like the training data, for a task that generates text; else empty."""
        return ""

    # ── what a player of its network asks ──

    def usage(self) -> Usage:
        """What one who uses a trained model gives it, and what comes of it."""
        return Usage("text", self.unit)

    def player_facts(self) -> dict[str, Any]:
        """What a player must know beside the network: arguments of `runtime.play.make_player`."""
        return {}

    def encode_steps(self, given: Any) -> Any:  # noqa: ARG002
        """What a session is fed, as the network reads it: (time, 1, …)."""
        raise ArgumentError.of("task", self.name, "is not played step by step", "Call `predict` with whole sequences")

    def encode_step(self, x: Any) -> Any:
        """One step of numbers as the network reads it."""
        return x

    # ── what plan and X-ray ask ──

    def sequences(self) -> TrainingSequences:
        """The training sequences, to be measured."""
        raise ArgumentError.of("task", self.name, "has no sequences to measure", "Choose another task")

    def propose(self, memory: int, training: Training) -> list[Proposal]:  # noqa: ARG002
        """Settings of this task alone that fit data with a memory of so many steps."""
        return []

    def material(self, learner: Any, extent: Extent, source: Any = None) -> Material:  # noqa: ARG002
        """A batch with targets from files, or, without a source, from the validation data."""
        raise ArgumentError.of("task", self.name, "has no batch to record", "Choose another task")

    def own_material(self, learner: Any, extent: Extent) -> Material | None:  # noqa: ARG002
        """A batch that the model generates itself, for where data is missing; None if it cannot."""
        return None

    # ── what a run keeps ──

    @abstractmethod
    def dump(self) -> dict[str, Any]:
        """What the model needs beside its weights, such as the vocabulary, as JSON has it; the run keeps it."""

    @classmethod
    @abstractmethod
    def restore(cls, document: Mapping[str, Any], data: Any) -> Self:
        """The task without its data, from what `dump` gave: enough to make the model and to use it."""


def refuse_generation(task: Task, run: Any) -> None:
    """Refuse the run of a task that generates no text."""
    if not task.generates:
        problem = f"is of the task {task.name}, which generates no text"
        raise ArgumentError.of("run", str(run), problem, "Call `predict`, or give the run of a language model")
