"""The training timeline: one page with a slider over the X-rays that were taken during training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from plotly.graph_objects import Figure, Scatter

from unspool.errors import ArgumentError, UnknownNameError
from unspool.harmless import for_figure
from unspool.insight.figures.theme import style
from unspool.insight.report.advice import PYTHON, Spelling
from unspool.insight.report.contract import Content, Section
from unspool.insight.report.document import ROOM, render_document
from unspool.insight.report.embedding import embed_figure
from unspool.insight.report.parts import Place, ShownVerdicts, place_figure, place_section, show_verdicts
from unspool.insight.report.plain import to_json
from unspool.insight.report.ranges import share_scales
from unspool.insight.report.scalars import Glossary
from unspool.language import ENGLISH, Message, Translator

#: Characters of a line of a small chart's title, and of a moment's name below it.
TITLE, MOMENT = 36, 12
#: Longest names of moments of which three fit below a small chart.
THREE_FIT = 10
#: Frames, which a slider can be set to by hand; sections whose figures move; small charts below the slider.
FRAMES, SECTIONS, LINES = 60, 4, 8
#: Characters of a moment's name on the page.
NAME = 80
#: Below the title of the page.
SUBTITLE = "Training timeline: {count} moments from {first} to {last}"

#: Names of moments, such as `step 400`, with the reports taken there, in their order.
Frames = Sequence[tuple[str, Content]]


class Moment(NamedTuple):
    """One moment of training as the page shows it."""

    name: str
    verdicts: ShownVerdicts


def render_timeline(
    frames: Frames,
    sections: Sequence[str] | None = None,
    scalars: Sequence[str] | None = None,
    spelling: Spelling = PYTHON,
    language: str = ENGLISH,
    still: Sequence[Section] = (),
) -> str:
    """Reports that were taken during training as one page with a slider.

    Args:
        frames: names of moments, such as `step 400`, with the reports taken there, in their order. Of more than 60, or
            more than fit into 8 MB, evenly spaced ones are kept, with the first and the last.
        sections: keys of sections whose figures are shown; by default the first four with figures.
        scalars: names of numbers, as `Glossary.find` gives them, for the small charts; by default the first eight that
            change.
        spelling: how settings are written; by default as in Python.
        language: of all texts, a key of `unspool.language.LANGUAGES`.
        still: sections about all moments together, whose figures do not move.

    Returns:
        A whole document that loads nothing.

    Example:
        >>> page = render_timeline([("step 100", early), ("step 200", late)])  # doctest: +SKIP
    """
    if not frames:
        raise ArgumentError.of("frames", frames, "is empty", "Give at least one evaluation's report")
    translate = Translator(language)
    frames = [(_moment(name, translate), report.translated(translate).spelled(spelling)) for name, report in frames]
    chosen = _choose_sections(frames, sections)
    kept, data = _fit([*frames], [section.key for section in chosen])
    glossary = Glossary(scalar for _, report in kept for scalar in report.scalars)
    charts = _draw_charts(kept, _choose_scalars(kept, glossary, scalars), glossary, translate)
    data |= _embed_charts(charts.values())
    about_all = [(one := section.translated(translate), place_section(one)) for section in still]
    data |= {f"data-{place.name}": embed_figure(figure) for _, drawn in about_all for place, figure in drawn.items()}
    data["timeline"] = to_json({"frames": [name[:NAME] for name, _ in kept]})
    title = kept[-1][1].title
    return render_document(
        "timeline.html.j2",
        translate(Message("Training timeline of {title}", title=title)),
        data,
        ["page.js", "timeline.js"],
        report_title=title,
        t=translate,
        language=language,
        subtitle=translate(Message(SUBTITLE, count=len(kept), first=kept[0][0], last=kept[-1][0])),
        moments=[Moment(name, show_verdicts(report, spelling, translate)) for name, report in kept],
        lines=_place_charts(charts, glossary, translate),
        sections=[(section, _place(section)) for section in chosen],
        still=[(section, list(drawn)) for section, drawn in about_all],
    )


def _embed_charts(charts: Iterable[Figure]) -> dict[str, str]:
    return {f"data-line-{number}": embed_figure(chart) for number, chart in enumerate(charts)}


def _place_charts(charts: Mapping[str, Figure], glossary: Glossary, translate: Translator) -> list[Place]:
    return [
        place_figure(f"line-{number}", chart, translate(Message("{words} over training", words=glossary.words(name))))
        for number, (name, chart) in enumerate(charts.items())
    ]


def _place(section: Section) -> list[Place]:
    """Where the figures of a section go."""
    return [
        place_figure(f"{section.key}-{number}", figure, section.question)
        for number, figure in enumerate(section.figures)
    ]


def _choose_sections(frames: Frames, keys: Sequence[str] | None) -> list[Section]:
    if keys is None:
        return list(islice((section for section in frames[-1][1].sections if section.figures), SECTIONS))
    known = {section.key: section for _, report in frames for section in report.sections}
    _check_known("sections", keys, known)
    return [known[key] for key in keys]


def _choose_scalars(frames: Frames, glossary: Glossary, names: Sequence[str] | None) -> dict[str, list[float | None]]:
    """Values over the frames by name; None where a frame has none that can be drawn."""
    found = [glossary.find(report.numbers) for _, report in frames]
    known = {name: [_finite(each.get(name)) for each in found] for each in found for name in each}
    if names is None:
        names = _first_changing(known)
    _check_known("scalars", names, known)
    return {name: known[name] for name in names}


def _first_changing(known: Mapping[str, Sequence[float | None]]) -> list[str]:
    return list(islice((name for name, values in known.items() if len(set(values)) > 1), LINES))


def _check_known(argument: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError.among(argument, name, known)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _fit(frames: list[tuple[str, Content]], keys: Sequence[str]) -> tuple[Frames, dict[str, str]]:
    """As many evenly spaced frames as fit into the page, with the data of their figures."""
    count = min(len(frames), FRAMES)
    while True:
        places = sorted({round(place * (len(frames) - 1) / max(count - 1, 1)) for place in range(count)})
        kept = [frames[place] for place in places] if count > 1 else frames[-1:]
        data = _embed(kept, keys)
        if count == 1 or sum(map(len, data.values())) <= ROOM:
            return kept, data
        count = max(count * 3 // 4, 1)


def _embed(frames: Frames, keys: Sequence[str]) -> dict[str, str]:
    data: dict[str, str] = {}
    for key in keys:
        series = [_figures_of(report, key) for _, report in frames]
        for number in range(max(map(len, series))):
            drawn = {moment: figures[number] for moment, figures in enumerate(series) if number < len(figures)}
            shared = share_scales(drawn.values())
            data |= {f"data-{key}-{number}-{at}": embed_figure(figure, shared) for at, figure in drawn.items()}
    return data


def _figures_of(report: Content, key: str) -> tuple[Figure, ...]:
    return next((section.figures for section in report.sections if section.key == key), ())


def _draw_charts(
    frames: Frames, scalars: dict[str, list[float | None]], glossary: Glossary, translate: Translator
) -> dict[str, Figure]:
    """A small chart for each number."""
    names = [for_figure(name) for name, _ in frames]
    middle = [len(names) // 2] if max(map(len, names)) <= THREE_FIT else []
    shown = sorted({0, *middle, len(names) - 1})
    ticks = {
        "tickvals": [names[place] for place in shown],
        "ticktext": [for_figure(frames[place][0], MOMENT) for place in shown],
    }
    charts = {}
    for name, values in scalars.items():
        chart = Figure(Scatter(x=names, y=values, mode="lines+markers", line_color=style(0).color, marker_size=5))
        title = {"text": _title(*glossary.parts(name), translate), "font": {"size": 13}, "x": 0.04, "yref": "container"}
        chart.update_layout(title=title, height=220, showlegend=False, margin={"l": 44, "r": 12, "t": 52, "b": 30})
        chart.update_xaxes(type="category", showgrid=False, tickangle=0, **ticks)
        chart.update_yaxes(nticks=4, automargin=True)
        charts[name] = chart
    return charts


def _title(words: str, label: str, translate: Translator) -> str:
    """A number's name in one line, or in two if it has a layer."""
    first, second = (for_figure(_moment(part, translate), TITLE) for part in (words, label))
    return f"{first},<br>{second}" if label else first


def _moment(name: str, translate: Translator) -> str:
    """A name that may be anyone's: only messages are ours to translate."""
    return translate(name) if isinstance(name, Message) else name
