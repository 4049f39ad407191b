"""Gates from what layers read and give, against the trace; the penalty against sums by hand, and what it does."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from unspool.cells import LSTM
from unspool.errors import ArgumentError, ShapeError
from unspool.learning.gates import double_closed, gate_penalty, neighboring_gates
from unspool.models.backbone_model import BackboneModel
from unspool.models.language_model import LanguageModel
from unspool.nn import Stack
from unspool.settings.model import Backbone, EncoderSettings, LanguageModelSettings

STEPS, ROWS, WIDTH, HIDDEN, LENGTHS = 6, 3, 4, 5, (6, 2, 4)
Pairs = list[tuple[Tensor, Tensor]]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")  # kernels are compared with the eager loop elsewhere


def make(layers: int = 3, cell: Any = "lstm", **options: Any) -> Stack:
    torch.manual_seed(2)
    return Stack(cell, WIDTH, HIDDEN, layers, dtype=torch.float64, **options)


def sequence() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(STEPS, ROWS, WIDTH, dtype=torch.float64, generator=generator)


def traced(values: list[Any]) -> Pairs:
    """The same pairs from what the eager loop wrote down."""
    both = [level if isinstance(level, tuple) else (level,) for level in values]
    pairs = pairwise(both)
    return [(low["o"], up["i"]) for below, above in pairs for low, up in zip(below, above, strict=True)]


def by_hand(pairs: Pairs, lengths: tuple[int, ...] | None) -> Tensor:
    """The mean over the live steps of Σ max(0, 1 − o − i), a step at a time."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row in range(ROWS):
        for step in range(STEPS if lengths is None else lengths[row]):
            total = total + sum((1 - o[step, row] - i[step, row]).clamp(min=0).sum() for o, i in pairs)
            count += 1
    return total / count


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"learn_initial": True, "bidirectional": True}])
@pytest.mark.usefixtures("engine")
def test_values_and_gradients_are_those_of_the_trace(options: dict[str, Any], lengths: tuple[int, ...] | None) -> None:
    stack, x = make(**options), sequence().requires_grad_()
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            if "initial" in name:
                parameter.uniform_(-1, 1)
    sequences, _ = stack(x, lengths=lengths, every_layer=True)
    pairs = neighboring_gates(stack, x, sequences, lengths=lengths)
    _, _, values = stack(x, lengths=lengths, trace=True)
    expected = traced(values)
    assert len(pairs) == len(expected) == (4 if "bidirectional" in options else 2)
    for row, end in enumerate(lengths or (STEPS,) * ROWS):
        for (o, i), (traced_o, traced_i) in zip(pairs, expected, strict=True):
            torch.testing.assert_close(o[:end, row], traced_o[:end, row], rtol=0, atol=1e-12)
            torch.testing.assert_close(i[:end, row], traced_i[:end, row], rtol=0, atol=1e-12)
    found = torch.stack([gate_penalty(*pair, lengths=lengths) for pair in pairs]).sum()
    right = by_hand(expected, lengths)
    torch.testing.assert_close(found, right, rtol=0, atol=1e-12)
    places = [x, *stack.parameters()]
    gradients = [torch.autograd.grad(loss, places, materialize_grads=True) for loss in (found, right)]
    assert any(part.abs().max() > 1e-3 for part in gradients[1])
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


