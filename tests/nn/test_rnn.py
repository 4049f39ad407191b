"""The drop-ins against torch.nn: values, final states, gradients, parameters, errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nn.torch_twins import KINDS, flat, states, twins
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

import unspool
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError, UnspoolError
from unspool.nn import route
from unspool.nn.rnn import GRU, LSTM, RNN

FORWARD = {torch.float32: 1e-6, torch.float64: 1e-12}
GRADIENT = {torch.float32: 1e-5, torch.float64: 1e-12}


def assert_same_gradients(ours: list[Tensor], theirs: list[Tensor], dtype: torch.dtype) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        scale = float(other.abs().max()) if other.numel() else 1.0
        torch.testing.assert_close(mine, other, rtol=0, atol=GRADIENT[dtype] * max(scale, 1e-3))


@st.composite
def configurations(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    hidden = draw(st.integers(1, 9))
    options: dict[str, Any] = {
        "input_size": draw(st.integers(1, 7)),
        "hidden_size": hidden,
        "num_layers": draw(st.integers(1, 3)),
        "bias": draw(st.booleans()),
        "batch_first": draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
    }
    if kind == "RNN":
        options["nonlinearity"] = draw(st.sampled_from(["tanh", "relu"]))
    if kind == "LSTM" and hidden > 1 and draw(st.booleans()):
        options["proj_size"] = draw(st.integers(1, hidden - 1))
    rows = draw(st.none() | st.integers(1, 6))
    steps = draw(st.integers(1, 9))
    ragged = rows is not None and draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, steps), min_size=rows, max_size=rows)) if ragged and rows else None
    return {
        "options": options,
        "rows": rows,
        "steps": steps,
        "lengths": lengths,
        "packed": draw(st.booleans()),
        "given_state": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**31)),
    }


def check_against_torch(kind: str, dtype: torch.dtype, case: dict[str, Any]) -> None:
    theirs, ours = twins(kind, **case["options"], dtype=dtype)
    torch.manual_seed(case["seed"])
    rows, steps, lengths = case["rows"], case["steps"], case["lengths"]
    width = case["options"]["input_size"]
    first = case["options"]["batch_first"]
    shape = (steps, width) if rows is None else (rows, steps, width) if first else (steps, rows, width)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    hx = states(theirs, rows, dtype) if case["given_state"] else None
    inputs = [x, *(flat(hx) if hx is not None else [])]

    def pack(sequence: Tensor) -> PackedSequence:
        return pack_padded_sequence(sequence, torch.tensor(lengths), batch_first=first, enforce_sorted=False)

    def unpack(result: Any) -> Tensor:
        if not isinstance(result, PackedSequence):
            assert isinstance(result, Tensor)
            return result
        return pad_packed_sequence(result, batch_first=first, total_length=steps)[0]

    if lengths is None:
        expected, actual = theirs(x, hx), ours(x, hx)
    elif case["packed"]:
        expected, actual = theirs(pack(x), hx), ours(pack(x), hx)
        assert torch.equal(expected[0].batch_sizes, actual[0].batch_sizes)
        assert torch.equal(expected[0].sorted_indices, actual[0].sorted_indices)
    else:
        expected, actual = theirs(pack(x), hx), ours(x, hx, lengths=lengths)
    values = [[unpack(output), *flat(state)] for output, state in (expected, actual)]
    for other, mine in zip(*values, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=FORWARD[dtype])

    weights = [torch.randn_like(value) for value in values[0]]
    gradients = [
        torch.autograd.grad(
            sum(((value * weight).sum() for value, weight in zip(result, weights, strict=True)), torch.tensor(0.0)),
            [*inputs, *layer.parameters()],
            materialize_grads=True,
        )
        for layer, result in zip((theirs, ours), values, strict=True)
    ]
    assert_same_gradients(list(gradients[1]), list(gradients[0]), dtype)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")  # torch.nn's own
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("engine", ["on", "off"], ids=["kernel", "eager"])
def test_equals_torch(kind: str, dtype: torch.dtype, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least 500 drawn configurations by kernels and as many by the eager loop, half of the batches ragged."""
    monkeypatch.setenv("UNSPOOL_ENGINE", engine)
    monkeypatch.setattr(route, "_needs_loop", lambda _: True)  # rather than torch.nn's forward

    @settings(max_examples=90, deadline=None, derandomize=True, database=None)
    @given(configurations(kind))
    def check(case: dict[str, Any]) -> None:
        check_against_torch(kind, dtype, case)

    check()


