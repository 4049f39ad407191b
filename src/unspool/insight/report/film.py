"""A film of training: one page with a slider over the X-rays that were taken along the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from plotly.graph_objects import Figure, Scatter

from unspool.errors import ArgumentError, UnknownNameError
from unspool.insight.figures.theme import plain, style
from unspool.insight.report.markup import document, embed, embed_figure, inert, place_figure
from unspool.insight.report.page import LARGEST, SHELL
from unspool.insight.report.parts import NO_SCRIPT, TITLE, count_verdicts, show_masthead, show_reading, show_verdicts
from unspool.insight.report.scalars import find_scalars, say_name

if TYPE_CHECKING:
    from unspool.insight.report.contract import Report, Section

#: Characters of a line of a small chart's title, of a moment's name below it, and where three names have room.
ACROSS, MOMENT, BETWEEN = 36, 12, 10
#: More frames than a slider can be set to by hand; sections whose pictures move; lines below the slider.
FRAMES, SECTIONS, LINES = 60, 4, 8
Frames = Sequence[tuple[str, "Report"]]


def render_film(frames: Frames, sections: Sequence[str] | None = None, scalars: Sequence[str] | None = None) -> str:
    """The page as HTML. `frames` are names, such as `step 400`, with the report taken there, in their order.

    Of more than 60 frames, or of more than go into 8 MB, evenly spaced ones stay, the first and last among them.
    `sections` are keys (without: the first four with pictures), `scalars` names as `find_scalars` gives them (without:
    the first eight that change).
    """
    if not frames:
        raise ArgumentError.of("frames", frames, "is empty", "Give at least one evaluation's report")
    chosen = _choose_sections(frames, sections)
    kept, data = _fit([*frames], [section.key for section in chosen])
    lines = _draw_lines(kept, _choose_scalars(kept, scalars))
    data += [embed_figure(f"data-line-{place}", line) for place, line in enumerate(lines.values())]
    data.append(embed("film", {"frames": [name[:80] for name, _ in kept]}))
    last = len(kept) - 1
    title = kept[-1][1].title
    body = (
        f"{show_masthead(title, f'{len(kept)} moments of training, from {kept[0][0]} to {kept[-1][0]}')}"
        f'<div class="columns"><main id="main">{NO_SCRIPT}'
        '<div class="reel" hidden><button type="button" id="play">Play</button>'
        f'<input type="range" id="frame" min="0" max="{last}" value="{last}" aria-label="Moment of training">'
        f'<output id="moment" for="frame">{inert(kept[-1][0], 80)}</output></div>'
        f'<section id="verdicts"><h2>Verdicts</h2>{"".join(_show_frame(*frame) for frame in kept)}</section>'
        f"{_show_lines(lines)}{''.join(_show_section(section) for section in chosen)}</main></div>"
    )
    return document(f"Film of {title}", body, data, kind="film", film=True)


def _choose_sections(frames: Frames, keys: Sequence[str] | None) -> list[Section]:
    known = {section.key: section for _, report in reversed(frames) for section in report.sections if section.figures}
    if keys is None:
        return [section for section in frames[-1][1].sections if section.figures][:SECTIONS]
    for key in keys:
        if key not in known:
            raise UnknownNameError.among("sections", key, known)
    return [known[key] for key in keys]


def _choose_scalars(frames: Frames, names: Sequence[str] | None) -> dict[str, list[float | None]]:
    """The figures' values over the frames; None where a frame has none that can be drawn."""
    found = [find_scalars(report.numbers) for _, report in frames]
    known = {name: [_finite(each.get(name)) for each in found] for each in found for name in each}
    if names is None:
        changing = (name for name, values in known.items() if len(set(values)) > 1)
        return {name: known[name] for name in [*changing][:LINES]}
    for name in names:
        if name not in known:
            raise UnknownNameError.among("scalars", name, known)
    return {name: known[name] for name in names}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _fit(frames: list[tuple[str, Report]], keys: Sequence[str]) -> tuple[list[tuple[str, Report]], list[str]]:
    """As many evenly spaced frames as go into the page, with their pictures' data."""
    count = min(len(frames), FRAMES)
    while True:
        places = sorted({round(place * (len(frames) - 1) / max(count - 1, 1)) for place in range(count)})
        kept = [frames[place] for place in places] if count > 1 else frames[-1:]
        data = _embed(kept, keys)
        if count == 1 or sum(map(len, data)) <= LARGEST - SHELL:
            return kept, data
        count = max(count * 3 // 4, 1)


def _embed(frames: Frames, keys: Sequence[str]) -> list[str]:
    texts = []
    for key in keys:
        series = [
            next((section.figures for section in report.sections if section.key == key), ()) for _, report in frames
        ]
        for place in range(max(map(len, series))):
            ranges = _common_ranges([figures[place] for figures in series if place < len(figures)])
            for moment, figures in enumerate(series):
                if place < len(figures):
                    texts.append(embed_figure(f"data-{key}-{place}-{moment}", figures[place], ranges))
    return texts


def _common_ranges(figures: Sequence[Figure]) -> dict[str, list[float]]:
    """Of each axis with lines or points, the range that holds all frames: what moves is the data, not the axis."""
    found: dict[str, list[float]] = {}
    for figure in figures:
        for trace in figure.data:
            if trace.type != "scatter":
                continue
            for letter in "xy":
                name = f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}"
                found.setdefault(name, []).extend(_numbers(trace[letter], figure.layout[name].type == "log"))
    return {
        name: [min(values) - 0.04 * span, max(values) + 0.04 * span]
        for name, values in found.items()
        if values and (span := max(values) - min(values)) > 0
    }


