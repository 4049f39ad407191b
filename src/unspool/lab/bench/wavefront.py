"""Stacks at small batch sizes: layers at once, each a few steps behind the one below, against one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from unspool.lab.bench.agreement import check_agreement
from unspool.lab.bench.cases import TITLES, Case, Point
from unspool.lab.bench.contest import contest
from unspool.lab.bench.contestants.contestant import Contestant
from unspool.lab.bench.contestants.modules import OURS as KINDS
from unspool.lab.bench.contestants.modules import of_module
from unspool.lab.bench.report import OURS, Finding, Row, compare
from unspool.lab.bench.settings import Say, Settings
from unspool.nn.wavefront import layers_apart

POINTS = tuple(Point(B, 100, H, H) for H in (64, 128, 256) for B in (1, 2, 4, 8))
LAYERS = (2, 3, 4)
ONE_BY_ONE = "unspool, layer by layer"


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for given in settings.cases(POINTS):
        for layers in LAYERS:
            case = f"{TITLES[given.cell]} × {layers} {given.point}"
            say(f"wavefront: {case}")
            contestants = _enter(given, layers)
            check_agreement(case, contestants)
            yield from contest("wavefront", case, contestants, settings.rounds)[:2]


def _enter(case: Case, layers: int) -> dict[str, Contestant]:
    torch.manual_seed(0)
    module: nn.RNNBase = KINDS[case.cell](case.point.I, case.point.H, num_layers=layers)
    x = torch.from_numpy(case.x)

    def one_by_one() -> Tensor:
        with layers_apart():
            output: Tensor = module(x)[0]
            return output

    return {OURS: of_module(module, lambda: module(x)[0]), ONE_BY_ONE: of_module(module, one_by_one)}


def judge(rows: Iterable[Row]) -> list[Finding]:
    rows = list(rows)
    return [
        finding
        for kind in ("training", "inference")
        for finding in compare(
            [row for row in rows if row.kind == kind], (ONE_BY_ONE,), f"{kind}, against layer by layer", None, 1.5
        )
    ]
