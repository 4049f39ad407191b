"""Nothing that does not fit reaches a kernel: replaced parts, parameters and states, and memory that is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.nn.small_runner import draw, loss, make, near, sequences
from torch import Tensor, nn
from torch.autograd import grad

import unspool
from unspool.cells import Cell, minimum, tanh
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, UnspoolError
from unspool.nn import (
    AttentionPooling,
    Bidirectional,
    DecoderTransformer,
    Equilibrium,
    LinearChainCRF,
    Recurrent,
    Seq2Seq,
    Stack,
    TimeDelay,
    Unfolded,
)
from unspool.nn.boundary import admit

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def kernels_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)


def gru(*sizes: int, **options: Any) -> Recurrent:
    return Recurrent("gru", *sizes, dtype=torch.float64, **options)


def stack(**options: Any) -> Stack:
    return Stack("gru", 3, 4, 2, dtype=torch.float64, **options)


def replaced(layer: Any, path: str, part: object) -> Any:
    """`layer` with another part; a parameter is wrapped."""
    *parents, name = path.split(".")
    owner = layer.get_submodule(".".join(parents))
    setattr(owner, name, nn.Parameter(part) if isinstance(part, Tensor) else part)
    return layer


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


#: A layer with a part that does not fit, and what is said.
UNFIT: dict[str, tuple[Callable[[], Any], str]] = {
    "a wider lower layer": (lambda: replaced(stack(), "layers.0", gru(3, 9)), r"`x` \(=\(5, 4, 9\)\) is not of shape"),
    "a narrower lower layer": (lambda: replaced(stack(), "layers.0", gru(3, 1)), "`x`.*is not of shape"),
    "a lower layer of another dtype": (lambda: replaced(stack(), "layers.1", gru(4, 4).float()), "dtype"),
    "a layer of torch.nn": (
        lambda: replaced(stack(), "layers.0", nn.GRU(3, 4).double()),
        r"`layers\[0\]`.*is not a layer",
    ),
    "a layer less": (
        lambda: replaced(stack(), "layers", nn.ModuleList([gru(3, 4)])),
        "`layers`(?s:.)*one entry",
    ),
    "a residual of width one": (
        lambda: replaced(stack(residual=[False, True]), "layers.1", gru(4, 1)),
        "`residual`.*is not of shape",
    ),
    "the way back": (lambda: replaced(Bidirectional("gru", 3, 4).double(), "back", gru(9, 4)), "`x`.*is not of shape"),
    "the way back, of torch.nn": (
        lambda: replaced(Bidirectional("gru", 3, 4).double(), "back", nn.GRU(3, 4).double()),
        "`back`.*layer",
    ),
    "what is delayed": (lambda: replaced(TimeDelay(gru(3, 4), 2), "layer", gru(9, 4)), "`x`.*is not of shape"),
    "what is delayed, of torch.nn": (
        lambda: replaced(TimeDelay(gru(3, 4), 2), "layer", nn.GRU(3, 4).double()),
        "`layer`.*layer",
    ),
    "input_size": (lambda: replaced(gru(9, 4), "input_size", 3), "`x`.*is not of shape"),
    "an initial state": (
        lambda: replaced(gru(3, 4, learn_initial=True), "initial_h", zeros(900)),
        "`initial_h`.*shape",
    ),
    "an initial state of one number": (
        lambda: replaced(gru(3, 4, learn_initial=True), "initial_h", zeros(1)),
        "`initial_h`.*shape",
    ),
    "no initial state": (lambda: replaced(gru(3, 4, learn_initial=True), "initial_h", None), "`initial_h`.*tensor"),
    "a parameter": (lambda: replaced(gru(3, 4), "U_z", zeros(3, 4)), "`U_z`.*is not of shape"),
    "a parameter of another dtype": (lambda: replaced(gru(3, 4), "b_z", zeros(4).float()), "`b_z`.*dtype"),
    "no parameter": (lambda: replaced(gru(3, 4), "U_z", None), "`U_z`.*is not a tensor"),
    "no parameter, one step at a time": (lambda: replaced(Unfolded(gru(3, 4), 5), "steps.2.layer.U_z", None), "`U_z`"),
    "a step of another cell": (
        lambda: replaced(Unfolded(gru(3, 4), 5), "steps.2.layer", Recurrent("lstm", 3, 4, dtype=torch.float64)),
        "are not x, the 2 state",
    ),
    "no parameter, with dropped weights": (
        lambda: replaced(stack(weight_dropout=0.5), "layers.1.U_z", None),
        "`U_z`.*is not a tensor",
    ),
    "an option less": (lambda: replaced(stack(), "residual", [False]), "`residual`.*one entry for each"),
    "an equilibrium of two states": (
        lambda: replaced(Equilibrium("gru", 3, 4).double(), "layer", Recurrent("lstm", 3, 4, dtype=torch.float64)),
        "has 2 states",
    ),
    "an equilibrium of another width": (
        lambda: replaced(Equilibrium("gru", 3, 4).double(), "output_size", 5),
        "`h`.*is not of shape",
    ),
    "an equilibrium of no width": (
        lambda: replaced(Equilibrium("gru", 3, 4).double(), "output_size", -1),
        "output_size",
    ),
    "an equilibrium's parameter of another dtype": (
        lambda: replaced(Equilibrium("gru", 3, 4).double(), "layer.U_z", zeros(4, 4).float()),
        "`U_z`.*dtype",
    ),
    "heads of a block": (
        lambda: replaced(DecoderTransformer(3, 3).double(), "blocks.0.num_heads", 1),
        "`num_heads`.*of the cache",
    ),
    "attention's output": (
        lambda: replaced(DecoderTransformer(3, 1).double(), "blocks.0.attention_out", nn.Linear(3, 9).double()),
        "`attention_out.*is not of shape",
    ),
    "what follows attention": (
        lambda: replaced(DecoderTransformer(3, 1).double(), "blocks.0.feed_forward_out", nn.Identity()),
        "`feed_forward_out.*is not of shape",
    ),
    "no weight of a drop-in": (lambda: replaced(unspool.nn.GRU(3, 4).double(), "weight_hh_l0", None), "`weight_hh_l0`"),
    "a bias too many": (lambda: replaced(unspool.nn.GRU(3, 4).double(), "bias", False), "`bias`.*other weights"),
    "heads": (lambda: replaced(DecoderTransformer(3, 1).double(), "num_heads", 0), "`num_heads`"),
    "blocks": (lambda: replaced(DecoderTransformer(3, 1).double(), "num_layers", 2), "`blocks`"),
    "a norm": (lambda: replaced(DecoderTransformer(3, 1).double(), "norm", nn.GRU(3, 3).double()), "`norm.*tensor"),
    "attention's projection": (
        lambda: replaced(DecoderTransformer(3, 1).double(), "blocks.0.query_key_value", nn.GRU(3, 9).double()),
        "`query_key_value.*tensor",
    ),
    "attention itself": (
        lambda: replaced(AttentionPooling(3).double(), "attention", nn.Identity()),
        "`attention`.*gives no weights",
    ),
    "a step of no cell": (lambda: replaced(Unfolded(gru(3, 4), 5), "steps.0.layer", nn.Identity()), "`steps`"),
    "attention's scores": (
        lambda: replaced(AttentionPooling(3).double(), "attention.outer", nn.GRU(3, 1).double()),
        "`outer`.*tensor",
    ),
    "num_layers": (lambda: replaced(unspool.nn.GRU(3, 4).double(), "num_layers", 3), "`num_layers`.*other weights"),
}


@pytest.mark.parametrize("engine_setting", ["on", "off"])
@pytest.mark.parametrize("name", UNFIT)
def test_a_part_that_does_not_fit(name: str, engine_setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", engine_setting)
    make_layer, said = UNFIT[name]
    with pytest.raises(UnspoolError, match=said):
        make_layer()(draw(5, 4, 3))


def test_tokens_that_are_not_dense() -> None:
    model = Seq2Seq(7, 6, 3, 4, 1, cell="gru")
    with pytest.raises(ArgumentError, match="`source`.*to_dense"):
        model.encode(torch.ones(2, 5, dtype=torch.long).to_sparse())


SPARSE: dict[str, Callable[[], object]] = {
    "tags": lambda: LinearChainCRF(3).log_likelihood(torch.zeros(4, 2, 3), torch.ones(4, 2).long().to_sparse()),
    r"state\[0\]": lambda: transformer()(
        torch.zeros(5, 4, 8), with_sparse_mask(transformer()(torch.zeros(5, 4, 8))[1])
    ),
    "U_z": lambda: replaced(stack(weight_dropout=0.5), "layers.1.U_z", zeros(4, 4).to_sparse())(draw(5, 4, 3)),
}


def transformer() -> Any:
    return DecoderTransformer(8, 2, 1)


def with_sparse_mask(state: Any) -> Any:
    return state[0].to_sparse(), state[1]


@pytest.mark.parametrize("name", SPARSE)
def test_what_is_sparse_is_refused_by_name(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` is of layout torch.sparse_coo"):
        SPARSE[name]()


@pytest.mark.parametrize("width", [7, 16, -1])
def test_a_changed_width_of_a_transformer(width: int) -> None:
    with pytest.raises(ArgumentError, match="`width`.*was changed"):
        replaced(transformer(), "width", width)(torch.zeros(5, 4, 8))


def test_autocast_does_not_mix_float64() -> None:
    layer, x = Recurrent("gru", 3, 4), torch.randn(5, 2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x.bfloat16())[0].isfinite().all()
        with pytest.raises(DTypeError, match="`x` has dtype torch.float64"):
            layer(x.double())
        with pytest.raises(DTypeError, match="`U_z` has dtype torch.float64"):
            replaced(layer, "U_z", zeros(4, 4))(x)


def test_states_of_a_replaced_layer_are_checked() -> None:
    """The state fits the layers that are there, of another width than those that were."""
    layer = replaced(stack(), "layers.1", gru(4, 6))
    output, state = layer(draw(5, 4, 3))
    assert output.shape == (5, 4, 6)
    assert torch.isfinite(layer(draw(5, 4, 3), state)[0]).all()


def test_a_replaced_option_of_the_kernel() -> None:
    with pytest.raises(ArgumentError, match="`recompute`"):
        replaced(gru(3, 4), "recompute", "lstm")(draw(5, 4, 3))


def test_scores_of_a_crf() -> None:
    for name, value in (("start", None), ("end", zeros(1)), ("transitions", zeros(3, 2))):
        crf = replaced(LinearChainCRF(3, dtype=torch.float64), name, value)
        with pytest.raises(ArgumentError, match=f"`{name}`"):
            crf.decode(zeros(4, 2, 3))


def shrink(tensor: Tensor, numbers: int) -> None:
    tensor.untyped_storage().resize_(numbers * tensor.element_size())


#: Whose memory is taken away.
MEMORY: dict[str, Callable[[Any, Tensor, Tensor, Tensor], Tensor]] = {
    "x": lambda layer, x, h, output: x,
    "the state": lambda layer, x, h, output: h,
    "a weight": lambda layer, x, h, output: layer.U_z.data,
    "the output": lambda layer, x, h, output: output.detach(),
}


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("recompute", [None, 2])
@pytest.mark.parametrize("name", MEMORY)
def test_memory_that_is_gone_before_the_backward_pass(name: str, recompute: int | None, left: int) -> None:
    layer, (x, h) = make(recompute=recompute), sequences()
    output, final = layer(x, h)
    total = (output * draw(5, 4, 4, wanted=False)).sum() + final.sum()  # keeps no output: torch would read it
    shrink(MEMORY[name](layer, x.data, h.data, output), left)
    with pytest.raises(ArgumentError, match="has no memory: its storage was freed or made smaller"):
        total.backward()


@pytest.mark.parametrize("engine_setting", ["on", "off"])
@pytest.mark.parametrize("name", list(MEMORY)[:3])
def test_memory_that_is_too_small(name: str, engine_setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, (x, h) = make(), sequences(wanted=False)
    monkeypatch.setenv("UNSPOOL_ENGINE", engine_setting)
    shrink(MEMORY[name](layer, x, h, x), 2)
    with pytest.raises(ArgumentError, match="has no memory"):
        layer(x, h)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_memory_that_is_too_small_for_a_quick_call(training: bool, strided: bool) -> None:
    layer, x = unspool.nn.GRU(3, 4), torch.randn(5, 2, 3)
    x = torch.stack([x, x], -1)[..., 0] if strided else x
    with torch.set_grad_enabled(training):
        for _ in range(3):
            layer(x)
        shrink(x, 17)
        with pytest.raises(ArgumentError, match="`x`.*has no memory"):
            layer(x)


SINCE: dict[str, tuple[Callable[[Any, Tensor], object], str]] = {
    "a weight of another shape": (lambda layer, x: setattr(layer.U_z, "data", zeros(1, 1)), "`U_z`.*is not of shape"),
    "a weight of another dtype": (lambda layer, x: setattr(layer.U_z, "data", zeros(4, 4).float()), "`U_z`.*float32"),
    "x of fewer steps": (lambda layer, x: setattr(x, "data", zeros(1, 4, 3)), "is not of shape"),
}


@pytest.mark.parametrize("name", SINCE)
def test_what_was_replaced_since_the_forward_pass(name: str) -> None:
    layer, (x, h) = make(), sequences()
    total = loss(*layer(x, h))
    change, said = SINCE[name]
    change(layer, x)
    with pytest.raises((ShapeError, DTypeError), match=said):
        total.backward()


def test_saved_tensors_that_come_back_otherwise() -> None:
    layer, (x, h) = make(), sequences()
    for unpack in (lambda tensor: tensor[:1], lambda tensor: tensor.float()):
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            total = loss(*layer(x, h))
        with pytest.raises((ShapeError, DTypeError)):
            total.backward()


def test_a_hook_that_gives_a_gradient_of_another_shape() -> None:
    layer, (x, h) = make(), sequences()
    output, final = layer(x, h)
    output.register_hook(lambda slope: slope[:1])
    with pytest.raises(RuntimeError):
        loss(output, final).backward()


def test_memory_that_does_not_begin_at_a_number() -> None:
    """Such tensors come from files that are mapped into memory; kernels get a copy."""
    layer, (x, h) = make(), sequences(wanted=False)
    bytes_ = bytearray(1) + bytearray(x.numpy().tobytes())
    odd = torch.frombuffer(bytes_, dtype=x.dtype, offset=1).view(x.shape)
    assert odd.data_ptr() % odd.element_size()
    near(layer(odd, h), layer(x, h))
    assert not admit("x", odd, tuple(odd.shape), odd.dtype).data_ptr() % odd.element_size()
    assert admit("x", x, tuple(x.shape), x.dtype) is x


def test_gradients_are_those_of_the_weights_at_the_time_of_the_call() -> None:
    """A state that is a view of a larger tensor, with memory before and after it, is taken as it is."""
    layer, (x, _) = make(), sequences()
    wide = draw(6, 4, 4, seed=4)
    found = grad(loss(*layer(x, wide[3])), [wide])[0]
    near(found[3], grad(loss(*layer(x, wide[3].clone())), [wide])[0][3])
    assert not found[:3].any()
    assert not found[4:].any()


def test_a_model_without_its_head() -> None:
    for head in (nn.Identity(), None):
        model = replaced(Seq2Seq(4, 4, 3, 4), "head", head)
        with pytest.raises(ArgumentTypeError, match="`head.weight`"):
            model.greedy(torch.ones(2, 3).long())


def test_whole_numbers_whose_memory_is_gone() -> None:
    tokens, lengths = torch.ones(2, 3).long(), torch.ones(2).long()
    layer = DecoderTransformer(4, 2)
    _, (real, caches) = layer(torch.zeros(3, 2, 4))
    for tensor in (tokens, lengths, real):
        shrink(tensor, 0)
    for act in (
        lambda: Seq2Seq(4, 4, 3, 4).encode(tokens),
        lambda: Seq2Seq(4, 4, 3, 4).encode(torch.ones(2, 3).long(), lengths),
        lambda: LinearChainCRF(4).log_likelihood(torch.zeros(2, 3, 4), tokens),
        lambda: layer(torch.zeros(1, 2, 4), (real, caches)),
    ):
        with pytest.raises(ArgumentError, match="has no memory"):
            act()


@pytest.mark.parametrize("lengths", [torch.ones(4, dtype=torch.long, device="meta"), torch.ones(4).long().to_sparse()])
def test_lengths_that_are_not_in_memory(lengths: Tensor) -> None:
    layer, (x, h) = make(), sequences(wanted=False)
    with pytest.raises(ArgumentError, match="`lengths`.*not numbers in memory"):
        layer(x, h, lengths=lengths)
    with pytest.raises(ArgumentTypeError, match="`lengths`"):
        layer(x, h, lengths=[10**30] * 4)
    with pytest.raises(ArgumentError, match="`x`.*to_dense"):
        layer(x.to_sparse(), h)


class Enlarged(Cell):
    """A number that float64 holds and float32 does not."""

    def step(self, x: Any, h: Any) -> Any:
        return minimum(tanh(self.linear("a", x, h)) * 1e39, 1e38)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_number_that_the_dtype_cannot_hold_is_refused(dtype: torch.dtype) -> None:
    layer, x = unspool.nn.Recurrent(Enlarged, 3, 4, dtype=dtype), torch.randn(5, 2, 3, dtype=dtype)
    for _ in range(3):
        with (
            pytest.raises(DTypeError, match="cannot hold the number 1e[+]39 of Enlarged"),
            torch.no_grad(),
        ):
            layer(x)
    with pytest.raises(DTypeError, match="cannot hold the number"):
        layer.take_step(x[0], (torch.zeros(2, 4, dtype=dtype),))
    if dtype == torch.float32:
        with pytest.raises(DTypeError, match="cannot hold the number"):
            unspool.nn.Equilibrium(Enlarged, 3, 4)(x[0])


def test_float64_holds_it() -> None:
    layer, x = unspool.nn.Recurrent(Enlarged, 3, 4, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    (new,) = layer.take_step(x, (torch.zeros(2, 4, dtype=torch.float64),))
    parameters = layer.cell_parameters()
    expected = (torch.tanh(x @ parameters["W_a"].T + parameters["b_a"]) * 1e39).clamp(max=1e38)
    torch.testing.assert_close(new, expected)
