"""Seq2Seq against torch.nn's LSTM, against each row alone, and at work."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.nn.small_seq2seq import END, LETTERS, PADDING, SIZE, START, each_cell, make, sources, teacher_forced
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, UnknownNameError
from unspool.nn.seq2seq import Seq2Seq

pytestmark = pytest.mark.usefixtures("engine")


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
    gradients, wanted = (torch.autograd.grad((weights * value).sum(), shared) for value in (logits, expected))
    torch.testing.assert_close(gradients, wanted, rtol=0, atol=1e-12)


def test_steps_equal_the_teacher_forced_pass() -> None:
    model, source = make("gru"), sources(3)
    target = torch.tensor([[START, 3, 4], [START, 5, 5], [START, 4, 3]])
    expected = functional.log_softmax(model(source, target), -1)
    state = model.encode(source)
    for t in range(3):
        log_p, state = model.step(state, target[:, t])
        torch.testing.assert_close(log_p, expected[:, t], rtol=0, atol=1e-12)


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
            expected,
            torch.autograd.grad(
                (weights[row, :end] * rows[-1]).sum(), parameters, allow_unused=True, materialize_grads=True
            ),
            strict=True,
        ):
            total += part

    padded = source.masked_fill(torch.arange(5) >= lengths.unsqueeze(1), PADDING)
    for tokens, said in ((source, lengths), (padded, None)):
        logits = model(tokens, target, said)
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


@each_cell
def test_gradcheck(cell: Any) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(4, 4, 2, 2, 2, cell=cell, dtype=torch.float64)
    source, target = torch.tensor([[3, 1, 2], [2, 3, 0]]), torch.tensor([[1, 3], [1, 2]])
    named = dict(model.named_parameters())
    vector = nn.utils.parameters_to_vector(named.values()).detach().requires_grad_()

    def logits(vector: Tensor) -> Any:
        parts = vector.split([value.numel() for value in named.values()])
        values = {name: part.view(value.shape) for part, (name, value) in zip(parts, named.items(), strict=True)}
        return torch.func.functional_call(model, values, (source, target))

    assert torch.autograd.gradcheck(logits, vector, fast_mode=cell != "lstm")


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
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(source, target).flatten(0, 1), following.flatten(), ignore_index=PADDING)
        loss.backward()
        optimizer.step()
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
        (lambda model: model(GOOD, GOOD[:1]), ShapeError, "`target` .* does not have the batch size of `source`, 2"),
        (lambda model: model(GOOD * 7, GOOD), ArgumentError, "`source` .=7. is not a token from 0 to 6"),
        (lambda model: model(GOOD, -GOOD), ArgumentError, "`target` .=-1. is not a token from 0 to 5"),
        (lambda model: model(GOOD, GOOD, [1]), ShapeError, "are not 2 numbers"),
        (lambda model: model(GOOD, GOOD, [1, 4]), ArgumentError, "`source_lengths` .*are not all from 0 to 3"),
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
