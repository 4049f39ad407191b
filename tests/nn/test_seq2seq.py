"""Seq2Seq against torch.nn's LSTM, against all sequences counted out, and against a beam search without states."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from unspool.cells import CATALOGUE, LSTM, Cell, Jordan, Skip, Symbol, sigmoid, tanh
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, UnknownNameError
from unspool.nn.seq2seq import Decoded, Seq2Seq

PADDING, START, END = 0, 1, 2
LETTERS = (3, 4, 5)
SIZE = 6


class Fading(Cell):
    """A user's cell: three states of two widths."""

    @property
    def sizes(self) -> dict[str, int]:
        return {"slow": 3}

    @property
    def state_widths(self) -> dict[str, str]:
        return {"s": "slow"}

    def step(self, x: Symbol, h: Symbol, c: Symbol, s: Symbol) -> tuple[Symbol, Symbol, Symbol]:
        k = sigmoid(self.linear("k", x, s))
        s = tanh(self.linear("s", x, s, width="slow"))
        c = k * c + (1 - k) * tanh(self.linear("c", x, h))
        return tanh(self.linear("h", c, s)), c, s


CELLS: dict[str, Any] = {name: name for name in CATALOGUE} | {
    "user's": Fading,
    "lstm, projected": LSTM(projection=2),
    "jordan, narrow": Jordan(output_size=3),
    "skip, span 3": Skip(span=3),
}


