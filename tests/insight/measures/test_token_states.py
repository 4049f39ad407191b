"""Token states: Elman's finding in a generated language, clusters against scipy's, distances pair by pair."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy.cluster import hierarchy
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import LENGTHS, each_cell
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells import Cell, Elman, Linear
from unspool.errors import ShapeError
from unspool.insight.measures.token_states import link, measure_token_states
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent

ANIMATE, THINGS = ("man", "woman", "boy", "cat"), ("glass", "plate", "rock", "book")
#: What kinds of sentences there are, and how likely.
SENTENCES = (
    (0.4, (ANIMATE, ("think", "sleep"))),
    (0.1, (ANIMATE, ("see", "chase"), ANIMATE)),
    (0.1, (ANIMATE, ("smash", "move"), THINGS)),
    (0.4, (THINGS, ("break", "fall"))),
)
VERBS = frozenset({"think", "sleep", "see", "chase", "smash", "move", "break", "fall"})


class Predictor(nn.Module):
    """Elman's network: it learns to foresee the next word."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = words
        self.rnn = Recurrent("elman", words, 12)
        self.head = nn.Linear(12, words)

    def forward(self, text: Tensor) -> Tensor:
        scores = self.head(self.rnn(functional.one_hot(text[:-1], self.words).float())[0])
        return functional.cross_entropy(scores.flatten(0, 1), text[1:].flatten())


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    options = {} if lengths is None else {"lengths": lengths}
    return record(model, lambda model: loss_of(model(x, **options)[0]))


def echo(states: list[list[list[float]]]) -> Recording:
    """A layer whose states are these, (time, rows, width)."""
    x = torch.tensor(states, dtype=torch.float64)
    layer: Any = Recurrent(Linear(), x.shape[-1], x.shape[-1], dtype=torch.float64)
    with torch.no_grad():
        layer.U_h.zero_()
        layer.W_h.copy_(torch.eye(x.shape[-1]))
    return recorded(layer, x)


@pytest.mark.parametrize("seed", [0, 1])
def test_words_of_a_kind_are_close(seed: int) -> None:
    """From order alone: verbs apart from nouns, then animate ones from things (Elman 1990; D12)."""
    chance = np.random.default_rng(seed)
    text: list[str] = []
    while len(text) < 1200:
        kind = chance.choice(len(SENTENCES), p=[share for share, _ in SENTENCES])
        text += [words[chance.integers(len(words))] for words in SENTENCES[kind][1]]
    words = sorted(set(text))
    numbers = torch.tensor([words.index(word) for word in text[:1200]]).reshape(60, 20).T
    torch.manual_seed(seed)
    model = Predictor(len(words))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        model(numbers).backward()
        optimizer.step()
    recording = record(model, lambda model: model(numbers))
    found = measure_token_states(recording, [[words[n] for n in step] for step in numbers[:-1].tolist()])
    clusters = {frozenset(found.types[leaf] for leaf in leaves) for leaves in split(found.linkage, 3)}
    assert clusters == {VERBS, frozenset(ANIMATE), frozenset(THINGS)}
    nouns = frozenset(ANIMATE + THINGS)
    assert {frozenset(found.types[leaf] for leaf in leaves) for leaves in split(found.linkage, 2)} == {VERBS, nouns}
    assert 0.05 < found.same < found.other
    word, first, second = found.example
    assert first != second
    assert first.split()[-1] == second.split()[-1] == word
    ordered = [found.types[leaf] in VERBS for leaf in found.order]
    assert ordered in (sorted(ordered), sorted(ordered, reverse=True))


def split(linkage: Any, count: int) -> list[list[int]]:
    """The clusters below the tree's highest joints."""
    numbers = hierarchy.fcluster(linkage, count, "maxclust")
    return [np.flatnonzero(numbers == number).tolist() for number in range(1, count + 1)]


@pytest.mark.parametrize("count", [2, 3, 7, 30, 60])
def test_clusters_are_scipys(count: int) -> None:
    points = np.random.default_rng(count).normal(size=(count, 5))
    expected = hierarchy.linkage(points, "ward")
    np.testing.assert_allclose(link(points), expected, rtol=1e-10)
    names = [[f"{n:02}" for n in range(count)]]
    found = measure_token_states(echo([points.tolist()]), names)
    np.testing.assert_allclose(found.linkage, expected, rtol=1e-10)
    assert found.order.tolist() == hierarchy.leaves_list(expected).tolist()
    centerd = points - points.mean(0)
    np.testing.assert_allclose(
        (found.centers2d**2).sum(0), np.linalg.eigvalsh(centerd.T @ centerd)[::-1][:2], rtol=1e-9, atol=1e-12
    )


