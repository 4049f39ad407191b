"""LinearChainCRF against every sequence counted out, and against closed forms where there are too many to count."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from unspool.nn.crf import LinearChainCRF

F64 = torch.float64
TAGS, STEPS, LENGTHS = 3, 5, (3, 5, 0, 1, 4)
O, B, I = range(TAGS)  # noqa: E741 - the scheme's own letters

#: O, B and I: an I follows a B or an I. The last two indices are the start and the end.
BIO = np.ones((TAGS + 2, TAGS + 2), bool)
BIO[O, I] = BIO[TAGS, I] = False
#: Tag 1 is a dead end, and tag 0 may not come last: the likeliest tags cannot all go on.
NARROW = np.ones((TAGS + 2, TAGS + 2), bool)
NARROW[1, :TAGS] = NARROW[0, TAGS + 1] = NARROW[TAGS, 2] = False

each_scheme = pytest.mark.parametrize("allowed", [None, BIO, NARROW], ids=["all", "bio", "narrow"])


def make(allowed: Any = None, scale: float = 1.0, tags: int = TAGS, dtype: torch.dtype = F64, **options: Any) -> Any:
    model = LinearChainCRF(tags, allowed=allowed, dtype=dtype, **options)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, scale, generator)
    return model


def batch(scale: float = 1.0, steps: int = STEPS, tags: int = TAGS, rows: int = len(LENGTHS)) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return scale * torch.randn(steps, rows, tags, dtype=F64, generator=generator)


def count_out(model: LinearChainCRF, e: Tensor) -> dict[tuple[int, ...], float]:
    """Every sequence that is allowed over e (time, tags) and its score, in Python's own sums."""
    start, transitions, end = (p.detach().double().tolist() for p in (model.start, model.transitions, model.end))
    allowed = np.ones((model.tags + 2,) * 2, bool) if model.allowed is None else model.allowed.numpy()
    scores = {}
    for y in itertools.product(range(model.tags), repeat=len(e)):
        if y and all(allowed[i, j] for i, j in itertools.pairwise((model.tags, *y, model.tags + 1))):
            moves = [transitions[i][j] for i, j in itertools.pairwise(y)]
            scores[y] = math.fsum([start[y[0]], end[y[-1]], *moves, *(e[t, tag].item() for t, tag in enumerate(y))])
    return scores or {(): 0.0}


def pad(sequences: list[tuple[int, ...]], steps: int = STEPS) -> Tensor:
    """(time, batch), with what is no tag beyond the lengths."""
    return torch.tensor([[*y, *[-100] * (steps - len(y))] for y in sequences]).t()


@each_scheme
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_equals_every_sequence_counted_out(allowed: Any, scale: float) -> None:
    model, e = make(allowed, scale), batch(scale)
    partition = model.log_partition(e, LENGTHS).detach()
    marginals = model.marginals(e, LENGTHS)
    decoded, best = model.decode(e, LENGTHS)
    close: Any = {"rtol": 1e-14, "atol": 1e-10}
    for row, length in enumerate(LENGTHS):
        scores = count_out(model, e[:length, row])
        values: NDArray[np.float64] = np.array(list(scores.values()))
        np.testing.assert_allclose(partition[row], logsumexp(values), **close)
        np.testing.assert_allclose(best[row], values.max(), **close)
        assert scores[tuple(decoded[row])] == pytest.approx(values.max(), rel=1e-14)

        expected = np.zeros((STEPS, TAGS))
        for y, p in zip(scores, np.exp(values - logsumexp(values)), strict=True):
            for t, tag in enumerate(y):
                expected[t, tag] += p
        np.testing.assert_allclose(marginals[:, row], expected, rtol=0, atol=1e-10)
        for y in (max(scores, key=scores.__getitem__), min(scores, key=scores.__getitem__)):
            actual = model.log_likelihood(e[:, [row]], pad([y]), [length]).item()
            np.testing.assert_allclose(actual, scores[y] - logsumexp(values), **close)


