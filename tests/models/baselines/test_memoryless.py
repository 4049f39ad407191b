"""Baselines against what they can and cannot see, and against sums by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.ragged import check_derivatives, check_padding
from torch import Tensor, nn

from unspool.errors import ArgumentError, DTypeError, ShapeError
from unspool.models.baselines.memoryless import BagOfVectors, Convolution, SharedFCN, StatelessMLP
from unspool.nn.memoryless import Memoryless
from unspool.nn.recurrent import Recurrent

STEPS, LENGTHS = 5, (3, 5, 0, 1, 3)
F64 = torch.float64


def make(kind: str, **options: Any) -> Memoryless:
    torch.manual_seed(3)
    match kind:
        case "bag":
            return BagOfVectors(3, **options)
        case "mean":
            return BagOfVectors(3, mean=True, **options)
        case "fcn":
            return SharedFCN(3, 4, 2, dtype=F64, **options)
        case "convolution":
            return Convolution(3, 4, 2, dtype=F64, **options)
        case "wide convolution":
            return Convolution(3, 4, 4, dtype=F64, **options)
        case "stacked convolution":
            return Convolution(3, 4, 2, layers=3, dtype=F64, **options)
    return StatelessMLP(3, 4, 2, dtype=F64, **options)


KINDS = ["bag", "mean", "fcn", "convolution", "wide convolution", "stacked convolution", "mlp"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def batch(steps: int = STEPS, rows: int = len(LENGTHS)) -> Tensor:
    return torch.randn(steps, rows, 3, dtype=F64, generator=torch.Generator().manual_seed(0), requires_grad=True)


def sentence(text: str) -> Tensor:
    """(time, 3): one vector for each of 我, 爱, 你."""
    vectors = torch.randn(3, 3, dtype=F64, generator=torch.Generator().manual_seed(5))
    return vectors[["我爱你".index(character) for character in text]]


def by_hand(kind: str, model: Memoryless, x: np.ndarray) -> np.ndarray:
    """The output for one row (time, 3) without padding, step by step in NumPy."""
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    if kind in ("bag", "mean"):
        total = sum(x, np.zeros(3))
        return total / max(len(x), 1) if kind == "mean" else total
    if kind in ("fcn", "mlp"):
        values = [
            p["network.2.weight"] @ np.tanh(p["network.0.weight"] @ v + p["network.0.bias"]) + p["network.2.bias"]
            for v in x
        ]
        return np.array(values).reshape(-1, 2) if kind == "mlp" else sum(values, np.zeros(2))
    for name in ("convolution", *(f"upper.{index}" for index in range(2 * (kind == "stacked convolution")))):
        weight, width = p[f"{name}.weight"], p[f"{name}.weight"].shape[-1]
        rows = []
        for t in range(len(x)):
            total = p[f"{name}.bias"].copy()
            for j in range(min(width, t + 1)):
                total += weight[:, :, width - 1 - j] @ x[t - j]
            rows.append(np.maximum(total, 0))
        x = np.array(rows).reshape(-1, 4)
    return np.array(x.max(0, initial=0.0))


@each_kind
@pytest.mark.parametrize("batch_first", [False, True])
def test_equals_the_sum_by_hand_row_by_row(kind: str, batch_first: bool) -> None:
    model, x = make(kind, batch_first=batch_first), batch()
    output = model(x.transpose(0, 1) if batch_first else x, lengths=LENGTHS).detach().numpy()
    for row, length in enumerate(LENGTHS):
        expected = by_hand(kind, model, x[:length, row].detach().numpy())
        actual = output[row]
        if kind == "mlp":
            actual = output[row] if batch_first else output[:, row]
            assert np.all(actual[length:] == 0)
            actual = actual[:length]
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
        alone = model(x[:length, row]).detach().numpy()
        np.testing.assert_allclose(alone, expected, rtol=1e-12, atol=1e-12)


@each_kind
@pytest.mark.parametrize("junk", [1e30, math.nan, math.inf])
def test_padding_changes_nothing(kind: str, junk: float) -> None:
    check_padding(make(kind), batch(), LENGTHS, junk)


@each_kind
def test_gradcheck(kind: str) -> None:
    check_derivatives(make(kind), batch(), LENGTHS)


@each_kind
def test_nothing_to_read(kind: str) -> None:
    model = make(kind)
    width = model.output_size
    shapes = {(0, 2): (2, width), (STEPS, 0): (0, width)}
    for (steps, rows), shape in shapes.items():
        output = model(torch.ones(steps, rows, 3, dtype=F64))
        assert output.shape == ((steps, rows, width) if kind == "mlp" else shape)
        assert bool((output == 0).all())


@pytest.mark.parametrize("kind", ["bag", "mean", "fcn"])
def test_order_is_lost(kind: str) -> None:
    model = make(kind)
    torch.testing.assert_close(model(sentence("我爱你")), model(sentence("你爱我")), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(model(sentence("我爱你")), model(sentence("我爱我")), atol=1e-3)


def test_order_is_seen() -> None:
    torch.manual_seed(0)
    models = {
        "convolution": make("convolution"),
        "elman": Recurrent("elman", 3, 4, dtype=F64),
        "gru": Recurrent("gru", 3, 4, dtype=F64),
    }
    for name, model in models.items():
        vectors = [model(sentence(text)) for text in ("我爱你", "你爱我")]
        first, second = (vector[1] if isinstance(vector, tuple) else vector for vector in vectors)
        assert not torch.allclose(first, second, atol=1e-3), name


def test_a_window_of_one_step_does_not_see_order() -> None:
    model = Convolution(3, 4, 1, dtype=F64)
    torch.testing.assert_close(model(sentence("我爱你")), model(sentence("你爱我")), rtol=1e-12, atol=1e-12)


def test_a_window_sees_no_further_than_its_width() -> None:
    """The bigrams of 我爱我你我 and 我你我爱我 are the same, and so, but for the borders' zeros, are their maxima."""
    one, other = sentence("我爱我你我"), sentence("我你我爱我")
    narrow, wide = Convolution(3, 50, 2, dtype=F64), Convolution(3, 50, 3, dtype=F64)
    torch.testing.assert_close(narrow(one), narrow(other), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(wide(one), wide(other), atol=1e-3)


@pytest.mark.parametrize(("kernel_size", "layers", "field"), [(2, 1, 2), (3, 1, 3), (3, 2, 5), (2, 4, 5), (1, 3, 1)])
def test_the_receptive_field_of_stacked_convolutions(kernel_size: int, layers: int, field: int) -> None:
    """Step t has gradients in the tokens t − field + 1 to t, and in no other; a change elsewhere changes nothing."""
    torch.manual_seed(0)
    model = Convolution(3, 30, kernel_size, layers=layers, dtype=F64)
    assert model.receptive_field == field
    assert f"receptive_field={field}" in repr(model)
    x = torch.randn(9, 1, 3, dtype=F64)
    reach = torch.autograd.functional.jacobian(lambda x: model.convolve(x)[:, 0].sum(1), x).abs().sum((2, 3)) > 0
    steps = torch.arange(9)
    ago = steps.unsqueeze(1) - steps
    assert torch.equal(reach, (ago >= 0) & (ago < field))
    for changed in range(9):
        other = x.clone()
        other[changed] += 1.0
        moved = (model.convolve(other) != model.convolve(x)).any(-1)[:, 0]
        assert torch.equal(moved, (ago[:, changed] >= 0) & (ago[:, changed] < field))


def test_a_stacked_convolution_tells_apart_what_is_further_away() -> None:
    """我爱我你我 and 我你我爱我 have the same bigrams; two layers of bigrams see trigrams."""
    torch.manual_seed(0)
    one, other = sentence("我爱我你我"), sentence("我你我爱我")
    deep = Convolution(3, 50, 2, layers=2, dtype=F64)
    assert not torch.allclose(deep(one), deep(other), atol=1e-3)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_first_convolution_is_drawn_as_torchs(layers: int) -> None:
    torch.manual_seed(0)
    model = Convolution(3, 4, 2, layers=layers)
    torch.manual_seed(0)
    theirs = [nn.Conv1d(3, 4, 2), *(nn.Conv1d(4, 4, 2) for _ in range(layers - 1))]
    names = ["convolution", *(f"upper.{index}" for index in range(layers - 1))]
    expected = {
        f"{name}.{key}": value
        for name, each in zip(names, theirs, strict=True)
        for key, value in each.named_parameters()
    }
    assert list(model.state_dict()) == list(expected)
    for name, value in model.named_parameters():
        assert torch.equal(value, expected[name])


@each_kind
def test_on_the_meta_device(kind: str) -> None:
    model = make(kind)
    if not list(model.parameters()):
        assert model(batch().to("meta"), lengths=LENGTHS).device.type == "meta"
        return
    x, expected = batch(), model(batch(), lengths=LENGTHS)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model = model.to("meta")
    assert model(x.to("meta"), lengths=LENGTHS).shape == expected.shape
    model = model.to_empty(device="cpu")
    model.load_state_dict(weights)
    assert torch.equal(model(x, lengths=LENGTHS), expected)


def test_made_on_the_meta_device() -> None:
    for model in (
        Convolution(3, 4, 2, layers=2, device="meta"),
        SharedFCN(3, 4, 2, device="meta"),
        StatelessMLP(3, 4, 2, device="meta"),
    ):
        assert {value.device.type for value in model.parameters()} == {"meta"}


def test_the_present_only() -> None:
    model = make("mlp")
    one, other = model(sentence("我爱你")), model(sentence("你爱我"))
    torch.testing.assert_close(one, other.flip(0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(one[1], other[1], rtol=0, atol=1e-15)  # 爱 is 爱, whoever loves


@pytest.mark.parametrize("kind", ["bag", "fcn"])
def test_no_read_out_of_a_bag_tells_orders_apart(kind: str) -> None:
    """Two classes that differ in order alone: the logits are equal, so a trained classifier is left with ln 2."""
    x = torch.stack([sentence("我爱你"), sentence("你爱我")], 1)
    target = torch.tensor([0, 1])

    def loss_after_training(encode: nn.Module) -> tuple[float, Tensor]:
        head = nn.Linear(int(encode.output_size), 2, dtype=F64)  # type: ignore[arg-type]
        optimizer = torch.optim.Adam([*encode.parameters(), *head.parameters()], lr=0.1)
        for _ in range(150):
            vectors = encode(x)
            logits = head(vectors[1] if isinstance(vectors, tuple) else vectors)
            loss = nn.functional.cross_entropy(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item(), logits.detach()

    loss, logits = loss_after_training(make(kind))
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-12, atol=1e-12)
    assert loss == pytest.approx(math.log(2), abs=1e-3)
    assert loss >= math.log(2) - 1e-12
    assert loss_after_training(Recurrent("elman", 3, 4, dtype=F64))[0] < 0.05


@each_kind
def test_bad_input(kind: str) -> None:
    model = make(kind)
    with pytest.raises(ShapeError, match="input_size is 3"):
        model(torch.ones(2, 1, 4, dtype=F64))
    with pytest.raises(ShapeError, match="dimension"):
        model(torch.ones(3, dtype=F64))
    with pytest.raises(DTypeError, match="int64"):
        model(torch.ones(2, 1, 3, dtype=torch.int64))
    with pytest.raises(ArgumentError, match="lengths"):
        model(torch.ones(2, 1, 3, dtype=F64), lengths=[3])
    with pytest.raises(ShapeError, match="lengths"):
        model(torch.ones(2, 1, 3, dtype=F64), lengths=[1, 1])


def test_bad_sizes() -> None:
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(ArgumentError, match="input_size"):
            BagOfVectors(wrong)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="hidden_size"):
            SharedFCN(3, wrong, 2)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="output_size"):
            StatelessMLP(3, 4, wrong)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="channels"):
            Convolution(3, wrong, 2)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="kernel_size"):
            Convolution(3, 4, wrong)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="layers"):
            Convolution(3, 4, 2, layers=wrong)  # type: ignore[arg-type]
