"""DecoderTransformer against torch.nn's encoder layers, against each row alone, and against its own single steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.transformer import by_hand_step, our_parameters, their_parameters, torch_transformer
from torch import Tensor, nn
from torch.nn import functional

from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from unspool.nn.attention import DecoderTransformer
from unspool.nn.leaves import map_leaves

WIDTH, HEADS = 6, 2


def make(layers: int = 2, seed: int = 0, **options: Any) -> DecoderTransformer:
    torch.manual_seed(seed)
    return DecoderTransformer(WIDTH, HEADS, layers, dtype=torch.float64, **options)


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gradients(value: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Of the value weighted at random."""
    return torch.autograd.grad((random(*value.shape, seed=9) * value).sum(), inputs)


def close(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def steps(layer: DecoderTransformer, x: Tensor, sizes: list[int]) -> tuple[Tensor, Any]:
    """The layer over consecutive pieces of x, each from the state of the last."""
    state, outputs = None, []
    for piece in x.split(sizes):
        output, state = layer(piece, state)
        outputs.append(output)
    return torch.cat(outputs), state


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("lengths", [None, [5, 2, 4]])
def test_equals_torch_with_a_causal_mask(layers: int, lengths: list[int] | None) -> None:
    layer = make(layers, positions=False)
    reference, x = torch_transformer(layer), random(5, 3, WIDTH).requires_grad_()
    ahead = torch.ones(5, 5).triu(1).bool()
    beyond = torch.arange(5) >= torch.tensor(lengths or [5, 5, 5]).unsqueeze(1)
    expected = reference(x, mask=ahead, src_key_padding_mask=beyond).masked_fill(beyond.T.unsqueeze(-1), 0.0)
    output, _ = layer(x, lengths=lengths)
    close(output, expected, 1e-10)
    close(gradients(output, [x, *our_parameters(layer)]), gradients(expected, [x, *their_parameters(reference)]), 1e-10)
    assert len(list(layer.parameters())) == len(our_parameters(layer))


def test_trace_is_the_attention_and_the_stream_of_torch() -> None:
    layer = make(2, positions=False)
    reference, x = torch_transformer(layer), random(5, 3, WIDTH)
    ahead = torch.ones(5, 5).triu(1).bool()
    output, _, trace = layer(x, trace=True)
    h = x
    for theirs, ours in zip(reference.layers, trace, strict=True):
        assert isinstance(theirs, nn.TransformerEncoderLayer)
        seen = theirs.norm1(h)
        _, attention = theirs.self_attn(seen, seen, seen, attn_mask=ahead, average_attn_weights=False)
        h = theirs(h, src_mask=ahead)
        close(ours["attention"], attention.permute(2, 0, 1, 3))
        close(ours["h"], h)
    close(output, layer.norm(h))
    lengths = [5, 0, 3]
    for ragged, full in zip(layer(x, lengths=lengths, trace=True)[2], trace, strict=True):
        for row, end in enumerate(lengths):
            for name in ("attention", "h"):
                close(ragged[name][:end, row], full[name][:end, row])
                assert not ragged[name][end:, row].any()


@pytest.mark.parametrize("width", [6, 7])
def test_positions_are_sinusoids_added_to_x(width: int) -> None:
    torch.manual_seed(0)
    layer = DecoderTransformer(width, 1, dtype=torch.float64)
    x = random(9, 1, width)
    code = torch.zeros(9, 1, width, dtype=torch.float64)
    for t in range(9):
        for unit in range(width):
            angle = t / 10_000 ** ((unit - unit % 2) / width)
            code[t, 0, unit] = math.cos(angle) if unit % 2 else math.sin(angle)
    expected, _ = layer(x)
    layer.positions = False
    close(layer(x + code)[0], expected)
    assert not torch.allclose(layer(x)[0], expected)


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6), positions=st.booleans(), layers=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_any_split_equals_the_whole(sizes: list[int], positions: bool, layers: int) -> None:
    layer, x = make(layers, positions=positions), random(sum(sizes), 2, WIDTH).requires_grad_()
    whole, whole_state = layer(x)
    parts, state = steps(layer, x, sizes)
    close(parts, whole)
    close(state, whole_state)
    close(gradients(parts, [x, *layer.parameters()]), gradients(whole, [x, *layer.parameters()]))


