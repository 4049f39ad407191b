"""Regularized layers: loops by hand with the same masks, closed forms, rates of dropping, and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.nn.gradients import leaves
from tests.variants import VARIANTS, as_state, as_states, random_layer, random_tensors
from torch import Tensor
from torch.nn import functional

from unspool.cells import Elman, Linear
from unspool.nn import regularized
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.leaves import map_leaves
from unspool.nn.recurrent import Recurrent
from unspool.nn.regularized import Rates
from unspool.nn.stack import Stack

close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)
F64 = torch.float64
each_engine = pytest.mark.usefixtures("engine")
DIGITS = 53  # of a float64, and so the steps between two draws of zoneout
ALL = Rates(recurrent_dropout=0.3, weight_dropout=0.2, zoneout=0.4)
KINDS = {
    "recurrent": Rates(recurrent_dropout=0.3),
    "weight": Rates(weight_dropout=0.3),
    "zoneout": Rates(zoneout=0.3),
    "all": ALL,
}
OPTIONS: dict[str, Any] = {"recurrent_dropout": 0.3, "weight_dropout": 0.2, "zoneout": 0.4}

Weights = dict[str, Tensor]
States = tuple[Tensor, ...]


class Drawn:
    """What was drawn since, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.masks: list[Tensor] = []
        self.digits: list[Tensor] = []
        for name, kept in (("draw_mask", self.masks), ("draw_digits", self.digits)):
            monkeypatch.setattr(regularized, name, partial(self._draw, getattr(regularized, name), kept))

    @staticmethod
    def _draw(function: Callable[..., Tensor], kept: list[Tensor], *given: Any) -> Tensor:
        kept.append(function(*given))
        return kept[-1]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    return Drawn(monkeypatch)


# One step by hand, on one row; `masked` are the states as the matrices read them


def lstm(w: Weights, x: Tensor, states: States, masked: States) -> States:
    _, c = states
    i, f, g, o = (w[f"W_{k}"] @ x + w[f"U_{k}"] @ masked[0] + w[f"b_{k}"] for k in "ifgo")
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(w: Weights, x: Tensor, states: States, masked: States) -> States:
    r, z = ((w[f"W_{k}"] @ x + w[f"U_{k}"] @ masked[0] + w[f"b_{k}"]).sigmoid() for k in "rz")
    n = (w["W_n"] @ x + w["U_n"] @ (r * masked[0]) + w["b_n"]).tanh()
    return ((1 - z) * states[0] + z * n,)


def three_states(w: Weights, x: Tensor, states: States, masked: States) -> States:
    a = (w["W_a"] @ x + w["U1_a"] @ masked[0] + w["U2_a"] @ masked[2] + w["b_a"]).tanh()
    s = 0.9 * states[1] + 0.1 * a
    return a - s, s, (w["U1_m"] @ s + w["U2_m"] @ masked[2]).tanh()


#: By cell: its step, and which of its states matrices read.
STEPS: dict[str, tuple[Callable[[Weights, Tensor, States, States], States], tuple[int, ...]]] = {
    "lstm": (lstm, (0,)),
    "gru": (gru, (0,)),
    "ThreeStates": (three_states, (0, 2)),
}