@each_scheme
def test_probabilities_of_all_sequences_sum_to_one(allowed: Any) -> None:
    model, e = make(allowed), batch()[:, 1:2]
    sequences = list(count_out(model, e[:, 0]))
    total = model.log_likelihood(e.expand(-1, len(sequences), -1), pad(sequences)).exp().sum().item()
    assert total == pytest.approx(1, abs=1e-13)


def test_many_tags_by_products_of_matrices() -> None:
    """exp of the log-partition is startᵀ D₁ M D₂ M … D_T end, in the exponentials of the scores."""
    model, e = make(tags=72), batch(tags=72, steps=20, rows=4)
    start, M, end = (np.exp(p.detach().numpy()) for p in (model.start, model.transitions, model.end))
    for row in range(4):
        vector = start * np.exp(e[0, row].numpy())
        for t in range(1, 20):
            vector = vector @ M * np.exp(e[t, row].numpy())
        actual = model.log_partition(e)[row].item()
        assert actual == pytest.approx(math.log(vector @ end), abs=1e-10)


def test_without_transitions_each_step_is_a_softmax() -> None:
    model, e = LinearChainCRF(TAGS, dtype=F64), batch()
    torch.testing.assert_close(model.log_partition(e), e.logsumexp(-1).sum(0), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(model.marginals(e), e.softmax(-1), rtol=1e-13, atol=1e-13)
    assert model.decode(e)[0] == e.argmax(-1).t().tolist()


def test_a_detour_that_seems_lost_may_win() -> None:
    """The only way to I is a B whose share underflows, e^−1000; the I after it makes up for that."""
    for dtype, depth in ((F64, 1000.0), (torch.float32, 200.0)):
        model = LinearChainCRF(TAGS, allowed=BIO, dtype=dtype)
        e = torch.zeros(2, 1, TAGS, dtype=dtype)
        e[0, 0, B], e[1, 0, I] = -depth, 3 * depth
        e.requires_grad_()
        partition = model.log_partition(e)
        assert partition.item() == pytest.approx(2 * depth, rel=1e-6 if dtype == torch.float32 else 1e-14)
        partition.sum().backward()
        expected = torch.zeros_like(e)
        expected[0, 0, B] = expected[1, 0, I] = 1
        torch.testing.assert_close(e.grad, expected, rtol=1e-6, atol=1e-6)
        assert model.decode(e)[0] == [[B, I]]


@each_scheme
def test_gradcheck(allowed: Any) -> None:
    model, e = make(allowed), batch().requires_grad_()
    y = pad([tuple(row) for row in model.decode(-e, LENGTHS)[0]])
    names = [name for name, _ in model.named_parameters()]

    class Call(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.crf = model

        def forward(self, e: Tensor) -> tuple[Tensor, Tensor]:
            return self.crf.log_likelihood(e, y, LENGTHS), self.crf.log_partition(e, LENGTHS)

    def call(e: Tensor, *values: Tensor) -> Any:
        named = {f"crf.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(Call(), named, (e,))

    assert torch.autograd.gradcheck(call, (e, *model.parameters()))
    assert torch.autograd.gradgradcheck(call, (e, *model.parameters()), fast_mode=True)


@each_scheme
@pytest.mark.parametrize(("dtype", "scale"), [(F64, 1e4), (torch.float32, 80.0)])
def test_gradients_of_large_scores_are_differences_of_expected_counts(
    allowed: Any, dtype: torch.dtype, scale: float
) -> None:
    """∂ log P(y) / ∂ transitions[i, j] is how often j follows i in y, less how often it does on average."""
    model = make(allowed, scale, dtype=dtype)
    e = batch(scale).to(dtype).requires_grad_()
    sequences = [tuple(row) for row in model.decode(-e, LENGTHS)[0]]
    model.log_likelihood(e, pad(sequences), LENGTHS).sum().backward()
    expected = np.zeros((TAGS, TAGS))
    for row, length in enumerate(LENGTHS):
        scores = count_out(model, e[:length, row])
        total = logsumexp(list(scores.values()))
        for y, score in scores.items():
            for i, j in itertools.pairwise(y):
                expected[i, j] += (y == sequences[row]) - math.exp(score - total)
    tolerance = 1e-8 if dtype == F64 else 1e-3  # a float of 1,000 is known to 6e-5
    np.testing.assert_allclose(model.transitions.grad, expected, rtol=0, atol=tolerance)
    gradients = [value.grad for value in (e, model.start, model.end)]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


@each_scheme
@pytest.mark.parametrize("junk", [1e30, math.nan, math.inf, -math.inf])
def test_padding_changes_nothing(allowed: Any, junk: float) -> None:
    model, e, ends = make(allowed), batch(), torch.tensor(LENGTHS)
    beyond = (torch.arange(STEPS).unsqueeze(1) >= ends).unsqueeze(-1)
    y = pad([tuple(row) for row in model.decode(e, ends)[0]])
    results = []
    for values, tags in ((e, y), (e.masked_fill(beyond, junk), y.masked_fill(beyond.squeeze(-1), 77))):
        values = values.clone().requires_grad_()
        model.zero_grad()
        likelihood = model.log_likelihood(values, tags, ends)
        likelihood.sum().backward()
        paths, best = model.decode(values, ends)
        gradients = [values.grad, *(p.grad for p in model.parameters())]
        results.append(
            (
                likelihood.detach(),
                gradients,
                model.marginals(values, ends),
                torch.tensor([*itertools.chain(*paths)]),
                best,
            )
        )
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    assert bool((results[1][1][0][beyond.expand_as(e)] == 0).all())


def test_batch_first_is_the_transpose() -> None:
    one, other, e = make(BIO), make(BIO, batch_first=True), batch()
    flipped = e.transpose(0, 1)
    y = pad([tuple(row) for row in one.decode(e, LENGTHS)[0]])
    assert one.decode(e, LENGTHS)[0] == other.decode(flipped, LENGTHS)[0]
    assert torch.equal(one.log_likelihood(e, y, LENGTHS), other.log_likelihood(flipped, y.t(), LENGTHS))
    assert torch.equal(one.marginals(e, LENGTHS), other.marginals(flipped, LENGTHS).transpose(0, 1))


def test_nothing_to_tag() -> None:
    model = make(BIO)
    e, y = torch.ones(0, 2, TAGS, dtype=F64), torch.ones(0, 2, dtype=torch.int64)
    assert model.decode(e)[0] == [[], []]
    assert model.log_likelihood(e, y).tolist() == model.log_partition(e).tolist() == [0.0, 0.0]
    assert model.marginals(e).shape == e.shape
    e, y = torch.ones(4, 0, TAGS, dtype=F64), torch.ones(4, 0, dtype=torch.int64)
    assert model.decode(e)[0] == model.log_likelihood(e, y).tolist() == []
    empty = make(np.zeros((TAGS + 2, TAGS + 2), bool))  # the empty sequence is left
    e = batch().requires_grad_()
    value = empty.log_partition(e, [0] * len(LENGTHS))
    value.sum().backward()
    assert value.tolist() == [0.0] * len(LENGTHS)
    assert torch.equal(e.grad, torch.zeros_like(e))  # type: ignore[arg-type]


def test_inference_mode_and_autocast() -> None:
    model, e = make(BIO, dtype=torch.float32), batch().float()
    expected = model.marginals(e, LENGTHS)
    with torch.inference_mode():
        assert torch.equal(model.marginals(e.clone(), LENGTHS), expected)
    with torch.autocast("cpu", torch.bfloat16):
        rough = e.bfloat16()
        assert torch.equal(model.log_partition(rough, LENGTHS), model.log_partition(rough.float(), LENGTHS))


def test_learns_what_follows_what() -> None:
    """Without evidence from emissions, sequences become as likely as they were frequent."""
    model = LinearChainCRF(2, dtype=F64)
    y = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]).t()
    counts = torch.tensor([3.0, 2.0, 1.0, 2.0], dtype=F64)
    e = torch.zeros(2, 4, 2, dtype=F64)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, tolerance_grad=1e-10, tolerance_change=1e-16)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -(counts * model.log_likelihood(e, y)).sum()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        probabilities = model.log_likelihood(e, y).exp()
    torch.testing.assert_close(probabilities, counts / counts.sum(), rtol=0, atol=1e-8)