def test_step_by_step_equals_the_parallel_pass() -> None:
    layer, x = make(3), random(8, 2, WIDTH).requires_grad_()
    whole, _ = layer(x)
    parts, _ = steps(layer, x, [1] * 8)
    close(parts, whole)
    close(gradients(parts, [x, *layer.parameters()]), gradients(whole, [x, *layer.parameters()]))


@given(
    counts=st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=4),
    padding=st.integers(0, 2),
    detach=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_ragged_batch_goes_on_as_each_row_alone(
    counts: list[tuple[int, int, int]], padding: int, detach: bool
) -> None:
    """Each call gives each row some steps of its own, then NaN."""
    layer = make(detach_cache=detach)
    rows = [
        random(sum(steps_of_row), WIDTH, seed=row).requires_grad_()
        for row, steps_of_row in enumerate(zip(*counts, strict=True))
    ]
    state, done = None, [0, 0, 0]
    pieces: list[list[Tensor]] = [[], [], []]
    for lengths in counts:
        x = torch.full((max(lengths) + padding, 3, WIDTH), math.nan, dtype=torch.float64)
        for row, count in enumerate(lengths):
            x[:count, row] = rows[row][done[row] : done[row] + count]
        output, state = layer(x, state, lengths=lengths)
        for row, count in enumerate(lengths):
            pieces[row].append(output[:count, row])
            assert not output[count:, row].any()
            done[row] += count
    ragged = torch.cat([torch.cat(parts) for parts in pieces])
    alone = torch.cat([layer(row)[0] for row in rows])
    close(ragged, alone)
    inputs = [*rows, *layer.parameters()]
    close(gradients(ragged, inputs), gradients(alone, inputs))


def test_nothing_in_the_padding_matters_and_zero_lengths_are_allowed() -> None:
    layer, x = make(), random(4, 3, WIDTH)
    filled = x.clone()
    filled[2:, 0], filled[:, 1] = math.nan, math.inf
    lengths = torch.tensor([2, 0, 4])
    values = []
    for padded in (x, filled):
        padded.requires_grad_()
        output, state = layer(padded, lengths=lengths)
        values.append((output, *gradients(output, [padded, *layer.parameters()])))
        assert not values[-1][1][2:, 0].any()
        assert not values[-1][1][:, 1].any()
    close(values[0], values[1], 0.0)
    assert state[0].tolist() == [[True, True, False, False], [False] * 4, [True] * 4]
    output, state = layer(x, lengths=[0, 0, 0])
    assert not output.any()
    close(layer(x, state)[0], layer(x)[0])


def test_the_future_is_out_of_sight_and_every_past_input_one_step_away() -> None:
    layer, x = make(layers=1), random(7, 1, WIDTH).requires_grad_()
    output, _ = layer(x)
    for t in range(7):
        (gradient,) = torch.autograd.grad((random(WIDTH) * output[t, 0]).sum(), x, retain_graph=True)
        assert all(gradient[s].abs().min() > 0 for s in range(t + 1))
        assert not gradient[t + 1 :].any()


@pytest.mark.parametrize("layers", [1, 2])
def test_a_detached_cache_is_truncation_to_a_window_of_one(layers: int) -> None:
    layer = make(layers, detach_cache=True, positions=False)
    x = random(6, WIDTH)
    inputs = [x.requires_grad_(), *layer.parameters()]
    values, totals = [], [torch.zeros_like(value) for value in inputs]
    for t in range(6):  # the past anew, without gradient, then one step with it
        past: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(layers)]
        with torch.no_grad():
            for s in range(t):
                _, new = by_hand_step(layer, x[s], past)
                past = [[*before, pair] for before, pair in zip(past, new, strict=True)]
        value, _ = by_hand_step(layer, x[t], past)
        values.append(value.detach())
        loss = (random(6, WIDTH, seed=9)[t] * value).sum()
        for total, part in zip(totals, torch.autograd.grad(loss, inputs), strict=True):
            total += part
    parallel, state = layer(x)
    stepped, _ = steps(layer, x, [1] * 6)
    halves, _ = steps(layer, x, [2, 4])
    expected = tuple(totals)
    for output in (parallel, stepped, halves):
        close(output, torch.stack(values))
        close(gradients(output, inputs), expected)
    assert not any(part.requires_grad for pair in state[1] for part in pair)

    layer_with_gradient = make(layers, positions=False)
    attached, _ = layer_with_gradient(x)
    close(attached, parallel, 0.0)
    whole = gradients(attached, [x, *layer_with_gradient.parameters()])
    assert (whole[0] - expected[0]).abs().max() > 1e-3
    close(whole[0][-1], expected[0][-1])  # the last input has no later step to reach


