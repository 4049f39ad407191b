"""Cells whose state is a matrix per head, against a loop in torch and a scan of JAX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from unspool.lab.bench.agreement import check_agreement
from unspool.lab.bench.cases import Case, Point
from unspool.lab.bench.contest import contest
from unspool.lab.bench.contestants.contestant import Contestant, MissingError
from unspool.lab.bench.contestants.matrix_cells import CELLS, HEADS, jax_scan, torch_loop, unspool_kernel
from unspool.lab.bench.report import OURS, Finding, Row, compare
from unspool.lab.bench.settings import Say, Settings
from unspool.nn import Recurrent

POINTS = (Point(8, 256, 64, 64), Point(8, 256, 128, 128))
LOOP = "torch loop"


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for point in settings.points or POINTS:
        for name in CELLS:
            case = f"{name} {point}"
            say(f"matrix: {case}")
            contestants = _enter(name, point, settings, say)
            check_agreement(case, contestants)
            yield from contest("matrix", case, contestants, settings.rounds)[:2]


def _enter(name: str, point: Point, settings: Settings, say: Say) -> dict[str, Contestant]:
    """Those contestants that are asked for and installed; the heads together are as wide as the layer."""
    torch.manual_seed(0)
    kind = CELLS[name]
    cell = kind.cell(heads=HEADS, size=max(1, point.H // HEADS))
    layer, x = Recurrent(cell, point.I, point.H), torch.from_numpy(Case("lstm", point).x)
    contestants = {OURS: unspool_kernel(layer, x)}
    if "torch" in settings.against:
        contestants[LOOP] = torch_loop(kind, layer, x)
    if "jax" in settings.against:
        try:
            contestants["jax"] = jax_scan(kind, layer, x, settings.threads)
        except MissingError as missing:
            say(f"! jax takes no part: {missing}")
    return contestants


def judge(rows: Iterable[Row]) -> list[Finding]:
    training = [row for row in rows if row.kind == "training"]
    found = []
    for name, text, aim in ((LOOP, "a loop in torch", 3.0), ("jax", "a scan of JAX", 1.5)):
        found += compare(training, (name,), f"training, against {text}", None, aim)
    return found
