"""Averages against their sums written out, and what `applied` leaves behind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError, DataError, UnknownNameError
from unspool.learning.averaging import KINDS, Average

SHAPES = [(3, 4), (5,), ()]


def draw(seed: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES]


def started(dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    return [nn.Parameter(value) for value in draw(0, dtype)]


def put(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


def values_of(average: Average, parameters: list[nn.Parameter]) -> list[Tensor]:
    with average.applied():
        return [parameter.detach().clone() for parameter in parameters]


def bits(tensors: list[nn.Parameter]) -> list[list[int]]:
    return [tensor.detach().view(-1).view(torch.int64).tolist() for tensor in tensors]


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.999])
def test_exponential(decay: float) -> None:
    """The weights of all parameters seen, as products of decays, sum to 1 and give the average."""
    parameters = started()
    average = Average(parameters, "ema", decay)
    seen, weights = [draw(0)], [1.0]
    for n in range(30):
        put(parameters, draw(n + 1))
        average.update()
        kept = min(decay, (1 + n) / (10 + n))
        weights = [kept * weight for weight in weights] + [1 - kept]
        seen.append(draw(n + 1))
    assert sum(weights) == pytest.approx(1, rel=1e-14)
    for index, found in enumerate(values_of(average, parameters)):
        expected = sum((w * values[index] for w, values in zip(weights, seen, strict=True)), torch.zeros(()))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    assert average.count == 30


def test_tail_is_the_plain_mean() -> None:
    parameters = started()
    average = Average(parameters, "swa")
    for n in range(1, 26):
        put(parameters, draw(n))
        average.update()
        if n == 1:
            assert all(torch.equal(a, b) for a, b in zip(values_of(average, parameters), draw(1), strict=True))
    for index, found in enumerate(values_of(average, parameters)):
        expected = torch.stack([draw(n)[index] for n in range(1, 26)]).mean(0)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_before_the_first_update(kind: str) -> None:
    parameters = started()
    average = Average(parameters, kind)
    put(parameters, draw(1))
    assert all(torch.equal(a, b) for a, b in zip(values_of(average, parameters), draw(0), strict=True))


def test_originals_come_back_bit_for_bit() -> None:
    parameters = started()
    average = Average(parameters, "swa")
    with torch.no_grad():  # a NaN with a payload, a negative zero and a subnormal number
        parameters[1].view(torch.int64)[:3] = torch.tensor([0x7FF8000000000123, -(1 << 63), 5])
    before = bits(parameters)
    places = [parameter.data_ptr() for parameter in parameters]

    def evaluate() -> None:
        with average.applied():
            assert bits(parameters) == bits(started()) != before
            assert torch.is_grad_enabled()
            raise RuntimeError("evaluation failed")

    with pytest.raises(RuntimeError, match="evaluation failed"):
        evaluate()
    assert bits(parameters) == before
    assert [parameter.data_ptr() for parameter in parameters] == places
    with average.applied():  # usable again after the failure
        assert bits(parameters) == bits(started())


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_is_uninterrupted(kind: str) -> None:
    parameters, others = started(torch.float32), started(torch.float32)
    whole, first = Average(parameters, kind, 0.9), Average(others, kind, 0.9)
    second = Average(others, kind, 0.9)
    for n in range(1, 11):
        put(parameters, draw(n))
        put(others, draw(n))
        whole.update()
        if n <= 4:
            first.update()
        if n == 4:
            kept = first.tensors()
            first.update()  # what was kept is a copy, which stays unchanged
            second.load(kept)
        if n > 4:
            second.update()
    assert second.count == whole.count == 10
    assert whole.tensors().keys() == second.tensors().keys()
    assert all(torch.equal(tensor, second.tensors()[name]) for name, tensor in whole.tensors().items())


@pytest.mark.parametrize("kind", KINDS)
def test_settled_parameters_are_what_was_applied(kind: str) -> None:
    parameters = started()
    average = Average(parameters, kind, 0.9)
    for n in range(1, 6):
        put(parameters, draw(n))
        average.update()
    with average.applied():
        expected = [parameter.detach().clone() for parameter in parameters]
    assert not all(map(torch.equal, parameters, expected))
    average.settle()
    assert all(map(torch.equal, parameters, expected))


def test_states_that_do_not_fit() -> None:
    average = Average(started())
    good = average.tensors()
    for bad, words in [
        (Average(started(), "swa").tensors(), "'ema.0' is missing"),
        (Average(started()[:2]).tensors(), "'ema.2' is missing"),
        (good | {"ema.3": torch.zeros(1)}, "'ema.3' is unexpected"),
        (good | {"ema.1": torch.zeros(6, dtype=torch.float64)}, r"'ema.1' is \(6,\)"),
        (good | {"ema.1": torch.zeros(5)}, "float32 where the average has .*float64"),
    ]:
        with pytest.raises(DataError, match=words):
            average.load(bad)


def test_misuse() -> None:
    average = Average(started())
    with average.applied():
        with pytest.raises(ArgumentError, match="average the average"):
            average.update()
        with pytest.raises(ArgumentError, match="already"), average.applied():
            pass
        with pytest.raises(ArgumentError, match="would be undone"):
            average.settle()
    average.update()
    with pytest.raises(UnknownNameError, match="Did you mean 'ema'"):
        Average(started(), "eam")
    with pytest.raises(ArgumentError, match="`decay`"):
        Average(started(), "ema", 1.0)
    with pytest.raises(ArgumentError, match="`parameters`"):
        Average([])


def test_a_count_of_updates_is_not_negative() -> None:
    average = Average([torch.zeros(2)], "swa")
    state = average.tensors()
    with pytest.raises(DataError, match="'swa.count' is -1, not a number of updates"):
        average.load({**state, "swa.count": torch.tensor(-1)})
    assert average.count == 0
