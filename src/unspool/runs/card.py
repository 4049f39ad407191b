"""The model card: what was trained on which data, how, with which versions, and its metrics."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib import metadata

from unspool.learning.contract import Learner
from unspool.learning.events import Finished
from unspool.learning.run_folder import RunFolder
from unspool.runs.config import Config
from unspool.tasks.contract import Task
from unspool.tasks.metrics import spell_metric

PACKAGES = ("unspool", "torch", "numpy", "safetensors")


def write_card(folder: RunFolder, settings: Config, task: Task, learner: Learner, finished: Finished) -> None:
    """Write MODEL_CARD.md."""
    lines = [
        *(f"# {folder.path.resolve().name}", "", "| | |", "|---|---|"),
        *(f"| {name} | {value} |" for name, value in _facts(settings, task, learner, finished).items()),
        *_tell_metrics(finished),
        *_tell_sample(finished.sample),
        *_tell_use(shlex.quote(str(folder.path)), task.generates),
    ]
    folder.write_card("\n".join(lines) + "\n")


def _facts(settings: Config, task: Task, learner: Learner, finished: Finished) -> dict[str, str]:
    parameters = sum(parameter.numel() for parameter in learner.parameters())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    return {
        "task": task.name,
        "model": f"{settings.model.describe()}, {parameters:,} parameters",
        **task.describe(),
        "data digest": task.digest,
        "seed": str(settings.training.seed),
        "training": f"{finished.step:,} updates in {finished.seconds:.0f} s; {finished.reason}",
        "best": f"after {finished.best_step:,} updates",
        "versions": f"{versions}, Python {platform.python_version()}, {platform.machine()}",
    }


def _tell_metrics(finished: Finished) -> list[str]:
    """A table with a line for each part of the data and each baseline; nothing without metrics."""
    metrics = {
        "**validation**": finished.validation,
        "**test**": finished.test,
        **{f"{name}, validation": found for name, found in finished.baselines.items()},
        **{f"{name}, test": found for name, found in finished.test_baselines.items()},
    }
    names = list(dict.fromkeys(name for found in metrics.values() for name in found))
    if not names:
        return []
    head = ["", "## Metrics", "", f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    return head + [_tell_row(title, found, names) for title, found in metrics.items() if found]


def _tell_row(title: str, found: Mapping[str, float], names: Sequence[str]) -> str:
    values = [spell_metric(found[name]) if name in found else "" for name in names]
    return "| " + " | ".join([title, *values]) + " |"


def _tell_sample(sample: str | None) -> list[str]:
    if not sample:
        return []
    return ["", "## Sample", "", *("    " + line for line in sample.splitlines())]


def _tell_use(run: str, generates: bool) -> list[str]:
    use = f"    unspool generate {run}" if generates else f"    unspool predict {run} FILE"
    return [
        *("", "## Use", "", use, f"    unspool evaluate {run} FILE", ""),
        "The settings are in `config.toml`, the weights in `model.safetensors`. The model predicts what is likely for",
        "data like its training data. It knows nothing else, and its predictions may be wrong.",
    ]
