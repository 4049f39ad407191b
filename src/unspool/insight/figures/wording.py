"""The texts of a figure in the reader's language: titles, axes, legends and hover texts.

Texts that come from the data, such as tokens, stay as they are: of lists only messages are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

Translate = Callable[[str], str]
#: Fields of a trace that may list names.
LISTS = ("x", "y", "customdata")


def translate_figure(figure: go.Figure, translate: Translate) -> go.Figure:
    """Translate a figure in place.

    Args:
        figure: as it was drawn, in English.
        translate: to the reader's language.

    Returns:
        The same figure.
    """
    for holder, field in _single_texts(figure):
        if holder[field]:
            holder[field] = _keep_signs(holder[field], translate)
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        _translate_lists(axis, ("ticktext", "tickvals"), translate)
    for trace in figure.data:
        _translate_lists(trace, LISTS, translate)
    return figure


def _single_texts(figure: go.Figure) -> Iterable[tuple[Any, str]]:
    """What holds a text, and its field there."""
    layout = figure.layout
    yield from ((layout.title, "text"), (layout.title.subtitle, "text"))
    yield from ((one, "text") for one in layout.annotations)
    yield from ((one, "name") for one in layout.shapes)
    yield from ((axis.title, "text") for axis in (*figure.select_xaxes(), *figure.select_yaxes()))
    yield from ((trace, field) for trace in figure.data for field in ("name", "hovertemplate"))


def _keep_signs(text: str, translate: Translate) -> str:
    """A text in the other language; one without words, such as a formula, as it is."""
    return translate(text) if isinstance(text, Message) or any(map(str.isalpha, text)) else text


def _translate_lists(holder: Any, fields: Iterable[str], translate: Translate) -> None:
    for field in fields:
        values = getattr(holder, field, None)
        if isinstance(values, tuple | list) and any(isinstance(value, Message | list | tuple) for value in values):
            holder[field] = _translated(values, translate)


def _translated(value: Any, translate: Translate) -> Any:
    if isinstance(value, tuple | list):
        return [_translated(inner, translate) for inner in value]
    return translate(value) if isinstance(value, Message) else value
