"""The folder of a run as a specimen: its model over data that it has not learned from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unspool.data.corpus import Division, prepare
from unspool.data.inputs import TextInputs
from unspool.data.vocabulary import Vocabulary
from unspool.errors import DataError, UnspoolError
from unspool.insight.recording import record
from unspool.insight.specimen import Specimen
from unspool.learning.contract import Learner, Task
from unspool.tasks.config import Config
from unspool.tasks.examples import ExampleTask, Part
from unspool.tasks.generation import Sampling, generate
from unspool.tasks.language_model import LanguageModel, LanguageModelling, TextWindows, opening, unsayable
from unspool.tasks.load import load_run
from unspool.tasks.tag import TaggedPart

#: Rows and steps that are looked at: enough for means that hold, few enough for a minute.
ROWS, STEPS = 8, 192
#: A text is looked at over so many windows of training, so that what lies beyond one shows.
WINDOWS = 3

Tokens = Sequence[Sequence[str]]


class Material(NamedTuple):
    """What the model reads, and what is known about it."""

    batch: Any
    tokens: Tokens | None
    source: str
    missing: tuple[str, ...] = ()


def take_run(run: str | Path, data: str | Path | None = None) -> Specimen:
    """The best model of a run over its validation data, or over `data`."""
    config, task, learner = load_run(run)

    def prepare_task() -> Any:
        return config.task.prepare(config.data, config.training.seed)

    material = find_material(task, learner, config, data, prepare_task)
    return take_learner(learner, config, material, run)


def find_material(
    task: Task, learner: Learner, config: Config, data: str | Path | None, prepare_task: Callable[[], Any]
) -> Material:
    """A batch of `data`, or of the validation data of the task that `prepare_task` gives."""
    if isinstance(learner, LanguageModel):
        return _text(task, learner, data, _window(config), prepare_task)
    return _examples(task, data, prepare_task)


def take_learner(learner: Learner, config: Config, material: Material, run: str | Path) -> Specimen:
    """A model of a run, as it is now."""

    carried = learner.carry(_rows(material.batch))  # made here, as it may run the layers to see their states

    def look(model: nn.Module) -> Tensor:
        loss: Tensor = model(material.batch, carried).loss
        return loss

    recording = record(learner, look)
    surprise = _surprise(learner, material.batch) if isinstance(learner, LanguageModel) else None
    steps, rows = max((unit.live.shape for unit in recording.units), key=lambda shape: shape[0])
    model = config.model
    facts = (
        ("run", str(run)),
        ("task", config.task.name),
        ("model", f"{model.cell}, {model.layers} layer(s) of {model.hidden}"),
        ("parameters", f"{sum(parameter.numel() for parameter in learner.parameters()):,}"),
        ("data", f"{material.source}, {rows} row(s) of up to {steps} steps"),
        ("loss", f"{float(recording.loss.detach()):.4g}"),
    )
    settings = {**config.model.model_dump(), **config.training.model_dump()}
    return Specimen(
        recording=recording,
        title=f"X-ray of {Path(run).name}",
        facts=facts,
        tokens=material.tokens,
        surprise=surprise,
        window=_window(config),
        settings=settings,
        retrain=f"unspool train --config {run}/config.toml --out {run}-2",
        missing=material.missing,
    )


def _text(
    task: Task, learner: LanguageModel, data: str | Path | None, window: int | None, prepare_task: Callable[[], Any]
) -> Material:
    assert isinstance(task, LanguageModelling)
    vocabulary = task.vocabulary
    missing: tuple[str, ...] = ()
    if data is not None:
        ids, source = prepare([str(data)], Division(validation=0.0), vocabulary=vocabulary).training, str(data)
    else:
        try:
            ids, source = prepare_task().corpus.validation, "validation data"
        except DataError as error:
            ids, source = _own_text(learner, vocabulary), "text that the model wrote itself"
            missing = (f"the run's own data: {error} It was looked at over {source}. Give other text: --data FILE.",)
    if len(ids) < 3:
        raise DataError(f"{source} has {len(ids)} token(s). Give text of three at least.")
    steps = min(STEPS if window is None else max(STEPS, min(WINDOWS * window, 2 * STEPS)), len(ids) - 1)
    rows = max(1, min(ROWS, (len(ids) - 1) // steps))
    batch = TextWindows(ids, rows, steps)[0]
    return Material(batch, _strings(batch[0], vocabulary), source, missing)


def _examples(task: Task, data: str | Path | None, prepare_task: Callable[[], Any]) -> Material:
    assert isinstance(task, ExampleTask)
    part: Part
    if data is not None:
        part, source = task.read([str(data)]), str(data)
    else:
        try:
            part, source = prepare_task().parts["validation"], "validation data"
        except UnspoolError as error:
            raise DataError(f"the run's own data cannot be read: {error} Give other data: --data FILE.") from error
    fit = np.flatnonzero(part.lengths <= 2 * STEPS)
    if not len(fit):
        raise DataError(f"all sequences of {source} are longer than {2 * STEPS} steps. Give shorter ones: --data FILE.")
    order = np.random.default_rng(0).permutation(fit)
    rows = np.sort(order[np.argsort(-part.lengths[order[: 4 * ROWS]], kind="stable")][:ROWS])
    batch = part.batch(rows)
    if batch.targets is None:
        raise DataError(f"{source} does not say what is right. Give data with answers.")
    return Material(batch, _example_tokens(task, part, batch, rows), source)


def _window(config: Config) -> int | None:
    """Steps that gradients go back, if not all of them."""
    return config.training.window if isinstance(config.training.window, int) else None


def _own_text(learner: Any, vocabulary: Vocabulary) -> NDArray[np.int64]:
    sampling, generator = Sampling(temperature=1.0, banned=unsayable(vocabulary)), torch.Generator().manual_seed(0)
    return np.array(list(generate(learner, opening(learner, vocabulary), ROWS * STEPS + 1, sampling, generator)))


@torch.no_grad()
def _surprise(learner: LanguageModel, batch: tuple[Tensor, Tensor]) -> NDArray[np.float64]:
    ids, targets = batch
    output = learner.features(learner.listen(ids, learner.carry(ids.shape[1])).sequences[-1])
    logits = functional.linear(output, learner.read_out, learner.read_out_bias)
    nats = functional.cross_entropy(logits.flatten(0, 1).double(), targets.flatten(), reduction="none")
    return nats.reshape(targets.shape).numpy()


def _example_tokens(task: Any, part: Part, batch: Any, rows: NDArray[np.int64]) -> Tokens | None:
    if isinstance(part, TaggedPart):
        words = [part.sentences[row].words for row in rows]
        steps = max(map(len, words))
        return [[one[t] if t < len(one) else "" for one in words] for t in range(steps)]
    inputs = getattr(task, "inputs", None)
    return _strings(batch.inputs, inputs.vocabulary) if isinstance(inputs, TextInputs) else None


def _strings(ids: Tensor, vocabulary: Vocabulary) -> Tokens:
    known = {int(one): vocabulary.decode([int(one)]) for one in ids.unique()}
    return [[known[int(one)] for one in step] for step in ids]


def _rows(batch: Any) -> int:
    return int(batch[0].shape[1]) if isinstance(batch[0], Tensor) else len(batch.lengths)