@pytest.mark.parametrize(
    ("kind", "options"), [("RNN", {}), ("LSTM", {}), ("GRU", {}), ("GRU", {"reset": "before"})], ids=str
)
def test_zero_lengths(kind: str, options: dict[str, Any]) -> None:
    """A row without steps gives zeros and its initial state; the other rows are as if it were not there."""
    layer: Any = KINDS[kind][1](3, 4, 2, bidirectional=True, **options).double()
    x = torch.randn(5, 3, 3, dtype=torch.float64)
    hx = states(layer, 3, torch.float64)
    output, final = layer(x, hx, lengths=[4, 0, 2])
    alone, alone_final = layer(
        x[:, [0, 2]], tuple(p[:, [0, 2]] for p in hx) if kind == "LSTM" else hx[:, [0, 2]], lengths=[4, 2]
    )
    torch.testing.assert_close(output[:, [0, 2]], alone, rtol=0, atol=1e-12)
    assert not output[:, 1].any()
    for part, rest, start in zip(flat(final), flat(alone_final), flat(hx), strict=True):
        torch.testing.assert_close(part[:, [0, 2]], rest, rtol=0, atol=1e-12)
        assert torch.equal(part[:, 1], start[:, 1])


def test_the_documents_case() -> None:
    """B=1, T=4, E=128, H=3 without bias."""
    theirs, ours = twins("RNN", 128, 3, bias=False, batch_first=True)
    x = torch.randn(1, 4, 128)
    output, final = ours(x)
    expected, expected_final = theirs(x)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(final, expected_final, rtol=0, atol=1e-6)
    h = torch.zeros(3, dtype=torch.float64)
    for t in range(4):
        h = torch.tanh(ours.weight_ih_l0.double() @ x[0, t].double() + ours.weight_hh_l0.double() @ h)
        torch.testing.assert_close(output[0, t].double(), h, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", list(KINDS))
def test_same_seed_same_parameters(kind: str) -> None:
    theirs, ours = twins(kind, 3, 5, 2, bidirectional=True)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, ours.state_dict()[name])
    assert [[w.shape for w in ws] for ws in theirs.all_weights] == [[w.shape for w in ws] for ws in ours.all_weights]
    assert repr(theirs) == repr(ours)
    ours.flatten_parameters()


@pytest.mark.parametrize("kind", list(KINDS))
def test_state_dict_there_and_back_is_the_identity(kind: str) -> None:
    theirs, _ = twins(kind, 3, 5, 2, bidirectional=True)
    _, ours = twins(kind, 3, 5, 2, bidirectional=True)
    torch.nn.init.normal_(theirs.weight_hh_l1)
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(4, 2, 3)
    torch.testing.assert_close(ours(x)[0], theirs(x)[0], rtol=0, atol=1e-6)
    theirs.load_state_dict(ours.state_dict())
    assert all(torch.equal(before[name], value) for name, value in theirs.state_dict().items())


@pytest.mark.parametrize("kind", list(KINDS))
def test_dropout_between_layers_is_torchs(kind: str) -> None:
    theirs, ours = twins(kind, 3, 8, 3, dropout=0.5)
    x = torch.randn(6, 4, 3)
    outputs = []
    for layer in (theirs, ours):
        torch.manual_seed(7)
        outputs.append(layer(x)[0])
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=1e-6)
    assert not torch.allclose(ours(x)[0], ours.eval()(x)[0])
    torch.testing.assert_close(ours(x)[0], theirs.eval()(x)[0], rtol=0, atol=1e-6)


