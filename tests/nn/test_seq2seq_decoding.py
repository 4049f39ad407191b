"""Seq2Seq's decoders against all sequences counted out, and against a beam search without states."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.nn.small_seq2seq import (
    END,
    LETTERS,
    PADDING,
    SIZE,
    START,
    Table,
    all_sequences,
    assert_same,
    each_cell,
    log_probabilities,
    make,
    plain_beams,
    score,
    sources,
    teacher_forced,
)
from torch import Tensor
from torch.nn import functional

from unspool.decoding.sequences import Decoded
from unspool.errors import DivergenceError
from unspool.nn.seq2seq import Seq2Seq

pytestmark = pytest.mark.usefixtures("engine")


@each_cell
def test_every_cell_decodes_to_what_it_gives_when_taught(cell: Any) -> None:
    model, source = make(cell, scale=2.0), sources(4)
    greedy = model.greedy(source, max_length=6)
    beams = model.beam(source, max_length=6, width=4, best=4)
    drawn = model.sample(source, max_length=6, generator=torch.Generator().manual_seed(0))
    for row, found in enumerate(zip(greedy, drawn, *zip(*beams, strict=True), strict=True)):
        assert len({(one.tokens, one.finished) for one in found[2:]}) == 4
        for one in found:
            assert one.log_probability == pytest.approx(teacher_forced(model, source[row], one), abs=1e-10)
    for row, one in enumerate(greedy):
        for t, token in enumerate([*one.tokens, *([END] if one.finished else [])]):
            log_p = log_probabilities(model, source[row], one.tokens[:t])
            assert token == max((END, *LETTERS), key=lambda choice: float(log_p[choice]))
    assert_same(model.beam(source, max_length=6, width=1), greedy)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("cell", ["lstm", "skip"])
def test_a_wide_beam_finds_what_counting_out_finds(cell: str, penalty: float) -> None:
    max_length = 3
    model, source = make(cell, seed=3), sources(3)
    found = model.beam(source, max_length=max_length, width=SIZE**max_length, length_penalty=penalty)
    every = model.beam(source, max_length=max_length, width=SIZE**max_length, length_penalty=penalty, best=200)
    for row in range(3):
        expected = sorted(all_sequences(model, source[row], max_length), key=lambda one: -score(one, penalty))
        assert sum(math.exp(one.log_probability) for one in expected) < 1  # start and padding have the rest
        assert_same(found[row : row + 1], expected[:1])
        assert_same(every[row], expected)


@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 5),
    max_length=st.integers(1, 6),
    penalty=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_beams_equal_a_search_without_states(
    seed: int, width: int, max_length: int, penalty: float, data: st.DataObject
) -> None:
    best = data.draw(st.integers(1, width))
    model, source = make("gru", seed=seed), sources(3, seed=seed)
    found = model.beam(source, max_length=max_length, width=width, length_penalty=penalty, best=best)
    for row in range(3):
        assert_same(found[row], plain_beams(model, source[row], max_length, width, penalty)[:best])


def test_a_second_beam_leaves_the_garden_path() -> None:
    model = Table({START: {3: 0.6, 4: 0.4}, 3: {END: 0.3, 4: 0.4, 5: 0.3}, 4: {END: 0.9}, 5: {END: 1.0}})
    source = torch.ones(1, 1, dtype=torch.long)
    (greedy,) = model.greedy(source)
    assert_same([greedy], [Decoded((3, 4), math.log(0.6 * 0.4 * 0.9), True)])
    assert_same(model.beam(source, width=2), [Decoded((4,), math.log(0.4 * 0.9), True)])
    assert_same(model.beam(source, width=2, length_penalty=2.0), [Decoded((3, 4), math.log(0.6 * 0.4 * 0.9), True)])


def test_the_search_goes_on_while_a_beam_can_still_come_among_the_best() -> None:
    model = Table({START: {END: 0.5, 3: 0.3, 4: 0.2}, 3: {END: 0.01, 5: 0.99}, 4: {END: 0.9}, 5: {END: 1.0}})
    (found,) = model.beam(torch.ones(1, 1, dtype=torch.long), best=2)
    assert_same(found, [Decoded((), math.log(0.5), True), Decoded((3, 5), math.log(0.3 * 0.99), True)])


def test_start_and_padding_are_never_chosen_unless_start_is_the_end() -> None:
    source = torch.ones(1, 1, dtype=torch.long)
    model = Table({START: {START: 0.5, PADDING: 0.3, 3: 0.2}, 3: {START: 0.7, END: 0.3}})
    expected = Decoded((3,), math.log(0.2 * 0.3), True)
    assert_same(model.greedy(source), [expected])
    assert_same(model.beam(source, width=2), [expected])
    drawn = model.sample(source.expand(200, 1), generator=torch.Generator().manual_seed(0))
    assert_same(drawn, [expected] * 200)
    model.end = START
    assert_same(model.greedy(source), [Decoded((), math.log(0.5), True)])


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_are_as_frequent_as_they_are_probable(temperature: float) -> None:
    max_length, draws = 3, 20_000
    model, source = make("gru", scale=1.5), sources(1)
    expected: dict[tuple[tuple[int, ...], bool], float] = {}

    def walk(tokens: tuple[int, ...], p: float) -> None:
        if len(tokens) == max_length:
            expected[tokens, False] = p
            return
        choices = (END, *LETTERS)
        chances = torch.softmax(log_probabilities(model, source[0], tokens)[list(choices)] / temperature, -1)
        for token, chance in zip(choices, chances.tolist(), strict=True):
            if token == END:
                expected[tokens, True] = p * chance
            else:
                walk((*tokens, token), p * chance)

    walk((), 1.0)
    generator = torch.Generator().manual_seed(5)
    drawn = model.sample(source.expand(draws, -1), max_length=max_length, temperature=temperature, generator=generator)
    counts = dict.fromkeys(expected, 0)
    for one in drawn:
        counts[one.tokens, one.finished] += 1
    common = [key for key, p in expected.items() if p * draws >= 5]
    observed = [float(counts[key]) for key in common]
    assert sum(counts.values()) - sum(observed) <= 5 * (len(expected) - len(common))
    wanted = [expected[key] / sum(expected[key] for key in common) * sum(observed) for key in common]
    assert len(observed) > 5
    assert stats.chisquare(observed, wanted).pvalue > 0.001


def test_samples_follow_the_generator_and_not_the_other_rows() -> None:
    model, source = make("gru", seed=1), sources(6, seed=4)

    def draw(rows: Tensor, seed: int) -> list[Decoded]:
        return model.sample(rows, max_length=8, generator=torch.Generator().manual_seed(seed))

    assert draw(source, 0) == draw(source, 0)
    assert draw(source, 0) != draw(source, 1)
    changed = torch.cat((sources(3, seed=3), source[3:]))
    stops = 0
    for seed in range(10):
        first, second = draw(source, seed), draw(changed, seed)
        assert_same(first[3:], second[3:])
        stops += [len(one.tokens) for one in first[:3]] != [len(one.tokens) for one in second[:3]]
    assert stops > 2  # the others stopped elsewhere, and yet
    assert_same(draw(source[:2], 0), draw(source, 0)[:2])
    torch.manual_seed(7)
    by_default = model.sample(source, max_length=8)
    torch.manual_seed(7)
    assert model.sample(source, max_length=8) == by_default


@pytest.mark.parametrize(("luck", "token"), [(0.0, 3), (1 - 2**-53, 4)])
def test_luck_at_its_limits_draws_nothing_impossible(monkeypatch: pytest.MonkeyPatch, luck: float, token: int) -> None:
    model = Table({START: {3: 0.25, 4: 0.75}})
    model.table[START, END] = model.table[START, 5] = 0.0
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.full(size, luck, dtype=torch.float64))
    (drawn,) = model.sample(torch.ones(1, 1, dtype=torch.long), max_length=1)
    assert drawn.tokens == (token,)


@pytest.mark.parametrize("temperature", [1e-3, 1e-300])
def test_a_small_temperature_is_greedy(temperature: float) -> None:
    model, source = make(), sources()
    assert_same(model.sample(source, max_length=8, temperature=temperature), model.greedy(source, max_length=8))


DECODERS: dict[str, Callable[[Seq2Seq, Tensor, Any], list[Decoded]]] = {
    "greedy": lambda model, source, lengths: model.greedy(source, lengths, 7),
    "beam": lambda model, source, lengths: model.beam(source, lengths, 7, width=3, length_penalty=0.5),
}


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
def test_neither_padding_nor_neighbours_change_what_is_decoded(
    decode: Callable[[Seq2Seq, Tensor, Any], list[Decoded]],
) -> None:
    model = make("lstm", seed=15, scale=6.0)
    source, lengths = sources(6, 5, seed=6), [5, 0, 2, 4, 1, 3]
    alone = [decode(model, source[row : row + 1, :end], [end])[0] for row, end in enumerate(lengths)]
    assert len({one.tokens for one in alone}) == 4  # so that a mixed-up row would show
    assert_same(decode(model, source, lengths), alone, 1e-12)
    padded = source.masked_fill(torch.arange(5) >= torch.tensor(lengths).unsqueeze(1), PADDING)
    assert_same(decode(model, padded, None), alone, 1e-12)
    assert_same(decode(model, padded.flip(0), None), alone[::-1], 1e-12)
    assert_same(decode(model, functional.pad(padded, (0, 3), value=PADDING), None), alone, 1e-12)


def test_decoding_leaves_out_dropout_and_leaves_the_modes_alone() -> None:
    model, source = make(dropout=0.9), sources()
    model.train()
    model.encoder.eval()
    decoded = model.greedy(source, max_length=6), model.beam(source, max_length=6)
    assert model.training
    assert model.decoder.training
    assert not model.encoder.training
    model.eval()
    assert decoded == (model.greedy(source, max_length=6), model.beam(source, max_length=6))
    model.train()
    logits = model(source, source.clamp(max=5))
    assert not torch.allclose(logits, model(source, source.clamp(max=5)))


@pytest.mark.parametrize("decode", ["greedy", "sample", "beam"])
def test_a_model_of_nan_says_so(decode: str) -> None:
    model = make(scale=math.nan)
    with pytest.raises(DivergenceError, match="training may have diverged"):
        getattr(model, decode)(sources())
