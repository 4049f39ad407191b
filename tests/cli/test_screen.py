"""The live screen, drawn at many widths and heights: every metric, and never too much."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.cli.made_up import CHINESE, EVALUATED, HOSTILE, INF, NAN, STARTED, STEPPED, of_loss

from unspool.cli.screen import History, Screen
from unspool.learning.events import Advised, Event, Saved


def screen(*events: Event) -> Screen:
    made = Screen()
    for event in events:
        made.take(event)
    return made


def picture(made: Screen, width: int = 100, height: int = 40) -> list[str]:
    """The screen's lines as they are seen."""
    out = Console(file=io.StringIO(), width=width, height=height, color_system=None, highlight=False, markup=False)
    with out.capture() as capture:
        out.print(made.render(out))
    return capture.get().rstrip("\n").split("\n")


def evaluations(count: int, best: int) -> list[Event]:
    """Evaluations at step 100, 200 …, the best of them at step `best`."""
    found: list[Event] = []
    for step in range(100, 100 * count + 1, 100):
        loss = 1 + abs(step - best) / 1000
        found += [replace(STEPPED, step=step, loss=loss), replace(EVALUATED, step=step, validation=of_loss(loss))]
        if step > best:
            found[-1] = replace(EVALUATED, step=step, validation=of_loss(loss), best=False)
    return found


def test_the_screen_shows_every_figure() -> None:
    advised = Advised(400, "a smaller [b]rate[/b]")
    lines = picture(screen(STARTED, STEPPED, EVALUATED, advised, Saved(400, "runs/hamlet/last.pt")))
    assert lines[:2] == [
        "runs/hamlet · text · 1,234,567 parameters",
        "data: hamlet.txt, 180,000 characters · model: 2 × LSTM of 256",
    ]
    names, values, bar = lines[3:6]
    assert names.split() == ["step", "epoch", "loss", "lr", "speed", "gradient", "clipped", "elapsed", "ETA"]
    assert values.split("  ")[0] == "400 of 1,000"
    metrics = ["0.80", "1.873", "0.002", "24,310", "characters/s", "0.843", "3%", "0:48", "1:12"]
    assert values.split()[3:] == metrics
    starts = [names.index(name) for name in ("epoch", "loss", "lr", "speed", "gradient", "clipped", "elapsed", "ETA")]
    assert starts == [values.index(value) for value in metrics if value != "characters/s"]
    assert bar == "━" * 38 + "┄" * 57 + "  40%"
    assert lines[7:9] == [
        "step  epoch  training  validation  perplexity   bits",
        " 400   0.80     1.873       1.900        6.69  2.741  ★ best",
    ]
    text = "\n".join(lines)
    assert "unigram 3.320" in text
    assert "bigram 2.450" in text
    assert "╭─ sample at step 400 ─" in text
    assert "│ To be, or not " in text
    assert lines[-2:] == ["advice at step 400: a smaller [b]rate[/b]", "saved step 400 · runs/hamlet/last.pt"]


def test_the_screen_without_steps_to_come_and_before_anything() -> None:
    assert picture(Screen()) == ["starting …"]
    lines = picture(screen(replace(STARTED, steps=None, step=300), STEPPED))
    assert lines[0].endswith("· resumed at step 300")
    assert lines[4].split()[:2] == ["400", "0.80"]
    assert lines[5].endswith(" 40%")


@pytest.mark.parametrize("best", [100, 2000, 1700])
def test_the_table_keeps_the_best_and_the_last(best: int) -> None:
    lines = picture(screen(STARTED, *evaluations(20, best)))
    start = next(index for index, line in enumerate(lines) if "training  validation" in line)
    rows = [line.split() for line in lines[start + 1 : start + 9]]
    last = [*range(1300, 2001, 100)]
    steps = last if best in last else [best, *last[1:]]
    assert [row[0] for row in rows] == [f"{step:,}" for step in steps]
    assert [row[0] for row in rows if "★" in row] == [f"{best:,}"]
    assert "\n".join(lines).count("★") == 1
    assert [row[3] for row in rows] == [f"{1 + abs(step - best) / 1000:.3f}" for step in steps]
    assert [row[4] for row in rows] == [f"{math.exp(1 + abs(step - best) / 1000):.2f}" for step in steps]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 116, 200])
@pytest.mark.parametrize("height", [20, 24, 30, 40, 60])
def test_the_screen_fits(width: int, height: int) -> None:
    long = "the validation loss rises while the training loss falls; try more dropout, or fewer units"
    made = screen(
        replace(STARTED, run="runs/" + "红楼梦" * 20, plan={str(n): CHINESE for n in range(3)}),
        *evaluations(20, 700),
        replace(EVALUATED, sample=(CHINESE + HOSTILE + "\n") * 9, step=2100, best=False),
        Advised(5, long),
    )
    lines = picture(made, width, height)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < height
    text = "\n".join(lines)
    assert "★" in text
    assert "\x1b" not in text
    assert "advice at step 5: the" in text
    assert "2,100" in text


def test_a_narrow_table_keeps_the_star() -> None:
    metrics = {"loss": 1.9, "bits": 2.7, "accuracy of the next word": 0.5, "surprise": 0.5}
    lines = picture(screen(STARTED, replace(EVALUATED, step=123_400, validation=metrics)), 60)
    row = next(line for line in lines if line.startswith("123,400"))
    assert row.split() == ["123,400", "0.80", "1.873", "1.900", "2.700", "★"]


def test_a_broken_run_can_be_drawn() -> None:
    broken = replace(STEPPED, loss=NAN, norm=INF, speed=NAN, remaining=INF, clipped=NAN, fraction=NAN, lr=NAN)
    made = screen(
        replace(STARTED, baselines={"odd": {"loss": NAN}}), broken, replace(EVALUATED, validation={"loss": NAN})
    )
    text = "\n".join(picture(made))
    assert "NaN characters/s" in text
    assert "∞" in text


def test_a_long_history_is_thinned_evenly() -> None:
    history = History()
    for step in range(10_000):
        history.add(float(step))
    stride = 32  # the smallest power of two with fewer than 512 points
    assert history.values == [stride * index + (stride - 1) / 2 for index in range(10_000 // stride)]


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (96, ["step epoch loss lr speed gradient clipped elapsed ETA"]),
        (95, ["step epoch loss lr speed", "gradient clipped elapsed ETA"]),
        (60, ["step epoch loss lr speed", "gradient clipped elapsed ETA"]),
        (40, ["step epoch loss", "lr speed gradient", "clipped elapsed ETA"]),
    ],
)
def test_figures_break_into_equal_rows(width: int, rows: list[str]) -> None:
    lines = picture(screen(replace(STARTED, plan={}), STEPPED), width)
    start = next(index for index, line in enumerate(lines) if line.startswith("step "))
    assert [" ".join(line.split()) for line in lines[start : start + 2 * len(rows) : 2]] == rows
    assert lines[start + 2 * len(rows)].startswith("━")
