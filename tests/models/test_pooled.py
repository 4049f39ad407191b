"""Models of whole sequences against torch's own layers and losses, and word vectors by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.tensors import as_tensors
from torch.nn import functional

from unspool.data import subwords
from unspool.data.labelled import Raw
from unspool.data.subwords import hash_ngrams
from unspool.errors import ArgumentError
from unspool.models.catalogue import make_learner
from unspool.models.pooled import Classifier, PooledModel
from unspool.models.token_embedding import UNKNOWN, drop_words
from unspool.settings.data import LabelledData
from unspool.settings.model import PooledSettings
from unspool.tasks.classify import Classification

TEXTS = ["the cat sat", "a dog", "the dogs sat here", "a cat"]
LABELS = ["x", "y", "x", "z"]


@pytest.fixture
def task() -> Classification:
    raw = Raw(TEXTS, None, [*"0123"], str, [(label,) for label in LABELS])
    return Classification.of({"training": raw, "validation": raw}, LabelledData(files=("memory",), tokenizer="word"))


def make(task: Classification, **settings: Any) -> Classifier:
    torch.manual_seed(0)
    given = {"hidden": 3, "embedding": 4, "engine": "torch", **settings}
    return make_learner(task, PooledSettings.model_validate(given)).double()


def batch_of(task: Classification, *indices: int) -> Any:
    return as_tensors(task.parts["training"].batch(np.array(indices)))


def test_word_vectors_by_hand(task: Classification) -> None:
    learner = make(task, subwords=50, embedding_std=0.5).eval()
    embedding: Any = learner.token_embedding()
    found = embedding(batch_of(task, 2).inputs)[:, 0]
    table = task.embedded_tokens()
    for vector, word in zip(found, TEXTS[2].split(), strict=True):
        rows = [one % 50 for one in hash_ngrams(word)]
        expected = embedding.weight[table[word]] + embedding.ngrams.weight[rows].mean(0)
        torch.testing.assert_close(vector, expected)


def test_an_unknown_word_has_the_ngrams_of_its_spelling(task: Classification) -> None:
    learner = make(task, subwords=1000).eval()
    new = task.part(Raw(["catty zebra"], None, ["0"], str, None))
    first, second = learner.token_embedding()(as_tensors(new.batch(np.array([0]))).inputs)[:, 0]  # type: ignore[misc]
    assert not torch.equal(first, second)  # without n-grams both would be the unknown word
    plain = make(task).eval()
    alike, other = plain.token_embedding()(as_tensors(new.batch(np.array([0]))).inputs)[:, 0]  # type: ignore[misc]
    assert torch.equal(alike, other)


def test_without_subwords_no_ngram_is_hashed(task: Classification, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def watch(word: str) -> list[int]:
        hashed.append(word)
        return hash_ngrams(word)

    monkeypatch.setattr(subwords, "hash_ngrams", watch)
    make(task).eval().score(batch_of(task, 0, 1, 2))
    assert not hashed
    make(task, subwords=50).eval().score(batch_of(task, 0, 1, 2))
    assert sorted(hashed) == sorted({word for text in TEXTS for word in text.split()})


def test_word_dropout_leaves_the_ngrams(task: Classification) -> None:
    learner = make(task, subwords=50, word_dropout=0.999).train()
    embedding: Any = learner.token_embedding()
    words = batch_of(task, 0).inputs
    dropped = embedding(words)
    unknown = embedding.eval()(words._replace(ids=torch.zeros_like(words.ids)))
    torch.testing.assert_close(dropped, unknown)


def test_the_initial_embedding_has_the_spread_that_is_asked_for(task: Classification) -> None:
    wide: Any = make(task, embedding=4000, embedding_std=0.1, subwords=7).token_embedding()
    for weight in (wide.weight, wide.ngrams.weight):
        assert float(weight.detach().std()) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_pooling_of_output_and_input_by_hand(task: Classification, pooling: str, window: int) -> None:
    learner = make(task, input_window=window, pooling=pooling).eval()
    batch = batch_of(task, 0, 1)
    scores = learner.score(batch).levels[-1]
    merger: Any = learner.mergers[0]  # type: ignore[index]
    for row, length in enumerate(batch.lengths.tolist()):
        x = learner.token_embedding()(batch.inputs.ids[:length, row])  # type: ignore[misc]
        h, _ = learner.encoder.backbone.layers(x)  # type: ignore[union-attr, operator]
        zeros = x.new_zeros(window, 4)
        rows = [[h[t], *(torch.cat((zeros, x))[window + t - lag] for lag in range(window))] for t in range(length)]
        steps = torch.relu(torch.stack([torch.cat(parts) for parts in rows]) @ merger.weight.T + merger.bias)
        pooled = steps.amax(0) if pooling == "max" else steps.mean(0)
        head: Any = learner.heads[0]
        torch.testing.assert_close(scores[row], pooled @ head.weight.T + head.bias)


def test_predictive_coding_refuses_what_reads_the_input(task: Classification) -> None:
    learner = make(task, input_window=1, engine="kernel", bidirectional=False, cell="elman")
    with pytest.raises(ArgumentError, match="input_window=0"):
        learner.take_apart(batch_of(task, 0))


def test_smoothed_loss_is_that_of_torch_and_the_plain_one_is_told(task: Classification) -> None:
    learner = make(task, label_smoothing=0.2)
    batch = batch_of(task, 0, 1, 2)
    scores = learner.score(batch).levels[-1]
    outcome = learner.train()(batch)
    torch.testing.assert_close(outcome.loss, functional.cross_entropy(scores, batch.targets))
    expected = functional.cross_entropy(scores, batch.targets, label_smoothing=0.2)
    torch.testing.assert_close(outcome.loss + outcome.extra, expected)
    assert learner.eval()(batch).extra is None


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_mixup_is_the_loss_of_mixed_vectors_and_labels(task: Classification, smoothing: float) -> None:
    learner = make(task, mixup=0.7, label_smoothing=smoothing, input_window=1).train()
    batch = batch_of(task, 0, 1, 2, 3)
    torch.manual_seed(5)
    outcome = learner(batch)
    torch.manual_seed(5)
    fraction, others = torch.distributions.Beta(0.7, 0.7).sample().double(), torch.randperm(4)
    assert 0.01 < fraction < 0.99
    assert others.tolist() != [0, 1, 2, 3]
    vectors: list[torch.Tensor] = []
    head: Any = learner.heads[0]
    hook = head.register_forward_pre_hook(lambda _, given: vectors.append(given[0]))
    scores = learner.score(batch).levels[-1]
    hook.remove()
    mixed = head(fraction * vectors[0] + (1 - fraction) * vectors[0][others])
    targets = functional.one_hot(batch.targets, 3).double()
    targets = (1 - smoothing) * (fraction * targets + (1 - fraction) * targets[others]) + smoothing / 3
    expected = -(targets * mixed.log_softmax(-1)).sum(-1).mean()
    torch.testing.assert_close(outcome.loss + outcome.extra, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(outcome.loss, functional.cross_entropy(scores, batch.targets))  # the plain one is told
    assert learner.eval()(batch).extra is None


@pytest.mark.parametrize("backbone", ["recurrent", "cnn"])
def test_members_learn_by_themselves_and_predict_their_mean(task: Classification, backbone: str) -> None:
    learner = make(task, members=3, label_smoothing=0.2, backbone=backbone)
    batch = batch_of(task, 0, 1, 2)
    apart = [learner, *learner.companions]
    scores = [PooledModel.score(one, batch).levels[-1] for one in apart]
    assert not torch.allclose(scores[0], scores[1])
    outcome = learner.train()(batch)
    loss = torch.stack([functional.cross_entropy(one, batch.targets) for one in scores])
    smoothed = torch.stack([functional.cross_entropy(one, batch.targets, label_smoothing=0.2) for one in scores])
    torch.testing.assert_close(outcome.loss, loss.mean())
    torch.testing.assert_close(outcome.loss + outcome.extra, smoothed.mean())
    learner.eval()
    found = learner.score(batch)
    probabilities = torch.stack([one.softmax(-1) for one in scores]).mean(0)
    np.testing.assert_allclose(
        learner.predictions(found.levels[-1].detach(), batch), probabilities.detach(), rtol=1e-12
    )
    torch.testing.assert_close(learner(batch).loss, functional.nll_loss(probabilities.log(), batch.targets))


def test_penalties_reach_the_output_of_every_member(task: Classification) -> None:
    outputs = make(task, members=2).train()(batch_of(task, 0, 1)).output
    assert outputs is not None
    assert outputs.shape == (3, 2, 2 * 2 * 3)  # time, batch, members × directions × units


def test_predictive_coding_refuses_members(task: Classification) -> None:
    learner = make(task, members=2, engine="kernel", bidirectional=False, cell="elman")
    with pytest.raises(ArgumentError, match="members=1"):
        learner.take_apart(batch_of(task, 0))


@pytest.mark.parametrize("backbone", ["bag", "fcn", "cnn"])
def test_dropout_acts_on_baselines_too(task: Classification, backbone: str) -> None:
    learner = make(task, backbone=backbone, dropout=0.5).train()
    batch = batch_of(task, 0, 1)
    first, second = (learner.score(batch).levels[-1] for _ in range(2))
    assert not torch.equal(first, second)
    learner.eval()
    torch.testing.assert_close(learner.score(batch).levels[-1], learner.score(batch).levels[-1], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("tokenizer", "given", "message"),
    [
        ("char", {"subwords": 20}, r"`subwords` \(=20\) has no effect where steps are characters"),
        ("byte", {"word_dropout": 0.1}, r"`word_dropout` \(=0.1\) has no effect where steps are bytes"),
    ],
)
def test_settings_that_the_tokens_cannot_have_are_refused(tokenizer: str, given: dict[str, Any], message: str) -> None:
    raw = Raw(TEXTS, None, [*"0123"], str, [(label,) for label in LABELS])
    task = Classification.of({"training": raw, "validation": raw}, LabelledData(files=("-",), tokenizer=tokenizer))
    make(task)
    with pytest.raises(ArgumentError, match=message):
        make(task, **given)


def test_word_dropout_reads_as_unknown_the_fraction_that_is_given() -> None:
    torch.manual_seed(0)
    ids = torch.arange(1, 10_001)
    dropped = drop_words(ids, 0.3)
    assert float((dropped == UNKNOWN).double().mean()) == pytest.approx(0.3, abs=0.02)
    assert torch.equal(dropped[dropped != UNKNOWN], ids[dropped != UNKNOWN])
    assert drop_words(ids, 0.0) is ids