def test_few_types() -> None:
    none = measure_token_states(echo([[[1.0, 2.0]]]), [["a"]])
    assert (none.types, none.counts.tolist(), none.order.tolist(), none.example) == (("a",), [1], [0], ())
    assert none.linkage.shape == (0, 4)
    assert none.centers2d.tolist() == [[0, 0]]
    assert math.isnan(none.same)
    assert math.isnan(none.other)
    line = measure_token_states(echo([[[1.0]], [[3.0]], [[-1.0]]]), [["a"], ["b"], ["b"]])
    assert line.types == ("b", "a")
    assert line.centers2d.tolist() == [[0, 0], [0, 0]]
    assert (line.same, line.other) == (2, 1)
    assert line.example == ("b", "a b", "a b b")


def test_no_tokens_at_all() -> None:
    model, x = small_stack(Elman()), small_input(Elman(), steps=2, rows=2)
    found = measure_token_states(recorded(model, x, [0, 0]), [["", ""], ["", ""]])
    assert (found.types, found.example, found.order.tolist()) == ((), (), [])
    assert (found.centers2d.shape, found.linkage.shape) == ((0, 2), (0, 4))


def test_the_most_frequent_types() -> None:
    tokens = [[f"rare {t}" if t % 2 else "often"] for t in range(140)]
    states = np.random.default_rng(0).normal(size=(140, 1, 3))
    found = measure_token_states(echo(states.tolist()), tokens)
    assert len(found.types) == 60
    assert (found.types[0], found.counts[0]) == ("often", 70)
    assert found.types[1:] == tuple(f"rare {t}" for t in range(1, 119, 2))


def test_a_state_of_zero_is_far_from_all() -> None:
    found = measure_token_states(echo([[[0.0, 0.0]], [[1.0, 0.0]], [[1.0, 1.0]]]), [["a"], ["a"], ["b"]])
    assert found.same == 1
    assert found.other == pytest.approx((1 + (1 - 0.5**0.5)) / 2)


@each_cell
@pytest.mark.parametrize(("layers", "both", "lengths"), [(1, False, None), (2, True, LENGTHS)])
def test_distances_pair_by_pair(cell: Cell, layers: int, both: bool, lengths: Any) -> None:
    recording = recorded(small_stack(cell, layers, both), small_input(cell), lengths)
    tokens = [["abc"[(3 * t + t * row) % 3 if row else t % 2] for row in range(5)] for t in range(5)]
    assert [layer.label for layer in recording.layers if not layer.reverse][-1].startswith(f"layer {layers}")
    for chosen in (None, recording.layers[-1]):
        found = measure_token_states(recording, tokens, chosen)
        layer = chosen or [layer for layer in recording.layers if not layer.reverse][-1]
        places = [(row, t) for t, row in layer.live.nonzero().tolist()]
        places.sort()
        states = [layer.output[t, row].numpy() for row, t in places]
        kinds = [tokens[t][row] for row, t in places]
        pairs = [(a, b) for a in range(len(places)) for b in range(a)]
        distances = {pair: cosine(*(states[one] for one in pair)) for pair in pairs}
        same = [distances[pair] for pair in pairs if kinds[pair[0]] == kinds[pair[1]]]
        other = [distances[pair] for pair in pairs if kinds[pair[0]] != kinds[pair[1]]]
        assert found.same == pytest.approx(np.mean(same), rel=1e-9, abs=1e-12)
        assert found.other == pytest.approx(np.mean(other), rel=1e-9, abs=1e-12)
        assert dict(zip(found.types, found.counts.tolist(), strict=True)) == Counter(kinds)
        means = [np.mean([s for s, k in zip(states, kinds, strict=True) if k == kind], 0) for kind in found.types]
        np.testing.assert_allclose(found.linkage, hierarchy.linkage(means, "ward"), rtol=1e-9)


def cosine(a: Any, b: Any) -> float:
    lengths = math.sqrt(a @ a) * math.sqrt(b @ b)
    return float(1 - a @ b / lengths) if lengths else 1.0


def test_contexts_in_the_order_of_reading() -> None:
    """A layer that reads backwards has as context what comes after, within the row."""
    torch.manual_seed(0)
    model = Recurrent("elman", 2, 3, reverse=True, dtype=torch.float64)
    x = torch.randn(4, 1, 2, dtype=torch.float64)
    found = measure_token_states(recorded(model, x, [3]), [["a"], ["b"], ["a"], ["padding"]])
    assert found.types == ("a", "b")
    assert found.example == ("a", "a b a", "a") or found.example == ("a", "a", "a b a")


def test_tokens_that_do_not_fit() -> None:
    recording = echo([[[1.0], [2.0]]])
    for tokens in ([["a"]], [["a", "b"], ["c", "d"]]):
        with pytest.raises(ShapeError, match="tokens"):
            measure_token_states(recording, tokens)