def test_reset_before_is_the_other_gru() -> None:
    """h = (1 − z) h + z n with n = tanh(W x + U (r h) + b), by hand."""
    layer: Any = GRU(3, 4, reset="before").double()
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    W_r, W_z, W_n = layer.weight_ih_l0.chunk(3)
    U_r, U_z, U_n = layer.weight_hh_l0.chunk(3)
    b_r, b_z, b_n = (layer.bias_ih_l0 + layer.bias_hh_l0).chunk(3)
    h = torch.zeros(2, 4, dtype=torch.float64)
    for t in range(6):
        r = torch.sigmoid(x[t] @ W_r.T + h @ U_r.T + b_r)
        z = torch.sigmoid(x[t] @ W_z.T + h @ U_z.T + b_z)
        n = torch.tanh(x[t] @ W_n.T + (r * h) @ U_n.T + b_n)
        h = (1 - z) * h + z * n
        torch.testing.assert_close(layer(x)[0][t], h, rtol=0, atol=1e-12)
    assert "reset='before'" in repr(layer)


def test_trace_has_every_named_value() -> None:
    layer = LSTM(3, 4, 2, bidirectional=True, batch_first=True).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    output, (_, c), values = layer(x, trace=True)
    assert list(values) == ["l0", "l0_reverse", "l1", "l1_reverse"]
    top = values["l1"]
    torch.testing.assert_close(top["o"] * torch.tanh(top["c"]), output[..., :4], rtol=0, atol=1e-12)
    torch.testing.assert_close(
        top["f"][:, 1:] * top["c"][:, :-1] + top["i"][:, 1:] * top["g"][:, 1:], top["c"][:, 1:], rtol=0, atol=1e-12
    )
    torch.testing.assert_close(values["l1_reverse"]["c"][:, 0], c[3], rtol=0, atol=1e-12)
    packed = pack_padded_sequence(x, [3, 5], batch_first=True, enforce_sorted=False)
    ragged, _, ragged_values = layer(packed, trace=True)
    padded = pad_packed_sequence(ragged, batch_first=True)[0]
    torch.testing.assert_close(ragged_values["l1"]["h"], padded[..., :4], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", list(KINDS))
def test_copies(kind: str) -> None:
    _, layer = twins(kind, 3, 4)
    x = torch.randn(5, 2, 3)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x)[0], layer(x)[0])


@pytest.mark.parametrize("kind", list(KINDS))
def test_functional_call_and_vmap_see_other_weights(kind: str) -> None:
    _, layer = twins(kind, 3, 4)
    x = torch.randn(5, 2, 3)
    doubled = {name: 2 * value.detach() for name, value in layer.named_parameters()}
    expected = copy.deepcopy(layer)
    expected.load_state_dict(doubled)
    assert torch.equal(torch.func.functional_call(layer, doubled, (x,))[0], expected(x)[0])


