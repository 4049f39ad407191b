"""Each typical mistake is recognized as itself, and the reference is torch's RNN."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspool.lab.exercise.mistakes import MISTAKES, diagnose, make_cases, reference

#: Mistakes that cannot be made with weights that are not square.
SQUARE = {"W is transposed", "W and U are both transposed", "W and U are exchanged"}


def test_the_reference_is_torchs() -> None:
    for case in make_cases():
        rnn = torch.nn.RNN(case.W.shape[1], case.W.shape[0], batch_first=True, dtype=torch.float64)
        weights = {"weight_ih_l0": case.W, "weight_hh_l0": case.U, "bias_ih_l0": case.b, "bias_hh_l0": 0 * case.b}
        rnn.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        expected, _ = rnn(torch.from_numpy(case.x), torch.from_numpy(case.h0)[None])
        np.testing.assert_allclose(reference(*case), expected.detach().numpy(), rtol=0, atol=1e-12)


def test_the_reference_makes_no_mistake() -> None:
    for case in make_cases():
        assert diagnose(reference(*case), case) is None


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_recognized(name: str) -> None:
    square, wide = make_cases()
    found = diagnose(MISTAKES[name].network(*square), square)
    assert found is not None
    assert found.name == name
    if name not in SQUARE:
        again = diagnose(MISTAKES[name].network(*wide), wide)
        assert again is not None
        assert again.name == name