def test_the_scheme_is_not_in_the_state() -> None:
    assert sorted(make(BIO).state_dict()) == ["end", "start", "transitions"]
    assert "allowed=some" in repr(make(BIO))


def test_bad_emissions() -> None:
    model, e = make(), batch()
    y = torch.zeros(STEPS, len(LENGTHS), dtype=torch.int64)
    with pytest.raises(ArgumentTypeError, match="`emissions`"):
        model.decode(e.tolist())
    for wrong in (e[0], e[..., :2], e.unsqueeze(0)):
        with pytest.raises(ShapeError, match=r"`emissions` .* Give a tensor \(time, batch, 3\)"):
            model.log_partition(wrong)
    with pytest.raises(DTypeError, match="`emissions` has dtype torch.float32"):
        model.marginals(e.float())
    with pytest.raises(ArgumentError, match="`lengths`"):
        model.log_likelihood(e, y, [9] * len(LENGTHS))
    with pytest.raises(ShapeError, match="`lengths`"):
        model.decode(e, [1])
    for value in (math.nan, math.inf):
        e = batch()
        e[2, 1, 0] = value
        with pytest.raises(ArgumentError, match="no best sequence: the score of sequence 1 is"):
            model.decode(e, LENGTHS)
    assert model.log_partition(e, LENGTHS).isfinite().tolist() == [True, False, True, True, True]


