"""Naming: the layers of a model from its calls, in order and with names for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from unspool.insight.call import Call
from unspool.insight.labels import name_layer
from unspool.insight.recorded_layer import RecordedLayer


class Place(NamedTuple):
    """Where a layer is; both directions of a bidirectional layer are at one place."""

    stack: str  # the path of the module that stacks it; empty for a model with a single stack
    level: str  # its name there


def join_layers(calls: Sequence[Call]) -> list[RecordedLayer]:
    """The layers from the lowest up, each with all of its calls one after another, and named for people."""
    names = dict.fromkeys(call.layer.name for call in calls)
    places = {name: _place(name) for name in names}
    levels = list(dict.fromkeys(places.values()))
    layers = []
    for name, place in places.items():
        parts = [call.layer for call in calls if call.layer.name == name]
        bidirectional = list(places.values()).count(place) > 1
        label = _label(place, levels, _arrow(parts[0].reverse, bidirectional))
        layers.append(_join(parts, label, levels.index(place)))
    return layers


def _place(name: str) -> Place:
    path, _, last = name.rpartition(".")
    if last in ("ahead", "back"):
        path, _, last = path.rpartition(".")
    stack = path if path != "layers" else ""
    return Place(stack.removesuffix(".layers").removesuffix(".backbone"), last.removesuffix("_reverse"))


def _label(place: Place, levels: Sequence[Place], arrow: str) -> str:
    """Such as `layer 2`, or `encoder layer 2 ←` in a model with several stacks."""
    stacks = list(dict.fromkeys(level.stack for level in levels))
    within = [level for level in levels if level.stack == place.stack].index(place)
    return name_layer(within + 1, name_stacks(stacks)[place.stack] if len(stacks) > 1 else "", arrow)


def name_stacks(paths: Sequence[str]) -> dict[str, str]:
    """What stacks are called, by their paths in the model.

    Args:
        paths: of the modules.

    Returns:
        The last part of each path, or the whole path if two would have the same name.

    Example:
        >>> name_stacks(["encoder", "decoders.0"])
        {'encoder': 'encoder', 'decoders.0': 'decoder'}
    """
    lists = [path.rpartition(".")[0] for path in paths if path.rpartition(".")[2].isdigit()]
    names = [_name_stack(path, lists.count(path.rpartition(".")[0]) > 1) for path in paths]
    return dict(zip(paths, names if len(set(names)) == len(names) else paths, strict=True))


def _name_stack(path: str, several: bool) -> str:
    """The last part of a path; of a part of a list the name of the list, with a number if it has several parts."""
    *_, above, last = ["", *path.split(".")]
    if not last.isdigit() or not above:
        return last.removesuffix("_side")
    return f"{above.removesuffix('s')} {int(last) + 1}" if several else above.removesuffix("s")


def _arrow(reverse: bool, bidirectional: bool) -> str:
    """The direction of time, unless it is the only one and forward."""
    if reverse:
        return " ←"
    return " →" if bidirectional else ""


def _join(parts: Sequence[RecordedLayer], label: str, level: int) -> RecordedLayer:
    first = parts[0]

    def joined(name: str) -> Tensor:
        found: Tensor = getattr(first, name)
        return found if len(parts) == 1 else torch.cat([getattr(part, name) for part in parts])

    return replace(
        first,
        label=label,
        level=level,
        x=joined("x"),
        before=joined("before"),
        after=joined("after"),
        live=joined("live"),
        named=first.named
        if len(parts) == 1
        else {key: torch.cat([part.named[key] for part in parts]) for key in first.named},
    )