def test_a_given_state_is_what_the_first_step_reads() -> None:
    stack, x = make(), sequence()
    _, state = stack(x)
    sequences, _ = stack(x, state, every_layer=True)
    _, _, values = stack(x, state, trace=True)
    for found, expected in zip(neighboring_gates(stack, x, sequences, state), traced(values), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_projected_layers_have_gates_of_the_memory_s_width() -> None:
    stack, x = make(2, LSTM(projection=2)), sequence()
    sequences, _ = stack(x, every_layer=True)
    _, _, values = stack(x, trace=True)
    torch.testing.assert_close(neighboring_gates(stack, x, sequences), traced(values), rtol=0, atol=1e-12)


def test_the_penalty_does_not_depend_on_rows_or_on_how_long_the_sequence_is() -> None:
    o, i = torch.rand(2, STEPS, ROWS, HIDDEN, dtype=torch.float64)
    once = gate_penalty(o, i)
    for axis in (0, 1):
        torch.testing.assert_close(gate_penalty(torch.cat([o, o], axis), torch.cat([i, i], axis)), once)


def test_closed_forms() -> None:
    shut, open_ = torch.zeros(2, 3, 4), torch.ones(2, 3, 4)
    assert (gate_penalty(shut, shut).item(), double_closed(shut, shut)) == (4.0, 1.0)  # one a unit
    assert (gate_penalty(open_, shut).item(), double_closed(open_, shut)) == (0.0, 0.0)
    assert gate_penalty(shut + 0.25, shut + 0.25) == 2.0
    assert gate_penalty(shut, shut, lengths=[0, 0, 0]) == 0.0
    assert math.isnan(double_closed(shut, shut, lengths=[0, 0, 0]))
    half = torch.cat([shut, shut + 0.6], -1)
    assert double_closed(half, half) == 0.5
    assert double_closed(half[:, :, 2:6], half[:, :, :4], lengths=[2, 0, 1]) == 0.5


def closed_after(penalty: float) -> float:
    """Two layers learn to be still, which closed gates are good for; the share of doubly closed ones after it."""
    stack = make(2)
    optimizer = torch.optim.Adam(stack.parameters(), lr=0.03)
    x = sequence()
    for _ in range(40):
        sequences, _ = stack(x, every_layer=True)
        (pair,) = neighboring_gates(stack, x, sequences)
        loss = sum(one.square().mean() for one in sequences) + penalty * gate_penalty(*pair)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    sequences, _ = stack(x, every_layer=True)
    return double_closed(*neighboring_gates(stack, x, sequences)[0])


def test_the_penalty_opens_gates() -> None:
    free, held = closed_after(0.0), closed_after(1.0)
    assert free > 0.5
    assert held < 0.1


def test_an_open_output_gate_is_one_always_so_that_nothing_is_closed_twice() -> None:
    """lstm-open is an LSTM whose output gate is σ(∞): what that LSTM's gates cost is 0, whatever i is."""
    held, plain, x = make(2, "lstm-open"), make(2), sequence()
    with torch.no_grad():
        for name, parameter in held.named_parameters():
            plain.get_parameter(name).copy_(parameter)
        for layer in plain.layers:
            layer.W_o.zero_()  # type: ignore[operator]
            layer.U_o.zero_()  # type: ignore[operator]
            layer.b_o.fill_(50.0)  # type: ignore[operator]
    sequences, _ = plain(x, every_layer=True)
    torch.testing.assert_close(held(x)[0], sequences[-1], rtol=0, atol=1e-12)
    ((o, i),) = neighboring_gates(plain, x, [one.detach() for one in sequences])
    assert torch.equal(o, torch.ones_like(o))
    assert (gate_penalty(o, i).item(), double_closed(o, i)) == (0.0, 0.0)
    assert double_closed(torch.zeros_like(o), i) > 0  # the upper gate alone would be shut at times


# ── in models ──


@pytest.mark.parametrize("truth", [1.0, 0.0])
def test_a_language_model_adds_it_in_training_and_tells_the_loss_without_it(truth: float) -> None:
    torch.manual_seed(0)
    settings = {"hidden": HIDDEN, "layers": 3, "gate_penalty": 0.7}
    model = LanguageModel(9, LanguageModelSettings.model_validate(settings)).double()
    ids, targets = torch.randint(9, (2, STEPS, ROWS))
    state = model.initial_state(ROWS)
    torch.manual_seed(4)
    outcome = model((ids, targets), state, truth)
    torch.manual_seed(4)
    plain = model.eval()((ids, targets), state, truth)
    assert plain.extra is None
    torch.testing.assert_close(outcome.loss, plain.loss, rtol=0, atol=1e-12)
    if truth == 1:
        assert isinstance(model.backbone, Stack)
        _, _, values = model.backbone(model.embedding(ids), state, trace=True)
        torch.testing.assert_close(outcome.extra, 0.7 * by_hand(traced(values), None), rtol=0, atol=1e-12)
    else:  # what was read is the model's own words: the steps' penalties are of them
        assert outcome.extra is not None
        assert 0 < outcome.extra.item() < 0.7 * 2 * HIDDEN


def test_an_encoder_adds_it_over_live_steps_in_both_directions() -> None:
    torch.manual_seed(0)
    settings = EncoderSettings.model_validate({"hidden": HIDDEN, "layers": 2, "gate_penalty": 0.7})
    model = BackboneModel()
    model.make_layers(settings, WIDTH, bidirectional=True)
    model.double()
    x = sequence()
    found = model.read(x, lengths=torch.tensor(LENGTHS))
    _, _, values = model.backbone(x, lengths=LENGTHS, trace=True)
    torch.testing.assert_close(found.extra, 0.7 * by_hand(traced(values), LENGTHS), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layers": 1}, "is between neighboring layers, and there is one layer. Leave it out, or give `layers=2`"),
        ({"cell": "gru"}, "is for the gates of lstm, and the cell is gru. Leave it out, or use `cell='lstm'`"),
        ({"cell": "lstm-open"}, "is 0 for lstm-open, whose output gate is always open"),
        ({"engine": "torch"}, "does not support `gate_penalty`. Leave it out, or use `engine='kernel'`"),
        (
            {"zoneout": 0.1, "residual": True},
            "cannot be computed with `residual`, `zoneout`. Leave it out, or leave those out",
        ),
        ({"gate_penalty": -1.0}, "greater than or equal to 0"),
    ],
)
def test_where_there_is_nothing_to_penalise_it_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Backbone.model_validate({"layers": 2, "gate_penalty": 0.5, **settings})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cell": "gru"}, "has no output and input gates. Give layers of LSTM"),
        ({"zoneout": 0.1}, "gates that depend on chance"),
        ({"residual": [False, True, True]}, "more than the states of its layers"),
        ({"skip": True}, "more than the states of its layers"),
    ],
)
def test_stacks_whose_gates_cannot_be_known_are_refused(options: dict[str, Any], said: str) -> None:
    stack, x = make(**options), sequence()
    sequences, _ = stack(x, every_layer=True)
    with pytest.raises(ArgumentError, match=said):
        neighboring_gates(stack, x, sequences)


def test_gates_of_unlike_layers_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"`o` \(=\(2, 3, 4\)\) and i, \(2, 3, 5\), do not fit"):
        gate_penalty(torch.zeros(2, 3, 4), torch.zeros(2, 3, 5))
