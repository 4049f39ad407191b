"""The page of a sweep: the best trial, what mattered, and all trials, in one file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from unspool.insight.report.document import render_document
from unspool.insight.report.embedding import embed_figure
from unspool.insight.report.parts import Place, place_figure
from unspool.insight.report.plain import to_json
from unspool.language import ENGLISH, Translator
from unspool.sweeps.course import Row
from unspool.sweeps.figures import draw_cost, draw_curves, draw_importance, draw_parallel
from unspool.sweeps.progress import count_states, show_metrics, show_number, show_settings, show_value
from unspool.sweeps.searching import Snapshot

#: How a state looks in the table.
TONES = {"finished": "good", "pruned": "neutral", "failed": "fault", "stopped": "warning", "running": "warning"}


class Topic(NamedTuple):
    """A section of the page."""

    key: str
    title: str
    reading: str
    place: Place


#: Key → title, and how to read the figure.
TOPICS = {
    "importance": (
        "What mattered",
        "How much of the differences between finished trials each setting explains (PED-ANOVA): what the best "
        "trials have in common and the others do not. With few trials it is a hint, not a measurement.",
    ),
    "parallel": (
        "All trials at a glance",
        "A line is a trial. It crosses each setting at its value and ends at what it reached. The best one is orange.",
    ),
    "curves": (
        "Courses of training",
        "The metric at each evaluation. Dotted lines were ended early, as they were below the median of the others.",
    ),
    "cost": (
        "Cost against quality",
        "Each point is a finished trial. The line joins those that are better than everything cheaper: where it is "
        "flat, more time buys nothing. Trials that shared the machine with others took longer than they would alone.",
    ),
}


def render_page(sweep: Snapshot, importance: Mapping[str, float]) -> str:
    """The page of a sweep.

    Args:
        sweep: The sweep.
        importance: Of each setting; empty where it is not known.

    Returns:
        A whole document that loads nothing.
    """
    figures = {
        "importance": draw_importance(importance),
        "parallel": draw_parallel(sweep),
        "curves": draw_curves(sweep),
        "cost": draw_cost(sweep),
    }
    topics = [
        Topic(key, *TOPICS[key], place_figure(key, figure, f"{TOPICS[key][0]}. {TOPICS[key][1]}"))
        for key, figure in figures.items()
    ]
    data = {f"data-{key}": embed_figure(figure) for key, figure in figures.items()}
    content = {"trials": [row.as_json() for row in sweep.rows], "importance": dict(importance)}
    return render_document(
        "sweep.html.j2",
        f"Sweep: {sweep.path.name}",
        {**data, "numbers": to_json(content)},
        ["page.js"],
        package="unspool.sweeps",
        t=Translator(ENGLISH),
        language=ENGLISH,
        sweep=sweep,
        counts=count_states(sweep),
        topics=topics,
        rows=sorted(sweep.rows, key=lambda row: (row.state != "finished", row.value is None, sweep.goal.rank(row))),
        base=_find_base(sweep),
        has_test=any(row.test for row in sweep.rows),
        tones=TONES,
        number=show_number,
        value=show_value,
        metrics=show_metrics,
        settings=show_settings,
    )


def _find_base(sweep: Snapshot) -> Row | None:
    """The trial with the settings of a run without a search, if it is finished."""
    first = sweep.rows[0] if sweep.rows and sweep.has_base else None
    return first if first is not None and first.number == 0 and first.state == "finished" else None
