"""Encoder, attention and decoder: against torch.nn and sums written out, and against all that could be written."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from tests.nn.torch_weights import copy_stack
from torch import Tensor, nn

from unspool.decoding.sequences import Decoded
from unspool.models.backbone import TorchBackbone
from unspool.models.translator import END, FIRST, START, AttentionSeq2Seq, Side
from unspool.nn import Seq2Seq, Stack
from unspool.settings.model import Seq2SeqSettings

LAYERS, HIDDEN, WIDTH, SOURCES, TARGETS = 2, 4, 3, 7, 5
SOURCE = torch.tensor([[3, 4, 5, 6], [6, 3, 0, 0], [5, 0, 0, 0]])
LENGTHS = [4, 2, 1]
TARGET = torch.tensor([[START, 3, 4, 4], [START, 4, 3, 3], [START, 3, 3, 4]])


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compared with the eager loop elsewhere."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def make_writer(**settings: Any) -> AttentionSeq2Seq:
    """A writer in float64, set to evaluate, whose weights are large enough that it has opinions."""
    torch.manual_seed(1)
    sizes = {"layers": LAYERS, "hidden": HIDDEN, "embedding": WIDTH, "init": 1.0}
    return AttentionSeq2Seq(Seq2SeqSettings(**{**sizes, **settings}), SOURCES, TARGETS).double().eval()


def torch_layers(side: Side) -> nn.LSTM:
    assert isinstance(side.backbone, TorchBackbone)
    assert isinstance(side.backbone.layers, nn.LSTM)
    return side.backbone.layers


@torch.no_grad()
def by_hand(writer: AttentionSeq2Seq, source: list[int], target: list[int]) -> list[Tensor]:
    """Logits after each token of one row's target, from torch.nn's layers and the formulas written out."""
    encoder, decoder = torch_layers(writer.encoder_side), torch_layers(writer.decoder_side)
    directions = 1 + encoder.bidirectional
    memory, last = encoder(writer.source_embedding.weight[source])
    h, c = (
        torch.stack([part[directions * level : directions * (level + 1)].mean(0) for level in range(LAYERS)])
        for part in last
    )
    outputs, _ = decoder(writer.target_embedding.weight[target], (h, c))
    found = []
    for q in outputs:
        if writer.keys is not None and writer.mix is not None:
            scores = [float(q @ (writer.keys.weight @ m)) / math.sqrt(HIDDEN) for m in memory]
            whole = sum(math.exp(score) for score in scores)
            context = sum(
                (math.exp(score) / whole * m for score, m in zip(scores, memory, strict=True)), q.new_zeros(1)
            )
            q = torch.tanh(writer.mix.weight @ torch.cat((q, context)) + writer.mix.bias)
        found.append(writer.head.weight @ q + writer.head.bias)
    return found


def to_kernel(writer: AttentionSeq2Seq, **settings: Any) -> AttentionSeq2Seq:
    """The same writer with our layers."""
    ours = make_writer(**settings)
    state = ours.state_dict()
    state.update({name: part for name, part in writer.state_dict().items() if name in state})
    ours.load_state_dict(state)
    for theirs, side in ((writer.encoder_side, ours.encoder_side), (writer.decoder_side, ours.decoder_side)):
        assert isinstance(side.backbone, Stack)
        copy_stack(torch_layers(theirs), side.backbone)
    return ours


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("attention", [True, False])
@torch.no_grad()
def test_logits_are_those_of_the_formulas(attention: bool, bidirectional: bool) -> None:
    settings = {"attention": attention, "bidirectional": bidirectional}
    writer = make_writer(engine="torch", **settings)
    ours = to_kernel(writer, **settings)
    for logits in (writer(SOURCE, TARGET, LENGTHS), ours(SOURCE, TARGET, LENGTHS), ours(SOURCE, TARGET)):
        for row, length in enumerate(LENGTHS):
            expected = by_hand(writer, SOURCE[row, :length].tolist(), TARGET[row].tolist())
            torch.testing.assert_close(logits[row], torch.stack(expected), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_without_attention_and_both_directions_it_is_a_seq2seq() -> None:
    writer = make_writer(attention=False, bidirectional=False)
    plain = Seq2Seq(SOURCES, TARGETS, WIDTH, HIDDEN, LAYERS).double()
    names = {"encoder_side.backbone": "encoder", "decoder_side.backbone": "decoder"}
    weights = writer.state_dict()
    for ours, theirs in names.items():
        weights = {name.replace(ours, theirs): part for name, part in weights.items()}
    plain.load_state_dict(weights)
    torch.testing.assert_close(writer(SOURCE, TARGET, LENGTHS), plain(SOURCE, TARGET, LENGTHS), rtol=1e-12, atol=1e-12)
    assert writer.beam(SOURCE, LENGTHS, 5, width=3) == plain.beam(SOURCE, LENGTHS, 5, width=3)


def every_text(writer: AttentionSeq2Seq, row: int, limit: int) -> dict[tuple[int, ...], Decoded]:
    """All texts of at most `limit` steps, the end included, and those that it cuts off, with their probabilities."""
    found = {}
    source = SOURCE[row : row + 1, : LENGTHS[row]]
    for count in range(limit + 1):
        for tokens in itertools.product(range(FIRST, TARGETS), repeat=count):
            log_p = writer(source, torch.tensor([[START, *tokens]]))[0].log_softmax(-1)
            steps = [*tokens, END][:limit]
            total = sum(float(log_p[step, token]) for step, token in enumerate(steps))
            found[tokens] = Decoded(tokens, total, count < limit)
    return found


@pytest.mark.parametrize("settings", [{}, {"bidirectional": False}, {"engine": "torch"}, {"cell": "gru", "layers": 1}])
@torch.no_grad()
def test_searches_find_what_trying_everything_finds(settings: dict[str, Any]) -> None:
    limit = 3
    writer = make_writer(**settings)
    everything = 2 ** (limit + 1)  # beams for all there is
    wide = writer.beam(SOURCE, LENGTHS, limit, width=everything, best=3)
    for row, (greedy, best) in enumerate(zip(writer.greedy(SOURCE, LENGTHS, limit), wide, strict=True)):
        texts = every_text(writer, row, limit)
        assert sum(math.exp(text.log_probability) for text in texts.values()) < 1  # start and padding have the rest
        ranked = sorted(texts.values(), key=lambda text: -text.log_probability)
        assert [one.tokens for one in best] == [one.tokens for one in ranked[:3]]
        for one in (greedy, *best):
            assert one.log_probability == pytest.approx(texts[one.tokens].log_probability, rel=1e-10)
            assert one.finished == texts[one.tokens].finished
        said: list[int] = []
        while len(said) < limit:
            logits = writer(SOURCE[row : row + 1, : LENGTHS[row]], torch.tensor([[START, *said]]))[0, -1]
            said.append(END + int(logits[END:].argmax()))
            if said[-1] == END:
                break
        assert greedy.tokens == tuple(token for token in said if token != END)


@torch.no_grad()
def test_dropout_is_of_training_alone() -> None:
    writer, dropped = make_writer(), make_writer(dropout=0.5, variational_dropout=True)
    dropped.load_state_dict(writer.state_dict())
    torch.testing.assert_close(dropped(SOURCE, TARGET), writer(SOURCE, TARGET), rtol=0, atol=0)
    greedy = writer.greedy(SOURCE)
    dropped.train()
    assert float((dropped(SOURCE, TARGET) - writer(SOURCE, TARGET)).abs().max()) > 0.1
    assert dropped.greedy(SOURCE) == greedy
    assert dropped.training
