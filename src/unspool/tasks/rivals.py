"""Rivals: the same task learned in the same way by models without memory, so that one sees what recurrence bought."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import torch

from unspool.learning.contract import Task
from unspool.learning.events import Event
from unspool.learning.loop import Loop
from unspool.learning.stopping import Stop
from unspool.tasks.config import Config

NAMES = {
    "bag": "bag of vectors",
    "fcn": "shared FCN, summed",
    "cnn": "1-D convolution",
    "mlp": "stateless MLP",
}
#: Settings that only recurrent layers have.
OF_MEMORY = {"recurrent_dropout", "weight_dropout", "zoneout", "supervision", "gate_penalty", "crf"}


def rivals_of(settings: Config) -> dict[str, Config]:
    """The settings of each rival that a task has, by name; all that is about memory is left out."""
    field = type(settings.model).model_fields.get("reader")
    readers = () if field is None else get_args(field.annotation)
    training = settings.training.model_copy(update={"learn": "bptt", "baselines": False})
    model = settings.model.model_dump() | dict.fromkeys(OF_MEMORY & type(settings.model).model_fields.keys(), 0.0)
    model["dropout"] = 0.0 if model["dropout"] == "auto" else model["dropout"]
    return {
        NAMES[reader]: replace(settings, model=type(settings.model)(**model | {"reader": reader}), training=training)
        for reader in readers
        if reader != settings.model.reader and reader != "recurrent"
    }


def _silent(event: Event) -> None:
    """What rivals go through is nobody's concern."""


def train_rivals(settings: Config, task: Task, steps: int, stop: Stop) -> dict[str, dict[str, float]]:
    """Figures on validation data of each rival after as many updates, chosen as the model is."""
    found: dict[str, dict[str, float]] = {}
    for name, rival in rivals_of(settings).items():
        ends = {"epochs": None, "minutes": None, "steps": steps}
        training = rival.training.model_copy(update=ends)
        torch.manual_seed(training.seed)  # whatever was drawn before, as a run that goes on has drawn less
        loop = Loop(task, task.make_learner(rival.model), training, None, _silent, stop)
        finished = loop.run()
        if finished.reason == "interrupted":
            break
        found[name] = dict(finished.validation)
    return found
