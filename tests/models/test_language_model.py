"""The language model: which tokens embedding dropout leaves out, and where; and what predicting leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from unspool.models.language_model import LanguageModel
from unspool.nn.leaves import leaves
from unspool.settings.model import LanguageModelSettings

WORDS = 2000


def model_of(**settings: Any) -> LanguageModel:
    torch.manual_seed(0)
    found = {"hidden": 4, "engine": "torch", **settings}
    return LanguageModel(WORDS, LanguageModelSettings.model_validate(found)).train()


def test_embedding_dropout_leaves_out_whole_tokens_all_over_a_batch() -> None:
    model = model_of(embedding_dropout=0.25, tied=True)
    ids = torch.arange(WORDS).repeat(3).view(3, WORDS)  # every token three times
    embedded = model.embed(ids)
    ratio = embedded / model.embedding.weight
    assert torch.equal(embedded[0], embedded[1])
    assert torch.equal(embedded[0], embedded[2])
    dropped = (ratio[0] == 0).all(1)
    torch.testing.assert_close(ratio[0][~dropped], torch.full_like(ratio[0][~dropped], 1 / 0.75))
    assert abs(float(dropped.double().mean()) - 0.25) < 5 * (0.25 * 0.75 / WORDS) ** 0.5
    assert not torch.equal(model.embed(ids)[0], embedded[0])  # another call, other tokens
    embedded.sum().backward()
    assert model.embedding.weight.grad is not None
    assert torch.equal((model.embedding.weight.grad == 0).all(1), dropped)


def test_embedding_dropout_is_in_training_alone_and_draws_nothing_without_a_rate() -> None:
    ids = torch.arange(WORDS).unsqueeze(1)
    for model in (model_of(embedding_dropout=0.25).eval(), model_of()):
        before = torch.get_rng_state()
        assert torch.equal(model.embed(ids)[:, 0], model.embedding.weight)
        assert torch.equal(torch.get_rng_state(), before)


def test_predicting_in_the_midst_of_training_uses_no_dropout_and_no_gradient() -> None:
    model = model_of(dropout=0.5, embedding_dropout=0.5, layers=2)
    ids = np.array([[3, 5], [1, 4]])
    logits, state = model.predict(ids, None)
    assert logits.dtype == np.float64
    assert {module.training for module in model.modules()} == {True}
    assert torch.is_grad_enabled()
    assert not any(leaf.requires_grad for leaf in leaves(state))
    again, _ = model.eval().predict(ids, None)
    assert {module.training for module in model.modules()} == {False}
    np.testing.assert_array_equal(logits, again)
    loss, _ = model.train().measure((ids[:1], ids[1:]), model.initial_state(2))
    first, _ = model.predict(ids[:1], None)
    assert {module.training for module in model.modules()} == {True}
    chosen = np.take_along_axis(first, ids[1][:, None], 1)[:, 0] - np.log(np.exp(first).sum(-1))
    assert loss == pytest.approx(-chosen.mean(), rel=1e-6)
