"""Losses on lower layers: an identity with sums by hand, in values and gradients, and what they do to layer 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional

from unspool.data.inputs import fit_inputs
from unspool.data.labelled import Raw
from unspool.learning.contract import Outcome
from unspool.learning.penalties import objective
from unspool.models.encoder import Encoder
from unspool.models.language_model import LanguageModel
from unspool.models.pooled import Classifier
from unspool.settings.model import Backbone, LanguageModelSettings, PooledSettings
from unspool.settings.training import Training
from unspool.tasks.batch import Batch

STEPS, ROWS, FEATURES, LABELS, LENGTHS = 5, 4, 3, 6, (5, 2, 4, 1)

#: What is said, the layers that have heads by it, and their weights.
WEIGHTS: list[tuple[Any, dict[int, float]]] = [
    (0.3, {0: 0.3, 1: 0.3}),
    ((0.2, 0.7), {0: 0.2, 1: 0.7}),
    ((0.0, 0.7), {1: 0.7}),
    (0.0, {}),
]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def classifier(supervision: Any, **settings: Any) -> Classifier:
    torch.manual_seed(1)
    series = [np.random.default_rng(0).normal(size=(STEPS, FEATURES))]
    inputs = fit_inputs(Raw(None, series, ["0"], lambda row: f"row {row}", None))
    given = {"hidden": 5, "layers": 3, "deep_supervision": supervision, **settings}
    return Classifier(PooledSettings.model_validate(given), inputs, LABELS).double()


def batch() -> Batch:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(STEPS, ROWS, FEATURES, dtype=torch.float64, generator=generator)
    for row, length in enumerate(LENGTHS):
        x[length:, row] = 0
    return Batch(x, torch.tensor(LENGTHS), torch.tensor([0, 5, 2, 2]), ROWS)


def total(outcome: Outcome) -> Tensor:
    return objective(outcome, Training())


def assert_same(model: torch.nn.Module, found: Tensor, expected: Tensor) -> None:
    """Values and all gradients."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    parameters = list(model.parameters())
    pairs = [torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in (found, expected)]
    assert all(part.abs().max() > 0 for part in pairs[1])
    torch.testing.assert_close(*pairs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("supervision", "weights"), WEIGHTS)
@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_of_a_whole_sequence(supervision: Any, weights: dict[int, float], pooling: str) -> None:
    model, given = classifier(supervision, pooling=pooling), batch()
    assert isinstance(model.encoder, Encoder)
    losses, sequence = {}, given.inputs
    heads = dict(zip([*weights, 2], zip(model.poolings, model.heads, strict=True), strict=True))
    for level, layer in enumerate(model.encoder.backbone.layers):
        sequence, _ = layer(sequence, lengths=LENGTHS)
        if level in heads:
            pool, head = heads[level]
            losses[level] = functional.cross_entropy(head(pool(sequence, lengths=LENGTHS)), given.targets)
    outcome = model(given)
    torch.testing.assert_close(outcome.loss, losses[2], rtol=0, atol=1e-12)  # what is told is the top's
    below = sum(weight * losses[level] for level, weight in weights.items())
    assert_same(model, total(outcome), losses[2] + below)


@pytest.mark.parametrize(("supervision", "weights"), WEIGHTS)
def test_of_a_language_model(supervision: Any, weights: dict[int, float]) -> None:
    torch.manual_seed(1)
    settings = {"hidden": 5, "layers": 3, "deep_supervision": supervision}
    model = LanguageModel(LABELS, LanguageModelSettings.model_validate(settings)).double()
    ids, targets = torch.randint(LABELS, (2, STEPS, ROWS))
    losses, sequence = {}, model.embedding(ids)
    for level, layer in enumerate(model.backbone.layers):
        sequence, _ = layer(sequence)
        if level in weights:
            head = model.lower_heads[list(weights).index(level)]
            losses[level] = functional.cross_entropy(head(sequence).flatten(0, 1), targets.flatten())
    logits = sequence @ model.head.t() + model.head_bias
    top = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    outcome = model((ids, targets), model.initial_state(ROWS))
    torch.testing.assert_close(outcome.loss, top, rtol=0, atol=1e-12)
    assert_same(model, total(outcome), top + sum(weight * losses[level] for level, weight in weights.items()))
    assert model.eval()((ids, targets), model.initial_state(ROWS)).extra is None  # nobody reads it there


def test_a_language_model_that_reads_its_own_words_is_supervised_by_what_it_read() -> None:
    torch.manual_seed(1)
    settings = {"hidden": 5, "layers": 2, "deep_supervision": 0.4}
    model = LanguageModel(LABELS, LanguageModelSettings.model_validate(settings)).double()
    with torch.no_grad():
        model.head *= 1e5  # so sure of what it says that nothing is left to chance
    ids, targets = torch.randint(LABELS, (2, STEPS, ROWS))
    outcome = model((ids, targets), model.initial_state(ROWS), teacher_forcing=0.0)
    state, now, losses, tops = None, ids[:1], [], []
    for step in range(STEPS):
        sequences, state = model.backbone(model.embedding(now), state, every_layer=True)
        logits = sequences[1] @ model.head.t() + model.head_bias
        losses.append(functional.cross_entropy(model.lower_heads[0](sequences[0][0]), targets[step]))
        tops.append(functional.cross_entropy(logits[0], targets[step]))
        now = logits.argmax(-1)
    torch.testing.assert_close(outcome.loss, torch.stack(tops).mean(), rtol=1e-12, atol=0)
    torch.testing.assert_close(outcome.extra, 0.4 * torch.stack(losses).mean(), rtol=0, atol=1e-12)


def test_the_gradient_at_layer_1_of_three_is_larger_than_without() -> None:
    norms = []
    for supervision in (0.0, 1.0):
        model = classifier(supervision, cell="elman", bidirectional=False, pooling="last", init=None)
        torch.manual_seed(9)
        with torch.no_grad():
            for parameter in model.encoder.parameters():
                parameter.uniform_(-0.3, 0.3)
            model.heads[-1].weight.uniform_(-0.3, 0.3)  # type: ignore[operator]
        assert isinstance(model.encoder, Encoder)
        first = list(model.encoder.backbone.layers[0].parameters())
        gradients = torch.autograd.grad(total(model(batch())), first)
        norms.append(float(torch.cat([part.flatten() for part in gradients]).norm()))
    assert norms[1] > 3 * norms[0] > 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"layers": 3, "deep_supervision": [0.1]},
            "is not one weight for each of the 2 layer(s) below the top. Give one",
        ),
        ({"layers": 1, "deep_supervision": [0.1]}, "each of the 0 layer(s)"),
        (
            {"layers": 2, "deep_supervision": 0.1, "engine": "torch"},
            "does not support `deep_supervision`. Leave it out, or use `engine='kernel'`",
        ),
        ({"layers": 2, "deep_supervision": -0.1}, "greater than or equal to 0"),
    ],
)
@pytest.mark.parametrize("of", [Backbone, LanguageModelSettings, PooledSettings])
def test_weights_that_do_not_fit_the_layers_are_refused(
    of: type[Backbone], settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        of.model_validate(settings)
    assert said in str(caught.value)
