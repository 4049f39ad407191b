"""Saliency: autograd on a torch.nn twin, steps removed by hand, baselines, several calls, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.insight.measures.saliency import measure_saliency
from unspool.insight.recording import record
from unspool.nn import Stack


def draw(steps: int = 8, rows: int = 3, width: int = 4) -> Tensor:
    return torch.randn(steps, rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def model_of(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "lstm":
        return nn.LSTM(4, 5, num_layers=2, dtype=torch.float64)
    if kind == "gru both":
        return nn.GRU(4, 5, bidirectional=True, dtype=torch.float64)
    return nn.RNN(4, 5, dtype=torch.float64)


def chosen(output: Tensor) -> Tensor:
    """One unit of one sequence at one step, and a little of another."""
    return output[5, 1, 2] + 0.1 * output[3, 1, 0]


@pytest.mark.parametrize("kind", ["lstm", "gru both", "rnn"])
@pytest.mark.parametrize("baseline", ["zero", "mean"])
def test_both_saliencies_beside_autograd_and_removal_by_hand(kind: str, baseline: str) -> None:
    model, x = model_of(kind), draw()
    found = measure_saliency(record(model, lambda model: chosen(model(x)[0])), 1, baseline)
    leaf = x.clone().requires_grad_()
    output = chosen(model(leaf)[0])
    (gradient,) = torch.autograd.grad(output, leaf)
    at = x.mean((0, 1)) if baseline == "mean" else torch.zeros(4, dtype=torch.float64)
    np.testing.assert_allclose(found.product, (gradient * (x - at)).sum(-1)[:, 1], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(found.gradient, gradient.norm(dim=-1)[:, 1], rtol=1e-9, atol=1e-14)
    for step in range(len(x)):
        changed = x.clone()
        changed[step, 1] = at
        removed = float(output.detach() - chosen(model(changed)[0]).detach())
        assert found.removal[step] == pytest.approx(removed, rel=1e-9, abs=1e-13)
    assert found.output == pytest.approx(float(output.detach()))


def test_only_steps_of_the_sequence() -> None:
    torch.manual_seed(0)
    model, x = Stack("gru", 4, 5, dtype=torch.float64), draw()
    lengths = torch.tensor([8, 3, 5])
    found = measure_saliency(record(model, lambda model: model(x, lengths=lengths)[0].sum()), 1)
    assert found.product.shape == found.removal.shape == (3,)
    assert (np.abs(found.removal) > 0).all()


def test_a_layer_that_is_called_in_parts() -> None:
    model, x = model_of("rnn"), draw()

    def in_parts(model: nn.Module) -> Tensor:
        first, state = model(x[:5])
        return chosen(torch.cat([first, model(x[5:], state)[0]]))

    whole = measure_saliency(record(model, lambda model: chosen(model(x)[0])), 1)
    parts = measure_saliency(record(model, in_parts), 1)
    np.testing.assert_allclose(parts.product, whole.product)
    np.testing.assert_allclose(parts.removal, whole.removal)


def test_the_last_steps_come_first() -> None:
    model, x = model_of("rnn"), draw()
    found = measure_saliency(record(model, lambda model: chosen(model(x)[0])), seconds=0)
    assert np.isnan(found.removal).all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"baseline": "median"}, "Choose from zero, mean"),
        ({"sequence": 3}, "Give 0 to 2"),
        ({"sequence": True}, "Give 0 to 2"),
        ({"seconds": float("nan")}, "seconds"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], says: str) -> None:
    model, x = model_of("rnn"), draw()
    with pytest.raises(ArgumentError, match=says):
        measure_saliency(record(model, lambda model: chosen(model(x)[0])), **options)


class Speller(nn.Module):
    """Words, each read letter by letter before the sentence is."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.letters, self.words = nn.GRU(2, 3), nn.GRU(3, 4)

    def forward(self, letters: Tensor, words: Tensor) -> Tensor:
        known = self.letters(letters)[0][-1]  # (words of the language, 3)
        return self.words(known[words])[0]  # type: ignore[no-any-return]


def test_the_steps_of_words_and_not_of_their_letters_are_explained() -> None:
    model = Speller()
    letters, words = torch.randn(5, 9, 2), torch.tensor([[1, 4], [7, 2], [3, 3]])
    recording = record(model, lambda model: model(letters, words)[-1, 0, 0])
    found = measure_saliency(recording, shape=(3, 2))
    known = model.letters(letters)[0][-1][words].detach()
    for step in range(3):
        without = known.clone()
        without[step, 0] = 0
        outputs = [float(model.words(x)[0][-1, 0, 0].detach()) for x in (known, without)]
        assert found.removal[step] == pytest.approx(outputs[0] - outputs[1], abs=1e-6)
        assert abs(found.removal[step]) > 1e-4
    assert len(measure_saliency(recording).removal) == 5  # of letters
    with pytest.raises(ArgumentError, match="shape"):
        measure_saliency(recording, shape=(4, 2))
