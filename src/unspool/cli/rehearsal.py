"""Before training: `--dry-run` checks the settings and measures speed, `--lr-find` suggests a learning rate."""

from __future__ import annotations

import sys

from unspool.cli.spelling import option
from unspool.cli.terminal import console
from unspool.learning.loop import Loop
from unspool.learning.ranks import Ranks
from unspool.learning.scaling import explain_machines
from unspool.runs.config import Config
from unspool.runs.fitting import prepare_task
from unspool.runs.train import describe, make_loop
from unspool.settings.training import Training

#: Seconds of training by which speed is measured.
MEASURED = 1.0
#: Rows of the table of learning rates.
ROWS = 20


def rehearse(settings: Config) -> None:
    """Print what would be trained; make some updates, to measure how long it takes and how much memory."""
    before = peak_memory()
    with Ranks().in_turn():
        settings, task = prepare_task(settings)
        loop = make_loop(settings, task)
    seconds = loop.rehearse(MEASURED)
    after = peak_memory()
    training = settings.training
    units = training.batch_size * (training.bptt if isinstance(training.bptt, int) else 1)
    memory = {} if before is None or after is None else {"memory": f"about {after - before:,.0f} MB for training"}
    shown = {
        **loop.task.describe(),
        **describe(settings, loop),
        "parameters": f"{sum(parameter.numel() for parameter in loop.parameters):,}",
        **memory,
        "time": _tell_time(training, loop, seconds),
        "speed": f"{units / seconds:,.0f} {loop.task.unit}/s, measured",
        "machines": explain_machines(seconds, sum(each.numel() * each.element_size() for each in loop.parameters)),
    }
    if not loop.ranks.first:
        return
    for name, value in shown.items():
        console().print(f"{name:<12} {value}", soft_wrap=True)
    console().print("All settings are valid. Run the command without --dry-run to train.")


def _tell_time(training: Training, loop: Loop, seconds: float) -> str:
    """How long training takes, or how far it comes, where an update takes so many seconds."""
    if training.minutes is not None:
        steps = int(60 * training.minutes / seconds)
        return f"{training.minutes:g} min, about {steps:,} updates or {steps / loop.updates:.1f} epochs"
    assert loop.steps is not None
    return f"about {loop.steps * seconds / 60:.1f} min for {loop.steps:,} updates, without evaluations"


def peak_memory() -> float | None:
    """The most memory that this process has used, in MB; None where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def suggest_lr(settings: Config) -> None:
    """Try learning rates on the model and its data, and print the one to use."""
    from unspool.learning.lr_finder import find_lr

    with Ranks().in_turn():
        settings, task = prepare_task(settings)
        loop = make_loop(settings, task)
    if loop.ranks.first:
        console(error=True).print("Trying a hundred learning rates, one update each.")
    found = find_lr(loop.try_lr)
    if not loop.ranks.first:
        return
    for lr, loss in list(zip(found.lrs, found.losses, strict=True))[:: max(1, len(found.lrs) // ROWS)]:
        console().print(f"{lr:10.2e}   loss {loss:.3f}")
    console().print(f"Suggested: {option('lr')} {found.suggestion:.1e}")
