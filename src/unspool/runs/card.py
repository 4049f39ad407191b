"""The model card: what was trained on which data, how, with which versions, and its metrics."""

from __future__ import annotations

import platform
import shlex
from importlib import metadata

from unspool.learning.contract import Learner, Task
from unspool.learning.events import Finished
from unspool.learning.run_folder import RunFolder
from unspool.runs.config import Config

PACKAGES = ("unspool", "torch", "numpy", "safetensors")


def write_card(folder: RunFolder, settings: Config, task: Task, learner: Learner, finished: Finished) -> None:
    """Write MODEL_CARD.md."""
    parameters = sum(parameter.numel() for parameter in learner.parameters())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    facts = {
        "task": task.name,
        "model": f"{settings.model.describe()}, {parameters:,} parameters",
        **task.describe(),
        "data digest": task.digest,
        "seed": str(settings.training.seed),
        "training": f"{finished.step:,} updates in {finished.seconds:.0f} s; {finished.reason}",
        "best": f"after {finished.best_step:,} updates",
        "versions": f"{versions}, Python {platform.python_version()}, {platform.machine()}",
    }
    lines = [f"# {folder.path.resolve().name}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    metrics = {
        **{f"**{name}**": found for name, found in (("validation", finished.validation), ("test", finished.test))},
        **{f"{name}, validation": found for name, found in finished.baselines.items()},
    }
    names = list(dict.fromkeys(name for found in metrics.values() for name in found))
    if names:
        lines += ["", "## Metrics", "", f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        for title, found in metrics.items():
            if found:
                values = [spell_metric(found[name]) if name in found else "" for name in names]
                lines.append("| " + " | ".join([title, *values]) + " |")
    if finished.sample:
        quoted = "\n".join("    " + line for line in finished.sample.splitlines())
        lines += ["", "## Sample", "", quoted]
    run = shlex.quote(str(folder.path))
    use = f"    unspool generate {run}" if task.generates else f"    unspool predict {run} FILE"
    lines += [
        *("", "## Use", "", use, f"    unspool evaluate {run} FILE", ""),
        "The settings are in `config.toml`, the weights in `model.safetensors`. The model predicts what is likely for",
        "data like its training data. It knows nothing else, and its predictions may be wrong.",
    ]
    folder.write_card("\n".join(lines) + "\n")


def spell_metric(value: float) -> str:
    """Four decimals; a number of examples has none."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