def _numbers(values: Any, logarithm: bool) -> list[float]:
    if values is None or any(isinstance(each, str) for each in values):
        return []
    array = np.asarray(values, dtype=np.float64)
    finite = array[np.isfinite(array) & ((array > 0) | (not logarithm))]
    return [float(each) for each in (np.log10(finite) if logarithm else finite)]


def _draw_lines(frames: Frames, scalars: dict[str, list[float | None]]) -> dict[str, Figure]:
    names = [plain(name) for name, _ in frames]
    room = max(map(len, names)) <= BETWEEN
    shown = sorted({0, *([len(names) // 2] if room else []), len(names) - 1})
    ticks = {
        "tickvals": [names[place] for place in shown],
        "ticktext": [plain(frames[place][0], MOMENT) for place in shown],
    }
    lines = {}
    for name, values in scalars.items():
        figure = Figure(Scatter(x=names, y=values, mode="lines+markers", line_color=style(0).color, marker_size=5))
        words, comma, label = say_name(name).partition(", ")
        text = f"{plain(words, ACROSS)}{comma.strip()}<br>{plain(label, ACROSS)}" if label else plain(words, ACROSS)
        figure.update_layout(title={"text": text, "font": {"size": 13}, "x": 0.04, "yref": "container"}, height=220)
        figure.update_layout(margin={"l": 44, "r": 12, "t": 52, "b": 30}, showlegend=False)
        figure.update_xaxes(type="category", showgrid=False, tickangle=0, **ticks)
        figure.update_yaxes(nticks=4, automargin=True)
        lines[name] = figure
    return lines


def _show_lines(lines: dict[str, Figure]) -> str:
    if not lines:
        return ""
    places = "".join(
        f"<figure>{place_figure(f'line-{place}', line, f'{say_name(name)} over training')}</figure>"
        for place, (name, line) in enumerate(lines.items())
    )
    return f'<section id="lines"><h2>Over training</h2><div class="small">{places}</div></section>'


def _show_frame(name: str, report: Report) -> str:
    return (
        f'<div class="moment"><h3 class="side">{inert(name, 80)}</h3>'
        f'<p class="count">{count_verdicts(report.verdicts)}</p>{show_verdicts(report)}</div>'
    )


def _show_section(section: Section) -> str:
    places = "".join(
        f"<figure>{place_figure(f'{section.key}-{place}', figure, section.question, film=True)}</figure>"
        for place, figure in enumerate(section.figures)
    )
    return (
        f'<section class="topic" id="section-{section.key}"><h2>{inert(section.title, TITLE)}</h2>'
        f'<p class="question">{inert(section.question)}</p>{places}{show_reading(section)}</section>'
    )
