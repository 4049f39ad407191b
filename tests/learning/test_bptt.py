"""Truncated back-propagation against the exact gradient, path by path."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError
from unspool.learning.bptt import TruncatedBPTT, detach
from unspool.nn import DecoderTransformer, Recurrent, Stack, Unfolded
from unspool.nn.leaves import map_leaves

pytestmark = pytest.mark.usefixtures("engine")

STEPS, ROWS, WIDTH = 9, 2, 3
Gradients = dict[str, Tensor]


class Named(NamedTuple):
    h: Tensor
    more: dict[str, Any]


class Own(torch.nn.Module):
    """A user's module: a state of several kinds, a read-out, and an initial state that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.GRU(WIDTH, WIDTH)
        self.second = torch.nn.LSTM(WIDTH, WIDTH)
        self.start = torch.nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x: Tensor, state: Named | None) -> tuple[Tensor, Named]:
        h = self.start.expand(-1, x.shape[1], -1).contiguous() if state is None else state.h
        h, last = self.first(x, h)
        output, pair = self.second(h, None if state is None else state.more["pair"])
        return output.sin(), Named(last, {"pair": pair, "nothing": [None]})


MODULES: dict[str, Callable[[], torch.nn.Module]] = {
    "torch LSTM": lambda: torch.nn.LSTM(WIDTH, WIDTH, num_layers=2),
    "torch GRU": lambda: torch.nn.GRU(WIDTH, WIDTH),
    "stack": lambda: Stack(["lstm", "gru"], WIDTH, [4, WIDTH], learn_initial=True),
    "recurrent": lambda: Recurrent("elman", WIDTH, WIDTH),
    "own": Own,
}


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> torch.nn.Module:
    torch.manual_seed(3)
    return MODULES[request.param]().double()