def test_a_given_state_carries_no_gradient_when_detached() -> None:
    before, after = random(3, 2, WIDTH).requires_grad_(), random(2, 2, WIDTH)
    for detach in (False, True):
        _, state = make()(before)
        layer = make(detach_cache=detach)
        (gradient,) = torch.autograd.grad(
            layer(after, state)[0].square().sum(), before, allow_unused=True, materialize_grads=True
        )
        assert bool(gradient.any()) is not detach


def test_layouts_agree() -> None:
    layer, x = make(), random(5, 3, WIDTH)
    output, state, trace = layer(x, trace=True)
    turned = make(batch_first=True)
    turned_output, turned_state, turned_trace = turned(x.transpose(0, 1), trace=True)
    close(turned_output.transpose(0, 1), output, 0.0)
    close(turned_state, state, 0.0)
    close([{name: value.transpose(0, 1) for name, value in part.items()} for part in turned_trace], trace, 0.0)
    first, first_state = layer(x[:2, 1])
    second, second_state, alone_trace = layer(x[2:, 1], first_state, trace=True)
    close(torch.cat((first, second)), output[:, 1])
    close(second_state, map_leaves(lambda part: part[1], state))
    close(alone_trace, [{name: value[2:, 1] for name, value in part.items()} for part in trace])


def test_rows_of_the_state_can_be_taken_and_repeated() -> None:
    layer, x, later = make(), random(3, 3, WIDTH), random(2, 3, WIDTH, seed=2)
    _, state = layer(x, lengths=[3, 1, 2])
    rows = torch.tensor([2, 2, 0])
    expected, _ = layer(later, layer(x[:, rows], lengths=[2, 2, 3])[1])
    close(layer(later, map_leaves(lambda part: part[rows], state))[0], expected)