def make(cell: Any = "lstm", layers: int = 2, seed: int = 0, scale: float = 3.0, **options: Any) -> Seq2Seq:
    """A small float64 model whose weights are large enough for its choices to differ."""
    torch.manual_seed(seed)
    model = Seq2Seq(7, SIZE, 4, 4, layers, cell=cell, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def sources(rows: int = 5, steps: int = 4, seed: int = 1) -> Tensor:
    return torch.randint(1, 7, (rows, steps), generator=torch.Generator().manual_seed(seed))


def log_probabilities(model: Seq2Seq, source: Tensor, prefix: tuple[int, ...]) -> Tensor:
    """(size,): of what follows a prefix, from a teacher-forced pass over it all."""
    with torch.no_grad():
        logits = model(source.unsqueeze(0), torch.tensor([[START, *prefix]]), [len(source)])
    return functional.log_softmax(logits[0, -1], -1)


def teacher_forced(model: Seq2Seq, source: Tensor, decoded: Decoded) -> float:
    """The log-probability of a decoded sequence by one teacher-forced pass."""
    following = [*decoded.tokens, *([END] if decoded.finished else [])]
    with torch.no_grad():
        logits = model(source.unsqueeze(0), torch.tensor([[START, *following[:-1]]]), [len(source)])
    return -float(functional.cross_entropy(logits[0], torch.tensor(following), reduction="sum"))


def all_sequences(model: Seq2Seq, source: Tensor, max_length: int) -> Iterator[Decoded]:
    """Every sequence that decoding could give, with its log-probability."""
    for length in range(max_length + 1):
        for tokens in itertools.product(LETTERS, repeat=length):
            decoded = Decoded(tokens, 0.0, length < max_length)
            yield Decoded(tokens, teacher_forced(model, source, decoded), decoded.finished)


def score(decoded: Decoded, penalty: float) -> float:
    return float(decoded.log_probability / (len(decoded.tokens) + decoded.finished) ** penalty)


def assert_same(ours: list[Decoded], theirs: list[Decoded], tolerance: float = 1e-10) -> None:
    assert [(one.tokens, one.finished) for one in ours] == [(one.tokens, one.finished) for one in theirs]
    assert [one.log_probability for one in ours] == pytest.approx(
        [one.log_probability for one in theirs], abs=tolerance
    )


def test_logits_and_gradients_equal_a_composition_of_torch_modules() -> None:
    model = make(layers=2, scale=1.0)
    source, lengths = sources(4, 5), torch.tensor([5, 2, 4, 1])
    target = torch.randint(0, SIZE, (4, 3), generator=torch.Generator().manual_seed(2))
    encoder, decoder = (nn.LSTM(4, 4, 2, batch_first=True, dtype=torch.float64) for _ in range(2))
    with torch.no_grad():
        for theirs, ours in ((encoder, model.encoder), (decoder, model.decoder)):
            for level, layer in enumerate(ours.layers):
                for kind, parts in (("weight_ih", "W"), ("weight_hh", "U"), ("bias_ih", "b")):
                    stacked = torch.cat([getattr(layer, f"{parts}_{gate}") for gate in "ifgo"])
                    getattr(theirs, f"{kind}_l{level}").copy_(stacked)
                getattr(theirs, f"bias_hh_l{level}").zero_()
    packed = pack_padded_sequence(model.source_embedding(source), lengths, batch_first=True, enforce_sorted=False)
    _, state = encoder(packed)
    output, _ = decoder(model.target_embedding(target), state)
    expected = model.head(output)
    logits = model(source, target, lengths)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)

    weights = torch.randn(logits.shape, dtype=torch.float64)
    shared = [model.source_embedding.weight, model.target_embedding.weight, model.head.weight]
    for ours, theirs in zip(
        torch.autograd.grad((weights * logits).sum(), shared),
        torch.autograd.grad((weights * expected).sum(), shared),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_steps_equal_the_teacher_forced_pass() -> None:
    model, source = make("gru"), sources(3)
    target = torch.tensor([[START, 3, 4], [START, 5, 5], [START, 4, 3]])
    expected = functional.log_softmax(model(source, target), -1)
    state = model.encode(source)
    for t in range(3):
        log_p, state = model.step(state, target[:, t])
        torch.testing.assert_close(log_p, expected[:, t], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
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


def plain_beams(model: Seq2Seq, source: Tensor, max_length: int, width: int, penalty: float) -> list[Decoded]:
    """Beam search that keeps no states and stops no sooner than it must."""
    live, done = [Decoded()], list[Decoded]()
    for _ in range(max_length):
        candidates = []
        for one in live:
            log_p = log_probabilities(model, source, one.tokens)
            for token in (END, *LETTERS):
                total = one.log_probability + float(log_p[token])
                candidates.append(
                    Decoded(one.tokens, total, True) if token == END else Decoded((*one.tokens, token), total)
                )
        candidates.sort(key=lambda one: -one.log_probability)
        kept = candidates[: width - len(done)]
        done += [one for one in kept if one.finished]
        live = [one for one in kept if not one.finished]
    return sorted(done + live, key=lambda one: -score(one, penalty))


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


class Table(Seq2Seq):
    """A model whose next token depends on the last one, by a table of probabilities."""

    def __init__(self, table: dict[int, dict[int, float]]) -> None:
        super().__init__(SIZE, SIZE, 1, 1, dtype=torch.float64)
        self.table = torch.full((SIZE, SIZE), 1e-9, dtype=torch.float64)
        for last, following in table.items():
            for token, p in following.items():
                self.table[last, token] = p

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        return self.table[tokens].log(), state


def test_a_second_beam_leaves_the_garden_path() -> None:
    model = Table({START: {3: 0.6, 4: 0.4}, 3: {END: 0.3, 4: 0.4, 5: 0.3}, 4: {END: 0.9}, 5: {END: 1.0}})
    source = torch.ones(1, 1, dtype=torch.long)
    (greedy,) = model.greedy(source)
    assert_same([greedy], [Decoded((3, 4), math.log(0.6 * 0.4 * 0.9), True)])
    assert_same(model.beam(source, width=2), [Decoded((4,), math.log(0.4 * 0.9), True)])
    assert_same(model.beam(source, width=2, length_penalty=2.0), [Decoded((3, 4), math.log(0.6 * 0.4 * 0.9), True)])


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
    rare = [key for key, p in expected.items() if p * draws < 10]
    observed = [float(counts[key]) for key in expected if key not in rare] + [float(sum(counts[key] for key in rare))]
    wanted = [p * draws for key, p in expected.items() if key not in rare] + [
        draws * sum(expected[key] for key in rare)
    ]
    assert len(observed) > 5
    assert stats.chisquare(observed, [value * draws / sum(wanted) for value in wanted]).pvalue > 0.001


def test_samples_follow_the_generator_and_not_the_other_rows() -> None:
    model, source = make("gru", scale=1.0), sources(6, seed=4)

    def draw(rows: Tensor, seed: int) -> list[Decoded]:
        return model.sample(rows, max_length=8, generator=torch.Generator().manual_seed(seed))

    assert draw(source, 0) == draw(source, 0)
    assert draw(source, 0) != draw(source, 1)
    changed = torch.cat((source[:2], source[2:].flip(0)))
    assert_same(draw(changed, 0)[:2], draw(source, 0)[:2])
    assert_same(draw(source[:2], 0), draw(source, 0)[:2])
    torch.manual_seed(7)
    first = model.sample(source, max_length=8)
    torch.manual_seed(7)
    assert model.sample(source, max_length=8) == first


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
    model = make("lstm", seed=5)
    source, lengths = sources(6, 5, seed=6), [5, 0, 2, 4, 1, 3]
    alone = [decode(model, source[row : row + 1, :end], [end])[0] for row, end in enumerate(lengths)]
    assert len({one.tokens for one in alone}) > 2
    assert_same(decode(model, source, lengths), alone, 1e-12)
    padded = source.masked_fill(torch.arange(5) >= torch.tensor(lengths).unsqueeze(1), PADDING)
    assert_same(decode(model, padded, None), alone, 1e-12)
    assert_same(decode(model, padded.flip(0), None), alone[::-1], 1e-12)
    assert_same(decode(model, functional.pad(padded, (0, 3), value=PADDING), None), alone, 1e-12)


def test_neither_padding_nor_neighbours_change_logits_and_gradients() -> None:
    model = make("lstm", seed=5)
    source, lengths = sources(4, 5, seed=6), torch.tensor([5, 0, 2, 4])
    target, ends = torch.randint(0, SIZE, (4, 4), generator=torch.Generator().manual_seed(3)), [4, 2, 1, 3]
    parameters = list(model.parameters())
    weights = torch.randn(4, 4, SIZE, dtype=torch.float64)

    expected = [torch.zeros_like(parameter) for parameter in parameters]
    rows = []
    for row, end in enumerate(ends):
        rows.append(model(source[row : row + 1, : lengths[row]], target[row : row + 1, :end])[0])
        for total, part in zip(
            expected, torch.autograd.grad((weights[row, :end] * rows[-1]).sum(), parameters), strict=True
        ):
            total += part

    padded = source.masked_fill(torch.arange(5) >= lengths.unsqueeze(1), PADDING)
    for given, said in ((source, lengths), (padded, None)):
        logits = model(given, target, said)
        loss = sum((weights[row, :end] * logits[row, :end]).sum() for row, end in enumerate(ends))
        assert isinstance(loss, Tensor)
        for row, end in enumerate(ends):
            torch.testing.assert_close(logits[row, :end], rows[row], rtol=0, atol=1e-12)
        for ours, theirs in zip(torch.autograd.grad(loss, parameters), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_padding_within_a_source_is_a_token_and_an_empty_source_is_the_initial_state() -> None:
    model = make()
    with_hole = torch.tensor([[3, PADDING, 4, PADDING]])
    target = torch.tensor([[START, 3]])
    torch.testing.assert_close(model(with_hole, target), model(with_hole, target, [3]), rtol=0, atol=0)
    assert not torch.allclose(model(with_hole, target), model(torch.tensor([[3, 4]]), target))
    from_zero, _ = model.decoder(model.target_embedding(target))
    for empty in (torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long)):
        torch.testing.assert_close(model(empty, target), model.head(from_zero), rtol=0, atol=1e-14)
    nobody = torch.zeros(0, 3, dtype=torch.long)
    assert model.greedy(nobody) == model.sample(nobody) == model.beam(nobody) == []


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_gradcheck(cell: Any) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(4, 4, 2, 2, 2, cell=cell, dtype=torch.float64)
    source, target = torch.tensor([[3, 1, 2], [2, 3, 0]]), torch.tensor([[1, 3], [1, 2]])
    names, parameters = zip(*model.named_parameters(), strict=True)

    def logits(*values: Tensor) -> Any:
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (source, target))

    assert torch.autograd.gradcheck(logits, parameters)


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


def test_layers_may_differ() -> None:
    model = Seq2Seq(7, SIZE, 3, [4, 5], 2, cell=["lstm", "gru"], dtype=torch.float64)
    source = sources(2)
    for row, one in enumerate(model.beam(source, max_length=5)):
        assert one.log_probability == pytest.approx(teacher_forced(model, source[row], one), abs=1e-10)


def test_a_small_model_learns_to_reverse() -> None:
    torch.manual_seed(0)
    strings = [letters for length in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=length)]

    def pad(rows: list[tuple[int, ...]]) -> Tensor:
        return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, PADDING)

    source = pad(strings)
    reversed_strings = [letters[::-1] for letters in strings]
    target, following = pad([(START, *row) for row in reversed_strings]), pad([(*row, END) for row in reversed_strings])
    model = Seq2Seq(SIZE, SIZE, 16, 32, cell="gru")
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(source, target).flatten(0, 1), following.flatten(), ignore_index=PADDING)
        loss.backward()
        optimiser.step()
    for decoded in (model.greedy(source), model.beam(source)):
        assert [one.tokens for one in decoded] == reversed_strings
        assert all(one.finished and one.log_probability < 0 for one in decoded)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source_size": 0}, ArgumentError, "`source_size` .=0. is not positive"),
        ({"target_size": 2.5}, ArgumentTypeError, "`target_size` .=2.5. is of type float"),
        ({"embedding_size": -1}, ArgumentError, "`embedding_size`"),
        ({"hidden_size": float("nan")}, ArgumentTypeError, "`hidden_size`"),
        ({"num_layers": 0}, ArgumentError, "`num_layers`"),
        ({"cell": "lstn"}, UnknownNameError, "Did you mean 'lstm'"),
        ({"dropout": 2.0}, ArgumentError, "`dropout` .=2.0. is not a probability"),
        ({"start": 6}, ArgumentError, "`start` .=6. is not a token from 0 to 5"),
        ({"end": -1}, ArgumentError, "`end` .=-1. is not a token"),
        ({"padding": "0"}, ArgumentTypeError, "`padding` .='0'. is not a whole number"),
        ({"padding": 5, "source_size": 5}, ArgumentError, "`padding` .=5. is not a token from 0 to 4"),
    ],
)
def test_bad_models(options: dict[str, Any], error: type[Exception], message: str) -> None:
    sizes = {"source_size": 7, "target_size": SIZE, "embedding_size": 4, "hidden_size": 4}
    with pytest.raises(error, match=message):
        Seq2Seq(**(sizes | options))