def sequence(steps: int = STEPS) -> Tensor:
    return torch.randn(steps, ROWS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def loss(output: Tensor, span: slice) -> Tensor:
    """A sum over steps in which each step and unit counts differently."""
    weights = torch.arange(1, STEPS + 1, dtype=torch.float64)[span]
    return (output.exp() * weights.view(-1, 1, 1) * torch.linspace(-1, 2, output.shape[-1])).sum()


def truncated(module: torch.nn.Module, x: Tensor, window: int | None, stride: int | None) -> tuple[Tensor, Gradients]:
    """Outputs, and gradients that come together span by span."""
    module.zero_grad()
    bptt = TruncatedBPTT(module, window, stride)
    outputs = []
    for output, span in bptt.over(x):
        loss(output, span).backward()
        outputs.append(output.detach())
    return torch.cat(outputs), {name: part.grad for name, part in module.named_parameters() if part.grad is not None}


def shares(module: torch.nn.Module, x: Tensor) -> list[list[Gradients]]:
    """dL_t/dW_j, as [t][j]: the gradient of the loss at t by way of the weights' use at step j, of a copy each."""
    copies = [{name: part.detach().clone().requires_grad_() for name, part in module.named_parameters()} for _ in x]
    state: Any = None
    found: list[list[Gradients]] = []
    for t in range(len(x)):
        output, state = functional_call(module, copies[t], (x[t : t + 1], state))
        flat = [part for copy in copies[: t + 1] for part in copy.values()]
        step = loss(output, slice(t, t + 1))
        gradients = iter(torch.autograd.grad(step, flat, retain_graph=True, materialize_grads=True))
        found.append([{name: next(gradients) for name in copies[j]} for j in range(t + 1)])
    return found


def total(paths: list[list[Gradients]], pairs: list[tuple[int, int]]) -> Gradients:
    """The sum of dL_t/dW_j over some pairs (t, j)."""
    zeros = {name: torch.zeros_like(part) for name, part in paths[0][0].items()}
    return {name: sum((paths[t][j][name] for t, j in pairs), zero) for name, zero in zeros.items()}


def assert_same(actual: Gradients, expected: Gradients) -> None:
    assert actual.keys() == expected.keys()
    for name, part in expected.items():
        torch.testing.assert_close(actual[name], part, rtol=1e-12, atol=1e-12)


def exact(module: torch.nn.Module, x: Tensor) -> tuple[Tensor, Gradients]:
    module.zero_grad()
    output = module(x, None)[0]
    loss(output, slice(None)).backward()
    return output.detach(), {name: part.grad for name, part in module.named_parameters() if part.grad is not None}


def test_the_bias_is_minus_the_paths_that_are_cut(module: torch.nn.Module) -> None:
    x = sequence()
    paths = shares(module, x)
    output, gradients = exact(module, x)

    def check(window: int, stride: int | None, cut: list[tuple[int, int]]) -> None:
        outputs, found = truncated(module, x, window, stride)
        missing = total(paths, cut)
        assert_same({n: found[n] - gradients[n] for n in gradients}, {n: -part for n, part in missing.items()})
        torch.testing.assert_close(outputs, output, rtol=1e-12, atol=1e-12)
        assert any(part.abs().max() > 1e-6 for part in missing.values()) is (window < STEPS)

    pairs = [(t, j) for t in range(STEPS) for j in range(t + 1)]
    for k in (1, 2, 4, STEPS, 2 * STEPS):  # one step at a time: all paths longer than the window
        check(k, 1, [(t, j) for t, j in pairs if t - j >= k])
    for k in (1, 3, 4, STEPS, 2 * STEPS):  # chunks: all paths across a border
        check(k, None, [(t, j) for t, j in pairs if t // k != j // k])
    for k, s in ((5, 2), (3, 2), (4, 3), (7, 4), (8, 8), (STEPS + 3, 2)):  # all that go back beyond the span's window
        check(k, s, [(t, j) for t, j in pairs if j < t // s * s + s - k])


@pytest.mark.parametrize("cell", ["lstm", "elman"])
def test_unfolded_copies_hold_the_same_paths(cell: str) -> None:
    torch.manual_seed(4)
    layer, x, window = Recurrent(cell, WIDTH, WIDTH, dtype=torch.float64), sequence(), 3
    expected = {name: torch.zeros_like(part) for name, part in layer.named_parameters()}
    for t in range(STEPS):
        unfolded = Unfolded(layer, STEPS, tied=False)
        loss(unfolded(x)[0][t : t + 1], slice(t, t + 1)).backward()
        for step in list(unfolded.steps)[max(0, t - window + 1) : t + 1]:
            for name, part in step.named_parameters():
                expected[name.removeprefix("layer.")] += torch.zeros_like(part) if part.grad is None else part.grad
    assert_same(truncated(layer, x, window, 1)[1], expected)


@pytest.mark.parametrize("window", [1, 2, 5, 20])
def test_a_scalar_linear_network_in_closed_form(window: int) -> None:
    """h_t = w h_{t−1} + x_t: dh_t/dw = Σ_j w^{t−j} h_{j−1} over the steps j within reach."""
    w = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    x = sequence(20)[:, :1, :1]

    def run(x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs = []
        h = x.new_ones(1, 1) if h is None else h
        for x_t in x:
            h = w * h + x_t
            outputs.append(h)
        return torch.stack(outputs), h

    h = [1.0, *(output.item() for output in run(x, None)[0])]  # h[t] is the state before step t
    for output, span in TruncatedBPTT(run, window, 1).over(x):
        (gradient,) = torch.autograd.grad(output.sum(), w)
        t = span.start
        expected = sum(0.8 ** (t - j) * h[j] for j in range(max(0, t - window + 1), t + 1))
        assert gradient.item() == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_none_is_exact_and_reaches_the_given_state(module: torch.nn.Module) -> None:
    x = sequence()
    output, gradients = exact(module, x)
    outputs, whole = truncated(module, x, None, None)
    assert_same(whole, gradients)
    torch.testing.assert_close(outputs, output, rtol=0, atol=0)

    state = detach(module(x, None)[1])
    leaves: list[Tensor] = []
    map_named(lambda part: leaves.append(part.requires_grad_()), state)
    ((output, span),) = TruncatedBPTT(module, None).over(x, state)
    assert span == slice(0, STEPS)
    actual = torch.autograd.grad(loss(output, span), leaves)
    torch.testing.assert_close(actual, torch.autograd.grad(loss(module(x, state)[0], span), leaves), rtol=0, atol=0)
    ((output, _),) = TruncatedBPTT(module, STEPS).over(x, state)
    assert torch.autograd.grad(output.sum(), leaves, allow_unused=True) == (None,) * len(leaves)


def map_named(function: Callable[[Tensor], object], tree: Any) -> None:
    """Call the function on every tensor of a state."""
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple | list) else []
    for part in parts:
        map_named(function, part)
    if isinstance(tree, Tensor):
        function(tree)


@pytest.mark.parametrize(("window", "stride"), [(None, None), (4, None), (4, 3), (3, 1)])
def test_the_next_call_goes_on(module: torch.nn.Module, window: int | None, stride: int | None) -> None:
    x = sequence(23)
    expected, last = module(x, None)
    bptt = TruncatedBPTT(module, window, stride)
    assert bptt.state is None
    outputs = [output for part in x.split([9, 1, 13]) for output, _ in bptt.over(part, bptt.state)]
    torch.testing.assert_close(torch.cat(outputs), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(bptt.state, detach(last), rtol=1e-12, atol=1e-12)
    map_named(lambda part: pytest.fail("a graph is carried") if part.grad_fn else None, bptt.state)
    again = [output for output, _ in bptt.over(x)]
    torch.testing.assert_close(torch.cat(again), expected, rtol=1e-12, atol=1e-12)


def test_the_state_is_that_of_the_span_s_end() -> None:
    module, x = torch.nn.GRU(WIDTH, WIDTH).double(), sequence()
    bptt = TruncatedBPTT(module, 4, 2)
    for output, span in bptt.over(x):
        torch.testing.assert_close(bptt.state[0], output[-1], rtol=0, atol=0)
        if span.stop == 6:
            break
    assert [span for _, span in bptt.over(x[6:], bptt.state)] == [slice(0, 2), slice(2, 3)]
    torch.testing.assert_close(bptt.state, module(x)[1], rtol=1e-12, atol=1e-12)


def test_batch_first_and_nested_outputs() -> None:
    torch.manual_seed(5)
    stack = Stack(["lstm", "elman"], WIDTH, [4, 2], batch_first=True, dtype=torch.float64)

    class Every(torch.nn.Module):
        def forward(self, x: Tensor, state: Any) -> Any:
            levels, state = stack(x, state, every_layer=True)
            return {"levels": levels, "none": None}, state

    x = sequence().transpose(0, 1)
    expected = stack(x, every_layer=True)[0]
    for window, stride in ((4, 4), (4, 3), (5, 2)):
        parts = [output["levels"] for output, _ in TruncatedBPTT(Every(), window, stride, time=1).over(x)]
        whole = [torch.cat(level, 1) for level in zip(*parts, strict=True)]
        torch.testing.assert_close(whole, expected, rtol=1e-12, atol=1e-12)


def test_a_window_of_one_is_a_transformer_with_its_cache_detached() -> None:
    torch.manual_seed(6)
    layer, twin = (DecoderTransformer(4, 2, 2, detach_cache=cut, dtype=torch.float64) for cut in (False, True))
    twin.load_state_dict(layer.state_dict())
    x = torch.randn(STEPS, ROWS, 4, dtype=torch.float64)
    assert_same(truncated(layer, x, 1, 1)[1], exact(twin, x)[1])


@pytest.mark.parametrize(
    ("window", "stride", "calls"),
    [
        (4, 4, [4, 4, 1]),
        (4, 2, [2, 2, 2, 2, 2, 2, 2, 3]),
        (4, 3, [2, 1, 3, 1, 4]),
        (None, None, [9]),
    ],
)
def test_steps_are_run_no_oftener_than_need_be(window: int | None, stride: int | None, calls: list[int]) -> None:
    seen: list[int] = []

    def run(x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        seen.append(len(x))
        return x, x[-1]

    outputs = [output for output, _ in TruncatedBPTT(run, window, stride).over(sequence())]
    assert seen == calls
    torch.testing.assert_close(torch.cat(outputs), sequence(), rtol=0, atol=0)


class Watch(torch.autograd.Function):
    """h itself; the node that it leaves in the graph is in `alive` for as long as the graph is."""

    class Node:
        pass

    alive: weakref.WeakSet[Node] = weakref.WeakSet()

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        ctx.node = Watch.Node()
        Watch.alive.add(ctx.node)
        return h.clone()

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_no_graph_of_an_earlier_window_stays(stride: int) -> None:
    w = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
    counts: list[int] = []

    def run(x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs = []
        h = x[0] if h is None else h
        for x_t in x:
            h = Watch.apply(torch.tanh(w * h + x_t))  # type: ignore[no-untyped-call]
            outputs.append(h)
            counts.append(len(Watch.alive))
        return torch.stack(outputs), h

    Watch.alive.clear()
    gc.disable()  # what goes must go by itself
    try:
        for output, _ in TruncatedBPTT(run, 3, stride).over(sequence(30)):
            del output
    finally:
        gc.enable()
    assert max(counts) == 3
    assert not Watch.alive


def test_detach_keeps_the_nesting() -> None:
    leaf = torch.ones(2, requires_grad=True)
    part = leaf * 2
    state = (part, [part, None], {"a": Named(part, {"b": ()})}, 3)
    cut = detach(state)
    torch.testing.assert_close(cut, (part.detach(), [part.detach(), None], {"a": Named(part.detach(), {"b": ()})}, 3))
    assert isinstance(cut[2]["a"], Named)
    map_named(lambda tensor: pytest.fail("a graph is kept") if tensor.requires_grad else None, cut)
    assert part.requires_grad
    assert detach(None) is None
    assert map_leaves(lambda tensor: tensor.requires_grad, cut[:2]) == (False, [False, None])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), ArgumentError, r"`window` \(=0\) is not positive"),
        ((2.5,), ArgumentTypeError, r"`window` \(=2.5\) is of type float"),
        ((4, 0), ArgumentError, r"`stride` \(=0\) is not positive"),
        ((4, 5), ArgumentError, r"`stride` \(=5\) is longer than window \(=4\)"),
        ((None, 2), ArgumentError, r"`stride` \(=2\) divides a sequence that window=None runs as a whole"),
    ],
)
def test_bad_windows(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TruncatedBPTT(torch.nn.GRU(WIDTH, WIDTH), *arguments)


def test_bad_modules_and_inputs() -> None:
    gru: Any = torch.nn.GRU(WIDTH, WIDTH, batch_first=True)
    with pytest.raises(ArgumentTypeError, match=r"`module` \(=3\) cannot be called"):
        TruncatedBPTT(3, 2)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"`time` \(=-1\) is negative"):
        TruncatedBPTT(gru, 2, time=-1)
    with pytest.raises(ArgumentTypeError, match="`x` .* is not a torch tensor"):
        TruncatedBPTT(gru, 2).over([1.0])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"`x` \(=\(5,\)\) has no axis 1, the time axis"):
        TruncatedBPTT(gru, 2, time=1).over(torch.zeros(5))
    with pytest.raises(ShapeError, match="has no steps"):
        TruncatedBPTT(gru, 2).over(torch.zeros(0, WIDTH))
    with pytest.raises(ArgumentError, match=r"`time` \(=0\) is not the time axis of a module with batch_first=True"):
        TruncatedBPTT(gru, 2).over(torch.zeros(2, 5, WIDTH))
    with pytest.raises(ArgumentTypeError, match="`module` returned Tensor"):
        list(TruncatedBPTT(lambda x, state: x, 2).over(torch.zeros(4, 1)))
    with pytest.raises(ArgumentTypeError, match="`module` returned 3 values"):
        list(TruncatedBPTT(lambda x, state: (x, x, x), 2).over(torch.zeros(4, 1)))
    with pytest.raises(ShapeError, match=r"`output` \(=\(1,\)\) does not have x's 2 steps along axis 0"):
        list(TruncatedBPTT(lambda x, state: (x[-1], x[-1]), 2).over(torch.zeros(4, 1)))
