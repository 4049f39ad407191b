"""What the fuzzer calls: a module of every public kind, with arguments that fit it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

import unspool
from unspool import engine
from unspool.cells import Cell, derived, document, functions
from unspool.nn import (
    AttentionPooling,
    Bidirectional,
    DecoderTransformer,
    Equilibrium,
    LastState,
    LinearChainCRF,
    MaxPooling,
    MeanPooling,
    Recurrent,
    Seq2Seq,
    Stack,
    TimeDelay,
    Unfolded,
)

CELLS = ("gru", "lstm", "elman")


@dataclass
class Target:
    """A call: a module (or none), what is called, and with what."""

    module: nn.Module | None
    call: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)


class Sizes:
    """Small sizes and numbers, drawn once per call."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.steps, self.rows = random.randint(1, 6), random.randint(1, 4)
        self.width, self.hidden = random.choice((1, 3, 8)), random.choice((1, 4, 8))
        self.dtype = random.choice((torch.float32, torch.float32, torch.float64, torch.bfloat16))
        self.batch_first = random.random() < 0.3
        self.options: dict[str, Any] = {"dtype": self.dtype, "batch_first": self.batch_first}

    def x(self, width: int | None = None) -> Tensor:
        shape = (self.rows, self.steps) if self.batch_first else (self.steps, self.rows)
        x = torch.randn(*shape, self.width if width is None else width, dtype=self.dtype)
        return x.requires_grad_(self.random.random() < 0.5)

    def lengths(self) -> list[int] | None:
        return [self.random.randint(0, self.steps) for _ in range(self.rows)] if self.random.random() < 0.4 else None


def _recurrent(s: Sizes) -> nn.Module:
    recompute = s.random.choice((None, None, 2, "sqrt"))
    flags: dict[str, Any] = {name: s.random.random() < 0.3 for name in ("reverse", "learn_initial")}
    return Recurrent(s.random.choice(CELLS), s.width, s.hidden, recompute=recompute, **flags, **s.options)


def _stack(s: Sizes) -> nn.Module:
    rates: dict[str, Any] = {
        name: s.random.choice((0.0, 0.0, 0.5)) for name in ("dropout", "recurrent_dropout", "weight_dropout")
    }
    flags: dict[str, Any] = {name: s.random.random() < 0.2 for name in ("skip", "learn_initial", "bidirectional")}
    return Stack(s.random.choice(CELLS), s.width, s.hidden, s.random.randint(1, 3), **rates, **flags, **s.options)


def _bidirectional(s: Sizes) -> nn.Module:
    return Bidirectional(s.random.choice(CELLS), s.width, s.hidden, **s.options)


def _delayed(s: Sizes) -> nn.Module:
    layer: Any = s.random.choice((_recurrent, _stack, _bidirectional))(s)
    return TimeDelay(layer, s.random.randint(0, 3))


def _drop_in(s: Sizes) -> nn.Module:
    kind = s.random.choice((unspool.nn.LSTM, unspool.nn.GRU, unspool.nn.RNN))
    flags: dict[str, Any] = {"bidirectional": s.random.random() < 0.4, "bias": s.random.random() < 0.8}
    layer: nn.Module = kind(s.width, s.hidden, s.random.choice((1, 1, 2)), **flags, **s.options)
    return layer


def _layer(make: Callable[[Sizes], nn.Module]) -> Callable[[Sizes], Target]:
    """The call of a layer, sometimes from a state that an earlier call gave."""

    def target(s: Sizes) -> Target:
        layer: Any = make(s).train(s.random.random() < 0.7)
        x = s.x()
        arguments: dict[str, Any] = {"input" if isinstance(layer, nn.RNNBase) else "x": x, "lengths": s.lengths()}
        if s.random.random() < 0.4:
            arguments["hx" if isinstance(layer, nn.RNNBase) else "state"] = layer(x)[1]
        if s.random.random() < 0.2:
            arguments["trace"] = True
        for _ in range(s.random.choice((0, 0, 2))):  # so that a call may take the quick route
            layer(x.detach())
        return Target(layer, layer, arguments)

    return target


def _unfolded(s: Sizes) -> Target:
    layer = Recurrent(s.random.choice(CELLS), s.width, s.hidden, **s.options)
    unfolded = Unfolded(layer, s.steps, tied=s.random.random() < 0.5)
    return Target(unfolded, unfolded, {"x": s.x()})


def _transformer(s: Sizes) -> Target:
    layer = DecoderTransformer(8, 2, s.random.randint(1, 2), **s.options)
    x = s.x(8)
    arguments: dict[str, Any] = {"x": x, "lengths": s.lengths()}
    if s.random.random() < 0.4:
        arguments["state"] = layer(x)[1]
    return Target(layer, layer, arguments)


