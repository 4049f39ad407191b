"""Stack: the composition by hand, torch.nn's numbers, gradient paths, dropout, and layers that differ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.gradients import gradcheck, leaves
from tests.nn.small_stacks import F64, SHAPES, each_shape, random_state
from tests.nn.torch_weights import CELL, by_direction, copy_stack
from tests.variants import LENGTHS, Array, as_states, row_of
from torch import nn

from unspool.cells import Elman, Linear
from unspool.engine import run
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError, UnknownNameError
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.recurrent import Recurrent
from unspool.nn.stack import Stack

pytestmark = pytest.mark.usefixtures("engine")

close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)


def numbers(layer: nn.Module) -> dict[str, Array]:
    return {name: value.detach().numpy() for name, value in layer.named_parameters() if not name.startswith("initial_")}


def by_hand(stack: Stack, x: Array, state: Any, lengths: tuple[int, ...]) -> tuple[list[Array], list[Any]]:
    """Every layer's sequence and final state, in NumPy."""
    rising, states = [x], []
    for level, layer in enumerate(stack.layers):
        read = np.concatenate(rising[-2:], -1) if stack.skip else rising[-1]
        if isinstance(layer, Bidirectional):
            parts = [
                run(part.cell, numbers(part), read, as_states(start), lengths=lengths, reverse=part.reverse)
                for part, start in zip((layer.ahead, layer.back), state[level], strict=True)
            ]
        else:
            assert isinstance(layer, Recurrent)
            parts = [run(layer.cell, numbers(layer), read, as_states(state[level]), lengths=lengths)]
        output = np.concatenate([part[0] for part in parts], -1)
        if stack.residual[level]:
            output = output + read * (np.arange(len(x))[:, None] < np.array(lengths))[..., None]
        rising.append(output)
        states.append([part[1] for part in parts])
    return rising[1:], states


