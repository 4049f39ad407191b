"""Perplexity and bits against closed forms: models that know what comes, know nothing, or are sure and wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from unspool.data.corpus import Division, prepare
from unspool.models.catalogue import make_learner
from unspool.models.language_model import LanguageModel
from unspool.settings.data import TextData
from unspool.settings.model import LanguageModelSettings
from unspool.tasks.lm import LanguageModelling, loss_metrics

#: Two rounds through these, and each tells the next.
LETTERS = "abcdefg\n"


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LanguageModelling:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(LETTERS * 200, encoding="utf-8")
    return LanguageModelling(prepare(tmp_path / "text.txt", Division()))


def blank(task: LanguageModelling) -> LanguageModel:
    """A model of zeros, as wide as the vocabulary: whatever it reads, all tokens are as likely."""
    size = len(task.vocabulary)
    settings = {"cell": "elman-relu", "engine": "torch", "hidden": size, "embedding": size, "dropout": 0.5}
    model = make_learner(task, LanguageModelSettings.model_validate(settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def knowing(task: LanguageModelling, certainty: float) -> LanguageModel:
    """The state is the letter that was read; the logit is `certainty` for the one that follows, and 0 for others."""
    model = blank(task)
    weights = dict(model.named_parameters())
    letters = task.vocabulary.ids(LETTERS)
    with torch.no_grad():
        torch.nn.init.eye_(weights["embedding.weight"])
        torch.nn.init.eye_(weights["backbone.layers.weight_ih_l0"])
        for letter, following in zip(letters, letters[1:] + letters[:1], strict=True):
            weights["head"][following, letter] = certainty
    return model


def test_a_model_that_knows_what_comes_has_perplexity_1(task: LanguageModelling) -> None:
    for rows in (1, 3):
        found = task.evaluate(knowing(task, 1e4), "validation", rows)
        assert found == {"loss": 0.0, "perplexity": 1.0, "bits": 0.0}


def test_a_token_that_had_no_probability_makes_perplexity_infinite(task: LanguageModelling) -> None:
    model = blank(task)
    with torch.no_grad():
        model.head_bias[task.vocabulary.ids("c")] = -math.inf  # one letter in eight
    assert task.evaluate(model, "validation") == {"loss": math.inf, "perplexity": math.inf, "bits": math.inf}


def test_a_probability_below_every_float_makes_perplexity_infinite_and_the_loss_is_still_known(
    task: LanguageModelling,
) -> None:
    found = task.evaluate(knowing(task, -1e4), "validation")
    assert found["loss"] == pytest.approx(1e4 + math.log(len(task.vocabulary) - 1), rel=1e-6)
    assert found["perplexity"] == math.inf


def test_a_model_that_knows_nothing_has_the_vocabulary_s_size_for_perplexity(task: LanguageModelling) -> None:
    size = len(task.vocabulary)
    found = task.evaluate(blank(task), "validation")
    assert found["perplexity"] == pytest.approx(size, rel=1e-6)
    assert found["bits"] == pytest.approx(math.log2(size), rel=1e-6)
    assert found["loss"] == pytest.approx(task.baselines()["uniform"]["loss"], rel=1e-6)


def test_a_model_that_is_half_sure_has_the_perplexity_of_its_odds(task: LanguageModelling) -> None:
    """e^c against 1 for each of the others: a probability of e^c / (e^c + |V| − 1) for what comes."""
    odds = 3.0
    expected = (odds + len(task.vocabulary) - 1) / odds
    assert task.evaluate(knowing(task, math.log(odds)), "validation")["perplexity"] == pytest.approx(expected, rel=1e-6)


def test_figures_that_overflow_are_infinite_and_not_an_error() -> None:
    assert loss_metrics(1e5) == {"loss": 1e5, "perplexity": math.inf, "bits": 1e5 / math.log(2)}
    assert loss_metrics(math.inf)["bits"] == math.inf


def test_reading_once_through_weighs_every_token_the_same(task: LanguageModelling) -> None:
    """Windows of unequal length: the mean is over tokens, and not over windows."""
    model = knowing(task, 2.0)
    with torch.no_grad():
        model.head_bias.copy_(torch.linspace(-1, 1, len(task.vocabulary)))
    ids = np.concatenate([np.asarray(task.corpus.validation)] * 8)  # above 1,024 tokens: three windows
    bits = 0.0
    with torch.no_grad():
        for before, after in zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True):
            logits = model.head[:, before].double() + model.head_bias.double()
            bits -= torch.log_softmax(logits, 0)[after].item()
    assert LanguageModelling.measure(model, ids) == pytest.approx(bits / (len(ids) - 1), rel=1e-6)


def test_a_folder_that_comes_divided_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "wikitext"
    folder.mkdir()
    texts = {"train.txt": "abc" * 50, "valid.txt": "cab" * 20, "test.txt": "bca" * 10, "SOURCE.txt": "from there"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    task = LanguageModelling.prepare(TextData(files=(str(folder),)), seed=0)
    decode = task.vocabulary.decode
    found = [decode(part.tolist()) for part in (task.corpus.training, task.corpus.validation, task.corpus.test)]
    assert found == [texts["train.txt"], texts["valid.txt"], texts["test.txt"]]
    assert decode(task._read(str(folder)).tolist()) == texts["test.txt"]
    other = tmp_path / "other.txt"
    other.write_text("ccc", encoding="utf-8")
    given = LanguageModelling.prepare(TextData(files=(str(folder),), validation=(str(other),)), seed=0)
    assert decode(given.corpus.validation.tolist()) == "ccc"
    (folder / "valid.txt").unlink()
    cut = LanguageModelling.prepare(TextData(files=(str(folder),), validation=0.2), seed=0)
    assert [len(cut.corpus.training), len(cut.corpus.validation), len(cut.corpus.test)] == [120, 30, 30]
