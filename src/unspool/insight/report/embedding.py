"""Figures as data inside a page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from plotly.graph_objects import Figure

from unspool.errors import ArgumentError
from unspool.insight.report.plain import to_json

#: WebGL traces, for which plotly makes code from strings, and maps, which it loads: the page's policy forbids both.
UNDRAWABLE = re.compile(
    r".*gl$|.*3d$|.*map$|.*mapbox$|.*geo$|surface|volume|isosurface|cone|streamtube|parcoords|splom|choropleth"
)
FLAT = ("heatmap", "treemap")


def embed_figure(figure: Figure, shared: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> str:
    """A figure as JSON for a script element, with the scales that it shares with others, as `share_scales` finds them.

    An axis with a range of its own keeps it. A figure that the page's policy would leave empty is an error.
    """
    for trace in figure.data:
        if trace.type not in FLAT and UNDRAWABLE.fullmatch(trace.type):
            raise ArgumentError.of(
                "figure", trace.type, "cannot be drawn offline without generated code", "Use a flat SVG trace"
            )
    drawing = json.loads(figure.to_json())
    drawing["layout"].pop("template", None)  # the page has one for light and one for dark
    for name, scale in shared.items():
        _merge(drawing["layout"].setdefault(name, {}), scale)
    return to_json(drawing)


def _merge(part: dict[str, Any], scale: Mapping[str, Any]) -> None:
    """Put a shared scale into an axis or color axis."""
    if "range" in part:
        return
    for key, value in scale.items():
        if isinstance(value, Mapping):
            part.setdefault(key, {}).update(value)
        else:
            part[key] = value
