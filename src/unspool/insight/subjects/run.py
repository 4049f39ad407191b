"""The folder of a run as a specimen: its model over data that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from unspool.errors import DataError, UnspoolError
from unspool.insight.data_memory import measure_memory
from unspool.insight.recording import record
from unspool.insight.report.advice import Retrain
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.parameters import tell_parameters
from unspool.language import Message, words
from unspool.learning.contract import Learner
from unspool.learning.device import to_device_of
from unspool.runs.config import Config
from unspool.runs.follow_up import read_follow_up
from unspool.runs.load import load_run, use
from unspool.tasks.contract import Extent, Material, Task
from unspool.tasks.divergence import refuse_nonfinite

#: Sequences and steps that are read: enough for stable means, few enough for a minute.
BATCH_SIZE, STEPS = 8, 192
#: What tasks call data that is not a file of the reader's.
OWN_SOURCES = ("validation data", "text that the model generated")


def take_run(run: str | Path, data: str | Path | None = None) -> Specimen:
    """Record the best model of a run.

    Args:
        run: The folder.
        data: A file to read; by default the validation data of the run.

    Returns:
        The recorded model.

    Raises:
        DivergenceError: The weights, or the loss, are not finite.
    """
    config, task, learner = load_run(run)

    def prepare_task() -> Task:
        return config.task.prepare(config.data, config.training.seed)

    def find_memory() -> int | None:
        try:
            return measure_memory(prepare_task().sequences()).known
        except UnspoolError:  # the run's own data is not there any more
            return None

    def take() -> Specimen:
        material = find_material(task, learner, config, data, prepare_task)
        specimen = replace(take_learner(learner, config, material, run), find_memory=find_memory)
        refuse_nonfinite("recorded", {"loss": float(specimen.recording.loss.detach())})
        return specimen

    return use(run, learner, take)


def find_material(
    task: Task, learner: Learner, config: Config, data: str | Path | None, prepare_task: Callable[[], Task]
) -> Material:
    """The batch that a model is recorded over.

    Args:
        task: The task, which may be without data.
        learner: Its model.
        config: The settings of the run.
        data: A file to read; by default the validation data of the task that `prepare_task` gives.
        prepare_task: Reads the data of the run.

    Returns:
        The batch; one that the model generates itself where the data cannot be read and the model can.
    """
    extent = Extent(BATCH_SIZE, STEPS, _bptt(config))
    if data is not None:
        return task.material(learner, extent, str(data))
    try:
        prepared = prepare_task()
    except UnspoolError as error:
        own = task.own_material(learner, extent)
        if own is None:
            raise DataError(f"the run's own data cannot be read: {error} Give other data as `data`.") from error
        missing = Message(
            "the run's own data: {error} It was recorded over {source}. Give other text as `data`.",
            error=str(error),
            source=words(own.source),
        )
        return own._replace(missing=(missing,))
    return prepared.material(learner, extent)


def take_learner(learner: Learner, config: Config, material: Material, run: str | Path) -> Specimen:
    """Record a model of a run, as it is now.

    Args:
        learner: The model.
        config: The settings of the run.
        material: The batch that it is recorded over.
        run: The folder, for titles and commands.

    Returns:
        The recorded model.
    """
    batch, state = to_device_of(learner, material.batch), learner.initial_state(material.batch_size)

    def look(model: nn.Module) -> Tensor:
        loss: Tensor = model(batch, state).loss
        return loss

    def look_closer(model: nn.Module) -> Tensor:
        found: Tensor = model.last_surprise(batch)  # type: ignore[operator]
        return found

    recording, surprise = record(learner, look), learner.surprise(batch)
    steps, sequences = max((layer.live.shape for layer in recording.layers), key=lambda shape: shape[0])
    model = config.model
    facts = (
        ("run", str(run)),
        ("task", config.task.name),
        ("model", model.describe()),
        ("parameters", tell_parameters(learner)),
        ("data", _describe(material, sequences, steps)),
        ("loss", f"{float(recording.loss.detach()):.4g}"),
    )
    return Specimen(
        recording=recording,
        title=Message("X-ray of {name}", name=Path(run).name),
        facts=facts,
        tokens=material.tokens,
        surprise=surprise,
        focus=None if surprise is None else lambda: record(learner, look_closer),
        bptt=_bptt(config),
        retrain=Retrain.of(run),
        missing=material.missing,
        course=read_follow_up(run),
        forget_bias=model.forget_bias,
        engine=model.engine,
    )


def _describe(material: Material, sequences: int, steps: int) -> str:
    source = words(material.source) if material.source in OWN_SOURCES else material.source
    template = "{source}, {sequences} sequence(s) of up to {steps} steps"
    return Message(template, source=source, sequences=sequences, steps=steps)


def _bptt(config: Config) -> int | None:
    """Steps that gradients flow back in training, if not all."""
    return config.training.bptt if isinstance(config.training.bptt, int) else None