def test_nothing_in_gives_nothing_out() -> None:
    layer, x = make(), random(3, 2, WIDTH)
    _, state = layer(x)
    output, same = layer(x[:0], state)
    assert output.shape == (0, 2, WIDTH)
    close(same, state, 0.0)
    output, (real, caches) = layer(x[:, :0])
    assert output.shape == (3, 0, WIDTH)
    assert real.shape == (0, 3)
    assert caches[1][0].shape == (0, HEADS, 3, WIDTH // HEADS)


@pytest.mark.parametrize("detach", [False, True])
def test_first_and_second_derivatives(detach: bool) -> None:
    torch.manual_seed(0)
    layer = DecoderTransformer(2, 1, 2, feed_forward=2, detach_cache=detach, dtype=torch.float64)
    before, x = random(2, 2, 2), random(3, 2, 2, seed=2).requires_grad_()
    _, state = layer(before, lengths=[1, 2])
    state = map_leaves(torch.Tensor.detach, state)
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def call(x: Tensor, *values: Tensor) -> Tensor:
        named = dict(zip(names, values, strict=True))
        output: Tensor = torch.func.functional_call(layer, named, (x, state), {"lengths": [3, 2]})[0]
        return output

    if detach:  # differs from the derivative of the values on purpose, save for the last step of all
        assert torch.autograd.gradcheck(lambda last: call(torch.cat((x[:2].detach(), last)), *parameters)[2], x[2:])
    else:
        assert torch.autograd.gradcheck(call, (x, *parameters))
        assert torch.autograd.gradgradcheck(call, (x, *parameters), fast_mode=True)


def test_dropout_acts_in_training_only_and_on_what_is_added() -> None:
    plain, dropping = make(), make(dropout=0.5)
    x = random(4, 2, WIDTH)
    assert not torch.allclose(dropping(x)[0], dropping(x)[0])
    close(dropping.eval()(x)[0], plain(x)[0], 0.0)
    everything = make(dropout=1.0, positions=False)
    close(everything(x)[0], functional.layer_norm(x, (WIDTH,)))


def test_options_show() -> None:
    assert repr(make(detach_cache=True, positions=False)).startswith(
        "DecoderTransformer(\n  6, 2, positions=False, detach_cache=True"
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"width": 0}, ArgumentError, "`width` .=0. is not positive"),
        ({"num_heads": 4}, ArgumentError, "`width` .=6. cannot be divided among num_heads .=4.. Give a multiple"),
        ({"num_heads": 1.5}, ArgumentTypeError, "`num_heads` .=1.5. is of type float"),
        ({"num_layers": 0}, ArgumentError, "`num_layers`"),
        ({"feed_forward": math.nan}, ArgumentTypeError, "`feed_forward` .=nan."),
        ({"dropout": 1.1}, ArgumentError, "`dropout` .=1.1. is not a probability"),
        ({"dropout": math.nan}, ArgumentError, "`dropout` .=nan. is not a probability"),
    ],
)
def test_bad_layers(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DecoderTransformer(**({"width": WIDTH, "num_heads": HEADS} | options))


GOOD = random(3, 2, WIDTH)


def changed(change: Callable[[Any, Any], Any]) -> Callable[[DecoderTransformer], object]:
    """A call with a state that is changed first."""
    return lambda layer: layer(GOOD, change(*layer(GOOD)[1]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda layer: layer([1.0]), ArgumentTypeError, "`x` .* is not a torch tensor"),
        (lambda layer: layer(GOOD[..., :5]), ShapeError, "is 5 wide where input_size is 6"),
        (lambda layer: layer(GOOD[0, 0]), ShapeError, "`x` .* has 1 dimension"),
        (
            lambda layer: layer(GOOD.float()),
            DTypeError,
            "`x` has dtype torch.float32 where the layer has torch.float64",
        ),
        (lambda layer: layer(GOOD, lengths=[1]), ShapeError, "are not 2 numbers"),
        (lambda layer: layer(GOOD, lengths=[1, 4]), ArgumentError, "are not all from 0 to 3"),
        (lambda layer: layer(GOOD, GOOD), ShapeError, "`state` must be a pair .*, got Tensor"),
        (changed(lambda real, caches: (real, caches, caches)), ShapeError, "`state` must be a pair .*, got 3 of them"),
        (changed(lambda real, caches: (None, caches)), ArgumentTypeError, r"`state\[0\]` .* is not a tensor"),
        (changed(lambda real, caches: (real.double(), caches)), DTypeError, r"`state\[0\]` .* is not torch.bool"),
        (changed(lambda real, caches: (real[:1], caches)), ShapeError, r"`state\[0\]` .* is not of shape \(2, steps\)"),
        (changed(lambda real, caches: (real.to("meta"), caches)), RuntimeError, r"`state\[0\]` .=device.type='meta'"),
        (changed(lambda real, caches: (real[:, :2], caches)), ShapeError, r"`state\[1\]\[0\]\[0\]` .* \(2, 2, 2, 3\)"),
        (changed(lambda real, caches: (real, caches[:1])), ShapeError, r"`state\[1\]` must be a tuple of 2 states"),
        (
            changed(lambda real, caches: (real, [caches[0], (caches[1][0], None)])),
            ArgumentTypeError,
            r"`state\[1\]\[1\]\[1\]` .* is not a tensor",
        ),
        (
            changed(lambda real, caches: (real, map_leaves(torch.Tensor.float, caches))),
            DTypeError,
            r"`state\[1\]\[0\]\[0\]` has dtype torch.float32",
        ),
        (lambda layer: layer(GOOD[:, 0], layer(GOOD)[1]), ShapeError, r"`state\[0\]`"),
    ],
)
def test_bad_calls(call: Callable[[DecoderTransformer], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(make())
