"""Progress in plain lines, for a file, a pipe or a simple terminal."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from rich.console import Console

from unspool.cli.finish import render_finish
from unspool.cli.formatting import decimal, duration, metric, other_metrics, percent, speed
from unspool.cli.quiet_view import QuietView
from unspool.cli.sample import indented
from unspool.cli.spelling import spell
from unspool.cli.terminal import WIDTH
from unspool.harmless import harmless
from unspool.learning.events import Advised, Evaluated, Event, Finished, Saved, Started, Stepped

#: Seconds between two lines about steps.
PAUSE = 10.0
#: Seconds between two samples, the first of which comes as late; the run's folder has them all, the summary the last.
SAMPLE_PAUSE = 60.0
#: Lines of a sample that are shown, and the characters of each.
SAMPLE_LINES, SAMPLE_WIDTH = 3, 120


class PlainView(QuietView):
    """One line per event; for steps, one every ten seconds; the beginning of a sample every minute.

    There are no colors, and no cursor movement.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.clock = clock
        self.unit = "units"
        self._stepped: float | None = None
        self._sampled: float | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self.unit = harmless(event.unit)
                self._sampled = self.clock()
                self.write(started(event))
            case Stepped():
                now = self.clock()
                if self._stepped is None or now - self._stepped >= PAUSE:
                    self._stepped = now
                    self.write(stepped(event, self.unit))
            case Evaluated():
                self.write(evaluated(event))
                self._show_sample(event.sample)
            case Saved():
                self.write(f"saved step {event.step:,} · {harmless(event.path)}")
            case Advised():
                self.write(advised(event))
            case Finished():
                self.write(finished(event))

    def _show_sample(self, sample: str) -> None:
        """The beginning of a sample, if the last one was shown long enough ago."""
        now = self.clock()
        if self._sampled is None:
            self._sampled = now
        if sample and now - self._sampled >= SAMPLE_PAUSE:
            self._sampled = now
            self.write(indented(shorten(sample)))

    def write(self, text: str) -> None:
        """A line, at once; what the stream's encoding lacks becomes a question mark."""
        encoding = self.stream.encoding or "utf-8"
        self.stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        self.stream.flush()


def shorten(sample: str) -> str:
    """The first lines of a sample, and the beginnings of long ones."""
    lines = sample.rstrip("\n").split("\n")
    shown = [line if len(line) <= SAMPLE_WIDTH else f"{line[: SAMPLE_WIDTH - 2]} …" for line in lines[:SAMPLE_LINES]]
    return "\n".join([*shown, "…"] if len(lines) > SAMPLE_LINES else shown)


def started(event: Started) -> str:
    """The run, its task and its size; then a line for each part of the plan."""
    how_long = "until time is up" if event.steps is None else f"{event.steps:,} steps"
    pieces = [f"{'resumed' if event.step else 'started'} {harmless(event.run)}", harmless(event.task)]
    pieces += [f"{event.parameters:,} parameters", how_long]
    pieces += [f"at step {event.step:,}"] if event.step else []
    lines = [" · ".join(pieces), *(harmless(f"  {name}: {spell(words)}") for name, words in event.plan.items())]
    if event.baselines:
        lines.append(f"  baselines: {', '.join(baseline(*one) for one in event.baselines.items())}")
    return "\n".join(lines)


def baseline(name: str, metrics: Mapping[str, float]) -> str:
    """A baseline and the first of its metrics."""
    first = next(iter(metrics), "loss")
    return harmless(f"{name} ({first} {metric(first, metrics.get(first))})")


def advised(event: Advised) -> str:
    """Advice with its step, or a note."""
    text = harmless(spell(event.text))
    return text if event.is_note else f"advice at step {event.step:,}: {text}"


def stepped(event: Stepped, unit: str) -> str:
    """step 400 · epoch 0.8 · 40% · loss 1.873 · 24,310 characters/s · 1:12 left."""
    return (
        f"step {event.step:,} · epoch {event.epoch:.1f} · {percent(event.fraction)} · loss {decimal(event.loss)} · "
        f"{speed(event.speed, unit)} · {duration(event.remaining)} left"
    )


def evaluated(event: Evaluated) -> str:
    """The metrics of an evaluation."""
    metrics = event.validation
    pieces = [f"evaluated step {event.step:,}", f"epoch {event.epoch:.1f}", f"training {decimal(event.training)}"]
    pieces += [f"validation {decimal(metrics.get('loss'))}"]
    pieces += [f"{harmless(name)} {metric(name, metrics[name])}" for name in other_metrics([metrics])]
    pieces += ["best so far"] if event.best else []
    return " · ".join(pieces)


def finished(event: Finished) -> str:
    """The summary as text."""
    out = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False, highlight=False)
    with out.capture() as capture:
        out.print(render_finish(event, plain=True), crop=False)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))
