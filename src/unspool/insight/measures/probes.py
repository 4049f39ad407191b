"""Probes: whether a linear reader finds a label in the states, on sequences that it was not fitted to.

A probe that reads a label shows that the label is in the states, not that the network uses it. A probe may also learn
by heart; so it is scored on held-out rows, and beside it stands the score that it reaches with shuffled labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from unspool.cells.cell import check_size
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, ShapeError

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Probe:
    """How well a linear reader finds labels in states.

    The score is the accuracy for classes and R² for numbers, on held-out rows. `weights` and `bias` are those of a
    probe that was fitted to all rows.
    """

    kind: str  # "classes" or "numbers"
    classes: tuple[str, ...]  # the labels; empty for numbers
    score: float  # mean over folds
    scores: Array  # (folds,)
    baseline: float  # what the most frequent class, or the mean, reaches without states
    shuffled: float  # the mean score with shuffled labels
    limit: float  # and what 95 % of the shuffles do not exceed
    confusion: Numbers  # (classes, classes): held-out rows by their label and the probe's; (0, 0) for numbers
    weights: Array  # (width, classes) or (width, 1)
    bias: Array  # (classes,) or (1,)


@dataclass(frozen=True, eq=False)
class _Sample:
    states: Array
    targets: Any  # numbers of classes, or values
    classes: int  # 0 for values
    penalty: float

    def fit(self, rows: Numbers) -> tuple[Array, Array]:
        """Weights and bias for the states as they are, fitted to standardized ones."""
        part = self.states[rows]
        mean, deviation = part.mean(0), part.std(0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        x = (part - mean) / deviation
        found = (
            fit_classes(x, self.targets[rows], self.classes, self.penalty)
            if self.classes
            else fit_numbers(x, self.targets[rows], self.penalty)
        )
        weights = found[0] / deviation[:, None]
        return weights, found[1] - mean @ weights

    def predict(self, rows: Numbers, weights: Array, bias: Array) -> Any:
        read = self.states[rows] @ weights + bias
        return read.argmax(1) if self.classes else read[:, 0]

    def score(self, rows: Numbers, predicted: Any) -> float:
        truth = self.targets[rows]
        if self.classes:
            return float((predicted == truth).mean())
        spread = np.square(truth - truth.mean()).sum()
        return float(1 - np.square(truth - predicted).sum() / spread) if spread else np.nan


def measure_probe(
    states: ArrayLike,
    labels: Sequence[object] | ArrayLike,
    groups: ArrayLike | None = None,
    folds: int = 5,
    penalty: float = 1.0,
    shuffles: int = 20,
    seed: int = 0,
) -> Probe:
    """Fit a linear probe from states to labels, and score it on rows that it was not fitted to.

    Labels that are floating-point numbers are read by ridge regression, all others as classes by logistic regression.

    Args:
        states: (n, width), a row per step, such as `extract_states(…).values`.
        labels: one per row.
        groups: which rows belong together, such as `extract_states(…).sequence`: rows of one group are never on both
            sides. By default each row is its own group; steps of one sequence are alike, so give their sequences.
        folds: parts that are held out, one at a time.
        penalty: of the squared weights, on standardized states.
        shuffles: how often labels are shuffled to find what the probe reaches by chance. Labels that are the same
            within every group are shuffled by group.
        seed: of the folds and the shuffles.

    Returns:
        The held-out score beside the baseline and the scores with shuffled labels.

    Example:
        >>> states = np.random.default_rng(0).normal(size=(200, 3))
        >>> found = measure_probe(states, np.where(states[:, 0] > 0, "rises", "falls"))
        >>> found.score > 0.9 > found.limit
        True
    """
    rows = _check_states(states)
    targets, classes = _read_labels(labels, len(rows))
    chance = np.random.default_rng(seed)
    places = _read_groups(groups, len(rows))
    parts = _split(places, check_size("folds", folds, 2), chance)
    if not is_number(penalty) or not (np.isfinite(penalty) and penalty > 0):
        raise ArgumentError.of("penalty", penalty, "is not a positive number", "Give one such as `penalty=1.0`")
    sample = _Sample(rows, targets, len(classes), float(penalty))
    scores, confusion = _cross_validate(sample, parts)
    shuffled = [
        _cross_validate(_Sample(rows, _shuffle(targets, places, chance), len(classes), float(penalty)), parts)[0].mean()
        for _ in range(check_size("shuffles", shuffles))
    ]
    weights, bias = sample.fit(np.arange(len(rows)))
    return Probe(
        kind="classes" if classes else "numbers",
        classes=classes,
        score=float(scores.mean()),
        scores=scores,
        baseline=float(np.bincount(targets).max() / len(targets)) if classes else 0.0,
        shuffled=float(np.mean(shuffled)),
        limit=float(np.quantile(shuffled, 0.95)),
        confusion=confusion,
        weights=weights,
        bias=bias,
    )


def fit_numbers(x: Array, y: Array, penalty: float) -> tuple[Array, Array]:
    """Ridge regression: the smallest ‖y − xw − b‖² + penalty ‖w‖²; weights (width, 1) and bias (1,)."""
    middle, level = x.mean(0), y.mean()
    centered = x - middle
    weights = np.linalg.solve(centered.T @ centered + penalty * np.eye(x.shape[1]), centered.T @ (y - level))
    return weights[:, None], np.array([level - middle @ weights])


def fit_classes(x: Array, y: Numbers, classes: int, penalty: float) -> tuple[Array, Array]:
    """Logistic regression: the smallest Σ cross-entropy + penalty / 2 ‖W‖²; weights (width, classes) and bias."""
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    weights = torch.zeros(x.shape[1], classes, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS(
        [weights, bias],
        max_iter=200,
        tolerance_grad=1e-6,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        search.zero_grad()
        found = (
            functional.cross_entropy(inputs @ weights + bias, targets) + penalty / (2 * len(x)) * weights.square().sum()
        )
        found.backward()
        return found

    with torch.enable_grad():
        search.step(loss)
    return weights.detach().numpy(), bias.detach().numpy()


def _cross_validate(sample: _Sample, parts: Sequence[Numbers]) -> tuple[Array, Numbers]:
    everything = np.arange(len(sample.states))
    confusion = np.zeros((sample.classes, sample.classes), np.int64)
    scores = []
    for held_out in parts:
        predicted = sample.predict(held_out, *sample.fit(np.setdiff1d(everything, held_out)))
        scores.append(sample.score(held_out, predicted))
        if sample.classes:
            np.add.at(confusion, (sample.targets[held_out], predicted), 1)
    return np.array(scores), confusion


def _split(places: Numbers, folds: int, chance: np.random.Generator) -> list[Numbers]:
    """The rows of each part; a group is in one part."""
    groups = chance.permutation(int(places.max()) + 1)
    if len(groups) < folds:
        raise ArgumentError.of("folds", folds, f"is more than the {len(groups)} groups", "Give fewer, or more data")
    return [np.flatnonzero(np.isin(places, part)) for part in np.array_split(groups, folds)]


def _shuffle(targets: Any, places: Numbers, chance: np.random.Generator) -> Any:
    """Shuffled labels: between groups where each group has one label, else between rows."""
    firsts = np.unique(places, return_index=True)[1]
    if (targets == targets[firsts][places]).all():
        return chance.permutation(targets[firsts])[places]
    return chance.permutation(targets)


def _check_states(states: ArrayLike) -> Array:
    rows = np.asarray(states, np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ShapeError.of("states", rows.shape, "is not (n, width)", "Give one row of states per label")
    if not np.isfinite(rows).all():
        raise ArgumentError("`states` contains NaN or inf. Take such rows out first.")
    return rows


def _read_labels(labels: Sequence[object] | ArrayLike, count: int) -> tuple[Any, tuple[str, ...]]:
    """Numbers of classes with their names, or values without any."""
    array = np.asarray(labels)
    if array.shape != (count,):
        raise ShapeError.of("labels", array.shape, f"does not have one label for each of {count} rows", "Give n labels")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ArgumentError("`labels` contains NaN or inf. Take such rows out first.")
        return array.astype(np.float64), ()
    names, numbers = np.unique(array.astype(str), return_inverse=True)
    if len(names) < 2:
        raise ArgumentError.of("labels", list(names), "has only one class", "Give rows of at least two classes")
    return numbers.astype(np.int64), tuple(map(str, names))


def _read_groups(groups: ArrayLike | None, count: int) -> Numbers:
    if groups is None:
        return np.arange(count)
    array = np.asarray(groups)
    if array.shape != (count,):
        raise ShapeError.of("groups", array.shape, f"does not have one group for each of {count} rows", "Give n groups")
    return np.unique(array, return_inverse=True)[1].astype(np.int64)
