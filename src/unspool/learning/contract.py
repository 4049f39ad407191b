"""What the loop that trains asks of a task. A new task is one class of each kind here, in its own file of tasks/."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.learning.settings import Section


class Batches(ABC):
    """The training batches of one epoch, by number, so that training can go on in the middle."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, number: int) -> Any:
        """A batch: what the learner takes."""


class Outcome(NamedTuple):
    """What a batch came to."""

    loss: Tensor  # mean over the batch's units
    units: int  # how many
    carried: Any  # nested tensors for the next batch, not yet detached
    output: Tensor | None  # the recurrent layers', (time, rows, width), for penalties
    lengths: Tensor | None = None  # of the output's rows; None where all steps count
    extra: Tensor | None = None  # what training adds to the loss: auxiliary heads, the model's own penalties


class Apart(NamedTuple):
    """A learner and a batch taken apart, for rules that learn layer by layer."""

    layers: Sequence[nn.Module]  # recurrent, from the lowest up
    x: Tensor  # what the lowest reads
    lengths: Tensor | None  # of its rows
    judge: Callable[[Tensor], Outcome]  # what the top layer's output comes to


class Learner(nn.Module, ABC):
    """A model that can be trained."""

    @abstractmethod
    def forward(self, batch: Any, carried: Any, truth: float = 1.0) -> Outcome:
        """The loss of a batch. `truth` is the share of steps that read the truth, not the model's own words."""

    @abstractmethod
    def carry(self, rows: int) -> Any:
        """What is carried into an epoch's first batch: None, or nested tensors."""

    def take_apart(self, batch: Any) -> Apart:  # noqa: ARG002
        """The layers one by one, and a batch as they read it; refused where there is more to a model than that."""
        problem = f"is not for a {type(self).__name__}"
        raise ArgumentError.of("learn", "predictive-coding", problem, "Take learn='bptt'")


class Task(ABC):
    """Data, and what is learned from it."""

    #: The name that `--task` takes, and the classes of the config's sections [data] and [model].
    name: ClassVar[str]
    Data: ClassVar[type[Section]]
    Model: ClassVar[type[Section]]
    #: Settings that hold unless others are said, as a config has them.
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]]
    #: Of the figures, the one by which the best model is chosen, and whether more of it is better.
    chosen_by: str = "loss"
    more_is_better: bool = False

    @classmethod
    @abstractmethod
    def prepare(cls, data: Any, seed: int) -> Self:
        """Read the data."""

    @abstractmethod
    def make_learner(self, settings: Any) -> Learner:
        """A fresh model for this data."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """What is counted in speeds: "characters", "rows"."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Of the data, so that a run does not go on with other data."""

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """The data, in words."""

    @abstractmethod
    def batches(self, rows: int, window: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:
        """An epoch's batches of `rows`; of several processes, those rows that are one's own."""

    @abstractmethod
    def evaluate(self, learner: Any, part: str, rows: int = 1, limit: int | None = None) -> dict[str, float]:
        """`loss`, and what people read of it, on "validation" or "test"; {} where there is no such data.

        With one row the data is read once through; more rows are faster. At most `limit` units are read.
        """

    @abstractmethod
    def baselines(self) -> dict[str, dict[str, float]]:
        """Figures on validation data of what needs no training, by name."""

    @abstractmethod
    def sample(self, learner: Any, seed: int) -> str:
        """Something of the model's to look at."""

    @abstractmethod
    def dump(self) -> dict[str, Any]:
        """What the model needs beside its weights, such as the vocabulary, as JSON has it; the run keeps it."""

    @classmethod
    @abstractmethod
    def restore(cls, document: Mapping[str, Any], data: Any) -> Self:
        """The task without its data, from what `dump` gave: enough to make the model and to use it."""

    @abstractmethod
    def evaluate_files(self, learner: Any, source: Any) -> dict[str, float]:
        """The figures on other files."""