def by_hand(
    name: str, layer: Recurrent, rates: Rates, x: Tensor, state: Any, lengths: Sequence[int], drawn: Drawn
) -> tuple[Tensor, Any]:
    """Output and final state row by row with what was drawn, which is taken from the lists."""
    step, read = STEPS[name]
    start = as_states(state)
    w = layer.cell_parameters()
    masks: dict[int, Tensor] = {}
    numbers: dict[int, list[Tensor]] = {}
    if layer.training:
        if rates.weight_dropout:
            w = {key: value * drawn.masks.pop(0) if key.startswith("U") else value for key, value in w.items()}
        if rates.recurrent_dropout:
            masks = {place: drawn.masks.pop(0) for place in read}
        if rates.zoneout:
            parts = range(0, len(x), DIGITS)
            for part in reversed(parts) if layer.reverse else parts:
                numbers[part // DIGITS] = [drawn.digits.pop(0) for _ in start]
    rows, finals = [], []
    for row, length in enumerate(lengths):
        states = tuple(part[row] for part in start)
        outputs = [states[0].new_zeros(layer.output_size)] * len(x)
        for t in reversed(range(length)) if layer.reverse else range(length):
            masked = tuple(part * masks[k][row] if k in masks else part for k, part in enumerate(states))
            new = step(w, x[t, row], states, masked)
            if rates.zoneout and layer.training:
                digit = min((t // DIGITS + 1) * DIGITS, length) - t if layer.reverse else t % DIGITS + 1
                stays = [(number[row] * 2**digit).floor() % 2 for number in numbers[t // DIGITS]]
                new = tuple(s * a + (1 - s) * b for s, a, b in zip(stays, states, new, strict=True))
            elif rates.zoneout:
                new = tuple(rates.zoneout * a + (1 - rates.zoneout) * b for a, b in zip(states, new, strict=True))
            states = new
            outputs[t] = states[0]
        rows.append(torch.stack(outputs))
        finals.append(states)
    return torch.stack(rows, 1), as_state(tuple(torch.stack(parts) for parts in zip(*finals, strict=True)))


def slopes(results: Any, of: Any) -> list[Tensor]:
    """Gradients of a loss in which every result counts in its own way."""
    loss = torch.stack([(value * (value + 0.3 * place + 0.1)).sum() for place, value in enumerate(leaves(results))])
    return list(torch.autograd.grad(loss.sum(), leaves(of), materialize_grads=True))


@each_engine
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(
    ("steps", "lengths", "reverse"),
    [(4, (4, 4, 4), False), (56, (55, 0, 2), False), (56, (55, 0, 2), True)],
    ids=["short", "ragged", "reverse"],
)
@pytest.mark.parametrize("rates", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", STEPS)
def test_equals_the_loop_by_hand(
    name: str, rates: Rates, steps: int, lengths: tuple[int, ...], reverse: bool, training: bool, drawn: Drawn
) -> None:
    if steps > DIGITS and not (training and rates.zoneout):
        steps, lengths = 5, (5, 0, 2)
    layer = random_layer(VARIANTS[name], reverse=reverse).train(training)
    layer.regularize(rates)
    x, state = random_tensors(layer.cell, steps, len(lengths))
    torch.manual_seed(0)
    results = layer(x, state, lengths=lengths)
    assert len(drawn.masks) + len(drawn.digits) > 0 or not training
    expected = by_hand(name, layer, rates, x, state, lengths, drawn)
    assert drawn.masks == drawn.digits == []
    close(results, expected)
    given = [x, state, list(layer.parameters())]
    torch.testing.assert_close(slopes(results, given), slopes(expected, given), rtol=1e-11, atol=1e-11)


@each_engine
@pytest.mark.parametrize("lengths", [(4, 4, 4), (2, 0, 4)], ids=["full", "ragged"])
def test_a_stack_equals_its_layers_by_hand(lengths: tuple[int, ...], drawn: Drawn) -> None:
    torch.manual_seed(0)
    stack = Stack(
        ["lstm", "gru"], 3, [2, 4], bidirectional=[True, False], residual=[False, True], dropout=[0.3, 0.4],
        variational=[True, True], recurrent_dropout=[0.3, 0.0], weight_dropout=0.2, zoneout=[0.1, 0.4], dtype=F64,
    )  # fmt: skip
    x = torch.randn(4, 3, 3, dtype=F64, requires_grad=True)
    state = map_leaves(lambda shape: torch.randn(shape, dtype=F64, requires_grad=True), stack.state_shapes(3))
    output, final, trace = stack(x, state, lengths=lengths, trace=True)
    low, high = stack.layers
    assert isinstance(low, Bidirectional)
    assert isinstance(high, Recurrent)
    first, second = Rates(0.3, 0.2, 0.1), Rates(0.0, 0.2, 0.4)
    ahead, ahead_end = by_hand("lstm", low.ahead, first, x, state[0][0], lengths, drawn)
    back, back_end = by_hand("lstm", low.back, first, x, state[0][1], lengths, drawn)
    read = torch.cat([ahead, back], -1) * drawn.masks.pop(0)
    top, end = by_hand("gru", high, second, read, state[1], lengths, drawn)
    valid = torch.arange(4)[:, None, None] < torch.tensor(lengths)[None, :, None]
    expected = (top + read * valid) * drawn.masks.pop(0), [(ahead_end, back_end), end]
    assert drawn.masks == drawn.digits == []
    close((output, final), expected)
    close((trace[0][0]["h"], trace[0][1]["h"], trace[1]["h"]), (ahead, back, top))
    given = [x, state, list(stack.parameters())]
    close(slopes((output, final), given), slopes(expected, given))


def linear(width: int, rates: Rates, recurrent: Tensor, dtype: torch.dtype = F64) -> Recurrent:
    """h = U h, whatever x is."""
    layer = Recurrent(Linear(), 1, width, dtype=dtype)
    with torch.no_grad():
        layer.get_parameter("W_h").zero_()
        layer.get_parameter("U_h").copy_(recurrent)
    layer.regularize(rates)
    return layer


@each_engine
def test_a_recurrent_mask_is_one_for_all_steps() -> None:
    torch.manual_seed(0)
    layer = linear(50, Rates(recurrent_dropout=0.25), torch.eye(50))
    output, _ = layer(torch.zeros(6, 200, 1, dtype=F64), torch.ones(200, 50, dtype=F64))
    mask = output[0]
    assert set(mask.unique().tolist()) == {0.0, 1 / 0.75}
    assert mask.mean().item() == pytest.approx(1, abs=4 * (0.25 / 0.75 / mask.numel()) ** 0.5)
    assert len({tuple(row) for row in mask.tolist()}) == 200
    close(output, torch.stack([mask**power for power in range(1, 7)]))
    again, _ = layer(torch.zeros(1, 200, 1, dtype=F64), torch.ones(200, 50, dtype=F64))
    assert not torch.equal(again[0], mask)


@each_engine
def test_a_weight_mask_is_one_for_all_rows_and_steps() -> None:
    torch.manual_seed(0)
    layer = linear(60, Rates(weight_dropout=0.4), torch.ones(60, 60))
    output, _ = layer(torch.zeros(4, 60, 1, dtype=F64), torch.eye(60, dtype=F64))
    matrix = output[0].T  # row k began as the k-th unit vector
    assert set(matrix.unique().tolist()) == {0.0, 1 / 0.6}
    assert matrix.mean().item() == pytest.approx(1, abs=4 * (0.4 / 0.6 / matrix.numel()) ** 0.5)
    close(output.transpose(1, 2), torch.stack([torch.linalg.matrix_power(matrix, power) for power in range(1, 5)]))
    same(layer.get_parameter("U_h").detach(), torch.ones(60, 60, dtype=F64))


@each_engine
@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.15, 0.5, 1.0])
def test_zoneout_draws_anew_at_every_step(p: float, dtype: torch.dtype) -> None:
    """A cell that hands on x, which is another number at every step, shows which units stayed."""
    torch.manual_seed(0)
    layer = Recurrent(Elman("identity"), 1, 10, bias=False, dtype=dtype)
    with torch.no_grad():
        layer.get_parameter("W_h").fill_(1)
        layer.get_parameter("U_h").zero_()
    layer.regularize(Rates(zoneout=p))
    steps, rows = 120, 20
    x = torch.arange(1, steps + 1, dtype=dtype)[:, None, None].expand(-1, rows, 1)
    output, final = layer(x)
    same(final, output[-1])
    before = torch.cat([torch.zeros_like(output[:1]), output[:-1]])
    stayed = output == before
    assert torch.equal(torch.where(stayed, before, x), output)
    spread = (p * (1 - p)) ** 0.5
    assert stayed.double().mean().item() == pytest.approx(p, abs=4 * spread / stayed.numel() ** 0.5)
    if p < 1:
        deviation = (stayed.double() - p).flatten(1)
        for lag in (1, 2, 8, 24):  # independent from step to step, also across draws
            joint = (deviation[lag:] * deviation[:-lag]).mean().item()
            assert abs(joint) < 4 * spread**2 / (deviation[lag:].numel() ** 0.5)
        assert abs((deviation[:, 0] * deviation[:, 1]).mean().item()) < 4 * spread**2 / steps**0.5


@each_engine
def test_evaluation_gives_what_zoneout_expects() -> None:
    torch.manual_seed(0)
    layer = random_layer(VARIANTS["lstm"])
    layer.regularize(Rates(zoneout=0.3))
    x, start = torch.randn(1, 1, 3, dtype=F64), torch.randn(2, 1, 4, dtype=F64)
    many = 40000
    with torch.no_grad():
        drawn = torch.stack(layer(x.expand(1, many, 3), tuple(start.expand(2, many, 4)))[1])
        expected = torch.stack(layer.eval()(x, tuple(start))[1])
        new, _ = layer.step(layer.cell_parameters(), x[0], tuple(start))
    close(expected, 0.3 * start + 0.7 * torch.stack(new))
    error = (drawn - expected).mean(1).abs()
    assert (error <= 4 * drawn.std(1) / many**0.5).all()


@each_engine
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_a_state_carried_from_call_to_call(training: bool) -> None:
    """In training too, where calls are as long as a draw lasts: the numbers come in the same order then."""
    torch.manual_seed(0)
    stack = Stack("lstm", 3, 4, zoneout=0.3, dtype=F64).train(training)
    x = torch.randn(2 * DIGITS, 2, 3, dtype=F64)
    torch.manual_seed(1)
    whole, final = stack(x)
    torch.manual_seed(1)
    first, middle = stack(x[:DIGITS])
    second, last = stack(x[DIGITS:], middle)
    close((whole, final), (torch.cat([first, second]), last))


@needs_compiler
@pytest.mark.parametrize(
    "training", [True, pytest.param(False, marks=pytest.mark.long)], ids=["training", "evaluation"]
)
def test_kernels_run_what_is_regularized(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers and gradients as by the eager loop, also where the kernel keeps fewer states."""
    torch.manual_seed(0)
    x = torch.randn(60, 3, 3, dtype=F64, requires_grad=True)
    layer = Stack("lstm", 3, 4, **OPTIONS, bidirectional=True, dtype=F64).train(training).layers[0]
    assert isinstance(layer, Bidirectional)
    found = []
    for engine, recompute in (("off", None), ("on", None), ("on", 7), ("on", "sqrt")):
        monkeypatch.setenv("UNSPOOL_ENGINE", engine)
        assert (
            layer.ahead.engine
            == layer.back.engine
            == ("kernel: float64 on the CPU" if engine == "on" else "eager: UNSPOOL_ENGINE=off")
        )
        layer.ahead.recompute = layer.back.recompute = recompute
        torch.manual_seed(1)
        results = layer(x, lengths=(60, 0, 55))
        found.append([*leaves(results), *slopes(results, [x, list(layer.parameters())])])
    for values in found[1:]:
        torch.testing.assert_close(values, found[0], rtol=1e-11, atol=1e-11)


@each_engine
def test_rates_of_one_drop_everything() -> None:
    torch.manual_seed(0)
    x, start = torch.randn(3, 2, 3, dtype=F64), torch.randn(2, 4, dtype=F64)
    plain = Recurrent("elman", 3, 4, dtype=F64)
    alone = functional.linear(x, plain.get_parameter("W_h"), plain.get_parameter("b_h")).tanh()
    for rates in (Rates(recurrent_dropout=1.0), Rates(weight_dropout=1)):
        plain.regularize(rates)
        close(plain(x, start)[0], alone)
    plain.regularize(Rates(zoneout=1))
    same(plain(x, start)[0], start.expand(3, 2, 4))
    same(plain.eval()(x, start)[0], start.expand(3, 2, 4))
