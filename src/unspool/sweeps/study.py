"""Optuna's study of a sweep: it proposes settings, judges trials on the way, and remembers all of them in one file."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from unspool.settings.search import Choices, Space

Sampler = Literal["tpe", "random"]
SAMPLERS: tuple[Sampler, ...] = ("tpe", "random")
#: The name of the study in its journal.
NAME = "sweep"
#: Trials that must be finished before any is ended early, and evaluations that each of them makes in any case.
STARTUP, WARMUP = 5, 2
#: Finished trials with which the importance of settings is computed.
ENOUGH = 4


class Study:
    """The trials of a sweep, as Optuna sees them.

    Args:
        path: The journal.
        spaces: What is searched.
        more_is_better: Of the metric.
        sampler: `tpe` learns from finished trials; `random` does not, and then a trial's settings depend on `seed` and
            its number alone.
        seed: Of the sampler.
    """

    def __init__(
        self, path: Path, spaces: Mapping[str, Space], more_is_better: bool, sampler: Sampler, seed: int
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        _repair(path)
        self._distributions = {name: distribution_of(space) for name, space in spaces.items()}
        self._sampler, self._seed = sampler, seed
        self._direction: Literal["maximize", "minimize"] = "maximize" if more_is_better else "minimize"
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(path))),
            study_name=NAME,
            direction=self._direction,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARMUP),
            load_if_exists=True,
        )

    def trials(self) -> list[FrozenTrial]:
        """All trials in their order."""
        return self._study.get_trials(deepcopy=False)

    def ask(self, fixed: Mapping[str, Any] | None = None) -> Trial:
        """A new trial, with proposed settings or fixed ones."""
        number = sum(one.state != TrialState.WAITING for one in self.trials())
        given = self._draw(number) if fixed is None and self._sampler == "random" else fixed
        self._study.sampler = self._make_sampler(number)
        if given is not None and not any(one.state == TrialState.WAITING for one in self.trials()):
            # Written at once, so that the settings are the same where the process is killed in the middle.
            self._study.enqueue_trial(dict(given))
        return self._study.ask(self._distributions)

    def take_up(self, found: FrozenTrial) -> Trial:
        """A trial that was begun earlier, with all its settings."""
        self._study.sampler = self._make_sampler(found.number)
        trial = Trial(self._study, found._trial_id)
        for name, distribution in self._distributions.items():
            suggest(trial, name, distribution)
        return trial

    def _draw(self, number: int) -> dict[str, Any]:
        """Random settings of a trial, from its number and the seed alone."""
        alone = optuna.create_study(direction=self._direction, sampler=self._make_sampler(number))
        return alone.ask(self._distributions).params

    def _make_sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """A sampler of its own for each trial, so that a resumed sweep does not begin its random numbers again."""
        seed = seed_of(self._seed, number)
        if self._sampler == "random":
            return optuna.samplers.RandomSampler(seed=seed)
        return optuna.samplers.TPESampler(seed=seed)

    def report(self, trial: Trial, curve: Sequence[float]) -> bool:
        """Tell the evaluations of a running trial; whether it should be ended early."""
        known = len(self.trials()[trial.number].intermediate_values)
        for step, value in enumerate(curve[known:], known):
            trial.report(value, step)
        return bool(trial.should_prune())

    def finish(self, trial: Trial, value: float) -> None:
        """Tell what a trial reached."""
        self._study.tell(trial, value)

    def prune(self, trial: Trial) -> None:
        """Tell that a trial was ended early."""
        self._study.tell(trial, state=TrialState.PRUNED)

    def fail(self, trial: Trial, problem: str) -> None:
        """Tell that a trial failed."""
        trial.set_user_attr("problem", problem)
        self._study.tell(trial, state=TrialState.FAIL)

    def importance(self) -> dict[str, float]:
        """How much of the differences between trials each setting explains, in all 1; empty with too few trials."""
        done = [one for one in self.trials() if one.state == TrialState.COMPLETE]
        if len(done) < ENOUGH or len({one.value for one in done}) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few trials, which the page says too
            return dict(optuna.importance.get_param_importances(self._study))


def distribution_of(space: Space) -> BaseDistribution:
    """The values of a setting, for Optuna."""
    if isinstance(space, Choices):
        return CategoricalDistribution(space.values)
    if space.step is None:
        return FloatDistribution(float(space.low), float(space.high), log=space.log)
    return IntDistribution(int(space.low), int(space.high), log=space.log, step=space.step)


def suggest(trial: Trial, name: str, distribution: BaseDistribution) -> None:
    """Give a trial a setting that it does not have yet."""
    match distribution:
        case CategoricalDistribution():
            trial.suggest_categorical(name, distribution.choices)
        case IntDistribution():
            trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
        case FloatDistribution():
            trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)


def seed_of(seed: int, number: int) -> int:
    """The seed of one trial's sampler: no two trials, nor two sweeps of neighboring seeds, share random numbers."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4], "big")


def _repair(path: Path) -> None:
    """Remove what a kill left: Optuna's lock, and a last line of the journal that is half written.

    The sweep's folder is locked as a whole, so that neither can be another process's.
    """
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
