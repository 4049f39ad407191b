"""The model card: what was trained on what, how, by which versions, and how good it is."""

from __future__ import annotations

import platform
import shlex
from importlib import metadata

from unspool.learning.contract import Learner, Task
from unspool.learning.events import Finished
from unspool.learning.run import RunFolder
from unspool.tasks.config import Config

PACKAGES = ("unspool", "torch", "numpy", "safetensors")


def write_card(folder: RunFolder, settings: Config, task: Task, learner: Learner, finished: Finished) -> None:
    """Write MODEL_CARD.md."""
    parameters = sum(parameter.numel() for parameter in learner.parameters())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    facts = {
        "task": task.name,
        "model": f"{settings.model.layers} × {settings.model.hidden} {settings.model.cell}, {parameters:,} parameters",
        **task.describe(),
        "data's digest": task.digest,
        "seed": str(settings.training.seed),
        "training": f"{finished.step:,} updates in {finished.seconds:.0f} s; {finished.reason}",
        "best": f"after {finished.best_step:,} updates",
        "versions": f"{versions}, Python {platform.python_version()}, {platform.machine()}",
    }
    lines = [f"# {folder.path.resolve().name}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    figures = {
        **{f"**{name}**": found for name, found in (("validation", finished.validation), ("test", finished.test))},
        **{f"{name}, validation": found for name, found in finished.baselines.items()},
    }
    names = list(dict.fromkeys(name for found in figures.values() for name in found))
    if names:
        lines += ["", "## Figures", "", f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        for title, found in figures.items():
            if found:
                values = [f"{found[name]:.4f}" if name in found else "" for name in names]
                lines.append("| " + " | ".join([title, *values]) + " |")
    if finished.sample:
        quoted = "\n".join("    " + line for line in finished.sample.splitlines())
        lines += ["", "## Sample", "", quoted]
    run = shlex.quote(str(folder.path))
    use = f"    unspool generate {run}" if task.name == "lm" else f"    unspool predict {run} FILE"
    lines += [
        *("", "## Use", "", use, f"    unspool evaluate {run} FILE", ""),
        "The settings are in `config.toml`, the weights in `model.safetensors`. The model says what is likely of data",
        "like that it was trained on; it knows nothing else, and what it says may be wrong.",
    ]
    folder.write_card("\n".join(lines) + "\n")
