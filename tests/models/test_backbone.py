"""Recurrent layers from settings: torch.nn's and ours compute the same, and every setting does what it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from tests.nn.torch_weights import copy_weights
from torch import Tensor, nn

from unspool.models.backbone import TorchBackbone, make_backbone
from unspool.models.language_model import LanguageModel
from unspool.nn import Recurrent, Stack
from unspool.settings.model import Backbone, LanguageModelSettings

WIDTH, STEPS, ROWS = 5, 7, 3


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compared with the eager loop elsewhere."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def body(**settings: Any) -> nn.Module:
    """A body of two layers of six, always with the same weights, in float64, set to evaluate."""
    torch.manual_seed(5)
    given = {"hidden": 6, "layers": 2, **settings}
    return make_backbone(Backbone.model_validate(given), WIDTH).double().eval()


def shapes(state: Any) -> Any:
    """The nesting of a state, with the shapes and dtypes of its tensors."""
    if isinstance(state, Tensor):
        return tuple(state.shape), state.dtype
    return type(state), [shapes(part) for part in state]


def text() -> Tensor:
    return torch.randn(STEPS, ROWS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def rows_of(state: Any, rows: list[int]) -> Any:
    """Some rows of a nested state."""
    if isinstance(state, Tensor):
        return state[rows]
    return type(state)(rows_of(part, rows) for part in state)


@pytest.mark.parametrize("cell", ["elman", "elman-relu", "lstm", "gru-reset-after"])
def test_torch_s_layers_and_ours_are_the_same_function(cell: str) -> None:
    theirs, ours = body(cell=cell, engine="torch"), body(cell=cell)
    assert isinstance(theirs, TorchBackbone)
    assert isinstance(ours, Stack)
    for level, layer in enumerate(ours.layers):
        copy_weights(theirs.layers, layer, level)
    x = text()
    expected, state = theirs(x)
    found, own = ours(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours(x, own)[0], theirs(x, state)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", ["torch", "kernel"])
@pytest.mark.parametrize("cell", ["elman", "lstm"])
def test_a_state_has_rows_first_so_that_rows_can_be_taken_from_it(cell: str, engine: str) -> None:
    """A search puts the rows of a state in another order; torch.nn's own states have layers first."""
    made, x = body(cell=cell, engine=engine), text()
    _, state = made(x)
    output, _ = made(x, state)
    some = [2, 0]
    torch.testing.assert_close(made(x[:, some], rows_of(state, some))[0], output[:, some], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"cell": "gru"},
            "has no cell 'gru'. Use one of elman, elman-relu, lstm, gru-reset-after, or `engine='kernel'`",
        ),
        (
            {"zoneout": 0.1, "residual": True},
            "does not support `residual`, `zoneout`. Leave it out, or use `engine='kernel'`",
        ),
        ({"forget_bias": 0.5}, "does not support `forget_bias`"),
        ({"variational_dropout": True, "dropout": 0.1}, "does not support `variational_dropout`"),
    ],
)
def test_what_torch_has_not_is_refused_with_a_remedy(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Backbone.model_validate({"engine": "torch", **settings})
    assert said in str(caught.value)


@pytest.mark.parametrize("cell", ["gru", "elman", "jordan"])
def test_zoneout_keeps_its_share_of_the_state_in_evaluation(cell: str) -> None:
    """From a state of zeros the first output is (1 − p) times the new state."""
    first = text()[:1]
    plain, zoned = (body(cell=cell, layers=1, zoneout=p)(first)[0] for p in (0.0, 0.25))
    torch.testing.assert_close(zoned, 0.75 * plain, rtol=0, atol=1e-14)


@pytest.mark.parametrize("setting", ["dropout", "recurrent_dropout", "weight_dropout"])
def test_dropout_is_drawn_in_training_alone(setting: str) -> None:
    made, x = body(**{setting: 0.5}), text()
    torch.testing.assert_close(made(x)[0], body()(x)[0], rtol=0, atol=0)
    made.train()
    assert not torch.allclose(made(x)[0], made(x)[0])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("engine", ["kernel", "torch"])
@pytest.mark.parametrize("cell", ["elman", "gru-reset-after", "lstm"])
def test_the_initial_state_is_the_one_that_a_call_without_a_state_starts_from(
    cell: str, engine: str, layers: int, bidirectional: bool
) -> None:
    """Its nesting, shapes, dtypes and order are those of the state that a call returns."""
    settings = Backbone.model_validate({"hidden": 6, "layers": layers, "cell": cell, "engine": engine})
    made, x = make_backbone(settings, WIDTH, bidirectional).double(), text()
    state: Any = made.initial_state(ROWS, x)  # type: ignore[operator]
    output, final = made(x)
    assert shapes(state) == shapes(final)
    given, given_final = made(x, state)
    torch.testing.assert_close(given, output, rtol=0, atol=0)
    torch.testing.assert_close(given_final, final, rtol=0, atol=0)


def test_a_language_model_has_a_state_without_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in training, where a call would draw dropout, and for the baseline without memory."""
    for changed in ({}, {"engine": "torch"}, {"backbone": "mlp"}):
        settings = LanguageModelSettings.model_validate({"hidden": 5, "layers": 2, "dropout": 0.5, **changed})
        model = LanguageModel(7, settings).train()
        state = model(tuple(torch.zeros(2, 3, 4, dtype=torch.long)), None).state
        drawn = torch.get_rng_state()
        monkeypatch.setattr(type(model.backbone), "forward", lambda *_, **__: pytest.fail("the layers were run"))
        found = model.initial_state(4)
        monkeypatch.undo()
        assert torch.equal(torch.get_rng_state(), drawn)
        assert shapes(found) == shapes(state)


def test_dropout_between_layers_is_on_the_way_up_and_nowhere_else() -> None:
    """With nearly all dropped the second layer reads zeros, and the state of the first is what it was."""
    made, x = body(cell="elman", dropout=0.999), text()
    assert isinstance(made, Stack)
    made.train()
    torch.manual_seed(0)
    output, state = made(x)
    _, plain = body(cell="elman")(x)
    upper, _ = made.layers[1](torch.zeros(STEPS, ROWS, 6, dtype=torch.float64))
    torch.testing.assert_close(state[0], plain[0], rtol=0, atol=0)
    torch.testing.assert_close(output, upper, rtol=0, atol=1e-14)


def test_variational_dropout_is_the_same_at_every_step() -> None:
    """With inputs that do not change and layers that forget, what the second layer reads does not change either."""
    made = body(cell="elman", dropout=0.5, variational_dropout=True)
    assert isinstance(made, Stack)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if ".U_" in name:
                parameter.zero_()
    made.train()
    same = torch.ones(STEPS, ROWS, WIDTH, dtype=torch.float64)
    output, _ = made(same)
    torch.testing.assert_close(output, output[:1].expand_as(output), rtol=0, atol=1e-14)


def test_residual_adds_from_the_second_layer_on() -> None:
    made, x = body(residual=True, layers=3), text()
    assert isinstance(made, Stack)
    expected, _ = made.layers[0](x)
    for layer in list(made.layers)[1:]:
        expected = expected + layer(expected)[0]
    torch.testing.assert_close(made(x)[0], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_forget_bias_is_that_of_the_gate_that_keeps(bias: float) -> None:
    biases = {name: value for name, value in body(forget_bias=bias).named_parameters() if name.endswith("b_f")}
    assert len(biases) == 2
    for value in biases.values():
        assert torch.equal(value.detach(), torch.full((6,), bias, dtype=torch.float64))


def test_orthogonal_matrices_beside_a_forget_bias() -> None:
    settings = LanguageModelSettings.model_validate({"hidden": 5, "init": "orthogonal", "forget_bias": 2.0})
    (layer,) = (part for part in LanguageModel(7, settings).modules() if isinstance(part, Recurrent))
    for name, matrix in layer.cell_parameters().items():
        if name.startswith("U_"):
            torch.testing.assert_close(matrix @ matrix.T, torch.eye(5))
    assert layer.cell_parameters()["b_f"].eq(2).all()


def test_torchs_layers_are_not_made_orthogonal() -> None:
    with pytest.raises(ValidationError, match="does not support `init='orthogonal'`"):
        LanguageModelSettings.model_validate({"init": "orthogonal", "engine": "torch"})
