"""The sweep itself: it starts trials, watches them, ends those that fall behind, and restarts those of dead workers.

Everything that happens is in files at once: a trial in its run folder, its settings and its end in the study. So a
sweep can be resumed whatever ended it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from optuna.trial import FrozenTrial, Trial, TrialState

from unspool.errors import ClusterError, StorageError
from unspool.learning.stopping import Stop
from unspool.settings.search import Space
from unspool.sweeps.course import Course, Goal, Row, State, read_course
from unspool.sweeps.engines import KEPT, Ahead, Engine
from unspool.sweeps.folder import SweepFolder
from unspool.sweeps.plan import Plan
from unspool.sweeps.study import Study
from unspool.sweeps.trial import Answer, Order

#: Seconds between two looks at the trials.
PAUSE = 0.2
#: How often a trial whose process died is started again before it counts as failed: it may be what kills them.
ATTEMPTS = 5
#: The states of ended trials, as Optuna has them.
STATES: Mapping[TrialState, State] = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class Snapshot:
    """A sweep at a moment.

    Attributes:
        path: Its folder.
        task: The name of the task.
        goal: The metric by which trials are compared.
        spaces: What is searched.
        trials: How many trials there are to be.
        rows: Those that were started, in their order.
        seconds: Since the sweep was started or resumed.
        has_base: Whether trial 0 has the settings of a run without a search.
        reason: Why the sweep ended: `done`, `minutes` or `interrupted`; empty before.
    """

    path: Path
    task: str
    goal: Goal
    spaces: Mapping[str, Space]
    trials: int
    rows: tuple[Row, ...]
    seconds: float
    has_base: bool
    reason: str = ""

    @property
    def best(self) -> Row | None:
        """The best trial so far."""
        return self.goal.find_best(list(self.rows))

    def count(self, state: State) -> int:
        """How many trials are in a state."""
        return sum(row.state == state for row in self.rows)


@dataclass(frozen=True)
class Told:
    """What has happened in a sweep: it began, a trial began or ended, something moved, or all ended."""

    kind: Literal["began", "trial", "moved", "ended"]
    sweep: Snapshot
    row: Row | None = None


Tell = Callable[[Told], None]


@dataclass
class Running:
    """A trial that is being computed."""

    trial: Trial
    order: Order
    ahead: Ahead
    attempts: int = 1
    pruned: bool = False


class Searching:
    """One sweep, from here to its end or to a request to stop.

    Args:
        folder: Of the sweep.
        plan: What it does.
        study: Proposes settings.
        engine: Computes trials.
        tell: Is told what happens.
        stop: Asked whether someone wants the sweep to stop.
        minutes: After which it stops; None for no limit.
    """

    def __init__(
        self,
        folder: SweepFolder,
        plan: Plan,
        study: Study,
        engine: Engine,
        tell: Tell,
        stop: Stop,
        minutes: float | None = None,
    ) -> None:
        self.folder, self.plan, self.study, self.engine = folder, plan, study, engine
        self._tell, self._stop = tell, stop
        self._began = time.monotonic()
        self._deadline = None if minutes is None else self._began + 60 * minutes
        self._stopping = self.reason = ""
        self._running: dict[int, Running] = {}
        self._left: deque[FrozenTrial] = deque()  # begun earlier, and not ended
        self.rows: dict[int, Row] = {}
        for found in study.trials():
            self._remember(found)

    def _remember(self, found: FrozenTrial) -> None:
        """A trial of a sweep that is resumed."""
        if found.state == TrialState.WAITING:
            return
        if found.state == TrialState.RUNNING:
            self._left.append(found)
        state = STATES.get(found.state, "stopped")
        self._note(found.number, state, found.params, str(found.user_attrs.get("problem", "")))

    # ── the whole ──

    def run(self) -> str:
        """Compute trials until there are no more; returns why that is: `done`, `minutes` or `interrupted`."""
        self.folder.forget_stops()
        self.tell("began")
        while True:
            self._heed()
            self._start_more()
            if not self._running:
                break
            self._collect()
            self._watch()
            self.tell("moved")
            time.sleep(PAUSE)
        self.folder.forget_stops()
        self.reason = self._stopping or "done"
        return self.reason

    def snapshot(self) -> Snapshot:
        """The sweep now."""
        plan, rows = self.plan, tuple(self.rows[number] for number in sorted(self.rows))
        seconds = time.monotonic() - self._began
        what = self.folder.path, plan.task, plan.goal, plan.search.spaces, plan.trials
        return Snapshot(*what, rows, seconds, plan.search.has_base, self.reason)

    def tell(self, kind: Literal["began", "trial", "moved", "ended"], row: Row | None = None) -> None:
        """Tell what has happened."""
        self._tell(Told(kind, self.snapshot(), row))

    def _heed(self) -> None:
        """Where someone asks to stop, or time is up, ask all trials to."""
        if self._stopping:
            return
        late = self._deadline is not None and time.monotonic() > self._deadline
        self._stopping = "interrupted" if self._stop.asked else "minutes" if late else ""
        if self._stopping:
            for number in self._running:
                self.folder.ask_to_stop(number)

    # ── trials begin ──

    def _start_more(self) -> None:
        # Counted also when nothing is started any more: an engine without workers would be waited for in vain.
        while len(self._running) < self.engine.count() and not self._stopping:
            if self._left:
                self._start(self.study.take_up(self._left.popleft()))
            elif len(self.rows) < self.plan.trials:
                first = self.plan.search.base if not self.rows and self.plan.search.has_base else None
                self._start(self.study.ask(first))
            else:
                return

    def _start(self, trial: Trial) -> None:
        options = self.plan.search.options(trial.params)
        order = Order(str(self.folder.path.absolute()), trial.number, options)
        self._running[trial.number] = Running(trial, order, self.engine.submit(order))
        self.tell("trial", self._note(trial.number, "running", trial.params))

    # ── trials move ──

    def _watch(self) -> None:
        """Look how far running trials are, and ask those that fall behind to stop."""
        for number, one in self._running.items():
            row = self._note(number, "running", one.trial.params)
            behind = self.study.report(one.trial, row.course.curve(self.plan.goal.metric))
            if behind and self.plan.prune and not one.pruned and not self._stopping:
                one.pruned = True
                self.folder.ask_to_stop(number)

    def _note(self, number: int, state: State, settings: Mapping[str, Any], problem: str = "") -> Row:
        """The row of a trial, from its run folder."""
        run, goal = self.folder.trial(number), self.plan.goal
        course = read_course(run)
        return self._put(Row(number, state, settings, run, course, _value(course, goal), problem))

    def _put(self, row: Row) -> Row:
        self.rows[row.number] = row
        return row

    # ── trials end ──

    def _collect(self) -> None:
        for number in [number for number, one in self._running.items() if one.ahead.done()]:
            one = self._running.pop(number)
            try:
                answer = one.ahead.result()
            except CancelledError as error:
                raise ClusterError(f"the connection to the cluster is lost. {KEPT}") from error
            except Exception as error:  # the process died, or its worker did, too often for the cluster
                self._start_again(one, error)
            else:
                self.tell("trial", self._end(one, answer))

    def _start_again(self, one: Running, error: Exception) -> None:
        """Have a trial go on in another process, from its checkpoint."""
        number = one.trial.number
        if self._stopping:
            self.tell("trial", self._note(number, "stopped", one.trial.params))
        elif one.attempts >= ATTEMPTS:
            self.tell("trial", self._fail(one, f"its process died {ATTEMPTS} times: {error}"))
        else:
            one.attempts += 1
            one.ahead = self.engine.submit(one.order)
            self._running[number] = one

    def _end(self, one: Running, answer: Answer) -> Row:
        """Note what became of a trial, in the study first."""
        if answer.fatal:
            raise StorageError(answer.fatal)
        if answer.finished is None:
            return self._fail(one, answer.problem)
        number, settings = one.trial.number, one.trial.params
        row = self._note(number, "finished", settings)
        if answer.finished["reason"] == "interrupted":
            if one.pruned:
                self.study.report(one.trial, row.course.curve(self.plan.goal.metric))
                self.study.prune(one.trial)
            return self._note(number, "pruned" if one.pruned else "stopped", settings)
        value = answer.finished["validation"].get(self.plan.goal.metric)
        if value is None:
            return self._fail(one, f"its {self.plan.goal.metric} is not a finite number")
        self.study.report(one.trial, row.course.curve(self.plan.goal.metric))
        self.study.finish(one.trial, value)
        # The answer counts where a network's file system does not show the end of the log yet.
        course = replace(row.course, finished=answer.finished, fraction=1.0)
        return self._put(replace(row, course=course, value=value))

    def _fail(self, one: Running, problem: str) -> Row:
        self.study.fail(one.trial, problem)
        return self._note(one.trial.number, "failed", one.trial.params, problem)


def _value(course: Course, goal: Goal) -> float | None:
    """What a trial reached so far."""
    if course.finished:
        found: float | None = course.finished["validation"].get(goal.metric)
        return found
    return goal.best_of(course.curve(goal.metric))
