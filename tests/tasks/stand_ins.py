"""Models in NumPy that stand in for trained ones: what they predict follows from a batch by plain arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.decoding.sequences import Decoded
from unspool.tasks.batch import END, FIRST, Batch, JointPrediction, JointTargets, TagPrediction, Window
from unspool.tasks.contract import ExampleModel, Inferred, TextModel
from unspool.tasks.lm import LanguageModelling


class StandIn:
    """A model of examples, for any task."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def infer(self, batch: Batch) -> Inferred:
        predict = getattr(self, f"predict_{self.task.name}")
        loss = None if batch.targets is None else _sum(batch.targets)
        return Inferred(loss, [predict(batch, place) for place in range(len(batch.lengths))])

    def measure(self, batch: Batch) -> tuple[float, int]:
        return _sum(batch.targets), int((batch.targets == END).sum())

    def predict_classify(self, batch: Batch, place: int) -> Any:
        weights = 1.0 + (np.arange(len(self.task.labels)) + batch.lengths[place]) % 3
        return weights / weights.sum()

    predict_multilabel = predict_classify

    def predict_regress(self, batch: Batch, place: int) -> Any:
        return self.task.scale.undo(np.full((1, len(self.task.targets)), batch.inputs[:, place].sum()))[0]

    def predict_tag(self, batch: Batch, place: int) -> TagPrediction:
        length = int(batch.lengths[place])
        return TagPrediction(batch.inputs.forms[:length, place] % len(self.task.tags), np.full(length, 0.5))

    def predict_joint(self, batch: Batch, place: int) -> JointPrediction:
        return JointPrediction(self.predict_tag(batch, place), self.predict_classify(batch, place))

    def predict_seq2seq(self, batch: Batch, place: int) -> Decoded:
        read = batch.inputs[: batch.lengths[place], place]
        return Decoded(tuple(FIRST + (read - FIRST) % self.task.target.tokens), -1.5, True)

    def predict_forecast(self, batch: Batch, place: int) -> NDArray[np.float64]:
        window: Window = batch.inputs
        last = window.past[-1, place, : len(self.task.data.target)]
        spread = np.linspace(-1, 1, len(self.task.data.quantiles))
        return np.tile(last[None, :, None] + spread, (len(window.future), 1, 1)).astype(np.float64)


class TextStandIn:
    """A language model whose next token depends on the one before it."""

    def __init__(self, size: int) -> None:
        self.logits = np.random.default_rng(5).standard_normal((size, size))

    def initial_state(self, batch_size: int) -> NDArray[np.int64]:
        return np.zeros(batch_size, np.int64)

    def predict(self, ids: NDArray[np.int64], state: Any) -> tuple[NDArray[np.float64], Any]:
        return self.logits[ids[-1]], ids[-1]

    def measure(self, window: tuple[NDArray[np.int64], NDArray[np.int64]], state: Any) -> tuple[float, Any]:
        ids, targets = window
        log_p = self.logits[ids] - np.log(np.exp(self.logits[ids]).sum(-1, keepdims=True))
        return float(-np.take_along_axis(log_p, targets[..., None], -1).mean()), ids[-1]


def use(task: Any, examples: Any, targets: Any) -> dict[str, Any]:
    """What a task makes of examples, with a stand-in for its model, as JSON has it."""
    if isinstance(task, LanguageModelling):
        text: TextModel = TextStandIn(len(task.vocabulary))
        return {"metrics": task.evaluate_examples(text, examples), "sample": task.sample(text, 3)}
    model: ExampleModel = StandIn(task)
    return {
        "metrics": task.evaluate_examples(model, examples, targets),
        "rows": list(task.predict_examples(model, examples)),
    }


def _sum(targets: Any) -> float:
    parts = targets if isinstance(targets, JointTargets) else (targets,)
    return float(sum(np.asarray(part, np.float64).sum() for part in parts))
