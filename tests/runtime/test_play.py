"""Players give what their torch models give, of every kind: values, losses, predictions, decoded tags.

Numbers are compared by the largest absolute difference over the largest absolute value.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.small_models import CASES, ROWS, Made, as_numpy, tensors_of

from unspool.decoding.sequences import Decoded
from unspool.models.describe import describe
from unspool.nn.leaves import map_leaves
from unspool.runtime.language import LanguagePlayer
from unspool.runtime.play import make_player
from unspool.runtime.player import ExamplePlayer
from unspool.runtime.read import read_network

TOLERANCE = 1e-6

each_case = pytest.mark.parametrize("case", CASES)


def difference(found: Any, expected: Any) -> float:
    """Of two arrays: the largest absolute difference over the largest absolute value."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    largest = np.abs(expected).max(initial=0.0)
    return float(np.abs(found - expected).max(initial=0.0) / (largest or 1.0))


def assert_same(found: Any, expected: Any) -> None:
    """Numbers of all leaves agree, whole ones exactly."""
    if isinstance(expected, torch.Tensor):
        expected = expected.numpy()
    if isinstance(expected, Decoded):
        assert (found.tokens, found.finished) == (expected.tokens, expected.finished)
        found, expected = found.log_probability, expected.log_probability
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    elif isinstance(expected, np.ndarray) and expected.dtype.kind == "i":
        assert found.tolist() == expected.tolist()
    else:
        assert difference(found, expected) <= TOLERANCE


def player_of(made: Made) -> Any:
    """The player of a model, by way of JSON."""
    document = json.loads(json.dumps(describe(made.model, "some task")))
    network = read_network(document, tensors_of(made.model))
    assert network.task == "some task"
    return make_player(network, **made.extras)


@each_case
@torch.no_grad()
def test_a_player_is_its_torch_model(case: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = CASES[case]()
    player = player_of(made)
    check = check_language if case.startswith("language") else check_examples
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    expected = check(made.model, made.batch)
    monkeypatch.setenv("UNSPOOL_ENGINE", "on" if engine == "kernel" else "off")
    assert_same(check(player, as_numpy(made.batch)), expected)


def check_language(model: Any, batch: Any) -> list[Any]:
    """Losses and logits from the initial state, and from the state after a batch."""
    loss, state = measure(model, batch, model.initial_state(ROWS))
    again, state = measure(model, batch, state)
    ids = np.asarray(batch[0])
    logits, state = model.predict(ids[:3], state)
    later, _ = model.predict(ids[3:4], state)
    return [loss, again, model.surprise(batch), logits, later]


def measure(model: Any, batch: Any, state: Any) -> tuple[float, Any]:
    """The mean loss of a batch, and the state after it."""
    if isinstance(model, LanguagePlayer):
        return model.measure(batch, state)
    found = model(batch, state)
    return float(found.loss), found.state


def check_examples(model: Any, batch: Any) -> list[Any]:
    """Scores, the loss, and predictions."""
    scores = model.score(batch).levels[-1]
    loss, predictions = model.summed_loss(scores, batch), model.predictions(scores, batch)
    if isinstance(model, ExamplePlayer):
        inferred = model.infer(batch)
        assert inferred.loss == loss
        assert len(inferred.predictions) == len(predictions)
    return [scores, loss, predictions]


def test_a_translator_counts_the_tokens_that_it_would_have_chosen() -> None:
    made = CASES["translate-0"]()
    batch = as_numpy(made.batch)
    player = player_of(made)
    scores = player.score(batch).levels[-1]
    right = [scores[place].argmax() == token for place, token in np.ndenumerate(batch.targets) if token]
    assert player.measure(batch) == (player.summed_loss(scores, batch), sum(right))
    assert player.infer(batch._replace(targets=None)).loss is None


def test_every_leaf_of_a_batch_is_an_array() -> None:
    batch = as_numpy(CASES["joint-0"]().batch)
    leaves: list[Any] = []
    map_leaves(leaves.append, batch)
    assert not leaves  # `map_leaves` sees tensors alone
    assert isinstance(batch.inputs.characters, np.ndarray)
