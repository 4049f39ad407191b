"""One step at a time from Python, at batch 1: layers, a user's cell and a language model that keep their states."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unspool.insight.one_thread import one_thread
from unspool.lab.bench.agreement import OUTPUT, compare
from unspool.lab.bench.cases import Array, Case, Point
from unspool.lab.bench.contestants import modules
from unspool.lab.bench.contestants.contestant import MissingError
from unspool.lab.bench.contestants.steps import eager_steps, onnx_steps, stack_of, torch_steps, unspool_steps
from unspool.lab.bench.report import OURS, Finding, Row
from unspool.lab.bench.report import compare as compare_rows
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import Call, interleave
from unspool.lab.bench.user_cells import USER_CELLS
from unspool.nn import Recurrent
from unspool.runs.train import train
from unspool.runtime.network import Stack
from unspool.runtime.run import read_run
from unspool.runtime.run_player import RunPlayer, load

POINTS = tuple(Point(1, 1, H, H) for H in (16, 64, 128, 256))
MODEL = Point(1, 1, 128, 128)
CELLS, USER = ("lstm", "gru"), "LayerNorm LSTM"
LAYER, LANGUAGE, POSITION = "a step of a layer", "a step of a language model", "a step by its position"
ONNX, TORCH, EAGER = "onnxruntime", "torch", "torch, eager"
NEAR, FAR = 10, 1_000_000
#: Steps that contestants take before they are compared.
AGREED = 3

Makers = Mapping[str, Callable[[], Call]]


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    with one_thread(), tempfile.TemporaryDirectory(prefix="unspool-bench-") as name:
        folder = Path(name)
        for point in settings.points or POINTS:
            for cell in (cell for cell in CELLS if cell in settings.cells):
                yield measure_layer(Case(cell, point), settings, say, folder)
            yield measure_user_cell(point, settings, say, folder)
        yield from measure_model((settings.points or (MODEL,))[0], settings, say, folder)


def measure_layer(case: Case, settings: Settings, say: Say, folder: Path) -> Row:
    """A layer, as the player, ONNX Runtime and torch.nn run it."""
    layer, x = modules.layer_of(modules.OURS, case)[0], case.x[0, 0]
    stack = stack_of(layer)
    return contest_steps(
        LAYER,
        f"{str(case).split()[0]} {case.point.I},{case.point.H}",
        {
            OURS: lambda: unspool_steps(stack, x),
            ONNX: lambda: onnx_steps(*exported(stack, x, folder), "output"),
            TORCH: lambda: torch_steps(modules.layer_of(modules.TORCH, case)[0], x),
        },
        settings,
        say,
    )


def measure_user_cell(point: Point, settings: Settings, say: Say, folder: Path) -> Row:
    """A cell that no library knows: in ONNX it is a Scan, in torch the operations of its equations."""
    kind, loop, _ = USER_CELLS[USER]
    torch.manual_seed(0)
    layer, x = Recurrent(kind, point.I, point.H), Case("lstm", point).x[0, 0]
    stack = stack_of(layer)
    return contest_steps(
        LAYER,
        f"{USER} {point.I},{point.H}",
        {
            OURS: lambda: unspool_steps(stack, x),
            ONNX: lambda: onnx_steps(*exported(stack, x, folder), "output"),
            EAGER: lambda: eager_steps(loop(layer), x),
        },
        settings,
        say,
    )


def exported(stack: Stack, x: Array, folder: Path) -> tuple[Path, dict[str, Array]]:
    """The layers in ONNX, and their input besides the states."""
    try:
        from unspool.exchange.onnx.write import write_layers
    except ImportError as error:
        raise MissingError(f"onnx is not installed ({error})") from error
    path = folder / "layers.onnx"
    write_layers(stack, path, lengths=False, overwrite=True)
    return path, {"x": x[None, None]}


def measure_model(point: Point, settings: Settings, say: Say, folder: Path) -> Iterator[Row]:
    """A trained language model by `session.step`; and whether a step costs more after many of them."""
    player, case = load(write_model(point, folder)), f"embedding {point.I}, LSTM {point.H}, head"
    session = player.start()
    makers: dict[str, Callable[[], Call]] = {
        OURS: lambda: lambda: session.step(1),
        ONNX: lambda: onnx_steps(*exported_model(player, folder), "logits"),
    }
    yield contest_steps(LANGUAGE, case, makers, settings, say)
    far = 50 * NEAR if settings.points else FAR
    say(f"stream: a session reads {far:,} tokens")
    steps = {OURS: step_after(player, NEAR), f"{OURS}, at {far:,}": step_after(player, far)}
    yield Row("stream", POSITION, f"{case}, at {NEAR}", interleave(steps, settings.rounds))


def step_after(player: RunPlayer, position: int, chunk: int = 10_000) -> Call:
    """A step of a session that has read so many tokens."""
    session = player.start()
    while session.position < position:
        session.feed([1] * min(chunk, position - session.position))
    return lambda: session.step(1)


def write_model(point: Point, folder: Path) -> Path:
    """The run folder of a character model of random text, after one update: what it says has no effect on its speed."""
    letters = random.Random(0)
    text = "".join(letters.choice("abcdefghijklmnopqrstuvwxyz ,.\n") for _ in range(20_000))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    chosen: dict[str, Any] = {"hidden": point.H, "embedding": point.I, "cell": "lstm", "layers": 1}
    train(folder / "text.txt", out=folder / "run", steps=1, quiet=True, **chosen)
    return folder / "run"


def exported_model(player: RunPlayer, folder: Path) -> tuple[Path, dict[str, Array]]:
    """The same model in ONNX, and its input besides the states."""
    try:
        from unspool.exchange.onnx.write import write_network
    except ImportError as error:
        raise MissingError(f"onnx is not installed ({error})") from error
    path = folder / "model.onnx"
    write_network(read_run(player.run).network, path, overwrite=True)
    return path, {"tokens": np.array([[1]], np.int64)}


def contest_steps(kind: str, case: str, makers: Makers, settings: Settings, say: Say) -> Row:
    """A row of those that are installed, after they have shown that they agree."""
    say(f"stream: {case}")
    steps: dict[str, Call] = {}
    for name, make in makers.items():
        if name != OURS and name.partition(",")[0] not in settings.against:
            continue
        try:
            steps[name] = make()
        except MissingError as missing:
            say(f"! {name} takes no part: {missing}")
    for _ in range(AGREED):
        outputs = {name: np.array(step()) for name, step in steps.items()}
        for name, output in outputs.items():
            compare(case, "output", OURS, outputs[OURS], name, output, OUTPUT)
    return Row("stream", kind, case, interleave(steps, settings.rounds))


def judge(rows: Iterable[Row]) -> list[Finding]:
    rows = list(rows)
    layers = [row for row in rows if row.kind == LAYER]
    small, large = ([row for row in layers if (units(row) > 128) is beyond] for beyond in (False, True))
    model = [row for row in rows if row.kind == LANGUAGE]
    found = [
        *compare_rows(small, (ONNX,), "a step up to 128 units, against ONNX Runtime", None, 3.0),
        *compare_rows(large, (ONNX,), "a step of more units, against ONNX Runtime", None, 2.0),
        *compare_rows(layers, (TORCH,), "a step, against torch.nn", None, 15.0),
        *compare_rows(layers, (EAGER,), "a step of a user's cell, against torch's operations", None, 15.0),
        *compare_rows(model, (ONNX,), "a step of a language model, against ONNX Runtime", None, 3.0)[1:],
    ]
    for row in rows:
        if row.kind == POSITION:
            near, far = row.values
            text = f"a step, in parts of one at position {NEAR}"
            found.append(Finding("stream", text, row.ratio(far, near), "×", 1.1, False, far))
    return found


def units(row: Row) -> int:
    """H of a row about a layer."""
    return int(row.case.rpartition(",")[2])