@pytest.mark.parametrize("lengths", [(5,) * 5, LENGTHS], ids=["full", "ragged"])
@each_shape
def test_equals_the_composition_by_hand(make: Callable[[], Stack], lengths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    stack = make()
    x, state = torch.randn(5, 5, stack.input_size, dtype=F64), random_state(stack)
    with torch.no_grad():
        output, final, trace = stack(x, state, lengths=lengths, trace=True)
        sequences, _ = stack(x, state, lengths=lengths, every_layer=True)
    expected, expected_states = by_hand(stack, x.numpy(), state, lengths)
    assert len(sequences) == len(expected) == len(trace) == len(stack.layers)
    for mine, other in zip(sequences, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)
    same(output, sequences[-1])
    flat = [part for level in expected_states for half in level for part in half]
    for mine, other in zip(leaves(final), flat, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


def single_layers(stack: Stack) -> list[Recurrent | Bidirectional]:
    """Layers apart from each other, each made by itself with the weights that it has in the stack."""
    made: list[Recurrent | Bidirectional] = []
    for layer in stack.layers:
        assert isinstance(layer, Recurrent | Bidirectional)
        part = layer.ahead if isinstance(layer, Bidirectional) else layer
        sizes = layer.input_size, layer.hidden_size
        made.append(type(layer)(part.cell, *sizes, bias=part.bias, learn_initial=part.learn_initial, dtype=F64))
        made[-1].load_state_dict(layer.state_dict())
    return made


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
@each_shape
def test_gradients_are_those_of_single_layers_in_a_loop(
    make: Callable[[], Stack], lengths: tuple[int, ...] | None
) -> None:
    torch.manual_seed(0)
    stack = make()
    alone = single_layers(stack)
    x = torch.randn(5, 5, stack.input_size, dtype=F64)
    start, weight = random_state(stack), torch.randn(5, 5, stack.output_size, dtype=F64)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    output, _ = stack(ours, start, lengths=lengths)
    rising = [theirs]
    ends = torch.full((5,), 5) if lengths is None else torch.tensor(lengths)
    live = (torch.arange(5).unsqueeze(1) < ends).unsqueeze(-1).double()
    for level, layer in enumerate(alone):
        below = rising[-2] if stack.skip and level else None
        read = rising[-1] if below is None else torch.cat([below, rising[-1]], -1)
        found, _ = layer(read, start[level], lengths=lengths)
        rising.append(found + read * live if stack.residual[level] else found)
    close(output, rising[-1])
    parameters = list(stack.parameters()), [value for layer in alone for value in layer.parameters()]
    slopes = [
        torch.autograd.grad((value * weight).sum(), [start_of, *of], materialize_grads=True)
        for value, start_of, of in zip((output, rising[-1]), (ours, theirs), parameters, strict=True)
    ]
    assert len(slopes[0]) == len(slopes[1])
    close(slopes[0], slopes[1])


@pytest.mark.parametrize("both", [False, True], ids=["one-way", "bidirectional"])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_equals_torch(kind: Callable[..., nn.RNNBase], both: bool) -> None:
    torch.manual_seed(0)
    theirs = kind(3, 4, num_layers=3, bidirectional=both, dropout=0.5, dtype=F64).eval()
    stack = Stack(CELL[type(theirs).__name__], 3, 4, 3, bidirectional=both, dropout=0.5, dtype=F64).eval()
    copy_stack(theirs, stack)
    x, other = (torch.ones(5, 2, 3, dtype=F64).cumsum(0).requires_grad_() for _ in range(2))
    output, state = stack(x)
    expected, their_state = theirs(other)
    close(output, expected)
    ours = [half for level in state for half in level] if both else state
    close(ours, by_direction(their_state))
    close(*(torch.autograd.grad(y.square().sum(), start)[0] for y, start in ((output, x), (expected, other))))


def linear_stack(depth: int, **options: Any) -> Stack:
    """A stack of scalar linear cells without memory whose every weight is 1."""
    stack = Stack(Linear(), 1, 1, depth, dtype=F64, **options)
    with torch.no_grad():
        for name, value in stack.named_parameters():
            value.fill_(0.0 if "U_" in name else 1.0)
    return stack


def test_skips_in_depth_make_fibonacci_many_gradient_paths() -> None:
    fibonacci = [1, 1]
    for depth in range(2, 15):
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
        sequences, _ = linear_stack(depth, skip=True)(torch.ones(1, 1, 1, dtype=F64), every_layer=True)
        (paths,) = torch.autograd.grad(sequences[-1].sum(), sequences[0])
        assert paths.item() == fibonacci[depth - 1]


def test_without_skips_there_is_one_path_and_residuals_double_it_at_every_layer() -> None:
    for depth in range(2, 10):
        for options, expected in (({}, 1), ({"residual": True}, 2 ** (depth - 1))):
            sequences, _ = linear_stack(depth, **options)(torch.ones(1, 1, 1, dtype=F64), every_layer=True)
            (paths,) = torch.autograd.grad(sequences[-1].sum(), sequences[0])
            assert paths.item() == expected


def test_residual_adds_the_input_and_the_identity_to_the_jacobian() -> None:
    torch.manual_seed(0)
    stack, plain = (Stack("gru", 4, 4, residual=residual, dtype=F64) for residual in (True, False))
    plain.load_state_dict(stack.state_dict())
    x = torch.randn(3, 4, dtype=F64)
    close(stack(x)[0], x + plain(x)[0])
    same(stack(x)[1], plain(x)[1])
    jacobian, inner = (torch.autograd.functional.jacobian(lambda x, s=s: s(x)[0], x) for s in (stack, plain))
    close(jacobian.reshape(12, 12), torch.eye(12, dtype=F64) + inner.reshape(12, 12))


@pytest.mark.parametrize("crossed", [True, False])
def test_gradients_cross_between_the_streams_only_along_the_cross_weights(crossed: bool) -> None:
    torch.manual_seed(0)
    stack = Stack("gru", 3, 4, 2, bidirectional=True, dtype=F64)
    low, high = stack.layers
    assert isinstance(low, Bidirectional)
    assert isinstance(high, Bidirectional)
    if not crossed:
        with torch.no_grad():
            for gate in "rzn":
                high.ahead.get_parameter(f"W_{gate}")[:, 4:] = 0  # what ahead reads of back
                high.back.get_parameter(f"W_{gate}")[:, :4] = 0
    sequences, _ = stack(torch.randn(5, 2, 3, dtype=F64), every_layer=True)
    for half, across in ((slice(0, 4), low.back), (slice(4, 8), low.ahead)):
        other = slice(4, 8) if half.start == 0 else slice(0, 4)
        loss = sequences[1][..., half].sum()
        (mixing,) = torch.autograd.grad(loss, sequences[0], retain_graph=True)
        slopes = torch.autograd.grad(loss, list(across.parameters()), retain_graph=True)
        assert bool((mixing[..., other] != 0).all()) == crossed
        assert bool((mixing[..., other] == 0).all()) == (not crossed)
        assert all(bool(slope.abs().sum() > 0) == crossed for slope in slopes)
        assert (mixing[..., half] != 0).all()


@each_shape
def test_gradcheck(make: Callable[[], Stack]) -> None:
    torch.manual_seed(0)
    stack = make()
    x = torch.randn(3, 3, stack.input_size, dtype=F64)
    assert gradcheck(stack, x, random_state(stack, 3), lengths=(2, 0, 3), every_layer=True)
    assert gradcheck(stack, x)


@each_shape
def test_padding_never_changes_a_result(make: Callable[[], Stack]) -> None:
    torch.manual_seed(0)
    stack = make()
    x, start = torch.randn(5, 5, stack.input_size, dtype=F64), random_state(stack)
    padding = (torch.arange(5).unsqueeze(1) >= torch.tensor(LENGTHS)).unsqueeze(-1)
    results = []
    for filling in (0.0, float("nan"), float("inf"), 1e30):
        filled = x.masked_fill(padding, filling).requires_grad_()
        sequences, final = stack(filled, start, lengths=LENGTHS, every_layer=True)
        loss = sum(value.square().sum() for value in (*sequences, *leaves(final)))
        slopes = torch.autograd.grad(loss, [filled, *stack.parameters()], materialize_grads=True)
        assert (slopes[0].masked_select(padding) == 0).all()
        results.append((*sequences, *leaves(final), *slopes))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
    for row, length in enumerate(LENGTHS):
        alone, end = stack(x[:length, row], row_of(start, row), every_layer=True)
        close([sequence[:length, row] for sequence in sequences], alone)
        assert all((sequence[length:, row] == 0).all() for sequence in sequences)
        close(row_of(final, row), end)


@pytest.mark.parametrize(
    "name", [name for name in SHAPES if not name.endswith("bidirectional") and name != "all at once"]
)
def test_a_state_carried_across_two_halves(name: str) -> None:
    torch.manual_seed(0)
    stack = SHAPES[name]()
    x, state = torch.randn(5, 2, stack.input_size, dtype=F64), random_state(stack, 2)
    whole, final = stack(x, state)
    first, middle = stack(x[:2], state)
    second, last = stack(x[2:], middle)
    close(whole, torch.cat([first, second]))
    close(final, last)


def test_states_are_nested_as_the_layers_are() -> None:
    stack = Stack(["gru", "lstm", "elman"], 3, [4, 5, 6], bidirectional=[True, False, False])
    assert stack.state_shapes(2) == [((2, 4), (2, 4)), ((2, 5), (2, 5)), (2, 6)]
    assert stack.output_size == 6
    assert [layer.input_size for layer in stack.layers] == [3, 8, 5]
    assert [layer.input_size for layer in Stack("gru", 3, [4, 5, 6], skip=True).layers] == [3, 7, 9]


def dropping(dropout: float | list[float]) -> Stack:
    """Three layers that hand on what they read, without memory, and so show what dropout does in between."""
    stack = Stack(Elman("identity"), 50, 50, 3, bias=False, dropout=dropout, dtype=F64)
    with torch.no_grad():
        for name, value in stack.named_parameters():
            value.copy_(torch.zeros(50, 50) if "U_" in name else torch.eye(50))
    return stack


@pytest.mark.parametrize(
    ("dropout", "before"),
    [(0.25, [1, 2]), ([0.25, 0.0, 0.0], [1, 2]), ([0.0, 0.25, 0.0], [2]), ([0.0, 0.0, 0.25], []), (0.0, [])],
)
def test_dropout_scales_what_it_keeps_and_acts_on_the_way_up(dropout: float | list[float], before: list[int]) -> None:
    torch.manual_seed(0)
    stack, x = dropping(dropout), torch.ones(40, 20, 50, dtype=F64)
    sequences, _ = stack(x, every_layer=True)
    for level, sequence in enumerate(sequences):
        assert (sequence == 1).all() == (level not in before)
        assert sequence.mean().item() == pytest.approx(1, abs=0.02)
    if before:
        kept = sequences[before[0]]
        assert set(kept.unique().tolist()) == {0.0, 1 / 0.75}
        assert (kept == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)
        assert len({tuple(row) for row in (kept[:, 0] == 0).tolist()}) > 1  # another draw at every step
    top, _ = stack(x)
    assert bool((top == 1).all()) == (dropout == 0.0)
    stack.eval()
    same(stack(x)[0], x)


def test_dropout_of_one_number_leaves_out_the_last_layer() -> None:
    x = torch.ones(5, 2, 50, dtype=F64)
    only = Stack(Elman("identity"), 50, 50, 1, dropout=0.9, dtype=F64)
    same(only(x)[0], only.eval()(x)[0])
    assert (dropping(1.0)(x)[0] == 0).all()
    assert (dropping([0.0, 0.0, 1.0])(x)[0] == 0).all()


BAD: dict[str, tuple[Callable[[], Any], type[ArgumentError], str]] = {
    "disagreeing lists": (
        lambda: Stack(["gru", "lstm"], 3, [4, 5, 6]),
        ArgumentError,
        r"number of layers is said in different ways \(cell: 2, hidden_size: 3\). Give one entry per layer",
    ),
    "list and number": (lambda: Stack("gru", 3, [4, 5], 3), ArgumentError, r"\(hidden_size: 2, num_layers: 3\)"),
    "dropout list": (lambda: Stack("gru", 3, 4, 3, dropout=[0.1]), ArgumentError, r"\(dropout: 1, num_layers: 3\)"),
    "bidirectional list": (lambda: Stack("gru", 3, 4, 3, bidirectional=(True,)), ArgumentError, "bidirectional: 1"),
    "empty list": (lambda: Stack("gru", 3, []), ArgumentError, r"`hidden_size` \(=\[\]\) has no entry"),
    "no layers": (lambda: Stack("gru", 3, 4, 0), ArgumentError, r"`num_layers` \(=0\) is not positive"),
    "half a layer": (lambda: Stack("gru", 3, 4, 1.5), ArgumentTypeError, "`num_layers`"),  # type: ignore[arg-type]
    "input size": (lambda: Stack("gru", 0, 4, 2), ArgumentError, r"`input_size` \(=0\)"),
    "hidden size": (lambda: Stack("gru", 3, [4, -1]), ArgumentError, r"`hidden_size` \(=-1\)"),
    "cell": (lambda: Stack(["gru", "lsmt"], 3, 4), UnknownNameError, "Did you mean 'lstm'"),
    "residual": (
        lambda: Stack("gru", 3, 4, 2, residual=True),
        ShapeError,
        r"`residual` \(=True\) adds layer 1's input, 3 wide, to its state, 4 wide. .*residual=\[False, True\]",
    ),
    "residual, bidirectional": (
        lambda: Stack("gru", 4, 4, 2, residual=True, bidirectional=True),
        ShapeError,
        "layer 1's input, 4 wide, to its state, 8 wide",
    ),
    "residual, skip": (
        lambda: Stack("gru", 4, 4, 2, residual=True, skip=True),
        ShapeError,
        "layer 2's input, 8 wide, to its state, 4 wide",
    ),
    "dropout above 1": (lambda: Stack("gru", 3, 4, 2, dropout=1.5), ArgumentError, r"`dropout` \(=1.5\) is not a prob"),
    "dropout below 0": (lambda: Stack("gru", 3, 4, 2, dropout=[0.1, -0.1]), ArgumentError, r"`dropout` \(=-0.1\)"),
    "dropout nan": (lambda: Stack("gru", 3, 4, 2, dropout=float("nan")), ArgumentError, r"`dropout` \(=nan\)"),
    "dropout bool": (lambda: Stack("gru", 3, 4, 2, dropout=True), ArgumentError, r"`dropout` \(=True\)"),
    "dropout text": (lambda: Stack("gru", 3, 4, 2, dropout="0.5"), ArgumentError, "`dropout`"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "kind", "message"), BAD.values(), ids=BAD)
def test_bad_arguments(call: Callable[[], Any], kind: type[ArgumentError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
