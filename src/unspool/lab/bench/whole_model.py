"""The whole model: an update of a character model and of a word model, against plain torch, torch.compile and JAX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from unspool.errors import UnspoolError
from unspool.lab.bench.contestants.contestant import MissingError
from unspool.lab.bench.contestants.jax_model import jax_optax
from unspool.lab.bench.contestants.language_models import MAKERS, Model, Update
from unspool.lab.bench.fresh_process import in_fresh_process
from unspool.lab.bench.report import OURS, Finding, Row
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import Spread, interleave

MODELS = (
    Model("character", 65, 256, 2, 32, 128, "adam", 2e-3, 1.0),
    Model("word", 10_000, 200, 2, 20, 35, "sgd", 1.0, 5.0),
)
JAX = "JAX + optax"
#: Relative difference of the losses of two libraries' first updates that rounding explains.
CLOSE = 1e-4


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    if settings.points or set(settings.cells) != set(Settings().cells):
        say("! the whole models have sizes and a cell of their own")
    for model in MODELS:
        say(f"model: {model}")
        updates = make_updates(model, settings, say)
        check_agreement(model, updates)
        yield Row("model", "training", str(model), interleave(updates, settings.rounds))
        yield from _memory(model, updates, settings, say)


def make_updates(model: Model, settings: Settings, say: Say, only: str | None = None) -> dict[str, Update]:
    """The contestants that are here, by name; all, or one."""
    against = settings.against
    wanted = [OURS, *(["torch", "torch, linear_cross_entropy"] if "torch" in against else [])]
    wanted += ["torch.compile"] if settings.compile and "torch" in against else []
    wanted += [JAX] if "jax" in against else []
    found: dict[str, Update] = {}
    for name in [only] if only else wanted:
        try:
            found[name] = jax_optax(model, settings.threads) if name == JAX else MAKERS[name](model)
        except MissingError as error:
            say(f"! {error}")
    return found


def check_agreement(model: Model, updates: dict[str, Update]) -> None:
    """All do the same: the losses before their first and their second update agree."""
    for number in range(2):
        losses = {name: update() for name, update in updates.items()}
        for name, loss in losses.items():
            if not math.isclose(loss, losses[OURS], rel_tol=CLOSE):
                raise UnspoolError(f"{model}: update {number + 1} of {name} had the loss {loss}, ours {losses[OURS]}")


def _memory(model: Model, names: Iterable[str], settings: Settings, say: Say) -> Iterator[Row]:
    if not Path("/proc/self/clear_refs").exists():
        say("! memory is not measured: only Linux tells a process its peak")
        return
    rounds, threads = min(settings.rounds, 3), settings.threads
    ask = partial(in_fresh_process, "model", model.name, threads=threads)
    values = {name: Spread.of([ask(name)["bytes"] for _ in range(rounds)]) for name in names}
    yield Row("model", "peak of memory in training", str(model), values, "bytes")


def judge(rows: Iterable[Row]) -> list[Finding]:
    found = []
    for row in rows:
        model = next(one for one in MODELS if str(one) == row.case)
        if row.unit == "s":
            rate = model.rows * model.steps / row.values[OURS].median
            found.append(Finding("model", f"{model.name} model: {model.name}s a second", rate, "", where=row.case))
        kind = "training, against" if row.unit == "s" else "memory, in parts of that of"
        for name in row.values:
            if name != OURS:
                ratio = row.ratio(name) if row.unit == "s" else row.ratio(OURS, name)
                found.append(Finding("model", f"{model.name} model: {kind} {name}", ratio, where=row.case))
    return found
