"""The loop that trains: updates, evaluations between them, checkpoints from which it goes on bit for bit.

What a run is at a moment is its `Position`, in numbers, and its tensors: parameters, the optimiser's, the mean of the
parameters, what is carried from batch to batch, and the state of torch's random numbers. All of it is in a checkpoint.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import safetensors.torch
from torch import Tensor, nn

from unspool.errors import ArgumentError, DataError, TrainingError
from unspool.learning.advice import Point, advise
from unspool.learning.averaging import Average
from unspool.learning.bptt import detach
from unspool.learning.clipping import clip_gradients
from unspool.learning.contract import Batches, Learner, Task
from unspool.learning.events import Advised, Evaluated, Event, Finished, Listener, Saved, Stepped
from unspool.learning.faults import find_bad_number, find_fault
from unspool.learning.files import read_tensors
from unspool.learning.forcing import Forcing
from unspool.learning.optimisers import make_optimiser, make_sparse
from unspool.learning.pace import Pace
from unspool.learning.position import Parts, Position, own
from unspool.learning.ranks import Ranks
from unspool.learning.rules import make_rule
from unspool.learning.run import RunFolder
from unspool.learning.schedules import Progress, make_schedule
from unspool.learning.settings import Training
from unspool.learning.stopping import Stop

#: Seconds between two checkpoints, if nothing else is said.
CHECKPOINT = 60.0
#: Evaluations in a run, if nothing else is said; and rows in which validation data is read on the way.
EVALUATIONS, ROWS = 10, 16


class Loop:
    """One model in training."""

    def __init__(
        self, task: Task, learner: Learner, settings: Training, folder: RunFolder | None, tell: Listener, stop: Stop
    ) -> None:
        self.task, self.learner, self.settings, self.folder = task, learner, settings, folder
        self.tell, self._stop = tell, stop
        self.ranks = Ranks()
        if settings.batch % self.ranks.count:
            raise ArgumentError.of(
                "batch", settings.batch, f"does not divide among {self.ranks.count} processes", "Give a multiple"
            )
        self.rows = settings.batch // self.ranks.count
        self.batches = self._batches(0)
        self.updates = -(-len(self.batches) // settings.accumulate)  # in an epoch
        self.steps = self._count_steps()
        self.parameters = list(learner.parameters())
        self.optimiser = make_optimiser(
            settings.optimiser,
            learner,
            rate=settings.rate,
            momentum=settings.momentum,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            sparse=make_sparse(learner, plain=self._descends_plainly()),
        )
        self.schedule = make_schedule(
            settings.schedule,
            warmup=settings.warmup,
            final=settings.final,
            decay=settings.decay,
            decay_after=settings.decay_after,
            patience=settings.decay_patience,
        )
        kind = settings.forcing
        self.forcing = Forcing(kind) if kind in ("always", "never") else Forcing(kind, end=settings.forcing_end)
        self.average = (
            None if settings.average is None else Average(self.parameters, settings.average, settings.average_decay)
        )
        self.rule = make_rule(learner, settings, self.batches, self.ranks.count)
        self._parts = Parts(learner, self.optimiser, self.average)
        self.position = Position()
        self.carried = learner.carry(self.rows)
        self._since, self._pace = time.monotonic(), Pace()
        self._norm = 0.0
        self._damaged: tuple[Path, ...] = ()  # checkpoints newer than the one that training goes on from
        self._clock = self._saved = 0.0  # seconds of the first process, which all go by; and at the last checkpoint
        self._asked = False
        self._best: dict[str, Tensor] = {}  # weights, where no folder keeps them

    @cached_property
    def model(self) -> nn.Module:
        """The learner, whose gradients are those of all processes together."""
        return self.ranks.wrap(self.learner, lambda model: model(self.batches[0], self.learner.carry(self.rows)).loss)

    # ── the whole of it ──

    def resume(self) -> bool:
        """Go on from the newest checkpoint; False if there is none."""
        found = None if self.folder is None or not self.ranks.first else self.folder.read_checkpoint()
        tensors, facts, self._damaged = found or ({}, {}, ())
        if facts:
            self._check(facts)  # what is wrong is said by the first
            self._parts.check(tensors)
        facts = json.loads(self.ranks.tell_text(json.dumps(facts)))  # the others do not touch the folder
        if not facts:
            return False
        if self.ranks.together:
            tensors = safetensors.torch.load(self.ranks.tell_bytes(safetensors.torch.save(tensors)))
        self._parts.unpack(tensors, facts["optimiser"], self.carried, self.ranks.rank)
        self.position = Position(**facts["position"])
        self._clock = self.position.seconds
        self.batches = self._batches(self.position.epoch)
        if self.folder is not None and self.ranks.first:
            self.folder.take_back(facts["logs"])
        return True

    def run(self) -> Finished:
        """Train to the end, or until someone asks to stop."""
        self._since, self._pace = time.monotonic(), Pace()
        self.learner.train()
        for path in self._damaged:
            self._say(Advised(self.position.step, f"{path} cannot be read: going on from an earlier checkpoint."))
        self._agree()
        self._saved = self._clock
        while not (reason := self.reason_to_end()):
            fraction = self.fraction()
            self._update(fraction)
            evaluated = self._evaluation_is_due(fraction)
            done = time.monotonic()
            if evaluated:
                self._evaluate()
            if (evaluated or self._checkpoint_is_due()) and not self.reason_to_end():  # the end has its own
                self.save()
            self._pace.pause(time.monotonic() - done)
        if reason == "done" and self.position.step not in self.position.evaluated:
            self._evaluate()
        self.save()
        self._stop.kept = True
        return self._finish(reason)

    def reason_to_end(self) -> str:
        """Why no update is to be made now; empty if one is."""
        if self._asked:
            return "interrupted"
        if self.settings.patience is not None and self.stale() >= self.settings.patience:
            return "stopped early"
        return "done" if self.fraction() >= 1 else ""

    def save(self) -> None:
        """Write a checkpoint."""
        self._saved = self._clock
        if fault := find_bad_number(self.learner, self.optimiser):
            self._fail(self.position.step, fault)
        ranks = self.ranks.gather(own(self.carried))
        if self.folder is None or not self.ranks.first:
            return
        tensors, optimiser = self._parts.pack(ranks)
        self.position.seconds, self._since = self._seconds(), time.monotonic()
        known = {"data": self.task.digest, "ranks": self.ranks.count}
        facts = {"position": asdict(self.position), "optimiser": optimiser, **known}
        path = self.folder.write_checkpoint(self.position.step, tensors, facts)
        self.folder.forget_checkpoints(self.position.step, self.settings.keep, self.position.best_step)
        self._say(Saved(self.position.step, str(path)))

    def rehearse(self, seconds: float) -> float:
        """Make updates for about so long, and say how many seconds one takes; the model is changed by it."""
        self._update(0.0)  # kernels are built, memory is taken
        begun, count = time.perf_counter(), 0
        while count == 0 or self.ranks.tell([time.perf_counter() - begun])[0] < seconds:
            self._update(0.0)
            count += 1
        return (time.perf_counter() - begun) / count

    def try_rate(self, rate: float) -> float:
        """Make one update at this rate, whatever the schedule says; returns the loss."""
        loss, units = self.position.loss, self.position.units
        self._update(0.0, rate)
        return (self.position.loss - loss) / (self.position.units - units)

    def _check(self, facts: Mapping[str, Any]) -> None:
        if facts["data"] != self.task.digest:
            raise DataError(
                "the data has changed since the run was begun. Begin a new run, or bring the old data back."
            )
        if facts["ranks"] != self.ranks.count:
            raise ArgumentError.of(
                "nproc", self.ranks.count, f"differs from the run's {facts['ranks']}", f"Give --nproc {facts['ranks']}"
            )

    # ── one update ──

    def _update(self, fraction: float, fixed: float | None = None) -> None:
        settings, position = self.settings, self.position
        epoch = position.epoch
        truth = self.forcing.share(min(fraction, 1.0))
        factor = self.schedule.factor(Progress(position.step, min(fraction, 1.0), epoch, tuple(position.validation)))
        rate = settings.rate * factor if fixed is None else fixed
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        last = min(position.batch + settings.accumulate, len(self.batches))
        share, loss, units = 1 / (last - position.batch), 0.0, 0
        bad: tuple[Any, Any] | None = None
        for number in range(position.batch, last):
            batch = self.batches[number]
            with nullcontext() if number == last - 1 else self.ranks.without_meeting(self.model):
                outcome = self.rule.learn(self.model, batch, self.carried, truth, share)
            loss, units = loss + float(outcome.loss.detach()) * outcome.units, units + outcome.units
            if bad is None and not math.isfinite(loss):
                bad = batch, self.carried
            before, self.carried = self.carried, detach(outcome.carried)
        total = self._agree(loss, units)
        self._norm = clip_gradients(self.parameters, settings.clip)
        if not (math.isfinite(total) and math.isfinite(self._norm)):
            self._fail(position.step + 1, self._find_fault(*(bad or (batch, before)), bad is not None))
        position.clipped += settings.clip is not None and self._norm > settings.clip
        self.optimiser.step()
        position.step += 1
        if self.average is not None and (settings.average == "exponential" or fraction >= settings.average_from):
            self.average.update()
        position.batch = last
        if last == len(self.batches):
            position.epoch, position.batch = epoch + 1, 0
            self.batches = self._batches(position.epoch)
            self.carried = self.learner.carry(self.rows)
        self._tell_step(rate)

    def _agree(self, loss: float = 0.0, units: int = 0) -> float:
        """All processes' losses are summed; the first one's clock, and anyone's wish to stop, hold for all."""
        seconds = self._seconds() if self.ranks.first else 0.0
        total, count, self._clock, asked = self.ranks.sum([loss, units, seconds, self._stop.asked])
        self._asked = asked > 0
        self._pace.count(total, count)
        self.position.loss += total
        self.position.units += int(count)
        return total

    def _find_fault(self, batch: Any, carried: Any, mine: bool) -> str:
        # A gradient is everyone's, a loss one's own: where that is bad, it began.
        return self.ranks.one_says(find_fault(self.learner, batch, carried), mine)

    def _fail(self, step: int, fault: str) -> NoReturn:
        kept = self.folder.checkpoints() if self.folder is not None else []
        where = f" The last good checkpoint is {kept[-1]}." if kept else ""
        text = f"training diverged at step {step}: {fault}.{where} Lower --rate, or clip gradients by --clip 1."
        raise self.ranks.agreed(TrainingError(text))

    # ── evaluation ──

    def _evaluate(self) -> None:
        position = self.position
        training = position.loss / position.units if position.units else None
        position.loss, position.units = 0.0, 0
        with self._averaged():
            validation, merit, sample = {"loss": math.nan}, math.nan, ""
            if self.ranks.first:
                validation = self.task.evaluate(self.learner, "validation", ROWS, self.settings.evaluate_limit)
                merit = validation[self.task.chosen_by] * (-1 if self.task.more_is_better else 1)
            found, merit, self._clock = self.ranks.tell([validation["loss"], merit, self._seconds()])
            if not math.isfinite(found):
                fault = self._find_fault(self.batches[position.batch], self.carried, mine=False)
                self._fail(position.step, f"the validation loss is not finite; {fault}")
            if self.ranks.first:
                sample = self.task.sample(self.learner, self.settings.seed)
                validation |= self.rule.measure(self.batches, position.batch, self.carried)
            best = position.best is None or (merit, found) < (position.best, position.best_loss)
            position.validation.append(found)
            position.training.append(math.nan if training is None else training)
            position.evaluated.append(position.step)
            if best:
                position.best, position.best_loss, position.best_step = merit, found, position.step
                if self.folder is not None and self.ranks.first:
                    facts = {"step": position.step, "validation": validation}
                    self.folder.write_best(self.learner.state_dict(), facts)
                elif self.folder is None:
                    self._best = {name: part.clone() for name, part in self.learner.state_dict().items()}
        if self.ranks.first:
            moment = position.step, self.epochs(), self.fraction(), self._seconds()
            self._say(Evaluated(*moment, training, validation, best, sample))
            if self.folder is not None:
                self.folder.log_sample(position.step, sample)
            self._advise()

    def _averaged(self) -> Any:
        return self.average.applied() if self.average is not None and self.average.count else nullcontext()

    def _advise(self) -> None:
        position = self.position
        values = zip(position.evaluated, position.training, position.validation, strict=True)
        points = [Point(*value) for value in values if math.isfinite(value[1])]
        text = advise(points, fraction=min(1.0, self.fraction()))
        if text != position.advice and text is not None:
            self._say(Advised(position.step, text))
        position.advice = text

    def _finish(self, reason: str) -> Finished:
        position, seconds = self.position, self._seconds()
        validation: dict[str, float] = {}
        test: dict[str, float] = {}
        sample = ""
        if reason != "interrupted" and self.ranks.first:
            self._take_best()
            validation = self.task.evaluate(self.learner, "validation")
            test = self.task.evaluate(self.learner, "test")
            sample = self.task.sample(self.learner, self.settings.seed)
        self.ranks.share(self.learner.state_dict().values())
        run = "" if self.folder is None else str(self.folder.path)
        baselines = self.task.baselines() if self.ranks.first and reason != "interrupted" else {}
        ended = position.step, seconds, reason, run, position.best_step, validation, test, baselines, sample
        return Finished(*ended, self.task.name, self.task.chosen_by, self.task.more_is_better, self.ranks.count)

    def _take_best(self) -> None:
        """The best weights into the model; nothing is trained after this."""
        best = self._best if self.folder is None else read_tensors(self.folder.path / "model.safetensors")[0]
        self.learner.load_state_dict(best)

    # ── small questions ──

    def _batches(self, epoch: int) -> Batches:
        window = None if self.settings.window == "all" else self.settings.window
        return self.task.batches(self.settings.batch, window, epoch, self.ranks.rank, self.ranks.count)

    def _descends_plainly(self) -> bool:
        settings = self.settings
        return settings.optimiser == "sgd" and not (settings.momentum or settings.weight_decay or self.ranks.together)

    def _count_steps(self) -> int | None:
        """Updates in all; None where time decides."""
        settings = self.settings
        if settings.minutes is not None:
            return None
        return settings.steps or max(1, round((settings.epochs or 1.0) * self.updates))

    def fraction(self) -> float:
        if self.settings.minutes is not None:
            return self._clock / (60 * self.settings.minutes)
        assert self.steps is not None
        return self.position.step / self.steps

    def _seconds(self) -> float:
        return self.position.seconds + time.monotonic() - self._since

    def epochs(self) -> float:
        return self.position.epoch + self.position.batch / len(self.batches)

    def _evaluation_is_due(self, before: float) -> bool:
        """Whether the update that has just been made ends an interval between evaluations."""
        settings, step = self.settings, self.position.step
        if settings.evaluate_every is not None:
            return step % settings.evaluate_every == 0
        if settings.schedule in ("epoch", "plateau"):
            return self.position.batch == 0
        if self.steps is None:
            return int(self.fraction() * EVALUATIONS) > int(before * EVALUATIONS)
        return step % max(1, self.steps // EVALUATIONS) == 0

    def _checkpoint_is_due(self) -> bool:
        if self.settings.checkpoint_every is not None:
            return self.position.step % self.settings.checkpoint_every == 0
        return self._clock - self._saved > CHECKPOINT

    def stale(self) -> int:
        """Evaluations since the best."""
        return sum(step > self.position.best_step for step in self.position.evaluated)

    def _tell_step(self, rate: float) -> None:
        if not self.ranks.first or not self._pace.is_due():
            return
        loss, speed, keep = self._pace.take()
        position, seconds, fraction = self.position, self._seconds(), self.fraction()
        remaining = seconds * (1 - fraction) / fraction if fraction > 0 else math.inf
        event = Stepped(
            *(position.step, self.epochs(), min(1.0, fraction), loss, rate, speed, seconds, max(0.0, remaining)),
            *(self._norm, position.clipped / position.step),
        )
        self.tell(event)
        if self.folder is not None and keep:
            self.folder.log(event)

    def _say(self, event: Event) -> None:
        if self.ranks.first:
            if self.folder is not None and isinstance(event, Evaluated | Advised):
                self.folder.log(event)
            self.tell(event)
