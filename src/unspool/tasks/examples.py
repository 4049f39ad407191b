"""Tasks whose data are examples, each a sequence and its target: batches, evaluation, prediction."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from unspool.data.sequences import Indices, divide, shuffled_batches, sorted_batches
from unspool.data.shuffle import EvenBatches
from unspool.data.sources import find_parts, held_out, list_all_files
from unspool.data.text import Source
from unspool.errors import ArgumentError, DataError
from unspool.tasks.batch import Batch
from unspool.tasks.contract import Batches, ExampleModel, Extent, Material, Task
from unspool.tasks.tokens import Tokens

#: Bytes of a file that are read at a time for its digest.
PIECE = 1 << 20
#: Examples per batch in evaluation.
TOGETHER = 128
#: Examples above which their order is computed and not kept.
MANY = 1 << 20
#: Examples that a sample shows.
SHOWN = 6


class Part(Protocol):
    """The examples of one part of the data: training, validation or test, or those to predict."""

    @property
    def lengths(self) -> Indices:
        """Steps of each example, by which batches are formed."""

    @property
    def counts(self) -> Indices:
        """Units of each example, over which losses are averaged."""

    def batch(self, indices: Indices) -> Batch:
        """Some examples, padded."""


class ExampleBatches(Batches):
    """An epoch of examples, in batches of similar length."""

    def __init__(self, part: Part, batch_size: int, seed: int, epoch: int, rank: int, ranks: int) -> None:
        self._part, self._rank, self._ranks = part, rank, ranks
        # of several processes, an incomplete batch cannot be divided evenly; another epoch leaves out other examples
        self._batches = find_batches(part.lengths, batch_size, seed, epoch, complete=ranks > 1)
        if ranks > 1 and not self._batches:
            problem = f"is more than the {len(part.lengths)} examples"
            raise ArgumentError.of("batch_size", batch_size, problem, "Give less")

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: int) -> Batch:
        indices, part = self._batches[number], self._part
        batch = part.batch(indices[self._rank :: self._ranks])
        if self._ranks == 1:
            return batch
        # what processes divide by is the mean over all, so that the mean of their gradients is that of the whole batch
        units, steps = (float(one[indices].sum()) / self._ranks for one in (part.counts, part.lengths))
        return batch._replace(units=units, steps=steps)


def find_batches(lengths: Indices, batch_size: int, seed: int, epoch: int, complete: bool = False) -> Sequence[Indices]:
    """The batches of an epoch in random order; of many examples of one length, the order is not kept in memory.

    Args:
        lengths: Steps of each example.
        batch_size: Examples per batch; the last may have fewer.
        seed: With `epoch`, the seed of the order.
        epoch: The number of the epoch.
        complete: Leave out a batch that has fewer.
    """
    if len(lengths) > MANY and lengths.min() == lengths.max():
        return EvenBatches(len(lengths), batch_size, seed, epoch, complete)
    found = shuffled_batches(lengths, batch_size, seed, epoch)
    return [batch for batch in found if len(batch) == batch_size] if complete else found


class ExampleTask(Task):
    """A task over examples. A subclass says how files become parts, and which metrics and rows predictions give."""

    unit = "examples"
    digest = ""

    def __init__(self, parts: Mapping[str, Any], digest: str = "", seed: int = 0) -> None:
        self.parts, self.digest, self.seed = parts, digest, seed

    # ── what a subclass says ──

    @abstractmethod
    def read(self, source: Source, *, targets: bool = True) -> Any:
        """A part from files, encoded as the training data is; without `targets`, these need not be known."""

    @abstractmethod
    def part_of(self, examples: Any, targets: Any = None) -> Any:
        """A part from examples in memory, encoded as the training data is; without `targets`, to predict them.

        What examples and targets are is said by the task.
        """

    @abstractmethod
    def metrics(self, part: Any, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        """The metrics of the predictions for some examples."""

    @abstractmethod
    def show(self, part: Any, index: int, prediction: Any) -> str:
        """An example and its prediction in a line."""

    @abstractmethod
    def record(self, part: Any, index: int, prediction: Any) -> dict[str, Any]:
        """A prediction as a row of a table, with `prediction_columns`."""

    def tokens(self, part: Any, batch: Batch, indices: Indices) -> Tokens | None:  # noqa: ARG002
        """The tokens of a batch (time, batch) as strings; None where steps are numbers."""
        return None

    # ── what all have ──

    def batches(self, batch_size: int, bptt: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:
        if bptt is not None:
            raise ArgumentError.of("bptt", bptt, f"is not for {self.name}, which reads whole sequences", "Leave it out")
        return ExampleBatches(self.parts["training"], batch_size, self.seed, epoch, rank, ranks)

    def evaluate(self, learner: Any, part: str, batch_size: int = 1, limit: int | None = None) -> dict[str, float]:  # noqa: ARG002
        found = self.parts.get(part)
        return {} if found is None or not len(found.lengths) else self.evaluate_part(learner, found, limit)

    def evaluate_files(self, learner: Any, source: Source) -> dict[str, float]:
        return self.evaluate_part(learner, self.read(held_out(source)))

    def evaluate_examples(self, learner: Any, examples: Any, targets: Any = None) -> dict[str, float]:
        if targets is None:
            raise ArgumentError.of("targets", targets, "are missing", "Give one per example, or call `predict`")
        return self.evaluate_part(learner, self.part_of(examples, targets))

    def predict_examples(self, learner: Any, examples: Any) -> Iterator[dict[str, Any]]:
        return self.predict(learner, self.part_of(examples))

    def evaluate_part(self, learner: ExampleModel, part: Part, limit: int | None = None) -> dict[str, float]:
        """The loss and the metrics on a part, or on about `limit` units of it; no loss where training saw no target."""
        indices = choose_examples(part, limit)
        loss, predictions = self.infer(learner, part, indices)
        metrics = self.metrics(part, indices, predictions)
        return {"loss": loss, **metrics} if part.counts[indices].any() else metrics

    def infer(self, learner: ExampleModel, part: Part, indices: Indices) -> tuple[float, list[Any]]:
        """The mean loss of some examples, NaN where targets are not known, and the predictions."""
        predictions: list[Any] = [None] * len(indices)
        total, units = 0.0, 0.0
        for places in sorted_batches(part.lengths[indices], TOGETHER):
            batch = part.batch(indices[places])
            found = learner.infer(batch)
            if found.loss is not None:
                total, units = total + found.loss, units + batch.units
            for place, prediction in zip(places, found.predictions, strict=True):
                predictions[place] = prediction
        return total / units if units else float("nan"), predictions

    def predict(self, learner: ExampleModel, part: Part) -> Iterator[dict[str, Any]]:
        """A row of a table for each example."""
        _, predictions = self.infer(learner, part, np.arange(len(part.lengths)))
        return (self.record(part, index, prediction) for index, prediction in enumerate(predictions))

    def predict_files(self, learner: Any, source: Source) -> Iterator[dict[str, Any]]:
        return self.predict(learner, self.read(held_out(source), targets=False))

    def sample(self, learner: Any, seed: int) -> str:
        part = self.parts["validation"]
        indices = np.random.default_rng(seed).permutation(len(part.lengths))[:SHOWN]
        _, predictions = self.infer(learner, part, indices)
        pairs = zip(indices, predictions, strict=True)
        return "\n".join(self.show(part, int(index), prediction) for index, prediction in pairs)

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:  # noqa: ARG002
        return {}

    def material(self, learner: Any, extent: Extent, source: Source | None = None) -> Material:  # noqa: ARG002
        part: Part = self.parts["validation"] if source is None else self.read(source)
        where = "validation data" if source is None else str(source)
        longest = 2 * extent.steps
        fit = np.flatnonzero((part.lengths <= longest) & (part.counts > 0))
        if not len(fit):
            raise DataError(f"all sequences of {where} are longer than {longest} steps. Give shorter ones as `data`.")
        # the longest of some random examples: short ones say little about memory
        drawn = np.random.default_rng(0).permutation(fit)
        by_length = drawn[np.argsort(-part.lengths[drawn[: 4 * extent.batch_size]], kind="stable")]
        indices = np.sort(by_length[: extent.batch_size])
        batch = part.batch(indices)
        if batch.targets is None:
            raise DataError(f"{where} has no targets. Give data with targets.")
        return Material(batch, len(indices), self.tokens(part, batch, indices), where)


def choose_examples(part: Part, limit: int | None) -> Indices:
    """All examples, or, by a draw that is always the same, as many as have `limit` units."""
    if not limit:
        return np.arange(len(part.lengths))
    indices = np.random.default_rng(0).permutation(len(part.lengths))
    return indices[: 1 + int(np.searchsorted(np.cumsum(part.counts[indices]), limit))]


def check_validation(parts: Mapping[str, Part], targets: str) -> None:
    """Refuse validation data of which training saw no target: there is no loss to watch."""
    if "validation" in parts and not parts["validation"].counts.any():
        raise DataError(
            f"none of the validation data has {targets} that occur in the training data. Give other `validation` data."
        )


def digest_files(*sources: Any) -> str:
    """Of all bytes of files: the same only if the data is. Sources that are fractions have none."""
    digest = hashlib.sha256()
    for source in sources:
        for file in [] if isinstance(source, int | float) else list_all_files(source):
            with Path(file).open("rb") as stream:
                while piece := stream.read(PIECE):
                    digest.update(piece)
            digest.update(b"\0")
    return digest.hexdigest()


def read_divided(data: Any, read: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Training, validation and test data: from files of their own, as the data comes divided, or by a random split.

    Args:
        data: The settings.
        read: Reads examples that have `take`, from the settings and files.
    """
    parts = find_parts(data.files)
    whole = read(data, parts.get("training", data.files))
    given = {name: _choose_part(getattr(data, name), parts.get(name)) for name in ("validation", "test")}
    fractions = [one if isinstance(one, float) else 0.0 for one in given.values()]
    split = divide(len(whole), fractions[0], fractions[1], data.split_seed)
    found = {name: whole.take(own) for name, own in zip(("training", *given), split, strict=True)}
    found |= {name: read(data, files) for name, files in given.items() if not isinstance(files, float)}
    if not len(found["validation"]):
        raise DataError("there is no validation data. Give `validation`: a fraction above 0, or files.")
    return found


def _choose_part(setting: Any, own: Any) -> Any:
    """The files of a part, or the fraction that it is: files of its own count where the setting names none."""
    return own if isinstance(setting, float) and own is not None else setting
