"""The tagger against its model by hand, word by word and with every sequence of tags counted out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.small_tags import SMALL, TAGS, WORDS, sentences, small_learner, small_task
from tests.tensors import as_tensors, tensor_batches
from torch import Tensor

from unspool.models.tagger import WordVectors
from unspool.settings.model import TaggerSettings
from unspool.tasks.batch import WordBatch
from unspool.tasks.tag import Tagging


def scores_by_hand(task: Tagging, learner: Any, words: Sequence[str]) -> Tensor:
    """(time, tags) of one sentence by torch.nn's layers, each word spelled by itself, nothing padded."""
    vectors = []
    for word in words:
        number = task.lexicon.words.index(word) + 1 if word in task.lexicon.words else 0
        known = task.lexicon.characters
        letters = torch.tensor([known.index(one) + 1 if one in known else 0 for one in word])
        _, (h, _) = learner.words.speller.layers(learner.words.letters.weight[letters])
        vectors.append(torch.cat((learner.words.embedding.weight[number], h[0], h[1])))
    output, _ = learner.encoder.backbone.layers(torch.stack(vectors))
    head = learner.heads[-1]
    scores: Tensor = output @ head.weight.T + head.bias
    return scores


def chains(tags: Sequence[str], length: int) -> Iterator[tuple[int, ...]]:
    """Every sequence of tags in which each I-x has a span to continue."""
    for chain in itertools.product(range(len(tags)), repeat=length):
        said = ["O", *(tags[tag] for tag in chain)]
        if ("O", "I-x") not in itertools.pairwise(said):
            yield chain


def weigh(crf: Any, scores: Tensor, chain: tuple[int, ...]) -> float:
    moves = sum(float(crf.transitions[pair]) for pair in itertools.pairwise(chain))
    ends = float(crf.start[chain[0]] + crf.end[chain[-1]])
    return math.exp(moves + ends + sum(float(scores[t, tag]) for t, tag in enumerate(chain)))


@torch.no_grad()
def test_loss_tags_and_probabilities_are_those_of_every_chain_counted_out() -> None:
    task = small_task()
    learner = small_learner(task)
    part = task.parts["validation"]
    loss, answers = task.infer(learner, part, np.arange(len(WORDS)))
    total = 0.0
    for words, truth, answer in zip(WORDS, TAGS, answers, strict=True):
        scores = scores_by_hand(task, learner, words.split())
        weights = {chain: weigh(learner.crf, scores, chain) for chain in chains(task.tags, len(scores))}
        partition = sum(weights.values())
        total -= math.log(weights[tuple(map(task.tags.index, truth.split()))] / partition)
        best = max(weights, key=lambda chain: weights[chain])
        assert tuple(answer.tags) == best
        for t, tag in enumerate(best):
            marginal = sum(weight for chain, weight in weights.items() if chain[t] == tag) / partition
            assert answer.probabilities[t] == pytest.approx(marginal, rel=1e-10)
    assert loss == pytest.approx(total / sum(len(one.split()) for one in WORDS), rel=1e-10)


@torch.no_grad()
def test_without_a_chain_each_word_has_its_softmax() -> None:
    task = small_task()
    learner = small_learner(task, crf=False)
    loss, answers = task.infer(learner, task.parts["validation"], np.arange(len(WORDS)))
    total, count = 0.0, 0
    for words, truth, answer in zip(WORDS, TAGS, answers, strict=True):
        p = scores_by_hand(task, learner, words.split()).softmax(-1).numpy()
        assert answer.tags.tolist() == p.argmax(-1).tolist()
        np.testing.assert_allclose(answer.probabilities, p.max(-1), rtol=1e-10)
        total -= sum(math.log(p[t, task.tags.index(tag)]) for t, tag in enumerate(truth.split()))
        count += len(p)
    assert loss == pytest.approx(total / count, rel=1e-10)


def test_training_divides_by_words() -> None:
    task = small_task()
    learner = small_learner(task)
    batch = tensor_batches(task, 5, None, 0)[0]
    outcome = learner(batch)
    assert outcome.units == sum(len(one.split()) for one in WORDS) == 15
    loss, _ = task.infer(learner, task.parts["training"], np.arange(5))
    assert outcome.loss.item() == pytest.approx(loss, rel=1e-12)
    assert outcome.extra is None


