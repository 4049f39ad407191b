"""The summary of a run: its metrics beside the baselines, a sample, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from unspool.cli.formatting import align, decimal, duration, metric, other_metrics
from unspool.cli.sample import Framed, indented
from unspool.cli.spelling import spell_command
from unspool.harmless import harmless
from unspool.insight.report.advice import Retrain
from unspool.learning.events import Finished
from unspool.tasks.catalogue import find_task

Scored = tuple[str, Mapping[str, float]]
OPENINGS = {
    "done": "Done",
    "stopped early": "Stopped early: the validation loss no longer improved",
    "interrupted": "Interrupted",
}
#: The longest prompt that is proposed.
PROMPT = 16


def render_finish(event: Finished, plain: bool = False) -> RenderableType:
    """The whole summary; `plain` indents the sample instead of framing it. Print it with `crop=False`."""
    parts: list[RenderableType] = [Text(opening(event), style="bold"), "", *_metrics(event)]
    parts += [part for said in (compare(event), harmless(event.advice)) if said for part in ("", Text(said))]
    if event.sample:
        parts += ["", unbroken(indented(event.sample)) if plain else Framed(event.sample, "sample of the best model")]
    parts += ["", *(unbroken(line) for line in next_steps(event))]
    return Group(*parts)


def _metrics(event: Finished) -> list[Text]:
    """The table of metrics, if there are any, its head in bold."""
    rows = table(event)
    if len(rows) == 1:
        return []
    return [unbroken(line, "" if index else "bold") for index, line in enumerate(align(rows, left=1))]


def opening(event: Finished) -> str:
    """How and when training ended, and where the run is."""
    how = OPENINGS.get(event.reason, harmless(event.reason).capitalize())
    spent = f"{how} after {event.step:,} steps and {duration(event.seconds)}"
    return f"{spent} · best at step {event.best_step:,} · {harmless(event.run)}"


def table(event: Finished) -> list[list[str]]:
    """Rows of metrics on validation and test data, of the model and of each baseline."""
    baselines = ranked(event)
    names = other_metrics([event.validation, event.test, *(metrics for _, metrics in baselines)])
    rows = [["on validation data", "loss", *map(harmless, names)]]
    models = [("model", event.validation)] if event.validation else []
    for title, metrics in [*models, *baselines, *_tests(event, baselines)]:
        rows.append([harmless(title), *(metric(name, metrics.get(name)) for name in ("loss", *names))])
    return rows


def _tests(event: Finished, baselines: Sequence[Scored]) -> list[Scored]:
    """The metrics on test data, of the model and of the baselines that have them."""
    own = [("model, on test data", event.test)] if event.test else []
    tested = event.test_baselines
    return own + [(f"{name}, on test data", tested[name]) for name, _ in baselines if name in tested]


def ranked(event: Finished) -> list[Scored]:
    """The baselines, best first; what is not a number last."""

    def place(item: tuple[str, Mapping[str, float]]) -> tuple[bool, float]:
        value = item[1].get(event.chosen_by, math.nan)
        return math.isnan(value), -value if event.more_is_better else value

    return sorted(event.baselines.items(), key=place)


def compare(event: Finished) -> str:
    """Whether the model beats the baselines; empty where there is nothing to compare."""
    of, sign = event.chosen_by, -1 if event.more_is_better else 1
    own = event.validation.get(of, math.nan)
    baselines = [(name, metrics[of]) for name, metrics in ranked(event) if math.isfinite(metrics.get(of, math.nan))]
    if not baselines or not math.isfinite(own):
        return ""
    name, nearest = baselines[0]
    gap = f"{decimal(abs(nearest - own))} {_unit(event)}"
    if sign * own < sign * nearest:
        return f"The model beats every baseline; the nearest is {harmless(name)}, by {gap}."
    if own == nearest:
        return f"The model is no better than {harmless(name)}: both have {harmless(of)} {metric(of, own)}."
    return f"The model is not better than {harmless(name)}: {gap} behind."


def _unit(event: Finished) -> str:
    """What the metric that chooses the best model is counted in."""
    of = event.chosen_by
    return (find_task(event.task).loss_unit if of == "loss" else "") or f"of {harmless(of)}"


def next_steps(event: Finished) -> Iterator[str]:
    """Commands to run next, ready to copy."""
    run = shlex.quote(harmless(event.run))
    together = f" --nproc {event.processes}" if event.processes > 1 else ""
    if event.reason == "interrupted":
        yield f"to resume: unspool train {run} --resume{together}"
    yield (
        f"next: unspool generate {run}{prompt(event.prompt)}"
        if find_task(event.task).generates
        else f"next: unspool predict {run} FILE"
    )
    yield f"      unspool evaluate {run} FILE"
    if event.proposal:
        yield f"      {spell_command(Retrain.of(harmless(event.run)), event.proposal)}"


def prompt(text: str) -> str:
    """The option that starts a text."""
    return f" --prompt {shlex.quote(harmless(text[:PROMPT]))}" if text else ""


def unbroken(line: str, style: str = "") -> Text:
    """A line that is never broken: a command that is copied must be whole."""
    return Text(line, style=style, no_wrap=True, overflow="ignore")
