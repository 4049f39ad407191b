"""Contestants compute the same thing, and one that does not is found out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from unspool.lab.bench.agreement import DisagreementError, check_agreement
from unspool.lab.bench.cases import GATES, Case, Point
from unspool.lab.bench.contestants import min_gru
from unspool.lab.bench.contestants.contestant import Contestant
from unspool.lab.bench.contestants.modules import torch_nn
from unspool.lab.bench.contestants.modules import unspool as ours
from unspool.lab.bench.grid import MAKERS
from unspool.lab.bench.user_cells import USER_CELLS, LSTMLoop
from unspool.nn import Recurrent

POINT = Point(3, 5, 4, 6)
each_cell = pytest.mark.parametrize("cell", GATES)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")  # nothing needs compiling to be compared


@each_cell
@pytest.mark.parametrize("name", ["torch", "jax", "onnxruntime"])
def test_all_agree_with_ours(cell: str, name: str) -> None:
    if name != "torch":
        pytest.importorskip(name)
    case = Case(cell, POINT)
    mine, other = ours(case, 1), MAKERS[name](case, 1)
    np.testing.assert_allclose(mine.output(mine.infer()), other.output(other.infer()), rtol=0, atol=1e-6)
    assert mine.train is not None
    if name == "onnxruntime":
        assert other.train is None
    else:
        assert other.train is not None
        for a, b in zip(mine.gradients(mine.train()), other.gradients(other.train()), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
            assert np.abs(b).max() > 1e-3
    check_agreement(case, {"unspool": mine, name: other})


@each_cell
def test_a_changed_weight_is_found(cell: str) -> None:
    case = Case(cell, POINT)
    wrong = Case(cell, POINT)
    wrong.weights[1][0, 0] += 0.1
    with pytest.raises(DisagreementError, match="the output differs between unspool and torch"):
        check_agreement(case, {"unspool": ours(case, 1), "torch": torch_nn(wrong, 1)})


@pytest.mark.parametrize("factor", [1.01, np.nan])
def test_a_wrong_gradient_is_found(factor: float) -> None:
    case = Case("lstm", POINT)
    good = torch_nn(case, 1)

    def spoiled(found: list[torch.Tensor]) -> list[np.ndarray]:
        gradients = good.gradients(found)
        return [*gradients[:3], factor * gradients[3]]

    with pytest.raises(DisagreementError, match="gradient 3 differs"):
        check_agreement(case, {"good": good, "spoiled": replace(good, gradients=spoiled)})


def test_a_wrong_shape_is_found() -> None:
    case = Case("gru", POINT)
    good = torch_nn(case, 1)
    short = Contestant(good.infer, None, lambda found: np.asarray(found)[1:])
    with pytest.raises(DisagreementError, match=r"\(5, 3, 6\) by good, \(4, 3, 6\) by short"):
        check_agreement(case, {"good": good, "short": short})


def test_operations_are_those_that_torch_counts() -> None:
    """A loop never needs the gradient of its first state; the count is a round one, for all T steps."""
    B, _, _, H = POINT
    case, loop = Case("lstm", POINT), LSTMLoop(Recurrent("lstm", POINT.I, H))
    x = torch.from_numpy(case.x)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        loop(x)
    with FlopCounterMode(display=False) as training:
        loop(x).sum().backward()
    assert forward.get_total_flops() == case.operations(training=False)
    assert training.get_total_flops() == case.operations(training=True) - 2 * B * 4 * H * H


@pytest.mark.parametrize("title", USER_CELLS)
def test_a_users_loop_is_his_cell(title: str) -> None:
    cell, loop_kind, built_in = USER_CELLS[title]
    torch.manual_seed(0)
    layer = Recurrent(cell, POINT.I, POINT.H, dtype=torch.float64)
    loop = loop_kind(layer)
    x = torch.randn(POINT.T, POINT.B, POINT.I, dtype=torch.float64)
    output, by_loop = layer(x)[0], loop(x)
    torch.testing.assert_close(output, by_loop, rtol=0, atol=1e-12)
    output.square().sum().backward()
    by_loop.square().sum().backward()
    gradients = loop.gradients()
    assert gradients.keys() == dict(layer.named_parameters()).keys()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=0, atol=1e-11)
    if built_in:
        same = Recurrent(built_in, POINT.I, POINT.H, dtype=torch.float64)
        same.load_state_dict(layer.state_dict())
        torch.testing.assert_close(same(x)[0], by_loop, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_all_forms_of_min_gru_agree(name: str) -> None:
    pytest.importorskip(name)
    torch.manual_seed(0)
    layer, x = Recurrent(min_gru.MinGRU, POINT.I, POINT.H), torch.from_numpy(Case("lstm", POINT).x)
    other = min_gru.torch_scan(layer, x) if name == "torch" else min_gru.jax_scan(layer, x, 1)
    check_agreement("minGRU", {"unspool": min_gru.unspool_kernel(layer, x), name: other})
