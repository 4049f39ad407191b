"""The last words about a run: what came of it, against what it had to beat, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from unspool.cli.figures import align, decimal, duration, further, perplexity_of
from unspool.cli.sample import Framed, harmless, indented
from unspool.learning.events import Finished

OPENINGS = {
    "done": "Done",
    "stopped early": "Stopped early: the validation loss no longer fell",
    "interrupted": "Interrupted",
}
#: The longest word of the sample that is proposed as a prompt.
PROMPT = 16


def render_finish(event: Finished, plain: bool = False) -> RenderableType:
    """All of it; `plain` has the sample indented, without a frame. Print it with `crop=False`: commands stay whole."""
    parts: list[RenderableType] = [Text(opening(event), style="bold"), ""]
    parts += [unbroken(line, "bold" if index == 0 else "") for index, line in enumerate(align(table(event), left=1))]
    verdict = compare(event)
    if verdict:
        parts += ["", Text(verdict)]
    if event.sample:
        parts += ["", unbroken(indented(event.sample)) if plain else Framed(event.sample, "sample of the best model")]
    parts += ["", *(unbroken(line) for line in next_steps(event))]
    return Group(*parts)


def opening(event: Finished) -> str:
    """How it ended, when, and where it is kept."""
    how = OPENINGS.get(event.reason, harmless(event.reason).capitalize())
    spent = f"{how} after {event.step:,} steps and {duration(event.seconds)}"
    return f"{spent} · best at step {event.best_step:,} · {harmless(event.run)}"


def table(event: Finished) -> list[list[str]]:
    """Rows of the model's figures on validation and test data, and of each baseline's."""
    names = further([event.validation, event.test])
    rows = [["on validation data", "loss", "perplexity", *map(harmless, names)]]
    models = [("model", event.validation)] if event.validation else []
    baselines = [(name, baseline(loss, event.validation)) for name, loss in ranked(event.baselines)]
    tests = [("model, on test data", event.test)] if event.test else []
    for title, figures in [*models, *baselines, *tests]:
        values = [decimal(figures.get("loss")), perplexity_of(figures), *(decimal(figures.get(name)) for name in names)]
        rows.append([harmless(title), *values])
    return rows


def ranked(baselines: Mapping[str, float]) -> list[tuple[str, float]]:
    """The hardest to beat first; what is not a number last."""
    return sorted(baselines.items(), key=lambda item: (math.isnan(item[1]), item[1]))


def baseline(loss: float, model: Mapping[str, float]) -> dict[str, float]:
    """A baseline's figures: its loss, and in bits what the model has in bits, counted as there (a unit, a byte …)."""
    figures = {"loss": loss}
    for name, value in model.items():
        if name.startswith("bits"):
            of_model = model.get("loss", math.nan)
            usable = math.isfinite(value) and math.isfinite(of_model) and of_model != 0
            figures[name] = loss * (value / of_model if usable else 1 / math.log(2))
    return figures


def compare(event: Finished) -> str:
    """Whether the network was worth it; nothing where there is nothing to compare."""
    loss = event.validation.get("loss", math.nan)
    rivals = [(name, of_rival) for name, of_rival in ranked(event.baselines) if math.isfinite(of_rival)]
    if not rivals or not math.isfinite(loss):
        return ""
    name, nearest = rivals[0]
    if loss < nearest:
        return f"The model beats every baseline; the nearest is {harmless(name)}, by {nearest - loss:.3f} nats."
    return (
        f"The model is not better than {harmless(name)}, which needs no network: {loss - nearest:.3f} nats behind. "
        "Train longer, or try a larger model or another learning rate."
    )


def next_steps(event: Finished) -> Iterator[str]:
    """Commands to try, ready to be copied."""
    run = shlex.quote(harmless(event.run))
    resume = f"unspool train --resume {run}"
    if event.reason == "interrupted":
        yield f"to go on: {resume}"
    yield f"next: unspool generate {run}{prompt(event.sample)}"
    yield f"      unspool evaluate {run} FILE"
    if event.reason != "interrupted":
        settings = shlex.quote(harmless(f"{event.run}/config.toml"))
        yield f"      unspool train --config {settings} --hidden 512 --minutes 10 --out {run}-larger"


def prompt(sample: str) -> str:
    """A prompt that the model knows: the first word of what it said."""
    words = [word for word in sample.split() if word.isprintable() and word[0] != "-" and "\ufffd" not in word]
    return f" --prompt {shlex.quote(words[0][:PROMPT])}" if words else ""


def unbroken(line: str, style: str = "") -> Text:
    """A line that goes beyond the edge rather than being broken: a command that is copied must be whole."""
    return Text(line, style=style, no_wrap=True, overflow="ignore")
