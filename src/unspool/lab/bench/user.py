"""A user's cell: against the built-in one, a torch loop and torch.compile; how long it takes to compile and to load."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.lab.bench.agreement import check_agreement
from unspool.lab.bench.cases import Case, Point
from unspool.lab.bench.contest import contest
from unspool.lab.bench.contestants.contestant import Contestant
from unspool.lab.bench.contestants.modules import of_module
from unspool.lab.bench.fresh_process import in_fresh_process
from unspool.lab.bench.report import OURS, Finding, Row, compare
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import Spread, seconds
from unspool.lab.bench.user_cells import USER_CELLS, Loop
from unspool.nn import Recurrent

POINT = Point(32, 100, 64, 128)


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for title in USER_CELLS:
        for point in settings.points or (POINT,):
            say(f"user: {title} {point}")
            yield from measure_cell(title, point, settings)
        yield from measure_build(title, (settings.points or (POINT,))[0], settings)


def measure_cell(title: str, point: Point, settings: Settings) -> Iterator[Row]:
    """A row for training and one for inference; one for what torch.compile took, if it was asked for."""
    kind, loop_kind, built_in = USER_CELLS[title]
    x = torch.from_numpy(Case("lstm", point).x)
    torch.manual_seed(0)
    layer = Recurrent(kind, point.I, point.H)
    loop, plain = loop_kind(layer), loop_kind(layer, careful=False)
    contestants = {
        OURS: of_layer(layer, x),
        "torch loop": of_loop(plain, plain, layer, x),
        "careful torch loop": of_loop(loop, loop, layer, x),
    }
    if built_in:
        same = Recurrent(built_in, point.I, point.H)
        same.load_state_dict(layer.state_dict())
        contestants["built-in"] = of_layer(same, x)
    case = f"{title} {point}"
    if settings.compile:
        compiled = of_loop(loop, torch.compile(loop), layer, x)
        assert compiled.train is not None
        spent = seconds(compiled.infer) + seconds(compiled.train)
        yield Row("user", "torch.compile's compilation", case, {"torch.compile": Spread.of([spent])})
        contestants["torch.compile"] = compiled
    check_agreement(case, contestants)
    yield from contest("user", case, contestants, settings.rounds)[:2]


def of_layer(layer: Recurrent, x: Tensor) -> Contestant:
    """A layer of ours."""
    return of_module(layer, lambda: layer(x)[0])


def of_loop(loop: Loop, module: Any, layer: Recurrent, x: Tensor) -> Contestant:
    """A torch loop, or what torch.compile made of it; the gradients in the order of the layer's."""
    names = [name for name, _ in layer.named_parameters()]
    return of_module(loop, lambda: module(x), lambda: [loop.gradients()[name] for name in names])


def measure_build(title: str, point: Point, settings: Settings) -> Iterator[Row]:
    """From the class to the first output in a new process: with an empty cache, then with a full one."""

    def build(folder: str) -> float:
        arguments = ("build", title, str(point.I), str(point.H))
        spent: float = in_fresh_process(*arguments, threads=settings.threads, cache=folder)["seconds"]
        return spent

    cold, warm = [], []
    for _ in range(min(settings.rounds, 3)):
        with tempfile.TemporaryDirectory(prefix="unspool-bench-") as folder:
            cold.append(build(folder))
            warm += [build(folder), build(folder)]
    yield Row("user", "cold compile", title, {OURS: Spread.of(cold)})
    yield Row("user", "warm load", title, {OURS: Spread.of(warm)})


def judge(rows: Iterable[Row]) -> list[Finding]:
    rows = list(rows)
    training = [row for row in rows if row.kind == "training"]
    found = compare(training, ("torch loop",), "training, against a torch loop", None, 5.0)
    found += compare(training, ("careful torch loop",), "training, against a careful torch loop", None, 5.0)
    found += compare(training, ("torch.compile",), "training, against torch.compile", None, None)
    for row in training:
        if "built-in" in row.values:
            slower = 1 / row.ratio("built-in")
            found.append(
                Finding("user", "training, in parts of the built-in's time", slower, "×", 1.15, False, row.case)
            )
    return found + _judge_builds(rows)


def _judge_builds(rows: Sequence[Row]) -> list[Finding]:
    """The longest time that a kernel takes to be compiled, and to be loaded."""
    found = []
    for kind, aim in (("cold compile", 10.0), ("warm load", 0.05)):
        built = [row for row in rows if row.kind == kind]
        if built:
            worst = max(built, key=lambda row: row.values[OURS].median)
            value = worst.values[OURS].median
            found.append(Finding("user", f"{kind}, the longest", value, "s", aim, False, worst.case))
    return found
