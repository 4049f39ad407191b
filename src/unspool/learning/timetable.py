"""When training ends, and when evaluations and checkpoints are due: pure functions of the settings and the progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool.learning.position import Position
    from unspool.settings.training import Training

#: Seconds between two checkpoints, by default.
CHECKPOINT_SECONDS = 60.0
#: Evaluations per run, by default.
EVALUATIONS = 10
#: With `swa_start="plateau"`, the evaluations by which the best one must be older than the one that is worse.
NON_MONOTONE = 5


@dataclass(frozen=True)
class Timetable:
    """The plan of a run."""

    settings: Training
    updates_per_epoch: int

    @property
    def steps(self) -> int | None:
        """Updates in all; None where time decides."""
        settings = self.settings
        if settings.minutes is not None:
            return None
        return settings.steps or max(1, round((settings.epochs or 1.0) * self.updates_per_epoch))

    def fraction(self, step: int, seconds: float) -> float:
        """How much of the planned training is done; above 1 where it took longer."""
        if self.settings.minutes is not None:
            return seconds / (60 * self.settings.minutes)
        assert self.steps is not None
        return step / self.steps

    def reason_to_end(self, position: Position, seconds: float) -> str:
        """Why training is over: "done" or "stopped early"; empty if it is not."""
        if self.settings.patience is not None and position.stale >= self.settings.patience:
            return "stopped early"
        return "done" if self.fraction(position.step, seconds) >= 1 else ""

    def evaluation_is_due(self, position: Position, before: float, now: float) -> bool:
        """Whether the last update, which took training from one fraction to another, ends an interval of evaluation."""
        settings, steps = self.settings, self.steps
        if settings.eval_every is not None:
            return position.step % settings.eval_every == 0
        if settings.schedule in ("epoch", "plateau") or settings.swa_start == "plateau":
            return position.batch == 0
        if steps is None:
            return int(now * EVALUATIONS) > int(before * EVALUATIONS)
        return position.step % max(1, steps // EVALUATIONS) == 0

    def average_is_due(self, fraction: float, validation: Sequence[float]) -> bool:
        """Whether the weights after an update count in their average, given the validation losses so far."""
        if self.settings.average == "ema":
            return True
        if self.settings.swa_start == "plateau":
            return has_stalled(validation)
        return fraction >= self.settings.swa_start

    def checkpoint_is_due(self, step: int, seconds: float) -> bool:
        """Whether to save at this step, so many seconds after the last checkpoint."""
        if self.settings.checkpoint_every is not None:
            return step % self.settings.checkpoint_every == 0
        return seconds > CHECKPOINT_SECONDS


def has_stalled(validation: Sequence[float]) -> bool:
    """Whether some validation loss is above the best of those more than `NON_MONOTONE` evaluations before it.

    This is the trigger of NT-ASGD (Merity et al., 2017). It stays true, as losses are only added.

    Args:
        validation: The validation losses so far.

    Returns:
        Whether it has happened.

    Example:
        >>> has_stalled([5.0, 4.0, 3.0, 2.9, 2.8, 2.7, 2.6]), has_stalled([2.5, 4.0, 3.0, 2.9, 2.8, 2.7, 2.6])
        (False, True)
    """
    best = accumulate(validation, min)
    return any(later > before for before, later in zip(best, validation[NON_MONOTONE + 1 :], strict=False))
