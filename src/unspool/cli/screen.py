"""The live screen's content: what is kept of a run's events, and how it is drawn at any width and height."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.text import Text

from unspool.cli.curve import MARK, chart
from unspool.cli.formatting import (
    GAP,
    align,
    decimal,
    duration,
    flow,
    metric,
    other_metrics,
    percent,
    short,
    speed,
)
from unspool.cli.plain import advised
from unspool.cli.sample import Framed
from unspool.harmless import harmless
from unspool.learning.events import Advised, Evaluated, Event, Finished, Saved, Started, Stepped

#: From this width on the curve stands beside the table.
WIDE = 116
#: Lines for evaluations, the curve and the sample: the first that fits the terminal's height.
LAYOUTS = ((8, 7, 8), (8, 6, 5), (8, 5, 3), (6, 5, 2), (5, 4, 2), (4, 4, 1), (4, 0, 2), (3, 0, 1), (3, 0, 0), (1, 0, 0))
#: Below this height there is one line of the plan and one word of advice.
SMALL = 32
#: Points of the training curve; beyond that two become one.
POINTS = 512
ADVICE = 2


class History:
    """The mean losses of equal stretches of a run, few enough to draw however long it is."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.count = 0
        self._stride = 1
        self._sum = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self._sum += value
        if self.count % self._stride:
            return
        self.values.append(self._sum / self._stride)
        self._sum = 0.0
        if len(self.values) == POINTS:
            self.values = [(a + b) / 2 for a, b in zip(self.values[::2], self.values[1::2], strict=True)]
            self._stride *= 2


