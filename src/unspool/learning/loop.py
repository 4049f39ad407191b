"""The training loop: updates, evaluations between them, and checkpoints from which it resumes bit for bit.

The state of a run is its `Position`, in numbers, and its tensors: parameters, those of the optimizer, averaged
weights, the state that is carried from batch to batch, and the state of torch's random numbers. A checkpoint holds
all of it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import safetensors.torch
from torch import Tensor, nn

from unspool.errors import DataError, DivergenceError
from unspool.learning.advice import advise, points_of
from unspool.learning.best_model import BestModel
from unspool.learning.bptt import detach
from unspool.learning.checkpoint_facts import check_same
from unspool.learning.clipping import clip_gradients
from unspool.learning.components import (
    average_of,
    batch_size_of,
    device_of,
    optimizer_of,
    schedule_of,
    teacher_forcing_of,
)
from unspool.learning.contract import Learner
from unspool.learning.device_batches import BatchesOnDevice
from unspool.learning.evaluation import measure, measure_best, merit
from unspool.learning.events import Advised, Evaluated, Event, Finished, Listener, Saved, Stepped
from unspool.learning.nonfinite import diagnose, find_absurd_loss, find_nonfinite, trace_nonfinite
from unspool.learning.position import Parts, Position
from unspool.learning.ranks import Ranks
from unspool.learning.rules import make_rule
from unspool.learning.run_folder import RunFolder
from unspool.learning.schedules import Progress
from unspool.learning.stopping import Stop
from unspool.learning.throughput import Throughput
from unspool.learning.timetable import Timetable
from unspool.tasks.contract import Batches, Task
from unspool.tasks.divergence import REMEDY

if TYPE_CHECKING:
    from unspool.settings.training import Training

T = TypeVar("T")


class Gradients(NamedTuple):
    """What one process computed for an update; the gradients themselves are in `.grad`."""

    loss: float  # summed over the units
    units: int
    suspect: tuple[Any, Any]  # a batch and its state: the first whose loss was not finite, or else the last
    bad: bool  # whether that loss was not finite


class Loop:
    """The training of one model.

    Args:
        task: Its data, evaluation and samples.
        learner: The model. It is moved to the device of the settings, and to the CPU when training has ended.
        settings: Section [training] of the config.
        folder: Where checkpoints, the best model and logs go; None to keep nothing but the best weights, in memory.
        tell: Called with every event.
        stop: Asked before each update whether someone wants training to stop.

    Example:
        loop = Loop(task, make_learner(task, config.model), config.training, None, print, Stop())
        finished = loop.run()
    """

    def __init__(
        self, task: Task, learner: Learner, settings: Training, folder: RunFolder | None, tell: Listener, stop: Stop
    ) -> None:
        self.task, self.settings, self.folder = task, settings, folder
        self.tell, self._stop = tell, stop
        self.ranks = Ranks()
        self.batch_size = batch_size_of(settings, self.ranks.count)
        self.device = device_of(settings, self.ranks.count)
        self.learner = learner
        if self.device.type != "cpu":
            learner.to(self.device)
        self.batches = self._batches(0)
        self.updates = -(-len(self.batches) // settings.grad_accum)  # per epoch
        self.timetable = Timetable(settings, self.updates)
        self.parameters = list(learner.parameters())
        self.optimizer = optimizer_of(settings, learner, self.ranks.count)
        self.schedule = schedule_of(settings)
        self.teacher_forcing = teacher_forcing_of(settings)
        self.average = average_of(settings, self.parameters)
        self.rule = make_rule(learner, settings, self.batches, self.ranks.count)
        self._parts = Parts(learner, self.optimizer, self.average, self.device)
        self._best = BestModel(folder)
        self.notes: dict[str, str] = {}  # on the model, for people
        self.position = Position()
        self.state = learner.initial_state(self.batch_size)
        self._since, self._throughput = time.monotonic(), Throughput()
        self._norm = 0.0
        self._logged: dict[str, int] | None = None  # sizes of the logs at the checkpoint that training resumes from
        self._damaged: tuple[Path, ...] = ()  # checkpoints newer than the one that training resumes from
        self._clock = self._saved = 0.0  # seconds of the first process, which hold for all; and at the last checkpoint
        self._asked = False

    @cached_property
    def model(self) -> nn.Module:
        """The learner, whose gradients are those of all processes together."""
        return self.ranks.wrap(
            self.learner, lambda model: model(self.batches[0], self.learner.initial_state(self.batch_size)).loss
        )

    @property
    def steps(self) -> int | None:
        """Updates in all; None where time decides."""
        return self.timetable.steps

    # ── the whole run ──

    def resume(self) -> bool:
        """Continue from the newest checkpoint; False if there is none."""
        found = None if self.folder is None or not self.ranks.first else self.folder.read_checkpoint()
        tensors, facts = ({}, {}) if found is None else (found.tensors, found.facts)
        if found is not None and self.folder is not None:
            self.folder.origin.check(facts, found.path)  # the first process reports what is wrong
            check_same(facts, self.task.digest, self.ranks.count)
            self._parts.check(tensors, self.state, self.ranks.count)
            self._damaged = found.damaged
        facts = json.loads(self.ranks.broadcast_text(json.dumps(facts)))  # the others do not touch the folder
        if not facts:
            return False
        if self.ranks.together:
            tensors = safetensors.torch.load(self.ranks.broadcast_bytes(safetensors.torch.save(tensors)))
        self._restore(tensors, facts)
        return True

    def _restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Take up what a checkpoint holds; refused where it cannot be trained on."""
        self._parts.unpack(tensors, facts["optimizer"], self.state, self.ranks.rank)
        self.position = Position(**facts["position"])
        self._clock = self.position.seconds
        self.batches = self._batches(self.position.epoch)
        if self.position.batch >= len(self.batches):
            raise DataError(f"the checkpoint is at batch {self.position.batch} of {len(self.batches)}. Restore it.")
        self._refuse_nonfinite()
        if self.folder is not None and self.ranks.first and self.position.best is not None:
            self._best.check(self.position.best_step, self.learner)
        self._logged = facts["logs"]

    def run(self) -> Finished:
        """Train to the end, or until someone asks to stop."""
        self._since, self._throughput = time.monotonic(), Throughput()
        if self._logged is not None and self.folder is not None and self.ranks.first:
            self.folder.truncate_logs(self._logged)
        self._logged = None  # what is logged from now on stays
        self.learner.train()
        for path in self._damaged:
            said = f"{path} cannot be read: resuming from an earlier checkpoint."
            self._report(Advised(self.position.step, said, True))
        self._agree()
        self._saved = self._clock
        while not (reason := self.reason_to_end()):
            self._advance()
        if reason == "done" and self.position.step not in self.position.evaluated:
            self._evaluate()
        self.save()
        self._stop.kept = True
        return self._finish(reason)

    def reason_to_end(self) -> str:
        """Why there is no update to make: "interrupted", "stopped early" or "done"; empty if there is one."""
        return "interrupted" if self._asked else self.timetable.reason_to_end(self.position, self._clock)

    def save(self) -> None:
        """Write a checkpoint."""
        self._saved = self._clock
        self._refuse_nonfinite()
        ranks = self.ranks.gather(self._parts.own(self.state))
        if self.folder is None or not self.ranks.first:
            return
        tensors, optimizer = self._parts.pack(ranks)
        self.position.seconds, self._since = self._seconds(), time.monotonic()
        known = {"data": self.task.digest, "ranks": self.ranks.count}
        facts = {"position": asdict(self.position), "optimizer": optimizer, **known}
        path = self.folder.write_checkpoint(self.position.step, tensors, facts)
        self.folder.remove_checkpoints(self.position.step, self.settings.save_total_limit, self.position.best_step)
        self._report(Saved(self.position.step, str(path)))

    def rehearse(self, seconds: float) -> float:
        """Make updates for about so long; returns the seconds per update. The model is changed by it."""
        self._update(0.0)  # kernels are built, memory is allocated
        begun, count = time.perf_counter(), 0
        while count == 0 or self.ranks.broadcast([time.perf_counter() - begun])[0] < seconds:
            self._update(0.0)
            count += 1
        return (time.perf_counter() - begun) / count

    def try_lr(self, lr: float) -> float:
        """Make one update at this learning rate, whatever the schedule is, unless it diverges; returns the loss."""
        loss, units = self.position.loss, self.position.units
        with suppress(DivergenceError):
            self._update(0.0, lr)
        return (self.position.loss - loss) / (self.position.units - units)

    def _advance(self) -> None:
        """One update, and what is due after it."""
        fraction = self.fraction()
        self._update(fraction)
        evaluated = self.timetable.evaluation_is_due(self.position, fraction, self.fraction())
        done = time.monotonic()
        if evaluated:
            self._evaluate()
        due = evaluated or self.timetable.checkpoint_is_due(self.position.step, self._clock - self._saved)
        if due and not self.reason_to_end():  # at the end there is another one
            self.save()
        self._throughput.pause(time.monotonic() - done)

    # ── one update ──

    def _update(self, fraction: float, lr: float | None = None) -> None:
        """One update at a fraction of the planned training, by default with the learning rate of the schedule."""
        position, fraction = self.position, min(fraction, 1.0)
        lr = self._scheduled_lr(fraction) if lr is None else lr
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        last = min(position.batch + self.settings.grad_accum, len(self.batches))
        found = self._accumulate(last, self.teacher_forcing.probability(fraction))
        fault = find_absurd_loss(loss := self._agree(found.loss, found.units), position.first_loss)
        clip = self.settings.clip or None
        self._norm = clip_gradients(self.parameters, clip)
        if fault or not math.isfinite(self._norm):
            self._fail(position.step + 1, self._trace_nonfinite(*found.suspect, found.bad, fault))
        position.first_loss = loss if position.first_loss is None else position.first_loss
        position.clipped += clip is not None and self._norm > clip
        self.optimizer.step()
        position.step += 1
        if self.average is not None and self.timetable.average_is_due(fraction, position.validation):
            self.average.update()
        position.batch = last
        if last == len(self.batches):
            self._begin_epoch(position.epoch + 1)
        self._report_step(lr)

    def _accumulate(self, last: int, teacher_forcing: float) -> Gradients:
        """Gradients of the batches up to `last`, each of which starts in the state that the one before ended in."""
        first, loss, units = self.position.batch, 0.0, 0
        bad: tuple[Any, Any] | None = None
        for number in range(first, last):
            batch = self.batches[number]
            with nullcontext() if number == last - 1 else self.ranks.no_sync(self.model):
                outcome = self.rule.learn(self.model, batch, self.state, teacher_forcing, 1 / (last - first))
            loss, units = loss + float(outcome.loss.detach()) * outcome.units, units + outcome.units
            if bad is None and not math.isfinite(loss):
                bad = batch, self.state
            before, self.state = self.state, detach(outcome.state)
        return Gradients(loss, units, bad or (batch, before), bad is not None)

    def _scheduled_lr(self, fraction: float) -> float:
        progress = Progress(self.position.step, fraction, self.position.epoch, tuple(self.position.validation))
        return self.settings.lr * self.schedule.factor(progress)

    def _begin_epoch(self, epoch: int) -> None:
        self.position.epoch, self.position.batch = epoch, 0
        self.batches = self._batches(epoch)
        self.state = self.learner.initial_state(self.batch_size)

    def _batches(self, epoch: int) -> Batches:
        window = None if self.settings.bptt == "all" else self.settings.bptt
        found = self.task.batches(self.settings.batch_size, window, epoch, self.ranks.rank, self.ranks.count)
        return BatchesOnDevice(found, self.device)

    def _agree(self, loss: float = 0.0, units: int = 0) -> float:
        """The mean loss of all processes; the first one's clock, and anyone's wish to stop, hold for all."""
        seconds = self._seconds() if self.ranks.first else 0.0
        total, count, self._clock, asked = self.ranks.sum([loss, units, seconds, self._stop.asked])
        self._asked = asked > 0
        self._throughput.count(total, count)
        self.position.loss += total
        self.position.units += int(count)
        return total / max(count, 1)

    def _trace_nonfinite(self, batch: Any, state: Any, mine: bool, fault: str) -> str:
        # A gradient is everyone's, a loss one's own: where that is bad, it began.
        return self.ranks.broadcast_from(trace_nonfinite(self.learner, batch, state, fault), mine)

    def _refuse_nonfinite(self) -> None:
        """All processes fail if one has what must not be kept: in the model, the optimizer, its state, an average."""
        fault = find_nonfinite(self.learner, self.optimizer, self.state)
        if fault is None:
            with self._averaged():
                averaged = find_nonfinite(self.learner)
            fault = averaged and f"averaged, {averaged}"
        if fault := self.ranks.broadcast_from(fault or "", fault is not None):
            self._fail(self.position.step, fault)

    def _fail(self, step: int, fault: str, cause: BaseException | None = None) -> NoReturn:
        kept = self.folder.checkpoints() if self.folder is not None else []
        where = f" The last good checkpoint is {kept[-1]}." if kept else ""
        said = f"training diverged at step {step}: {fault}.{where} {REMEDY}."
        raise self.ranks.agreed(DivergenceError(said)) from cause

    def _evaluate(self) -> None:
        training = self.position.take_training_loss()
        with self._averaged():
            metrics, sample = self._use_first(self._measure, ({"loss": math.nan}, ""))
            mine = [metrics["loss"], merit(self.task, metrics), self._seconds()]
            loss, chosen, self._clock = self.ranks.broadcast(mine)
            best = self.position.add_evaluation(training, loss, chosen)
            if best and (self.folder is None or self.ranks.first):
                self._best.keep(self.learner, self.position.step, metrics)
        if self.ranks.first:
            moment = self.position.step, self.epochs(), self.fraction(), self._seconds()
            self._report(Evaluated(*moment, training, metrics, best, sample))
            if self.folder is not None:
                self.folder.log_sample(self.position.step, sample)
            self._advise()

    def _use_first(self, use: Callable[[], T], elsewhere: T) -> T:
        """What the first process gets of its model; all processes end where that is NaN or infinity."""
        found, error = diagnose(self.learner, use) if self.ranks.first else (elsewhere, None)
        if fault := self.ranks.broadcast_text(str(error or "")):
            self._fail(self.position.step, fault, error and error.__cause__)
        return found if found is not None else elsewhere

    def _measure(self) -> tuple[dict[str, float], str]:
        metrics, sample = measure(self.task, self.learner, self.settings, self.position.first_validation)
        return metrics | self.rule.measure(self.batches, self.position.batch, self.state), sample

    def _averaged(self) -> Any:
        return self.average.applied() if self.average is not None and self.average.count else nullcontext()

    def _advise(self) -> None:
        position = self.position
        points = points_of(position.evaluated, position.training, position.validation)
        found = advise(points, fraction=min(1.0, self.fraction()))
        if found is not None and found.kind not in position.advised:  # its numbers change; what to do does not
            self._report(Advised(position.step, found.text))
            position.advised.append(found.kind)

    def _finish(self, reason: str) -> Finished:
        seconds = self._seconds()
        found: tuple[dict[str, float], dict[str, float], str] = {}, {}, ""  # on validation and test data, and a sample
        if reason != "interrupted":
            if self.ranks.first:
                self._best.load_into(self.learner)
            found = self._use_first(lambda: measure_best(self.task, self.learner, self.settings.seed), found)
        self.ranks.broadcast_tensors(self.learner.state_dict().values())
        if self.device.type != "cpu":
            self.learner.to("cpu")
        run = "" if self.folder is None else str(self.folder.path)
        validation, test, sample = found
        baselines = self.task.baselines() if validation else {}
        ended = self.position.step, seconds, reason, run, self.position.best_step, validation, test, baselines, sample
        kind = self.task.name, self.task.chosen_by, self.task.more_is_better, self.ranks.count, self.task.prompt()
        return Finished(*ended, *kind, test_baselines=self.task.baselines("test") if test else {})

    # ── progress and reports ──

    def fraction(self) -> float:
        """How much of the planned training is done."""
        return self.timetable.fraction(self.position.step, self._clock)

    def epochs(self) -> float:
        """Passes over the training data so far."""
        return self.position.epoch + self.position.batch / len(self.batches)

    def _seconds(self) -> float:
        return self.position.seconds + time.monotonic() - self._since

    def _report_step(self, lr: float) -> None:
        if not self.ranks.first or not self._throughput.is_due():
            return
        loss, speed, log = self._throughput.report()
        position, seconds, fraction = self.position, self._seconds(), self.fraction()
        remaining = seconds * (1 - fraction) / fraction if fraction > 0 else math.inf
        event = Stepped(
            *(position.step, self.epochs(), min(1.0, fraction), loss, lr, speed, seconds, max(0.0, remaining)),
            *(self._norm, position.clipped / position.step),
        )
        self.tell(event)
        if self.folder is not None and log:
            self.folder.log(event)

    def _report(self, event: Event) -> None:
        if not self.ranks.first:
            return
        if self.folder is not None and isinstance(event, Evaluated | Advised):
            self.folder.log(event)
        self.tell(event)