def _pooling(s: Sizes) -> Target:
    kind = s.random.choice((MeanPooling, MaxPooling, LastState, AttentionPooling))
    pooling = kind(s.width, batch_first=s.batch_first).to(s.dtype)
    return Target(pooling, pooling, {"x": s.x(), "lengths": s.lengths()})


def _equilibrium(s: Sizes) -> Target:
    layer = Equilibrium(s.random.choice(("gru", "elman")), s.width, s.hidden, max_iterations=60, dtype=s.dtype)
    return Target(layer, layer, {"u": s.x()})


def _crf(s: Sizes) -> Target:
    crf = LinearChainCRF(4, **s.options)
    e = s.x(4)
    tags = torch.randint(0, 4, e.shape[:2])
    arguments: dict[str, Any] = {"emissions": e, "lengths": s.lengths()}
    name = s.random.choice(("log_likelihood", "log_partition", "marginals", "decode"))
    return Target(crf, getattr(crf, name), arguments | ({"tags": tags} if name == "log_likelihood" else {}))


def _seq2seq(s: Sizes) -> Target:
    cell = s.random.choice(CELLS)
    model = Seq2Seq(7, 6, s.width, s.hidden, s.random.randint(1, 2), cell=cell, dtype=s.dtype)
    source, target = torch.randint(3, 7, (s.rows, s.steps)), torch.randint(3, 6, (s.rows, s.steps))
    name = s.random.choice(("forward", "encode", "greedy", "sample", "beam"))
    arguments: dict[str, Any] = {"source": source, "source_lengths": s.lengths()}
    if name == "forward":
        arguments["target"] = target
    elif name != "encode":
        arguments["max_length"] = 5
    return Target(model, getattr(model, name), arguments)


def _numpy(s: Sizes) -> Target:
    layer = Recurrent(s.random.choice(CELLS), s.width, s.hidden, dtype=torch.float64)
    parameters = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    x = torch.randn(s.steps, s.rows, s.width).numpy()
    given = {"cell": layer.cell, "parameters": parameters, "x": x, "lengths": s.lengths()}
    return Target(None, engine.run, given)


#: Operands and operations of cells, the odd ones among them.
OPERANDS: tuple[Any, ...] = (0, 1, -2.5, 10**400, -(10**5000), math.inf, math.nan, True, None, "x", 2**40, [1], 1j)
ACTS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda self, a, b: a + b,
    lambda self, a, b: a - b,
    lambda self, a, b: a * b,
    lambda self, a, b: a / b,
    lambda self, a, b: a**b,
    lambda self, a, b: -a,
    lambda self, a, b: abs(a),
    lambda self, a, b: a < b,
    lambda self, a, b: functions.where(a < b, a, b),
    lambda self, a, b: functions.minimum(a, b),
    lambda self, a, b: functions.maximum(a, b),
    lambda self, a, b: functions.sqrt(a),
    lambda self, a, b: functions.log(a),
    lambda self, a, b: functions.normalise(a),
    lambda self, a, b: self.linear("a", a, b),
    lambda self, a, b: self.vector("v", b) * a,
    lambda self, a, b: self.name("n", a),
    lambda self, a, b: (a, b),
    lambda self, a, b: a[b],
    lambda self, a, b: a @ b,
)


def _cell(s: Sizes) -> Target:
    """The equations of a cell drawn at random, its LaTeX, its JSON, and what can be derived from it."""

    def step(self: Any, x: Any, h: Any) -> Any:
        random, value = Random(s.steps + 10 * s.rows + 100 * seed), h
        for _ in range(random.randint(1, 4)):
            value = random.choice(ACTS)(self, value, random.choice((*OPERANDS, x, h, h)))
        return value

    seed = s.random.getrandbits(32)
    cell = type("Drawn", (Cell,), {"step": step, "input_width": s.random.choice(("input", "hidden", "odd", 3))})

    def examine(bias: Any) -> None:
        drawn = cell()
        equations = drawn.equations(bias)
        drawn.latex()
        document.load(document.dump(equations))
        derived.with_masks(equations)

    return Target(None, examine, {"bias": True})


TARGETS: dict[str, Callable[[Sizes], Target]] = {
    "Recurrent": _layer(_recurrent),
    "Stack": _layer(_stack),
    "Bidirectional": _layer(_bidirectional),
    "TimeDelay": _layer(_delayed),
    "drop-in": _layer(_drop_in),
    "Unfolded": _unfolded,
    "DecoderTransformer": _transformer,
    "pooling": _pooling,
    "Equilibrium": _equilibrium,
    "CRF": _crf,
    "Seq2Seq": _seq2seq,
    "engine.run": _numpy,
    "Cell": _cell,
}
