"""The models that are served, by the names of their run folders."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unspool.errors import ArgumentError
from unspool.runtime.run_player import RunPlayer, load
from unspool.server.batcher import Batcher
from unspool.server.metrics import Metrics
from unspool.server.refusals import RefusalError, unusable
from unspool.server.settings import ServeSettings


@dataclass(frozen=True)
class ServedModel:
    """A run that is served."""

    name: str
    player: RunPlayer
    batcher: Batcher
    created: int  # seconds since 1970, as OpenAI's clients expect it

    @property
    def generates(self) -> bool:
        """Whether it generates text."""
        return self.player.task.generates

    def describe(self) -> dict[str, Any]:
        """Its entry in the list of models."""
        task = self.player.task
        return {
            **{"id": self.name, "object": "model", "created": self.created, "owned_by": "unspool"},
            **{"task": task.name, "generates": task.generates, "streams": self.streams, "unit": task.unit},
        }

    @property
    def streams(self) -> bool:
        """Whether it can be played step by step."""
        try:
            return self.player.stream is not None
        except ArgumentError:
            return False

    def demand_text(self) -> None:
        """Refuse what only a language model can do."""
        if not self.generates:
            task = self.player.task.name
            raise unusable(f"The model {self.name} is of the task {task} and generates no text.", "model")


def load_models(runs: Sequence[str | Path], settings: ServeSettings, metrics: Metrics) -> dict[str, ServedModel]:
    """Load run folders.

    Raises:
        ArgumentError: One is not a run, or two have the same name.
    """
    found: dict[str, ServedModel] = {}
    for run in map(Path, runs):
        name = run.resolve().name
        if name in found:
            problem = f"has the name of another run, {found[name].player.run}"
            raise ArgumentError.of("run", str(run), problem, "Rename one of the folders")
        player = load(run, int8=settings.int8, threads=settings.threads)
        batcher = Batcher(name, player, settings.batch_size, settings.queue, metrics)
        found[name] = ServedModel(name, player, batcher, int(time.time()))
    return found


def find_model(models: Mapping[str, ServedModel], name: str | None) -> ServedModel:
    """The model of this name; without one, the only model.

    Raises:
        RefusalError: 404: there is none of this name; 422: the name is missing.
    """
    if name is None and len(models) == 1:
        return next(iter(models.values()))
    if name is None:
        raise unusable(f"`model` is missing. Served: {', '.join(models)}.", "model", "missing_name")
    if name not in models:
        message = f"There is no model {name[:80]!r}. Served: {', '.join(models)}."
        raise RefusalError(404, message, "model_not_found", "model")
    return models[name]
