"""Progress of training as printed lines, for Python and notebooks; the command line has views of its own."""

from __future__ import annotations

from unspool.harmless import harmless
from unspool.learning.events import Advised, Evaluated, Event, Finished, Started


def silent(event: Event) -> None:
    """A listener that ignores every event."""


def print_progress(event: Event) -> None:
    """A listener that prints a line at the start, at each evaluation, for each advice, and at the end."""
    line = describe_event(event)
    if line:
        print(harmless(line), flush=True)


def describe_event(event: Event) -> str:
    """One line about an event; empty for those that are not worth one.

    Example:
        >>> describe_event(Advised(400, "Lower `lr`."))
        'step 400: Lower `lr`.'
    """
    match event:
        case Started():
            return _describe_start(event)
        case Evaluated():
            return _describe_evaluation(event)
        case Advised():
            return f"step {event.step:,}: {event.text}"
        case Finished():
            return _describe_end(event)
    return ""


def _describe_start(event: Started) -> str:
    steps = "until time is up" if event.steps is None else f"{event.steps:,} steps"
    return f"{event.run}: {event.task}, {event.parameters:,} parameters, {steps}"


def _describe_evaluation(event: Evaluated) -> str:
    training = "" if event.training is None else f" · training loss {event.training:.3f}"
    return f"step {event.step:,} · {event.fraction:.0%}{training} · validation {_metrics(event)} · {_left(event)}"


def _describe_end(event: Finished) -> str:
    found = ", ".join(f"{name} {value:.4g}" for name, value in event.validation.items())
    best = f" · best at step {event.best_step:,}: {found}" if found else ""
    return f"{event.reason} after {event.step:,} steps and {event.seconds:.0f} s{best} · {event.run}"


def _metrics(event: Evaluated) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in event.validation.items())


def _left(event: Evaluated) -> str:
    if not 0 < event.fraction <= 1:
        return f"{event.seconds:.0f} s"
    return f"{event.seconds * (1 - event.fraction) / event.fraction:.0f} s left"
