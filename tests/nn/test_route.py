"""Routes: every row of the table, the reason that is given, and that the named route is the one that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.nn.small_runner import by_loop, draw, make, near, sequences
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

import unspool
from unspool import engine
from unspool.nn import Bidirectional, DecoderTransformer, Recurrent, Stack, runner
from unspool.nn.entry import ENTRY
from unspool.nn.observation import observed_by
from unspool.nn.route import Route, choose_route, describe_routes, find_routes
from unspool.nn.unroll import unroll

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]
DOUBLE, FLOAT = "kernel: float64 on the CPU", "kernel: float32 on the CPU"
QUICK = "quick kernel: the tensors are like those of an earlier call"


@pytest.fixture(autouse=True)
def kernels_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)


class Own(Tensor):
    """A subclass of Tensor."""


class Watching:
    """An observer that runs the eager loop and counts."""

    def __init__(self) -> None:
        self.count = 0

    def recur(self, runner: Any, parameters: Any, x: Tensor, states: Any, ends: Any, reverse: bool, /) -> Any:
        self.count += 1
        return unroll(runner.step, runner.layout.named(parameters), x, states, ends, reverse, True)


@contextmanager
def watched() -> Iterator[Callable[[], dict[str, int]]]:
    """How often the kernel, also through the entry in C++, and the eager loop ran within."""
    kernel = patch.object(engine.Kernel, "_run", autospec=True, side_effect=engine.Kernel._run)
    entered: list[bool] = []
    call: Any = ENTRY.call

    def enter(*given: Any) -> Any:
        found = call(*given)
        entered.extend([True] * bool(found))
        return found

    entry = patch.object(ENTRY, "call", enter if call else None)
    loop = patch.object(runner, "unroll", side_effect=unroll)
    with kernel as kernels, entry, loop as loops:
        yield lambda: {"kernel": kernels.call_count + len(entered), "loop": loops.call_count}


def route_of(layer: unspool.nn.GRU, x: Tensor, **given: Any) -> str:
    """The route of a call of a drop-in from zeros."""
    kernel = layer._runner(layer.input_size).kernel
    return str(choose_route(kernel, list(layer.parameters()), x, **given))


@pytest.mark.usefixtures("without_entry")
def test_the_named_route_is_the_one_that_runs() -> None:
    layer, x = unspool.nn.GRU(3, 21), torch.randn(5, 2, 3)  # a size of its own: layers of one size share their kernel
    with torch.no_grad(), watched() as ran:
        assert layer.engine == route_of(layer, x) == FLOAT
        expected = layer(x)
        assert ran() == {"kernel": 1, "loop": 0}
        assert route_of(layer, x) == QUICK
        assert layer.engine == FLOAT
        with patch.object(runner.Runner, "run", side_effect=AssertionError("not quick")):
            near(layer(x), expected)
        assert ran() == {"kernel": 2, "loop": 0}
        with observed_by(observer := Watching()):
            assert layer.engine == "observed: an observer runs every recurrence of the model"
            near(layer(x), expected)
        assert observer.count == 1
        assert ran() == {"kernel": 2, "loop": 0}
        theirs_runs = patch.object(nn.GRU, "forward", autospec=True, side_effect=nn.GRU.forward)
        with torch.autocast("cpu", torch.bfloat16), theirs_runs as theirs:
            assert layer.engine == "torch's own: autocast is active"
            layer(x)
        assert theirs.call_count == 1
        assert ran() == {"kernel": 2, "loop": 0}


@pytest.mark.usefixtures("without_entry")
def test_what_is_no_plain_call_is_not_quick() -> None:
    layer, x = unspool.nn.GRU(3, 22), torch.randn(5, 2, 3)
    others: list[dict[str, Any]] = [{"hx": torch.zeros(1, 2, 22)}, {"lengths": [5, 3]}, {"trace": True}]
    for options in others:
        layer(x, **options)
        assert route_of(layer, x) != QUICK
    layer(x)
    assert route_of(layer, x) == route_of(layer, torch.randn(9, 4, 3)) == QUICK
    given = {"states": (torch.zeros(2, 22),)}  # the first call of all had a state
    assert route_of(layer, x, **given) == QUICK
    assert route_of(layer, x[:, :1], **given) == FLOAT  # of another batch size
    asked: list[dict[str, Any]] = [{"states": ()}, {"ends": torch.tensor([5, 3])}, {"recompute": 2}]
    for otherwise in asked:
        assert route_of(layer, x, **otherwise) == FLOAT
    assert route_of(layer, x[:, :0]) == "eager: there is nothing to compute"
    assert route_of(layer.double(), x.double()) == DOUBLE


def test_while_torch_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The route inside a graph; that compiled and exported models take it is seen in their graphs elsewhere."""
    layer, (x, _) = make(), sequences()
    kernel, weights = layer._runner.kernel, list(layer.parameters())
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert str(choose_route(kernel, weights, x)) == "operator: torch compiles or exports the model"
    assert choose_route(kernel, weights, x, trace=True).name == "eager"
    assert "not torch.float16 on cpu" in choose_route(kernel, weights, x.half()).why
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    assert str(choose_route(kernel, weights, x)) == "eager: there is no kernel to compile into the graph"