GOOD = torch.ones(2, 3, dtype=torch.long)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: model([[1, 2]], GOOD), ArgumentTypeError, "`source` .* is not a torch tensor"),
        (lambda model: model(GOOD.double(), GOOD), DTypeError, "`source` .* Convert it by source.long"),
        (lambda model: model(GOOD, GOOD.bool()), DTypeError, "`target`"),
        (lambda model: model(GOOD[0], GOOD), ShapeError, r"`source` .=\(3,\). has 1 dimension.* Give \(batch, time\)"),
        (lambda model: model(GOOD, GOOD[..., None]), ShapeError, "`target` .* has 3 dimension"),
        (lambda model: model(GOOD, GOOD[:1]), ShapeError, "`target` .* does not have the 2 rows"),
        (lambda model: model(GOOD * 7, GOOD), ArgumentError, "`source` .=7. is not a token from 0 to 6"),
        (lambda model: model(GOOD, -GOOD), ArgumentError, "`target` .=-1. is not a token from 0 to 5"),
        (lambda model: model(GOOD, GOOD, [1]), ShapeError, "are not 2 numbers"),
        (lambda model: model(GOOD, GOOD, [1, 4]), ArgumentError, "are not all from 0 to 3"),
        (lambda model: model(GOOD, GOOD, [1.0, 2.0]), DTypeError, "Give whole numbers"),
        (lambda model: model(GOOD.to("meta"), GOOD), RuntimeError, "`source` .* is not the model's cpu"),
        (lambda model: model.greedy(GOOD, max_length=0), ArgumentError, "`max_length` .=0. is not positive"),
        (lambda model: model.greedy(GOOD, [1, -1]), ArgumentError, "are not all from 0 to 3"),
        (lambda model: model.sample(GOOD, temperature=0.0), ArgumentError, "`temperature` .=0.0. is not a positive"),
        (lambda model: model.sample(GOOD, temperature=math.inf), ArgumentError, "`temperature`"),
        (lambda model: model.sample(GOOD, max_length=2.0), ArgumentTypeError, "`max_length`"),
        (lambda model: model.sample("abc"), ArgumentTypeError, "`source`"),
        (lambda model: model.beam(GOOD, width=0), ArgumentError, "`width` .=0. is not positive"),
        (lambda model: model.beam(GOOD, max_length=-1), ArgumentError, "`max_length`"),
        (lambda model: model.beam(GOOD, width=2, best=3), ArgumentError, "`best` .=3. is more than the 2 beams"),
        (lambda model: model.beam(GOOD, width=2, best=0), ArgumentError, "`best`"),
        (lambda model: model.beam(GOOD, length_penalty=-1), ArgumentError, "`length_penalty` .=-1. is not a number"),
        (lambda model: model.beam(GOOD, length_penalty=math.nan), ArgumentError, "`length_penalty`"),
        (lambda model: model.step(model.encode(GOOD), GOOD), ShapeError, r"`tokens` .* Give \(batch,\)"),
    ],
)
def test_bad_calls(call: Callable[[Seq2Seq], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(make())


@pytest.mark.parametrize("decode", ["greedy", "sample", "beam"])
def test_a_model_of_nan_says_so(decode: str) -> None:
    model = make(scale=math.nan)
    with pytest.raises(ArgumentError, match="training may have diverged"):
        getattr(model, decode)(GOOD)