class Screen:
    """The state of a run, and how it is drawn.

    `take` runs in training's thread, `render` in the one that draws. Each field is replaced or grown in one step, so
    that they need no lock and training never waits for the drawing.
    """

    def __init__(self) -> None:
        self.started: Started | None = None
        self.stepped: Stepped | None = None
        self.evaluations: list[tuple[int, Evaluated]] = []  # after how many points of the curve
        self.best: Evaluated | None = None
        self.advice: list[Advised] = []
        self.saved: Saved | None = None
        self.finished: Finished | None = None
        self.history = History()

    def take(self, event: Event) -> None:
        """Keep what is to be shown of an event."""
        match event:
            case Started():
                self.started = event
            case Stepped():
                self.history.add(event.loss)
                self.stepped = event
            case Evaluated():
                if event.best:
                    self.best = event
                self.evaluations.append((self.history.count, event))
            case Advised():
                self.advice.append(event)
            case Saved():
                self.saved = event
            case Finished():
                self.finished = event

    def render(self, console: Console) -> RenderableType:
        """Everything, in lines that fit the console; over its height only where that is too small for anything.

        When all is over the screen is drawn once more, in full and without the sample: it may scroll then.
        """
        width, height = console.size
        small = height < SMALL and not self.finished
        head = [*self.header(width, 1 if small else None), *self.metrics(width)]
        foot = self.foot(width, 1 if small else ADVICE)
        if self.finished:
            rows, curve, _ = LAYOUTS[0]
            return Group(*head, *self.body(width, rows, curve, 0), *foot, "")
        room = height - 1 - len(head) - len(foot)
        for rows, curve, sample in LAYOUTS:
            body = self.body(width, rows, curve, sample)
            if _count_lines(body, width) <= room:
                break
        return Group(*head, *body, *foot)

    def header(self, width: int, most: int | None) -> list[Text]:
        """The run, its task and size, and the plan, `most` lines of it."""
        event = self.started
        if event is None:
            return [Text("starting …")]
        pieces = [harmless(event.run), harmless(event.task), f"{event.parameters:,} parameters"]
        pieces += [f"resumed at step {event.step:,}"] if event.step else []
        plan = flow([harmless(f"{name}: {words}") for name, words in event.plan.items()], width)
        lines = [Text(line, style="bold") for line in flow(pieces, width)]
        lines += [Text(line, style="dim") for line in _shorten(plan, most)]
        return [_fit(line, width) for line in lines]

    def metrics(self, width: int) -> list[Text]:
        """The current numbers, each under its name, and the progress bar."""
        event, started = self.stepped, self.started
        if event is None:
            return []
        unit = harmless(started.unit) if started else "units"
        of_steps = _of_steps(started)
        # Minimal widths keep the numbers from jumping when a digit comes or goes.
        columns = [
            ("step", f"{event.step:,}{of_steps}", 2 * len(of_steps) - 4),
            ("epoch", f"{event.epoch:.2f}", 5),
            ("loss", decimal(event.loss), 6),
            ("lr", short(event.lr), 7),
            ("speed", speed(event.speed, unit), cell_len(unit) + 9),
            ("gradient", short(event.norm), 8),
            ("clipped", percent(event.clipped), 7),
            ("elapsed", duration(event.seconds), 7),
            ("ETA", duration(event.remaining), 7),
        ]
        lines = _in_rows([_padded(*column) for column in columns], width)
        return [Text(), *(_fit(line, width) for line in [*lines, self.bar(width)])]

    def bar(self, width: int) -> Text:
        """How much of training is done."""
        fraction = self.stepped.fraction if self.stepped else 0.0
        done = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 0.0
        percent = f" {done:4.0%}"
        cells = max(width - len(percent), 1)
        full = int(cells * done)
        return Text.assemble(("━" * full, "green"), ("┄" * (cells - full), "dim"), percent)

    def body(self, width: int, rows: int, curve: int, sample: int) -> list[RenderableType]:
        """Table, curve and sample, of these many lines."""
        parts: list[RenderableType] = []
        table = self.table(width, rows)
        if table and curve and width >= WIDE:
            left = max(cell_len(line.plain) for line in table) + 2 * len(GAP)
            right = self.curve(width - left, max(curve, len(table) - 1))
            parts += _spaced(_beside(table, right, left))
        else:
            parts += [*_spaced(table), *_spaced(self.curve(width, curve))]
        if sample:
            parts += self._sample(sample)
        return parts

    def _sample(self, lines: int) -> list[Framed]:
        """The latest sample, if there is one, of so many lines."""
        latest = self.evaluations[-1][1] if self.evaluations else None
        if latest is None or not latest.sample:
            return []
        return [Framed(latest.sample, f"sample at step {latest.step:,}", lines)]

    def table(self, width: int, rows: int) -> list[Text]:
        """The last evaluations, and before them the best if it is not among them."""
        if not self.evaluations:
            return []
        best, shown = self.best, self._shown(rows)
        names = other_metrics(event.validation for event in shown)
        titles = ["step", "epoch", "training", "validation", *map(harmless, names)]
        cells = [_row(event, names, "★ best" if event is best else "") for event in shown]
        lines = [_fit(Text(line), width) for line in align(_narrow([titles, *cells], width))]
        lines[0].stylize("dim")
        for line, event in zip(lines[1:], shown, strict=True):
            line.stylize("bold" if event is best else "")
        return lines

    def _shown(self, rows: int) -> list[Evaluated]:
        shown = [event for _, event in self.evaluations[-rows:]]
        if self.best is not None and all(event is not self.best for event in shown):
            return [self.best, *shown[1:]]
        return shown

    def curve(self, width: int, height: int) -> list[Text]:
        """Training loss as a line, validation losses as marks on it, baselines as levels with their names."""
        count = self.history.count
        values = self.history.values[:]
        evaluations = self.evaluations[:]
        if not values or not height:
            return []
        marks = [(after / count, event.validation.get("loss", math.nan)) for after, event in evaluations]
        levels = self._baselines()
        lines = [Text(line) for line in chart(values, marks, levels, width, height)]
        for line in lines:
            line.highlight_regex("[\u2801-\u28ff]+", "cyan")
            line.highlight_regex(MARK, "magenta")
        legend = f"loss: ⠒⠒ training · {MARK} validation" + (" · ┄ baselines" if levels else "")
        return [_fit(line, width) for line in [*lines, Text(legend, style="dim")]]

    def _baselines(self) -> dict[str, float]:
        """The losses of the baselines that have one."""
        baselines = self.started.baselines if self.started else {}
        return {harmless(name): metrics["loss"] for name, metrics in baselines.items() if "loss" in metrics}

    def foot(self, width: int, advice: int) -> list[Text]:
        """The latest advice, and the latest checkpoint."""
        lines: list[Text] = []
        for event in self.advice[-advice:]:
            words = advised(event).split(" ")
            lines += [Text(line, style="yellow") for line in flow(words, width, between=" ")]
        if self.saved is not None:
            lines.append(Text(f"saved step {self.saved.step:,} · {harmless(self.saved.path)}", style="dim"))
        return [_fit(line, width) for line in lines]