@pytest.mark.parametrize("kind", list(KINDS))
def test_gradcheck(kind: str) -> None:
    _, layer = twins(kind, 2, 3, 2, bidirectional=True, dtype=torch.float64)
    hx = states(layer, 2, torch.float64)
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def call(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        start = rest[: len(flat(hx))]
        weights = dict(zip(names, rest[len(start) :], strict=True))
        given = start if kind == "LSTM" else start[0]
        return tuple(flat(torch.func.functional_call(layer, weights, (x, given), {"lengths": [4, 2]})))

    assert torch.autograd.gradcheck(call, (x, *flat(hx), *layer.parameters()))


BAD: dict[str, Any] = {
    "no steps": lambda m, h: m(torch.zeros(0, 2, 3)),
    "double input": lambda m, h: m(torch.zeros(4, 2, 3, dtype=torch.float64)),
    "whole-number input": lambda m, h: m(torch.zeros(4, 2, 3, dtype=torch.int64)),
    "one axis": lambda m, h: m(torch.zeros(3)),
    "four axes": lambda m, h: m(torch.zeros(3, 3, 3, 3)),
    "wrong width": lambda m, h: m(torch.zeros(4, 2, 7)),
    "state of a wrong batch": lambda m, h: m(torch.zeros(4, 2, 3), h(torch.zeros(1, 3, 5))),
    "state of two layers": lambda m, h: m(torch.zeros(4, 2, 3), h(torch.zeros(2, 2, 5))),
    "state without a batch": lambda m, h: m(torch.zeros(4, 2, 3), h(torch.zeros(1, 5))),
    "batched state, unbatched input": lambda m, h: m(torch.zeros(4, 3), h(torch.zeros(1, 1, 5))),
    "input elsewhere": lambda m, h: m(torch.zeros(4, 2, 3, device="meta")),
    "state elsewhere": lambda m, h: m(torch.zeros(4, 2, 3), h(torch.zeros(1, 2, 5, device="meta"))),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("case", list(BAD))
def test_bad_calls_raise_what_torch_raises(kind: str, case: str) -> None:
    def both(state: Tensor) -> Any:
        return (state, state) if kind == "LSTM" else state

    theirs, ours = twins(kind, 3, 5)
    with pytest.raises(Exception) as expected:
        BAD[case](theirs, both)
    with pytest.raises(UnspoolError) as actual:
        BAD[case](ours, both)
    assert isinstance(actual.value, expected.type)
    assert str(actual.value).startswith(str(expected.value))


@pytest.mark.parametrize("kind", list(KINDS))
def test_bad_calls_that_torch_leaves_to_chance(kind: str) -> None:
    _, layer = twins(kind, 3, 5)
    x = torch.zeros(4, 2, 3)
    packed = pack_sequence([torch.zeros(3, 3), torch.zeros(2, 3)])

    def both(state: Any) -> Any:
        return (state, state) if kind == "LSTM" else state

    with pytest.raises(RuntimeError, match=r"hx.*float64.*float32.*Convert"):
        layer(x, both(torch.zeros(1, 2, 5, dtype=torch.float64)))
    with pytest.raises(RuntimeError, match="hidden"):
        layer(packed, both(torch.zeros(1, 3, 5)))
    with pytest.raises(RuntimeError, match="hidden"):
        layer(packed, both(torch.zeros(2, 5)))
    with pytest.raises(RuntimeError, match=r"input.size\(-1\) must be equal"):
        layer(pack_sequence([torch.zeros(3, 4), torch.zeros(2, 4)]))
    with pytest.raises(UnspoolError, match="hx"):
        layer(x, [torch.zeros(1, 2, 5)] * 3)
    with pytest.raises(ArgumentTypeError, match="input"):
        layer([[1.0]])
    with pytest.raises(ArgumentError, match="lengths.*has its own"):
        layer(packed, lengths=[3, 2])
    for lengths in ([5, 1], [1], [-1, 2], [1.5, 2.0], [[1, 2]]):
        with pytest.raises(UnspoolError, match="lengths"):
            layer(x, lengths=lengths)
    if kind == "LSTM":
        with pytest.raises(ShapeError, match="two hidden states"):
            layer(x, torch.zeros(1, 2, 5))
        with pytest.raises(RuntimeError, match=r"hidden\[1\]"):
            layer(x, (torch.zeros(1, 2, 5), torch.zeros(1, 2, 4)))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "options",
    [
        {"input_size": float("nan")},
        {"input_size": 0},
        {"hidden_size": float("nan")},
        {"hidden_size": -1},
        {"hidden_size": "5"},
        {"num_layers": float("nan")},
        {"num_layers": 0},
        {"dropout": float("nan")},
        {"dropout": 2},
        {"bias": "yes"},
        {"nonsense": 1},
        {"proj_size": 5},
    ],
    ids=str,
)
def test_bad_constructors_raise_what_torch_raises(kind: str, options: dict[str, Any]) -> None:
    theirs, ours = KINDS[kind]
    with pytest.raises(Exception) as expected:
        theirs(**{"input_size": 3, "hidden_size": 5, **options})
    with pytest.raises(UnspoolError) as actual:
        ours(**{"input_size": 3, "hidden_size": 5, **options})
    assert isinstance(actual.value, expected.type)
    assert str(expected.value) in str(actual.value)


def test_bad_reset() -> None:
    with pytest.raises(UnspoolError, match="Did you mean 'before'"):
        GRU(3, 4, reset="befor")


def test_unspool_nn_has_the_drop_ins() -> None:
    assert (unspool.nn.RNN, unspool.nn.GRU, unspool.nn.LSTM) == (RNN, GRU, LSTM)
