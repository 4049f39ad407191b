"""Language models of other libraries as runs: the model that was imported gives the right probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.exchange.test_torch_import import Classifier, LanguageModel
from torch import nn

from unspool.errors import ArgumentError, DataError
from unspool.exchange import from_torch
from unspool.runs.adoption import adopt, read_tokens
from unspool.runs.load import load_run
from unspool.runtime.language import LanguagePlayer
from unspool.runtime.pooled import PooledPlayer
from unspool.runtime.run import read_run

TOKENS = list("abcdefghijk")
IDS = np.array([[3, 1], [0, 2], [7, 9], [4, 4]])  # (time, batch)


def source(kind: Any = nn.LSTM, **options: Any) -> Any:
    torch.manual_seed(0)
    return LanguageModel(kind, **options).eval()


def logits(folder: Path, ids: Any) -> Any:
    """Of what follows, by the run's player."""
    player = LanguagePlayer(read_run(folder).network)  # type: ignore[arg-type]
    return player.predict(ids, None)[0]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_run_predicts_as_its_source(kind: Any, tied: bool, tmp_path: Path) -> None:
    theirs = source(kind, tied=tied, num_layers=2)
    folder = adopt(from_torch(theirs.state_dict()), TOKENS, tmp_path / "run", source="lm.pt", tokenizer="char")
    with torch.no_grad():
        expected = theirs(torch.from_numpy(IDS.T))[:, -1]
    found = logits(folder, IDS + 1)  # a token for the unknown comes first
    np.testing.assert_allclose(found[:, 1:], expected, rtol=0, atol=1e-6)
    _, task, learner = load_run(folder)
    assert task.dump()["tokens"] == ["<unk>", *TOKENS]
    by_torch, _ = learner.predict(IDS + 1, learner.initial_state(2))  # type: ignore[operator]
    np.testing.assert_allclose(by_torch, found, rtol=0, atol=1e-6)


def test_an_unknown_token_of_the_source_comes_first(tmp_path: Path) -> None:
    theirs = source(bias=False)
    tokens = [*TOKENS[:4], "<unk>", *TOKENS[5:]]
    folder = adopt(from_torch(theirs.state_dict()), tokens, tmp_path / "run", source="lm.pt")
    order = [4, *range(4), *range(5, 11)]
    places = np.argsort(order)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(IDS.T))[:, -1].numpy()
    np.testing.assert_allclose(logits(folder, places[IDS]), expected[:, order], rtol=0, atol=1e-6)


def test_what_is_no_language_model_of_these_tokens_is_refused(tmp_path: Path) -> None:
    whole = from_torch(source().state_dict())
    for model, tokens in (
        (whole, TOKENS[:-1]),
        (from_torch(Classifier().state_dict()), TOKENS[:9]),
        (from_torch(source(nn.GRU, bidirectional=True).state_dict()), TOKENS),
        (from_torch(nn.LSTM(3, 4).state_dict()), TOKENS),
    ):
        with pytest.raises(ArgumentError):
            adopt(model, tokens, tmp_path / "run", source="lm.pt", tokenizer="char")
    assert not (tmp_path / "run").exists()
    adopt(whole, TOKENS, tmp_path / "run", source="lm.pt", tokenizer="char")
    with pytest.raises(ArgumentError, match="exists"):
        adopt(whole, TOKENS, tmp_path / "run", source="lm.pt", tokenizer="char")


class LastState(nn.Module):
    """A classifier that reads the last state of each direction."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 5)
        self.gru = nn.GRU(5, 4, num_layers=2, bidirectional=both, batch_first=True)
        self.fc = nn.Linear(8 if both else 4, 3)

    def forward(self, tokens: Any) -> Any:
        _, h = self.gru(self.embedding(tokens))
        count = 2 if self.gru.bidirectional else 1
        return self.fc(torch.cat(tuple(h[-count:]), -1))


@pytest.mark.parametrize("both", [True, False])
def test_a_classifier_predicts_as_its_source(both: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = LastState(both).eval()
    labels = ["red", "green", "blue"]
    model = from_torch(theirs.state_dict())
    folder = adopt(model, TOKENS, tmp_path / "run", source="c.pt", labels=labels, tokenizer="char")
    player = PooledPlayer(read_run(folder).network)  # type: ignore[arg-type]
    scores = player.score(SimpleNamespace(inputs=IDS + 1, lengths=np.array([4, 4]))).levels[-1]
    with torch.no_grad():
        np.testing.assert_allclose(scores, theirs(torch.from_numpy(IDS.T)), rtol=0, atol=1e-6)
    assert load_run(folder).task.dump()["labels"] == labels
    with pytest.raises(ArgumentError, match="labels"):
        adopt(model, TOKENS, tmp_path / "other", source="c.pt", labels=labels[:2], tokenizer="char")


def test_vocabularies_are_lists_objects_or_lines(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary"
    for text in ('["a", "b c"]', '{"a": 0, "b c": 1}', "a\nb c\n", "a\nb c"):
        path.write_text(text)
        assert read_tokens(path) == ["a", "b c"]
    for text in ("[1, 2]", '{"a": 1}', "a\na\n", "[]", json.dumps({"tokens": 3})):
        path.write_text(text)
        with pytest.raises(DataError):
            read_tokens(path)
    with pytest.raises(DataError, match="No such file"):
        read_tokens(tmp_path / "none")