def _shorten(lines: list[str], most: int | None) -> list[str]:
    """The first lines, the last of which says if there are more."""
    if most is None or len(lines) <= most:
        return lines
    return [*lines[: most - 1], lines[most - 1] + " · …"]


def _in_rows(cells: Sequence[tuple[str, str]], width: int) -> list[Text]:
    """Names above values, on as few rows as possible, about equally long."""
    rows = next((n for n in range(1, len(cells)) if max(_row_widths(cells, n)) <= width), len(cells))
    lines: list[Text] = []
    for names, values in (zip(*row, strict=True) for row in _split(cells, rows)):
        lines += [Text(GAP.join(names).rstrip(), style="dim"), Text(GAP.join(values).rstrip())]
    return lines


def _count_lines(body: Iterable[RenderableType], width: int) -> int:
    """The height of what is between header and foot; a frame has two lines of its own."""
    return sum(len(part.lines(width)) + 2 if isinstance(part, Framed) else 1 for part in body)


def _of_steps(started: Started | None) -> str:
    """What follows the number of a step, if it is known how many there will be."""
    return f" of {started.steps:,}" if started and started.steps is not None else ""


def _spaced(lines: Sequence[Text]) -> list[Text]:
    """A block with an empty line before it; nothing, if it has no lines."""
    return [Text(), *lines] if lines else []


def _padded(name: str, value: str, least: int) -> tuple[str, str]:
    """A name and its value in the same width."""
    size = max(cell_len(name), cell_len(value), least)
    return set_cell_size(name, size), set_cell_size(value, size)


def _split(cells: Sequence[tuple[str, str]], rows: int) -> list[Sequence[tuple[str, str]]]:
    size = math.ceil(len(cells) / rows)
    return [cells[start : start + size] for start in range(0, len(cells), size)]


def _row_widths(cells: Sequence[tuple[str, str]], rows: int) -> list[int]:
    return [cell_len(GAP.join(name for name, _ in row)) for row in _split(cells, rows)]


def _row(event: Evaluated, names: Sequence[str], mark: str) -> list[str]:
    metrics = event.validation
    return [
        f"{event.step:,}",
        f"{event.epoch:.2f}",
        decimal(event.training),
        decimal(metrics.get("loss")),
        *(metric(name, metrics.get(name)) for name in names),
        mark,
    ]


def _narrow(cells: list[list[str]], width: int) -> list[list[str]]:
    """A table, titles first, without what is too wide: the word best, then columns from the right. The star stays."""
    titles, *rows = cells
    if _width(cells) > width:
        rows = [[*row[:-1], row[-1].removesuffix(" best")] for row in rows]
    while len(titles) > 4 and _width([titles, *rows]) > width:
        titles = titles[:-1]
        rows = [[*row[:-2], row[-1]] for row in rows]
    return [titles, *rows]


def _width(cells: Sequence[Sequence[str]]) -> int:
    return max(map(cell_len, align(cells)))


def _beside(left: Sequence[Text], right: Sequence[Text], width: int) -> list[Text]:
    """Two blocks of lines as one, the second beginning at a column."""
    lines = []
    for one, other in zip_longest(left, right, fillvalue=Text()):
        line = one.copy()
        line.pad_right(width - cell_len(line.plain))
        lines.append(line.append_text(other))
    return lines


def _fit(line: Text, width: int) -> Text:
    """One line, never two: the heights are counted on."""
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line
