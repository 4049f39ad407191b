"""Layers that tests export to ONNX, and their outputs by torch in float64, with which ONNX Runtime is compared."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tests.nn.torch_twins import flat
from tests.variants import VARIANTS
from torch import Tensor, nn

from unspool.cells import Cell
from unspool.nn import GRU, LSTM, RNN, Bidirectional, Recurrent, Stack, TimeDelay

Array = NDArray[Any]
Make = Callable[[], Any]
#: (time, batch) at which every export is run; nothing in a graph is made for one of them.
SHAPES = ((7, 3), (2, 5), (11, 1))


class Configuration(NamedTuple):
    """A layer, and how it is exported."""

    name: str
    make: Make
    lengths: bool
    states: bool


def _of_cell(cell: Cell) -> Iterator[tuple[str, Make]]:
    """Twelve ways to use a cell; the sizes differ, unless the cell reads x unit by unit."""
    unit_by_unit = cell.input_width == "hidden"
    narrow, width = (4, 4) if unit_by_unit else (3, 5)
    shown = Recurrent(cell, narrow, width).output_size

    def stack(layers: int = 2, **options: Any) -> Make:
        sizes = [width] * layers
        return lambda: Stack(cell, narrow, sizes, **options)

    yield "plain", lambda: Recurrent(cell, narrow, width)
    yield "no bias", lambda: Recurrent(cell, narrow, width, bias=False)
    yield "reverse", lambda: Recurrent(cell, narrow, width, reverse=True)
    yield "learned", lambda: Recurrent(cell, narrow, width, learn_initial=True)
    yield "batch first", lambda: Recurrent(cell, narrow, width, batch_first=True)
    yield "both ways", lambda: Bidirectional(cell, narrow, width)
    yield "both ways, no bias", lambda: Bidirectional(cell, narrow, width, bias=False)
    yield "delay", lambda: TimeDelay(Bidirectional(cell, narrow, width), 2)
    if unit_by_unit:  # a layer above must be as wide as the one below
        yield "two layers", stack(residual=True)
        return
    yield "two layers", stack(bidirectional=[True, False])
    yield "skip", stack(layers=3, skip=True, zoneout=0.1)
    yield "residual", lambda: Stack(cell, shown, [width] * 2, residual=True) if shown == width else stack(layers=1)()
    yield "wide", lambda: Recurrent(cell, 9, 17)


def _drop_ins() -> Iterator[tuple[str, Make]]:
    kinds: dict[str, Callable[..., nn.Module]] = {
        "LSTM": LSTM,
        "GRU": GRU,
        "GRU before": lambda *sizes, **options: GRU(*sizes, reset="before", **options),
        "RNN": RNN,
        "RNN relu": lambda *sizes, **options: RNN(*sizes, nonlinearity="relu", **options),
        "torch.nn.LSTM": nn.LSTM,
    }
    for kind, make in kinds.items():
        for layers in (1, 2):
            for both in (False, True):
                for bias in (False, True):
                    options: dict[str, Any] = {
                        "num_layers": layers,
                        "bidirectional": both,
                        "bias": bias,
                        "batch_first": both,
                    }
                    yield f"{kind} {layers} {both} {bias}", partial(make, 3, 5, **options)
    yield "LSTM projected", lambda: LSTM(3, 5, num_layers=2, proj_size=2)


def all_configurations() -> list[Configuration]:
    """More than 300; lengths and states are inputs in turn."""
    made = [(f"{name}: {way}", make) for name, cell in VARIANTS.items() for way, make in _of_cell(cell)]
    made += list(_drop_ins())
    return [
        Configuration(name, make, lengths=place % 3 != 2 and not name.startswith("torch"), states=place % 2 == 0)
        for place, (name, make) in enumerate(made)
    ]


def make_layer(make: Make) -> Any:
    """The layer in evaluation, with weights of a fixed seed that are not small."""
    torch.manual_seed(0)
    layer = make().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter) / (max(parameter.shape) / 4) ** 0.5)
    return layer


def expect(layer: Any, x: Array, lengths: Array | None, states: list[Array]) -> list[Array]:
    """Output and final states, one after the other as a file has them, by torch in float64."""
    precise = copy.deepcopy(layer).double()
    more = {} if lengths is None else {"lengths": torch.from_numpy(lengths)}
    with torch.no_grad():
        start = _nest(precise, states)
        output, final = precise(torch.from_numpy(x).double(), start, **more)
    return [output.numpy(), *(part.numpy() for part in _in_order(layer, final))]


def state_sizes(layer: Any) -> list[int]:
    """The width of every state, in the order of a file's inputs."""
    if isinstance(layer, nn.RNNBase):
        one = [layer.proj_size or layer.hidden_size, *([layer.hidden_size] if layer.mode == "LSTM" else [])]
        return one * layer.num_layers * (2 if layer.bidirectional else 1)
    return [part.shape[-1] for part in flat(layer.initial_state(1, torch.zeros(1)))]


def _nest(layer: Any, states: list[Array]) -> Any:
    if not states:
        return None
    parts = [torch.from_numpy(state).double() for state in states]
    if isinstance(layer, nn.RNNBase):
        count = 2 if layer.mode == "LSTM" else 1
        stacked = [torch.stack(parts[place::count]) for place in range(count)]
        return tuple(stacked) if count == 2 else stacked[0]
    each = iter(parts)
    rows = len(parts[0])
    return _fill(layer.initial_state(rows, torch.zeros(1, dtype=torch.float64)), each)


def _fill(tree: Any, each: Iterator[Tensor]) -> Any:
    return next(each) if isinstance(tree, Tensor) else type(tree)(_fill(part, each) for part in tree)


def _in_order(layer: Any, final: Any) -> list[Tensor]:
    if isinstance(layer, nn.RNNBase):
        stacked = final if isinstance(final, tuple) else (final,)
        return [part[place] for place in range(len(stacked[0])) for part in stacked]
    return flat(final)


def differences(configuration: Configuration, path: Path) -> tuple[float, tuple[str, ...]]:
    """Export a configuration; the largest difference between ONNX Runtime and torch, and the recurrent operators."""
    import onnxruntime

    import unspool

    layer = make_layer(configuration.make)
    found = unspool.export.onnx(layer, path, lengths=configuration.lengths, states=configuration.states)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    worst = found.difference or 0.0
    for steps, rows in SHAPES:
        generator = np.random.default_rng(steps)
        axes = (rows, steps) if layer.batch_first else (steps, rows)
        x = generator.normal(size=(*axes, layer.input_size)).astype(np.float32)
        lengths = generator.integers(0, steps + 1, rows) if configuration.lengths else None
        sizes = state_sizes(layer) if configuration.states else []
        states = [0.5 * generator.normal(size=(rows, size)).astype(np.float32) for size in sizes]
        given = {"x": x, **({} if lengths is None else {"lengths": lengths})}
        names = [one.name for one in session.get_inputs() if one.name.startswith("initial_")]
        given |= dict(zip(names, states, strict=True))
        for value, right in zip(session.run(None, given), expect(layer, x, lengths, states), strict=True):
            assert value.shape == right.shape
            worst = max(worst, float((np.abs(value - right) / np.maximum(1, np.abs(right))).max(initial=0)))
    return worst, found.operators
