"""The sizes of inputs, by hand."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from unspool.insight.measures.inputs import measure_inputs
from unspool.insight.recording import record


def test_sizes() -> None:
    x = torch.tensor([[[3.0, 0.0, 10.0]], [[-3.0, 0.0, 30.0]]])
    found = measure_inputs(record(nn.LSTM(3, 4, 2), lambda model: model(x)[0].sum()))
    assert found.labels == ("layer 1",)
    np.testing.assert_allclose(found.sizes[0], [3, 0, 500**0.5])
    np.testing.assert_allclose(found.largest, 500**0.5)
    np.testing.assert_allclose(found.norm, 509**0.5)
    np.testing.assert_allclose(found.unequal, 10 / 3)  # the feature that is always zero does not vary


def test_what_is_learned_is_not_the_datas() -> None:
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.layers = nn.Embedding(5, 3), nn.GRU(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.layers(self.embedding(x))[0]
            return output

    found = measure_inputs(record(Embedded(), lambda model: model(torch.zeros(4, 2, dtype=torch.int64)).sum()))
    assert found.labels == found.sizes == ()
    assert found.largest.shape == (0,)