def test_reasons_that_a_layer_knows_before_it_sees_x() -> None:
    layer, said = make().requires_grad_(False), []

    def run(x: Tensor) -> Tensor:
        said.append(layer.engine)
        return x

    run(draw(2))
    vmap(run)(draw(2))
    make_fx(run)(draw(2))
    torch.jit.trace(run, draw(2), check_trace=False)
    with forward_ad.dual_level():
        run(draw(2))
    layer.U_z.data = layer.U_z.data.float()
    run(draw(2))
    layer = Recurrent("gru", 3, 4, dtype=torch.bfloat16)
    run(draw(2))
    layer = Recurrent("gru", 3, 4, device="meta")
    run(draw(2))
    assert said == [
        DOUBLE,
        "eager: a function transform of torch.func is active",
        "eager: torch records the operations",
        "refused: torch.jit.trace or an ONNX exporter would keep only the number of steps of its example",
        "eager: forward-mode differentiation is active",
        "eager: the tensors are not all plain tensors of one dtype on one device",
        "eager: kernels are for float32 and float64 on the CPU, not torch.bfloat16 on cpu",
        "eager: kernels are for float32 and float64 on the CPU, not torch.float32 on meta",
    ]


@pytest.mark.parametrize(
    ("layer", "route"),
    [
        (Recurrent("gru", 3, 4), "eager"),
        (unspool.nn.GRU(3, 4, reset="before"), "eager"),
        (unspool.nn.GRU(3, 4), "torch's own"),
    ],
    ids=["Recurrent", "GRU before", "GRU"],
)
def test_kernels_that_are_off(layer: Any, route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    assert layer.engine == f"{route}: UNSPOOL_ENGINE=off"


#: What a drop-in is asked to do, and whether torch.nn's forward, torch's operation alone or the eager loop does it.
INSTEAD: dict[str, tuple[Any, Callable[[Any, Tensor], object], str]] = {
    "bfloat16": (torch.bfloat16, lambda layer, x: layer(x), "torch's own"),
    "half": (torch.float16, lambda layer, x: layer(x), "torch's own"),
    "half with lengths": (torch.float16, lambda layer, x: layer(x, lengths=[5, 2]), "torch's own"),
    "half with a length of zero": (torch.float16, lambda layer, x: layer(x, lengths=[5, 0]), "loop"),
    "half with a trace": (torch.float16, lambda layer, x: layer(x, trace=True), "loop"),
    "a function transform": (torch.float32, lambda layer, x: vmap(layer)(x.unsqueeze(0)), "loop"),
    "no rows": (torch.float32, lambda layer, x: layer(x[:, :0]), "loop"),
    "a single step": (torch.float32, lambda layer, x: layer(x[:1]), "kernel"),
    "a single step without gradients": (torch.float32, lambda layer, x: _without_gradients(layer, x[:1]), "kernel"),
    "a subclass of Tensor": (torch.float32, lambda layer, x: layer(x.as_subclass(Own)), "torch's own"),
    "a dispatch mode": (torch.float32, lambda layer, x: make_fx(lambda x: layer(x)[0])(x), "torch's own"),
}


def _without_gradients(layer: Any, x: Tensor) -> object:
    with torch.no_grad():
        return layer(x)


@pytest.mark.parametrize("case", INSTEAD)
def test_what_a_drop_in_does_where_no_kernel_runs(case: str) -> None:
    dtype, call, expected = INSTEAD[case]
    layer, x = unspool.nn.GRU(3, 4).to(dtype), torch.randn(5, 2, 3).to(dtype)
    operation = Mock(side_effect=torch.gru)
    forward = patch.object(nn.GRU, "forward", autospec=True, side_effect=nn.GRU.forward)
    with watched() as ran, forward as theirs, patch.object(unspool.nn.GRU, "single_steps", {"GRU": operation}):
        call(layer, x)
        found = {"torch's own": theirs.call_count, "operation": operation.call_count, **ran()}
        assert found == {"torch's own": 0, "operation": 0, "kernel": 0, "loop": 0, expected: 1}


def test_reasons_that_lie_in_the_input() -> None:
    layer, (x, h) = make(), sequences()
    weights = list(layer.parameters())

    def why(x: Tensor, h: Tensor, trace: bool = False) -> str:
        return str(choose_route(layer._runner.kernel, weights, x, (h,), trace=trace))

    assert why(x, h) == DOUBLE
    assert why(x[:, :0], h[:0]) == "eager: there is nothing to compute"
    assert "plain tensors" in why(x.as_subclass(Own), h)
    assert "can be differentiated is computed eagerly" in why(x, h, trace=True)
    with torch.no_grad():
        assert why(x, h, trace=True) == DOUBLE
    output, _ = layer(x.as_subclass(Own), h)
    assert type(output) is Own
    near(output.as_subclass(Tensor), by_loop(layer, x, h)[0])


def test_layers_of_several_recurrences() -> None:
    assert Bidirectional("gru", 3, 4).engine == FLOAT
    stack = Stack("gru", 3, 4, num_layers=2)
    assert stack.engine == FLOAT
    stack.layers[1].double()
    assert stack.engine == f"layers.0: {FLOAT}; layers.1: {DOUBLE}"
    assert DecoderTransformer(4, 2).engine == "torch's own: there is no recurrence, only torch operations"
    gru = unspool.nn.GRU(3, 4, num_layers=2, bidirectional=True)
    assert list(gru.own_routes()) == ["l0", "l0_reverse", "l1", "l1_reverse"]
    assert gru.engine == FLOAT


def test_the_routes_of_a_model() -> None:
    own = Route("torch's own", "the layer is torch.nn's; unspool.accelerate(model) makes it ours")
    kernel = Route("kernel", "float32 on the CPU")
    model = nn.ModuleDict({"ours": Stack("gru", 3, 4), "theirs": nn.GRU(3, 4, 2), "cell": nn.GRUCell(3, 4)})
    assert find_routes(model) == {"ours.layers.0": kernel, "theirs": own, "cell": own}
    assert unspool.accelerate(model) == ["theirs"]
    assert find_routes(model) == {"ours.layers.0": kernel, "theirs.l0": kernel, "theirs.l1": kernel, "cell": own}
    assert describe_routes({"a": kernel, "b": kernel}) == FLOAT
