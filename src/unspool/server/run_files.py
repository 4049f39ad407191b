"""Files of a run folder that are served: a fixed list of names, and none that leads out of the folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Pages of a run by the names under which they are served.
PAGES: Mapping[str, str] = {"xray": "xray.html", "timeline": "timeline.html"}
METRICS = "metrics.jsonl"
#: Bytes of a page or a log; more is not read.
LARGEST = 50_000_000
#: Points of a curve that are told; of more, every n-th.
MOST_POINTS = 1000
#: What an event of the log gives to the curves: entry → curve.
STEPPED = {"loss": "training loss", "lr": "learning rate", "norm": "gradient norm"}


def has_file(run: Path, page: str) -> bool:
    """Whether a run has a page of this name."""
    return _find(run, PAGES.get(page)) is not None


def read_file(run: Path, page: str) -> bytes | None:
    """A page of a run; None where there is none of this name."""
    path = _find(run, PAGES.get(page))
    return None if path is None else path.read_bytes()


def read_curves(run: Path) -> dict[str, Any]:
    """The curves of a training, the step of the best model, and the baselines; empty without a log."""
    path = _find(run, METRICS)
    points: dict[str, dict[int, float]] = {}
    best: int | None = None
    baselines: dict[str, float] = {}
    for event in () if path is None else _events(path):
        for name, value in _measured(event):
            points.setdefault(name, {})[event["step"]] = value
        if event.get("event") == "finished":
            best = event.get("best_step") if isinstance(event.get("best_step"), int) else None
            baselines = _losses(event.get("baselines"))
    return {"curves": [_curve(name, own) for name, own in points.items()], "best_step": best, "baselines": baselines}


def _find(run: Path, name: str | None) -> Path | None:
    """A file of the run's own folder; a link that leads elsewhere is none."""
    if name is None:
        return None
    path = run / name
    try:
        inside = path.resolve().parent == run.resolve()
        return path if inside and path.is_file() and path.stat().st_size <= LARGEST else None
    except OSError:
        return None


def _events(path: Path) -> Iterable[dict[str, Any]]:
    """The lines of a log that can be read: the last may be half written while a run goes on."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            event = _parse(line)
            if isinstance(event, dict) and isinstance(event.get("step"), int) and not isinstance(event["step"], bool):
                yield event


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _measured(event: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    """The curves that an event has a point of."""
    if event.get("event") == "stepped":
        found = [(name, event.get(entry)) for entry, name in STEPPED.items()]
    elif event.get("event") == "evaluated":
        scores = event.get("validation")
        found = [(f"validation {name}", value) for name, value in scores.items()] if isinstance(scores, dict) else []
    else:
        found = []
    return list(_finite(found))


def _losses(baselines: Any) -> dict[str, float]:
    """The loss of each baseline."""
    entries = baselines.items() if isinstance(baselines, dict) else ()
    return dict(_finite((str(name), own.get("loss")) for name, own in entries if isinstance(own, dict)))


def _finite(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, float]]:
    """Those values that are finite numbers."""
    for name, value in found:
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):  # a whole number may have any number of digits
                if math.isfinite(value):
                    yield name, float(value)


def _curve(name: str, points: Mapping[int, float]) -> dict[str, Any]:
    every = max(1, math.ceil(len(points) / MOST_POINTS))
    steps = sorted(points)
    kept = sorted({*steps[::every], steps[-1]})
    return {"name": name, "steps": kept, "values": [points[step] for step in kept]}