def test_bad_tags() -> None:
    model, e = make(BIO), batch()
    y = torch.zeros(STEPS, len(LENGTHS), dtype=torch.int64)
    with pytest.raises(ArgumentTypeError, match="`tags`"):
        model.log_likelihood(e, y.tolist())
    with pytest.raises(DTypeError, match="`tags` has dtype torch.float32"):
        model.log_likelihood(e, y.float())
    with pytest.raises(ShapeError, match=r"`tags` .* is not of shape \(5, 5\)"):
        model.log_likelihood(e, y[1:])
    for tag, step, row, problem in (
        (3, 2, 1, r"`tags` \(=3\) at step 2 of sequence 1 is no tag. Give numbers from 0 to 2"),
        (-1, 0, 3, r"`tags` \(=-1\) at step 0 of sequence 3 is no tag"),
        (I, 0, 3, r"`tags` \(=\[2\]\) has tag 2 at step 0 of sequence 3, which may not come first"),
        (I, 3, 4, r"`tags` \(=\[0, 0, 0, 2\]\) has tag 2 after tag 0 at step 3 of sequence 4, which is not allowed"),
    ):
        wrong = y.clone()
        wrong[step, row] = tag
        with pytest.raises(ArgumentError, match=problem):
            model.log_likelihood(e, wrong, LENGTHS)
    with pytest.raises(ArgumentError, match="has tag 0 at step 2 of sequence 0, its last, which may not come last"):
        make(NARROW).log_likelihood(e[:, :1], y[:, :1], [3])


def test_bad_schemes() -> None:
    with pytest.raises(DTypeError, match="`allowed` .* is of dtype torch.int64"):
        make(BIO.astype(int))
    with pytest.raises(ShapeError, match=r"`allowed` \(=\(3, 3\)\) does not fit 3 tags. .* the start, then the end"):
        make(BIO[:3, :3])
    with pytest.raises(ArgumentTypeError, match="`allowed`"):
        make([[True], [True, False]])
    with pytest.raises(ArgumentTypeError, match="`allowed`"):
        make("BIO")
    once = BIO.copy()
    once[:TAGS, :TAGS] = False
    assert make(once).decode(batch(), [1] * len(LENGTHS))[1].isfinite().all()
    with pytest.raises(ArgumentError, match=r"`allowed` .* allows no sequence of 3 tag\(s\), the length of sequence 0"):
        make(once).decode(batch(), [3, 1, 1, 1, 1])
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(ArgumentError, match="`tags`"):
            LinearChainCRF(wrong)  # type: ignore[arg-type]
