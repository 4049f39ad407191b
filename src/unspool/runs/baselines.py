"""Baselines that are trained: the same task learned in the same way by models without memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import torch

from unspool.learning.contract import Task
from unspool.learning.events import Event
from unspool.learning.loop import Loop
from unspool.learning.stopping import Stop
from unspool.models.baselines.encoders import KERNEL_SIZE
from unspool.runs.config import Config
from unspool.runs.embeddings import make_model

#: Values of `backbone` without memory, and how tables call them.
NAMES = {
    "bag": "bag of vectors",
    "fcn": "shared FCN, summed",
    "cnn": "1-D convolution",
    "mlp": "stateless MLP",
}
#: Layers of the stacked convolution, which sees more steps at once than the plain one.
STACKED = 3
#: Settings that only recurrent layers have.
OF_MEMORY = {"recurrent_dropout", "weight_dropout", "zoneout", "deep_supervision", "gate_penalty", "crf"}


def baselines_of(settings: Config) -> dict[str, Config]:
    """The settings of each baseline that a task has, by its name in tables.

    Args:
        settings: Those of the model that is compared; what only recurrent layers have is left out.

    Returns:
        One config per baseline; none for tasks without them.
    """
    field = type(settings.model).model_fields.get("backbone")
    backbones = [] if field is None else [one for one in get_args(field.annotation) if one in NAMES]
    training = settings.training.model_copy(update={"learning_rule": "bptt", "baselines": False})
    models = {
        NAMES[backbone]: _without_memory(settings.model, backbone)
        for backbone in backbones
        if backbone != settings.model.backbone
    }
    if NAMES["cnn"] in models:
        reach = 1 + STACKED * (KERNEL_SIZE - 1)
        name = f"{STACKED}-layer convolution ({reach} steps)"
        models[name] = models[NAMES["cnn"]].model_copy(update={"cnn_layers": STACKED})
    return {name: replace(settings, model=model, training=training) for name, model in models.items()}


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


def train_baselines(settings: Config, task: Task, steps: int, stop: Stop) -> dict[str, dict[str, float]]:
    """Train each baseline.

    Args:
        settings: Those of the model that is compared.
        task: Its task, with data.
        steps: Updates, as many as the model had.
        stop: Ends it early; baselines that are done are kept.

    Returns:
        The metrics on validation data of each, of its best weights, by its name.
    """
    found: dict[str, dict[str, float]] = {}
    for name, baseline in baselines_of(settings).items():
        training = baseline.training.model_copy(update={"epochs": None, "minutes": None, "steps": steps})
        torch.manual_seed(training.seed)  # whatever was drawn before: a resumed run has drawn less
        loop = Loop(task, make_model(task, baseline)[0], training, None, _ignore, stop)
        finished = loop.run()
        if finished.reason == "interrupted":
            break
        found[name] = dict(finished.validation)
    return found
