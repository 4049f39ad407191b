"""One unit at a time: its course, its gates, what it responds to, and what is refused; and the paths of states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import nn

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures.ablation import Ablation, LayerAblation
from unspool.insight.measures.paths import measure_paths
from unspool.insight.measures.units import measure_unit
from unspool.insight.recording import Recording, record
from unspool.insight.sections.units import SingleUnits, tell
from unspool.nn import Stack
from unspool.nn.recurrent import Recurrent


def lstm(steps: int = 12, rows: int = 3) -> tuple[nn.LSTM, torch.Tensor, Recording]:
    torch.manual_seed(0)
    model, x = nn.LSTM(3, 4, dtype=torch.float64), torch.randn(steps, rows, 3, dtype=torch.float64)
    return model, x, record(model, lambda model: model(x)[0].sum())


def test_the_course_of_a_unit_and_its_gates() -> None:
    model, x, recording = lstm()
    found = measure_unit(recording, 0, 2)
    np.testing.assert_allclose(found.output, model(x)[0][:, 0, 2].detach())
    assert found.names == ("i", "f", "o", "c")
    assert found.gates == ("i", "f", "o")
    w, u, b, d = (value.detach() for value in model.parameters())
    h, c = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(3, 4, dtype=torch.float64)
    for step, row in enumerate(x):
        sums = row @ w.T + b + h @ u.T + d
        i, f, g, o = (part[:, 2] for part in sums.chunk(4, -1))
        whole = sums.chunk(4, -1)
        c = whole[1].sigmoid() * c + whole[0].sigmoid() * whole[2].tanh()
        h = whole[3].sigmoid() * c.tanh()
        expected = [float(one[0].detach()) for one in (i.sigmoid(), f.sigmoid(), o.sigmoid(), c[:, 2])]
        np.testing.assert_allclose(found.values[:, step], expected)
        assert g.shape == (3,)


class Echo(nn.Module):
    """A layer whose unit 0 repeats input 1 of two steps before, and whose unit 1 says whether the token is "b"."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = Stack("linear", 2, 4, dtype=torch.float64)
        (cell,) = [module for module in self.rnn.modules() if isinstance(module, Recurrent)]
        with torch.no_grad():
            for value in cell.cell_parameters().values():
                value.zero_()
            weights = cell.cell_parameters()
            weights["W_h"][3, 1] = 1
            weights["U_h"][2, 3] = weights["U_h"][0, 2] = 1
            weights["W_h"][1, 0] = 1


def test_a_unit_follows_an_input() -> None:
    torch.manual_seed(0)
    model, x = Echo().rnn, torch.randn(30, 2, 2, dtype=torch.float64)
    found = measure_unit(record(model, lambda model: model(x)[0].square().sum()), 0, 0)
    assert (found.follows, found.lag) == (1, 2)
    assert found.correlation == pytest.approx(1)
    assert np.isnan(found.explained)


@pytest.mark.parametrize("seed", range(8))
def test_a_unit_follows_nothing_by_chance(seed: int) -> None:
    torch.manual_seed(seed)
    model, x, forcing = nn.LSTM(24, 4), torch.randn(18, 4, 24), torch.randn(18, 4, 1).cumsum(0)
    recording = record(model, lambda model: (model(x)[0] * forcing).sum())
    (layer,) = recording.layers
    layer.output[..., 0] = forcing[..., 0]  # drifts on its own, and has nothing to do with the input
    found = measure_unit(recording, 0, 0)
    assert (found.follows, found.lag) == (-1, 0)
    assert np.isnan(found.correlation)


def test_a_correlation_that_is_real_but_small_is_not_to_follow() -> None:
    torch.manual_seed(0)
    model, x = Echo().rnn, torch.randn(4000, 2, 2, dtype=torch.float64)
    recording = record(model, lambda model: model(x)[0].square().sum())
    (layer,) = recording.layers
    for size, follows in ((0.1, -1), (0.6, 1)):  # of the correlation
        layer.output[..., 0] = size * x[..., 1] + np.sqrt(1 - size**2) * torch.randn(4000, 2, dtype=torch.float64)
        found = measure_unit(recording, 0, 0)
        assert found.follows == follows
    assert found.correlation == pytest.approx(0.6, abs=0.03)


def test_tokens_that_explain_next_to_nothing_do_not_say_what_a_unit_does() -> None:
    _, _, recording = lstm()
    tokens = [["a", "b", "b"], ["b", "a", "a"]] * 6
    unit = measure_unit(recording, 0, 1, tokens)
    loss = Ablation(1.0, "zero", (LayerAblation("layer 1", np.ones(4), np.arange(4)),), 4, 4)
    shy, plain = (
        tell(SingleUnits(loss, (replace(unit, explained=part),), (0.5,))).findings[-1] for part in (0.04, 0.5)
    )
    assert shy == (
        "layer 1, unit 1: without it the loss changes from 1 to 1.5; the token that was just read explains only 4% of "
        "its variance."
    )
    assert "it is highest after 'a' and lowest after 'b', and the token explains 50%" in plain


def test_a_unit_that_responds_to_tokens() -> None:
    tokens = [["a", "b"], ["b", "c"], ["c", "a"]] * 5
    x = torch.tensor([[[float(token == "b"), 0.0] for token in step] for step in tokens], dtype=torch.float64)
    found = measure_unit(record(Echo().rnn, lambda model: model(x)[0].square().sum()), 0, 1, tokens)
    assert found.highest[0] == "b"
    assert found.lowest[0] in "ac"
    assert found.explained == pytest.approx(1)
    assert found.tokens == ("a", "b", "c") * 5
    assert found.follows == -1


def test_the_part_of_the_variance_between_tokens() -> None:
    _, _, recording = lstm()
    tokens = [["a", "b", "b"], ["b", "a", "a"]] * 6
    found = measure_unit(recording, 0, 1, tokens)
    values = recording.layers[0].output[..., 1].numpy()
    kinds = np.array(tokens)
    within = sum(values[kinds == kind].var() * (kinds == kind).sum() for kind in "ab") / values.size
    assert found.explained == pytest.approx(1 - within / values.var())


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"layer": 1}, ArgumentError, "none of the 1 layers"),
        ({"unit": 4}, ArgumentError, "Give 0 to 3"),
        ({"unit": -1}, ArgumentError, "Give 0 to 3"),
        ({"tokens": [["a"]]}, ShapeError, "a token for each"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        measure_unit(lstm()[2], **{"layer": 0, "unit": 0} | change)


def test_each_state_has_its_own_plane() -> None:
    _, _, recording = lstm()
    paths = measure_paths(recording).paths
    assert [(path.label, path.state) for path in paths] == [("layer 1", "h"), ("layer 1", "c")]
    for path, states in zip(paths, recording.layers[0].split(recording.layers[0].after).values(), strict=True):
        twin = PCA(2).fit(states.flatten(0, 1).numpy())
        np.testing.assert_allclose(path.explained, twin.explained_variance_ratio_)
        np.testing.assert_allclose(np.abs(path.points[0]), np.abs(twin.transform(states[:, 0].numpy())), atol=1e-12)


def test_a_state_of_one_unit_and_one_that_does_not_vary() -> None:
    model, x = nn.LSTM(2, 1), torch.zeros(5, 1, 2)
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    for path in measure_paths(record(model, lambda model: model(x)[0].sum())).paths:
        assert np.isnan(path.explained).all()
        assert (path.points == 0).all()
