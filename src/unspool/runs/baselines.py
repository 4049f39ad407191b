"""Baselines that are trained: the same task learned in the same way by models without memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import torch

from unspool.errors import DivergenceError
from unspool.learning.events import Advised, Event, Finished, Listener
from unspool.learning.loop import Loop
from unspool.learning.stopping import Stop
from unspool.models.baselines.encoders import KERNEL_SIZE
from unspool.runs.config import Config
from unspool.runs.embeddings import make_model
from unspool.tasks.contract import Task

#: Values of `backbone` without memory, and how tables call them.
NAMES = {
    "bag": "bag of vectors",
    "fcn": "shared FCN, summed",
    "cnn": "1-D convolution",
    "mlp": "stateless MLP",
}
#: Layers of the stacked convolution, which sees more steps at once than the plain one.
STACKED = 3
#: Seconds of updates by which the speed of a baseline is measured.
MEASURED = 0.2
#: Seconds from which on a time is given in minutes.
SECONDS = 100
#: Settings that only recurrent layers have.
OF_MEMORY = {
    *("recurrent_dropout", "weight_dropout", "zoneout", "deep_supervision", "gate_penalty", "crf", "input_window"),
}


def baselines_of(settings: Config) -> dict[str, Config]:
    """The settings of each baseline that a task has, by its name in tables.

    Args:
        settings: Those of the model that is compared; what only recurrent layers have is left out.

    Returns:
        One config per baseline; none for tasks without them.
    """
    training = settings.training.model_copy(update={"learning_rule": "bptt", "baselines": False})
    models = {NAMES[backbone]: _without_memory(settings.model, backbone) for backbone in _other_backbones(settings)}
    if NAMES["cnn"] in models:
        reach = 1 + STACKED * (KERNEL_SIZE - 1)
        name = f"{STACKED}-layer convolution ({reach} steps)"
        models[name] = models[NAMES["cnn"]].model_copy(update={"cnn_layers": STACKED})
    return {name: replace(settings, model=model, training=training) for name, model in models.items()}


def _other_backbones(settings: Config) -> list[str]:
    """What a model of this task may have in place of its own backbone, of the baselines."""
    field = type(settings.model).model_fields.get("backbone")
    known = () if field is None else get_args(field.annotation)
    return [one for one in known if one in NAMES and one != settings.model.backbone]


def _without_memory(model: Any, backbone: str) -> Any:
    """The settings of a model with another backbone, and nothing that it cannot have."""
    kind = type(model)
    plain = {name: getattr(model, name) for name in kind.model_fields}
    plain |= dict.fromkeys(OF_MEMORY & kind.model_fields.keys(), 0.0)
    if plain["dropout"] == "auto":
        plain["dropout"] = 0.0
    plain |= {"cnn_layers": 1} if "cnn_layers" in plain else {}
    return kind(**plain | {"backbone": backbone})


def _ignore(event: Event) -> None:
    """Baselines are trained in silence."""


def announce_baselines(settings: Config, task: Task, steps: int) -> str:
    """How many baselines will be trained, and about how long that takes, from a few updates of each.

    Args:
        settings: Those of the model that is compared.
        task: Its task, with data.
        steps: Updates per baseline.
    """
    found = baselines_of(settings)
    loops = [_make_loop(baseline, task, steps, Stop()) for baseline in found.values()]
    seconds = steps * sum(_measure_update(loop) for loop in loops)
    models = "1 baseline" if len(found) == 1 else f"{len(found)} baselines"
    return f"The model is trained. Training {models} without memory for comparison, about {describe_seconds(seconds)}."


def _measure_update(loop: Loop) -> float:
    """Seconds per update; 0 where the baseline diverges at once, as it will in training."""
    try:
        return loop.rehearse(MEASURED)
    except DivergenceError:
        return 0.0


def describe_seconds(seconds: float) -> str:
    """A time in round numbers: 40 s, 3 min.

    Example:
        >>> describe_seconds(192.4)
        '3 min'
    """
    return f"{max(1, round(seconds))} s" if seconds < SECONDS else f"{round(seconds / 60)} min"


def train_baselines(settings: Config, finished: Finished, task: Task, tell: Listener, stop: Stop) -> Finished:
    """Train each baseline for as many updates as the model had.

    Args:
        settings: Those of the model that is compared.
        finished: How its training ended.
        task: Its task, with data.
        tell: Called with an advice for each baseline that diverges, which is left out.
        stop: Ends it early; baselines that are done are kept.

    Returns:
        The event with the metrics of the best weights of each baseline, on validation and on test data.
    """
    validation, test = dict(finished.baselines), dict(finished.test_baselines)
    for name, baseline in baselines_of(settings).items():
        try:
            found = _make_loop(baseline, task, finished.step, stop).run()
        except DivergenceError as error:  # the model itself is trained
            tell(Advised(finished.step, f"The baseline {name} diverged, and is left out of the comparison: {error}"))
            continue
        if found.reason == "interrupted":
            break
        validation[name] = found.validation
        if found.test:
            test[name] = found.test
    return replace(finished, baselines=validation, test_baselines=test)


def _make_loop(baseline: Config, task: Task, steps: int, stop: Stop) -> Loop:
    training = baseline.training.model_copy(update={"epochs": None, "minutes": None, "steps": steps})
    torch.manual_seed(training.seed)  # whatever was drawn before: a resumed run has drawn less
    return Loop(task, make_model(task, baseline)[0], training, None, _ignore, stop)