def test_heads_below_the_top_add_their_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    task = small_task()
    learner: Any = small_learner(task, engine="kernel", layers=2, deep_supervision=0.25)
    batch = as_tensors(task.parts["training"].batch(np.arange(5)))
    lower, _ = learner.encoder.backbone.layers[0](learner.words(batch.inputs), lengths=batch.lengths)
    log_p = learner.crf.log_likelihood(learner.heads[0](lower), batch.targets, batch.lengths)
    extra = learner(batch).extra
    assert extra.item() == pytest.approx(-0.25 * log_p.sum().item() / 15, rel=1e-12)
    assert learner(batch).loss.item() != pytest.approx(extra.item() / 0.25)


def test_the_layers_own_penalty_is_added_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    task = small_task()
    options = {"engine": "kernel", "layers": 2, "dropout": 0.0, "word_dropout": 0.0}
    learner: Any = small_learner(task, **options, gate_penalty=0.5).train()
    batch = as_tensors(task.parts["training"].batch(np.arange(5)))
    reading = learner.encoder.encode(learner.words(batch.inputs), batch.lengths)
    assert learner(batch).extra.item() == reading.extra.item() > 0
    assert small_learner(task, **options).train()(batch).extra is None


@torch.no_grad()
def test_the_rival_without_memory_reads_each_word_by_itself() -> None:
    task = small_task()
    learner: Any = small_learner(task, backbone="mlp", crf=False)
    part = task.part(sentences(["new york from rome", "rome", "york new york"]))
    batch = as_tensors(part.batch(np.arange(3)))
    scores = learner.score(batch).levels[-1]
    assert torch.equal(scores[3, 0], scores[0, 1])
    assert torch.equal(scores[1, 0], scores[0, 2])
    first, second = learner.encoder.network.network[0], learner.encoder.network.network[2]
    x = learner.words(batch.inputs)[0, 1]
    hidden = torch.tanh(first.weight @ x + first.bias)
    by_hand = learner.heads[0].weight @ (second.weight @ hidden + second.bias) + learner.heads[0].bias
    torch.testing.assert_close(scores[0, 1], by_hand, rtol=1e-12, atol=1e-12)


def test_dropout_and_initial_weights_are_the_settings() -> None:
    task = small_task()
    learner: Any = small_learner(task, init=0.01)
    assert max(float(p.detach().abs().max()) for name, p in learner.named_parameters() if "crf" not in name) <= 0.01
    rival: Any = small_learner(task, backbone="mlp", dropout=0.25)
    assert rival.encoder.drop.p == learner.encoder.dropout / 2 == 0.25


def one_word_each(ids: Tensor) -> WordBatch:
    return WordBatch(ids, torch.zeros_like(ids), torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, dtype=torch.int64))


def test_word_dropout_makes_words_unknown_in_training_only() -> None:
    torch.manual_seed(0)
    settings = TaggerSettings(**{**SMALL, "char_hidden": 0, "word_dropout": 0.2})
    words = WordVectors(settings, words=9, characters=1)
    ids = torch.randint(1, 9, (100, 100))
    vectors = words(one_word_each(ids))
    unknown = (vectors == words.embedding.weight[0]).all(-1)
    assert unknown.float().mean().item() == pytest.approx(0.2, abs=5 * math.sqrt(0.2 * 0.8 / 10_000))
    assert torch.equal(vectors[~unknown], words.embedding.weight[ids[~unknown]])
    assert torch.equal(words.eval()(one_word_each(ids)), words.embedding.weight[ids])


def test_unknown_words_differ_by_their_characters() -> None:
    task = small_task()
    learner = small_learner(task)
    batch = as_tensors(task.part(sentences(["dewey roy dewey"])).batch(np.arange(1)))
    assert batch.inputs.ids.tolist() == [[0], [0], [0]]
    assert batch.inputs.characters.shape == (5, 2)  # two forms, of five characters at most
    vectors = learner.words(batch.inputs)
    assert torch.equal(vectors[0], vectors[2])
    assert torch.equal(vectors[0, 0, :3], vectors[1, 0, :3])
    assert not torch.isclose(vectors[0, 0, 3:], vectors[1, 0, 3:]).any()
