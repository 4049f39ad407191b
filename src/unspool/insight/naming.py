"""Naming: the units of a model from its calls, in order and with names for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from unspool.insight.call import Call
from unspool.insight.unit import Unit


def join_units(calls: Sequence[Call]) -> list[Unit]:
    """The units from the lowest up, each with all of its calls one after another, and named for people."""
    names = dict.fromkeys(call.unit.name for call in calls)
    places = {name: _place(name) for name in names}
    levels = list(dict.fromkeys(places.values()))
    bodies = list(dict.fromkeys(body for body, _ in levels))
    units = []
    for name, place in places.items():
        parts = [call.unit for call in calls if call.unit.name == name]
        body = f"{place[0]} " if len(bodies) > 1 and place[0] else ""
        within = [level for level in levels if level[0] == place[0]].index(place)
        alone = list(places.values()).count(place) == 1
        arrow = " ←" if parts[0].reverse else "" if alone else " →"
        units.append(_joined(parts, f"{body}layer {within + 1}{arrow}", levels.index(place)))
    return units


def _place(name: str) -> tuple[str, str]:
    """Of a unit's name, the stack that it is in, and its level there; both directions of a layer are at one level."""
    path, _, last = name.rpartition(".")
    if last in ("ahead", "back"):
        path, _, last = path.rpartition(".")
    stack = path if path != "layers" else ""
    return stack.removesuffix(".layers"), last.removesuffix("_reverse")


def _joined(parts: Sequence[Unit], label: str, level: int) -> Unit:
    first = parts[0]
    fields: dict[str, Any] = {name: getattr(first, name) for name in first.__dataclass_fields__}
    for name in ("x", "before", "after", "live"):
        fields[name] = torch.cat([getattr(part, name) for part in parts])
    fields["named"] = {key: torch.cat([part.named[key] for part in parts]) for key in first.named}
    return Unit(**{**fields, "label": label, "level": level})
