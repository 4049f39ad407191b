"""Generation against probabilities by hand, all sequences counted out, models without states, and whole texts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from torch import nn

from unspool.decoding.generation import Predictor, beam_search, generate, generate_many
from unspool.decoding.sampling import Sampling
from unspool.errors import ArgumentError, DivergenceError
from unspool.nn.recurrent import Recurrent

GREEDY = Sampling(temperature=0)
SIZE = 4


def luck(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Markov:
    """Logits from a table by the last two ids; 0 stands before the first."""

    def __init__(self, seed: int = 0, size: int = SIZE) -> None:
        drawn = torch.randn(size, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.logits = 2 * drawn.numpy()

    def predict(self, ids: NDArray[np.int64], state: Any) -> tuple[NDArray[Any], Any]:
        before = np.zeros((ids.shape[1], 1), np.int64) if state is None else state[0][0]
        rows = np.concatenate((before, ids.T), 1)
        return self.logits[rows[:, -2], rows[:, -1]], ([rows[:, -1:]],)

    def log_p(self, prompt: Sequence[int], ids: Sequence[int]) -> float:
        """The log-probability of ids after a prompt, by NumPy."""
        history, total = [0, *prompt], 0.0
        for token in ids:
            row = self.logits[history[-2], history[-1]]
            total += float(row[token] - np.log(np.exp(row).sum()))
            history.append(token)
        return total


class Network(nn.Module):
    """A recurrent language model that carries its state."""

    def __init__(self, cell: str, size: int = 7) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(size, 5, dtype=torch.float64)
        self.layer = Recurrent(cell, 5, 6, dtype=torch.float64)
        self.head = nn.Linear(6, size, dtype=torch.float64)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(3)

    def predict(self, ids: NDArray[np.int64], state: Any) -> tuple[NDArray[Any], Any]:
        with torch.no_grad():
            output, state = self.layer(self.embedding(torch.as_tensor(ids)), state)
            return self.head(output[-1]).numpy(), state


class Rereading:
    """The same model without a state: it reads all ids again, which are kept (rows, time)."""

    def __init__(self, model: Predictor) -> None:
        self.model = model

    def predict(self, ids: NDArray[np.int64], state: Any) -> tuple[NDArray[Any], Any]:
        rows = ids.T if state is None else np.concatenate((state, ids.T), 1)
        return self.model.predict(rows.T, None)[0], rows


def by_hand(logits: Any, temperature: float, top_k: int | None, top_p: float | None, banned: set[int]) -> Any:
    """The probabilities of one row, token by token."""
    ranked = sorted(set(range(len(logits))) - banned, key=lambda token: (-logits[token], token))
    if temperature == 0:
        return np.eye(len(logits))[ranked[0]]
    ranked = ranked[:top_k]
    weights = [math.exp((logits[token] - logits[ranked[0]]) / temperature) for token in ranked]
    if top_p not in (None, 1):
        enough = next(n for n in range(1, len(weights) + 1) if sum(weights[:n]) >= top_p * sum(weights) - 1e-12)
        ranked, weights = ranked[:enough], weights[:enough]
    p = np.zeros(len(logits))
    p[ranked] = np.array(weights) / sum(weights)
    return p


@given(
    rows=st.lists(st.lists(st.integers(-6, 6), min_size=5, max_size=5), min_size=1, max_size=3),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.sampled_from([None, 1, 2, 4, 9]),
    top_p=st.sampled_from([None, 1e-9, 0.31, 0.62, 0.93, 1.0]),
    banned=st.sets(st.integers(0, 4), max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_probabilities_are_those_by_hand(
    rows: list[list[int]], temperature: float, top_k: int | None, top_p: float | None, banned: set[int]
) -> None:
    logits = np.array(rows, float)  # whole numbers, so that many are equal
    found = Sampling(temperature, top_k, top_p, tuple(banned)).probabilities(logits.astype(np.float32))
    assert found.dtype == np.float64
    expected = [by_hand(row, temperature, top_k, top_p, banned) for row in logits]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_probabilities_at_the_limits() -> None:
    tenths = np.zeros((1, 10))
    for count in range(1, 11):  # the sum of eight tenths is below 0.8 in floating point
        expected = [[1 / count] * count + [0.0] * (10 - count)]
        np.testing.assert_allclose(Sampling(top_p=count / 10).probabilities(tenths), expected, rtol=1e-14)
    rare = np.array([[0.0, -50.0]])
    assert Sampling(top_p=1.0).probabilities(rare)[0, 1] == pytest.approx(math.exp(-50), rel=1e-12)
    for temperature in (1e-300, 1e300):
        p = Sampling(temperature).probabilities(np.array([[3.0, -math.inf, 7.0, 2.0]]))
        assert p.tolist() == [[0, 0, 1, 0] if temperature < 1 else pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])]


def test_draws_are_as_frequent_as_they_are_probable() -> None:
    model, rows = Markov(3), 20_000
    drawn = generate_many(model, [1, 2], rows, 2, Sampling(0.8, top_p=0.95), luck(4))
    counts = Counter((first, second) for first, second in drawn)
    first_p = by_hand(model.logits[1, 2], 0.8, None, 0.95, set())
    p = np.stack([first_p[a] * by_hand(model.logits[2, a], 0.8, None, 0.95, set()) for a in range(SIZE)])
    possible = list(zip(*np.nonzero(p), strict=True))
    assert set(counts) <= set(possible)
    assert len(possible) > 5
    assert p[p > 0].min() * rows > 5
    assert stats.chisquare([counts[pair] for pair in possible], p[p > 0] * rows).pvalue > 0.01


def test_luck_at_its_limits_draws_nothing_impossible() -> None:
    with np.errstate(divide="ignore"):
        logits = np.log(np.array([[0.0, 0.25, 0.0, 0.75, 0.0]])).repeat(4, axis=0)
    drawn = Sampling().draw(logits, np.array([0.0, 0.2499, 0.2501, 1 - 2**-53]))
    assert drawn.tolist() == [1, 1, 3, 3]


def test_greedy_takes_the_likeliest_and_of_equals_the_first() -> None:
    model = Markov(5)
    model.logits[1, 1] = [2.0, 5.0, 5.0, 1.0]
    written = list(generate(model, [1, 1], 30, GREEDY, luck()))
    history = [1, 1]
    for token in written:
        assert token == int(np.argmax(model.logits[history[-2], history[-1]]))
        history.append(token)
    assert len(written) == 30
    assert written[0] == 1


def test_ids_stream_one_by_one() -> None:
    calls = []

    class Counting(Markov):
        def predict(self, ids: NDArray[np.int64], state: Any) -> tuple[NDArray[Any], Any]:
            calls.append(ids.flatten().tolist())
            return super().predict(ids, state)

    stream = generate(Counting(), [1, 2, 3], 3, Sampling(), luck())
    assert calls == []
    first = next(stream)
    assert calls == [[1, 2, 3]]
    rest = list(stream)
    assert calls == [[1, 2, 3], [first], [rest[0]]]  # nothing is read after the last


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_carried_state_is_reading_it_all_again(cell: str) -> None:
    model = Network(cell)
    prompt = [3, 1, 4, 1, 5]
    for sampling in (Sampling(), GREEDY, Sampling(0.7, top_k=5, top_p=0.9, banned=(0,))):
        written = list(generate(model, prompt, 20, sampling, luck(2)))
        assert written == list(generate(Rereading(model), prompt, 20, sampling, luck(2)))
        assert written == generate_many(model, prompt, 1, 20, sampling, luck(2))[0]
    for width, stop_id in itertools.product((1, 2, 5), (None, 2)):
        found = beam_search(model, [3, 1, 4], 8, width, stop_id, 0.5)
        again = beam_search(Rereading(model), [3, 1, 4], 8, width, stop_id, 0.5)
        assert [ids for _, ids in found] == [ids for _, ids in again]
        assert [p for p, _ in found] == pytest.approx([p for p, _ in again], abs=1e-11)


@pytest.mark.usefixtures("engine")
def test_many_rows_are_what_single_rows_are() -> None:
    model, prompts = Network("lstm"), [[a, b] for a in range(7) for b in range(7)]
    alone = [list(generate(model, prompt, 12, GREEDY, luck())) for prompt in prompts]
    assert generate_many(model, prompts, 49, 12, GREEDY, luck()) == alone
    stop_id = max(range(7), key=lambda token: sum(token in row for row in alone))
    ended = [row[: row.index(stop_id)] if stop_id in row else row for row in alone]
    assert len({len(row) for row in ended}) > 3
    assert generate_many(model, prompts, 49, 12, GREEDY, luck(), stop_id) == ended
    assert generate_many(model, [3, 5], 2, 12, GREEDY, luck()) == [alone[prompts.index([3, 5])]] * 2


def test_rows_draw_the_same_whenever_the_others_stop() -> None:
    model, sampling = Markov(6), Sampling(1.5)
    whole = generate_many(model, [2, 1], 50, 20, sampling, luck(3))
    assert len(set(map(tuple, whole))) == 50
    ended = generate_many(model, [2, 1], 50, 20, sampling, luck(3), stop_id=1)
    assert ended == [[*row, 1][: [*row, 1].index(1)] for row in whole]


def test_banned_ids_never_come_out() -> None:
    model = Markov(7)
    model.logits[:, :, 2] += 20
    free = generate_many(model, [0], 20, 20, Sampling(), luck())
    assert sum(row.count(2) for row in free) == 400
    kept = generate_many(model, [0], 100, 20, Sampling(banned=(2, 0)), luck())
    assert {token for row in kept for token in row} == {1, 3}
    assert all(2 not in ids for _, ids in beam_search(model, [0], 4, 500, banned=(2,)))
    assert len(beam_search(model, [0], 4, 500, banned=(2,))) == 3**4


@pytest.mark.parametrize("penalty", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("stop_id", [None, 1])
@pytest.mark.parametrize("banned", [(), (3,)])
def test_wide_beams_count_out_all_sequences(penalty: float, stop_id: int | None, banned: tuple[int, ...]) -> None:
    model, prompt, count = Markov(8), [2, 3], 4
    tokens = set(range(SIZE)) - {stop_id, *banned}
    every = [(ids, ids) for ids in itertools.product(tokens, repeat=count)]
    if stop_id is not None:
        every += [((*ids, stop_id), ids) for n in range(count) for ids in itertools.product(tokens, repeat=n)]
    scored = [(model.log_p(prompt, whole), len(whole), list(ids)) for whole, ids in every]
    scored.sort(key=lambda one: -one[0] / one[1] ** penalty)
    found = beam_search(model, prompt, count, SIZE**count, stop_id, penalty, banned)
    assert [ids for _, ids in found] == [ids for _, _, ids in scored]
    assert [p for p, _ in found] == pytest.approx([p for p, _, _ in scored], abs=1e-12)


@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_narrow_beams_are_a_search_by_hand(width: int) -> None:
    for seed in range(20):
        model = Markov(seed)
        live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        done: list[tuple[float, list[int]]] = []
        for _ in range(6):
            choices = [(*ids, token) for _, ids in live for token in range(SIZE)]
            best = sorted(((model.log_p([1], ids), ids) for ids in choices), reverse=True)[: width - len(done)]
            done += [(p, list(ids[:-1])) for p, ids in best if ids[-1] == 0]
            live = [(p, ids) for p, ids in best if ids[-1] != 0]
        expected = sorted(done + [(p, list(ids)) for p, ids in live], reverse=True)
        found = beam_search(model, [1], 6, width, stop_id=0)
        assert [ids for _, ids in found] == [ids for _, ids in expected]
        assert [p for p, _ in found] == pytest.approx([p for p, _ in expected], abs=1e-12)


BAD: list[tuple[Any, str, Sequence[Any]]] = [
    (Sampling, "temperature", (-0.1, math.inf, math.nan, "1", True, None)),
    (Sampling, "top_k", (0, -1, 2.0, True)),
    (Sampling, "top_p", (0, -0.5, 1.01, math.nan, "1", True)),
    (Sampling, "banned", ((-1,), (1, 0.5), ("a",))),
    (generate, "prompt", ([], [-1], [0.5], "ab")),
    (generate_many, "prompts", ([], [[], []], [[1], [1, 2]], [[1], [-1]])),
    (generate_many, "samples", (0, 1.0, 3)),
    (beam_search, "prompt", ([],)),
    (beam_search, "width", (0,)),
    (beam_search, "length_penalty", (-1, math.nan, "1")),
    (beam_search, "banned", ([-1], [SIZE], range(SIZE))),
    *((call, "count", (0, 1.5)) for call in (generate, generate_many, beam_search)),
    *((call, "stop_id", (-1, 0.5, SIZE, 3)) for call in (generate_many, beam_search)),
]
BAD_ONES = [(call, name, value) for call, name, values in BAD for value in values]


@pytest.mark.parametrize(("call", "name", "value"), BAD_ONES)
def test_every_bad_argument_is_refused(call: Any, name: str, value: Any) -> None:
    sampling = {"sampling": Sampling(banned=(3,)), "generator": luck()}
    good: dict[Any, dict[str, Any]] = {
        Sampling: {},
        generate: {"model": Markov(), "prompt": [1], "count": 2, **sampling},
        generate_many: {"model": Markov(), "prompts": [[1], [2]], "samples": 2, "count": 2, **sampling},
        beam_search: {"model": Markov(), "prompt": [1], "count": 2, "width": 2, "banned": (3,)},
    }
    call(**good[call])
    with pytest.raises(ArgumentError, match=f"`{name}"):
        call(**{**good[call], name: value})


def test_logits_that_cannot_be_sampled_are_refused() -> None:
    model = Markov()
    with pytest.raises(ArgumentError, match="no possible token"):
        next(generate(model, [1], 1, Sampling(banned=tuple(range(SIZE))), luck()))
    with pytest.raises(ArgumentError, match="`banned` .=4. is not in the vocabulary"):
        next(generate(model, [1], 1, Sampling(banned=(SIZE,)), luck()))
    with pytest.raises(ArgumentError, match="`logits`"):
        Sampling().probabilities(np.zeros(3))
    model.predict = lambda ids, state: (np.zeros((*ids.shape, SIZE)), None)  # type: ignore[method-assign]
    with pytest.raises(ArgumentError, match="`logits` .=.2, 1, 4.. is not .1, vocabulary."):
        next(generate(model, [1, 2], 1, Sampling(), luck()))
    for value in (math.nan, math.inf):
        broken = Markov()
        broken.logits[0, 1, 2] = value
        with pytest.raises(DivergenceError, match="diverged"):
            next(generate(broken, [1], 1, Sampling(), luck()))
        with pytest.raises(DivergenceError, match="diverged"):
            beam_search(broken, [1], 2, 2)
