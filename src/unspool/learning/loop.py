"""The loop that trains: updates, evaluations between them, checkpoints from which it goes on bit for bit.

What a run is at a moment is its `Position`, in numbers, and its tensors: parameters, the optimiser's, the mean of the
parameters, what is carried from batch to batch, and the state of torch's random numbers. All of it is in a checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from unspool.errors import ArgumentError, DataError, TrainingError
from unspool.learning.advice import Point, advise
from unspool.learning.averaging import Average
from unspool.learning.bptt import detach
from unspool.learning.clipping import clip_gradients
from unspool.learning.contract import Batches, Learner, Outcome, Task
from unspool.learning.events import Advised, Evaluated, Event, Finished, Listener, Saved, Stepped
from unspool.learning.faults import find_fault, leaves
from unspool.learning.files import read_tensors
from unspool.learning.forcing import Forcing
from unspool.learning.optimisers import load_optimiser, make_optimiser, make_sparse, optimiser_tensors
from unspool.learning.penalties import activation_penalty, temporal_penalty
from unspool.learning.position import Position
from unspool.learning.ranks import Ranks
from unspool.learning.run import RunFolder
from unspool.learning.schedules import Progress, make_schedule
from unspool.learning.settings import Training
from unspool.learning.stopping import Stop

#: Seconds between two events about steps; and between two of them that are kept; and between two checkpoints.
TELL, KEEP, CHECKPOINT = 0.25, 5.0, 60.0
#: Evaluations in a run, if nothing else is said; and rows in which validation data is read on the way.
EVALUATIONS, ROWS = 10, 16


class Loop:
    """One model in training."""

    def __init__(
        self, task: Task, learner: Learner, settings: Training, folder: RunFolder | None, tell: Listener, stop: Stop
    ) -> None:
        self.task, self.learner, self.settings, self.folder = task, learner, settings, folder
        self._tell, self._stop = tell, stop
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
        self.model = self.ranks.wrap(learner)
        self.position = Position()
        self.carried = learner.carry(self.rows)
        self._since = self._told = self._kept = self._saved = time.monotonic()
        self._recent = [0.0, 0]  # loss and units since the last event
        self._norm = 0.0

    # ── the whole of it ──

    def resume(self) -> bool:
        """Go on from the newest checkpoint; False if there is none."""
        found = None if self.folder is None or not self.ranks.first else self.folder.read_checkpoint()
        (there,) = self.ranks.tell([found is not None])
        if there:
            if self.ranks.together:
                assert self.folder is not None
                self.ranks.meet()
                found = found or RunFolder(self.folder.path).read_checkpoint()
            assert found is not None
            self._restore(*found)
        return bool(there)

    def run(self) -> Finished:
        """Train to the end, or until someone asks to stop."""
        self._since = self._told = self._kept = self._saved = time.monotonic()
        self.learner.train()
        reason = "done"
        while True:
            fraction, stop = self.ranks.tell([self._fraction(), self._stop.asked])
            if stop:
                reason = "interrupted"
                break
            if fraction >= 1:
                break
            self._update(fraction)
            evaluated = self._evaluation_is_due(fraction)
            if evaluated:
                self._evaluate()
            if self.settings.patience is not None and self._stale() >= self.settings.patience:
                reason = "stopped early"
                break
            if evaluated or self._checkpoint_is_due():
                self.save()
        if reason == "done" and self.position.step not in self.position.evaluated:
            self._evaluate()
        self.save()
        return self._finish(reason)

    def save(self) -> None:
        """Write a checkpoint."""
        self._saved = time.monotonic()
        random = self.ranks.gather([torch.get_rng_state(), *leaves(self.carried)])
        if self.folder is None or not self.ranks.first:
            return
        tensors, facts = self._state(random)
        path = self.folder.write_checkpoint(self.position.step, tensors, facts)
        self.folder.forget_checkpoints(self.settings.keep, self.position.best_step)
        self._say(Saved(self.position.step, str(path)))

    def rehearse(self, seconds: float) -> float:
        """Make updates for about so long, and say how many seconds one takes; the model is changed by it."""
        self._update(0.0)  # kernels are built, memory is taken
        begun, count = time.perf_counter(), 0
        while count == 0 or time.perf_counter() - begun < seconds:
            self._update(0.0)
            count += 1
        return (time.perf_counter() - begun) / count

    def try_rate(self, rate: float) -> float:
        """Make one update at this rate, whatever the schedule says; returns the loss."""
        loss, units = self.position.loss, self.position.units
        self._update(0.0, rate)
        return (self.position.loss - loss) / (self.position.units - units)

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
        share = 1 / (last - position.batch)
        for number in range(position.batch, last):
            batch = self.batches[number]
            with nullcontext() if number == last - 1 else self.ranks.without_meeting(self.model):
                outcome = self.model(batch, self.carried, truth)
                (share * self._with_penalties(outcome)).backward()
            loss = float(outcome.loss)
            if not math.isfinite(loss):
                self._fail(batch)
            self.carried = detach(outcome.carried)
            self._recent[0] += loss * outcome.units
            self._recent[1] += outcome.units
            position.loss += loss * outcome.units
            position.units += outcome.units
        self._norm = clip_gradients(self.parameters, settings.clip)
        if not math.isfinite(self._norm):
            self._fail(batch)
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

    def _with_penalties(self, outcome: Outcome) -> Tensor:
        loss = outcome.loss
        if outcome.output is not None and self.settings.activation_penalty:
            loss = loss + activation_penalty(outcome.output, self.settings.activation_penalty)
        if outcome.output is not None and self.settings.temporal_penalty:
            loss = loss + temporal_penalty(outcome.output, self.settings.temporal_penalty)
        return loss

    def _fail(self, batch: Any) -> None:
        fault = find_fault(self.learner, batch, self.carried)
        kept = self.folder.checkpoints() if self.folder is not None else []
        where = f" The last good checkpoint is {kept[-1]}." if kept else ""
        raise TrainingError(
            f"training diverged at step {self.position.step + 1}: {fault}.{where} Lower --rate, or clip gradients by "
            "--clip 1."
        )

    # ── what a run is at a moment ──

    def _state(self, ranks: list[list[Tensor]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"model.{name}": tensor for name, tensor in self.learner.state_dict().items()}
        ours, facts = optimiser_tensors(self.optimiser)
        tensors |= {f"optimiser.{name}": tensor for name, tensor in ours.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in self.average.tensors().items()}
        for rank, (random, *carried) in enumerate(ranks):
            tensors[f"random.{rank}"] = random
            tensors |= {f"carried.{rank}.{place}": tensor for place, tensor in enumerate(carried)}
        self.position.seconds, self._since = self._seconds(), time.monotonic()
        position = asdict(self.position)
        return tensors, {"position": position, "optimiser": facts, "data": self.task.digest, "ranks": self.ranks.count}

    def _restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        if facts["data"] != self.task.digest:
            raise DataError(
                "the data has changed since the run was begun. Begin a new run, or bring the old data back."
            )
        if facts["ranks"] != self.ranks.count:
            raise ArgumentError.of(
                "nproc", self.ranks.count, f"differs from the run's {facts['ranks']}", f"Give --nproc {facts['ranks']}"
            )

        def part(name: str) -> dict[str, Tensor]:
            return {key.removeprefix(name + "."): value for key, value in tensors.items() if key.startswith(name + ".")}

        try:
            self.learner.load_state_dict(part("model"))
        except RuntimeError as error:
            raise DataError(f"the checkpoint does not fit the model: {error}. Take the run's own config.") from error
        load_optimiser(self.optimiser, part("optimiser"), facts["optimiser"])
        if self.average is not None:
            self.average.load(part("average"))
        kept = part(f"carried.{self.ranks.rank}")
        for place, leaf in enumerate(leaves(self.carried)):
            leaf.copy_(kept[str(place)])
        self.position = Position(**facts["position"])
        self.batches = self._batches(self.position.epoch)
        torch.set_rng_state(tensors[f"random.{self.ranks.rank}"])

    # ── evaluation ──

    def _evaluate(self) -> None:
        position = self.position
        loss, units = self.ranks.sum([position.loss, position.units])
        training = loss / units if units else None
        position.loss, position.units = 0.0, 0
        with self._averaged():
            validation, sample = {"loss": math.nan}, ""
            if self.ranks.first:
                validation = self.task.evaluate(self.learner, "validation", ROWS, self.settings.evaluate_limit)
                sample = self.task.sample(self.learner, self.settings.seed)
            (found,) = self.ranks.tell([validation["loss"]])
            if not math.isfinite(found):
                raise TrainingError(
                    f"the validation loss at step {position.step} is not finite. Lower --rate, or clip by --clip 1."
                )
            best = position.best is None or found < position.best
            position.validation.append(found)
            position.training.append(math.nan if training is None else training)
            position.evaluated.append(position.step)
            if best:
                position.best, position.best_step = found, position.step
                if self.folder is not None and self.ranks.first:
                    facts = {"step": position.step, "validation": validation}
                    self.folder.write_best(self.learner.state_dict(), facts)
        if self.ranks.first:
            self._say(
                Evaluated(
                    *(position.step, self._epochs(), self._fraction(), self._seconds()),
                    *(training, validation, best, sample),
                )
            )
            if self.folder is not None:
                self.folder.log_sample(position.step, sample)
            self._advise()

    def _averaged(self) -> Any:
        return self.average.applied() if self.average is not None and self.average.count else nullcontext()

    def _advise(self) -> None:
        position = self.position
        values = zip(position.evaluated, position.training, position.validation, strict=True)
        text = advise(
            [Point(*value) for value in values if math.isfinite(value[1])], fraction=min(1.0, self._fraction())
        )
        if text != position.advice and text is not None:
            self._say(Advised(position.step, text))
        position.advice = text

    def _finish(self, reason: str) -> Finished:
        position = self.position
        validation: dict[str, float] = {}
        test: dict[str, float] = {}
        sample = ""
        if reason != "interrupted" and self.ranks.first:
            self._take_best()
            validation = self.task.evaluate(self.learner, "validation")
            test = self.task.evaluate(self.learner, "test")
            sample = self.task.sample(self.learner, self.settings.seed)
        self.ranks.meet()
        run = "" if self.folder is None else str(self.folder.path)
        baselines = self.task.baselines() if self.ranks.first and reason != "interrupted" else {}
        return Finished(
            *(position.step, self._seconds(), reason, run, position.best_step, validation, test, baselines, sample)
        )

    def _take_best(self) -> None:
        """The best weights into the model; nothing is trained after this."""
        if self.folder is None:
            if self.average is not None and self.average.count:
                self.average.applied().__enter__()
            return
        tensors, _ = read_tensors(self.folder.path / "model.safetensors")
        self.learner.load_state_dict(tensors)

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

    def _fraction(self) -> float:
        if self.settings.minutes is not None:
            return self._seconds() / (60 * self.settings.minutes)
        assert self.steps is not None
        return self.position.step / self.steps

    def _seconds(self) -> float:
        return self.position.seconds + time.monotonic() - self._since

    def _epochs(self) -> float:
        return self.position.epoch + self.position.batch / len(self.batches)

    def _evaluation_is_due(self, before: float) -> bool:
        """Whether the update that has just been made ends an interval between evaluations."""
        settings, step = self.settings, self.position.step
        if settings.evaluate_every is not None:
            return step % settings.evaluate_every == 0
        if settings.schedule in ("epoch", "plateau"):
            return self.position.batch == 0
        if self.steps is None:
            (now,) = self.ranks.tell([self._fraction()])
            return int(now * EVALUATIONS) > int(before * EVALUATIONS)
        return step % max(1, self.steps // EVALUATIONS) == 0

    def _checkpoint_is_due(self) -> bool:
        if self.settings.checkpoint_every is not None:
            return self.position.step % self.settings.checkpoint_every == 0
        (due,) = self.ranks.tell([time.monotonic() - self._saved > CHECKPOINT])
        return bool(due)

    def _stale(self) -> int:
        """Evaluations since the best."""
        return sum(step > self.position.best_step for step in self.position.evaluated)

    def _tell_step(self, rate: float) -> None:
        now = time.monotonic()
        if now - self._told < TELL or not self.ranks.first:
            return
        position, (loss, units) = self.position, self._recent
        seconds, fraction = self._seconds(), self._fraction()
        spent = now - self._told
        self._told = now
        self._recent = [0.0, 0]
        remaining = seconds * (1 - fraction) / fraction if fraction > 0 else math.inf
        event = Stepped(
            *(position.step, self._epochs(), min(1.0, fraction), loss / units if units else math.nan, rate),
            *(
                units * self.ranks.count / spent,
                seconds,
                max(0.0, remaining),
                self._norm,
                position.clipped / position.step,
            ),
        )
        self._tell(event)
        if self.folder is not None and now - self._kept >= KEEP:
            self._kept = now
            self.folder.log(event)

    def _say(self, event: Event) -> None:
        if self.ranks.first:
            if self.folder is not None and isinstance(event, Evaluated | Advised):
                self.folder.log(event)
            self._tell(event)
