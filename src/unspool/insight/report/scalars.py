"""The single numbers of a report: found in what was measured, put in order and named for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unspool.insight.report.plain import to_plain

#: What people look for, the most wanted first, and in which words.
WORDS = {
    "flow · horizon": "gradient horizon (steps)",
    "forgetting · horizon": "forgetting horizon (steps)",
    "truncation · recommended": "recommended window (steps)",
    "lyapunov · largest": "largest Lyapunov exponent (per step)",
    "flow · rate": "gradient kept at each step",
    "forgetting · rate": "difference kept at each step",
    "jacobians · radius": "spectral radius of a step",
    "participation · ratio": "directions in use",
    "participation · size": "hidden units",
    "participation · near constant": "share of units that stay constant",
    "sensitivity · delta": "response added by recurrence",
    "frequency · pole": "pole of the frequency response",
    "dependence · memory": "memory that the data ask for (steps)",
    "surprise · mean": "mean surprise (nats)",
    "streams · paths": "gradient paths through the layers",
    "streams · cross": "gradient that turns in time (share)",
}
#: How many of these are shown even if only one of two runs has them.
KEY = 4
#: Settings, which tell nothing of a network.
SETTINGS = ("time constants · dt",)


def find_scalars(numbers: Mapping[str, Any], most: int = 16) -> dict[str, float]:
    """Single numbers by their names, such as `flow · rate · layer 1`: those of `WORDS` first, then as they stand.

    A list of up to `most` numbers beside `labels` of the same length gives one for each label.
    """
    found = dict(_scalars(to_plain(numbers), (), most))
    return {name: found[name] for name in sorted(found, key=rank) if name not in SETTINGS}


def rank(name: str) -> int:
    """The place of a number's name among `WORDS`, or the place after them."""
    return next((place for place, known in enumerate(WORDS) if _is_of(name, known)), len(WORDS))


def say_name(name: str) -> str:
    """A number's name in words, such as `gradient kept at each step, layer 1`."""
    for known, words in WORDS.items():
        if _is_of(name, known):
            label = name.removeprefix(known).removeprefix(" · ")
            return f"{words}, {label}" if label else words
    return name


def _is_of(name: str, known: str) -> bool:
    return name == known or name.startswith(f"{known} · ")


def _scalars(value: Any, path: tuple[str, ...], most: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        labels = value.get("labels")
        for key, inner in value.items():
            if isinstance(inner, list) and isinstance(labels, list) and len(inner) == len(labels) <= most:
                for label, item in zip(labels, inner, strict=True):
                    yield from _scalars(item, (*path, key, str(label)), most)
            else:
                yield from _scalars(inner, (*path, str(key)), most)
    elif value in ("inf", "-inf") or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield " · ".join(part.replace("_", " ") for part in path), float(value)
