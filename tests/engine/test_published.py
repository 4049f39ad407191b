"""Cells of the literature: each against its paper's equations, written again in torch, by kernel, loop and player."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from tests.engine.agreement import Call, Values, assert_agree, by_kernel, by_loop, draw, needs_kernels, with_gradients
from tests.oracles.published import STEPS, run
from tests.variants import PUBLISHED
from torch import Tensor

from unspool.cells import CATALOGUE, find_cell
from unspool.cells.gates import find_gates
from unspool.engine import run as run_in_numpy
from unspool.models.language_model import LanguageModel
from unspool.nn.description import describe_layer
from unspool.nn.recurrent import Recurrent
from unspool.runtime.read import read_stack
from unspool.runtime.stack import StackPlayer
from unspool.settings.model import LanguageModelSettings

each_published = pytest.mark.parametrize("name", PUBLISHED)
#: Kernels of every kind: with and without products with the state, of vectors, complex pairs and matrices, with tied
#: weights, windows, normalization and stabilizers. The others are compiled where minutes do not matter.
SOON = ("lstm-layernorm", "sru", "qrnn", "ltc", "lru", "slstm", "mlstm", "rwkv7")
each_kernel = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in SOON)) for name in PUBLISHED]
)

#: What X-ray shows as a gate: values between 0 and 1 that multiply others, and those that a cell declares.
GATES = {
    "lstm-peephole": "i f o",
    "lstm-layernorm": "i f o",
    "janet": "f i",
    "mgu": "f",
    "mingru": "z",
    "minlstm": "f i",
    "indrnn": "",
    "sru": "f r",
    "qrnn": "f o",
    "rhn": "t1 t2 t3",
    "fastgrnn": "z",
    "antisymmetric": "",
    "lem": "a b",
    "cornn": "",
    "unicornn": "pace",
    "ltc": "f1 f2 f3 f4 f5 f6",
    "cfc": "f",
    "lru": "",
    "rg-lru": "r i",
    "s4d": "",
    "slstm": "o i f",
    "mlstm": "o i f",
    "gla": "a",
    "deltanet": "b",
    "rwkv7": "a",
}


def draw_call(name: str) -> Call:
    """A call in float64."""
    return draw(CATALOGUE[name](), 6, 3, 3, 8)


def by_paper(name: str, call: Call) -> Values:
    """Results and gradients by the equations of the paper."""
    return with_gradients(call, *run(STEPS[name], call.layer.cell_parameters(), call.x, call.states))


def test_every_published_cell_has_an_oracle() -> None:
    assert set(STEPS) == set(GATES) == set(PUBLISHED)


@each_published
def test_the_loop_is_the_paper(name: str) -> None:
    call = draw_call(name)
    assert_agree(by_loop(call), by_paper(name, call), 1e-11)


@needs_kernels
@pytest.mark.usefixtures("compiling")
@each_kernel
def test_the_kernel_is_the_paper(name: str) -> None:
    call = draw_call(name)
    assert_agree(by_kernel(call), by_paper(name, call), 1e-11)
    assert_a_step_lowers_the_loss(name)


def assert_a_step_lowers_the_loss(name: str) -> None:
    """From the cell's own first values, by gradients of the kernel: the step is short enough for the first order."""
    torch.manual_seed(0)
    layer = Recurrent(name, 3, 8, dtype=torch.float64)
    x, target = torch.randn(6, 3, 3, dtype=torch.float64), torch.randn(6, 3, 8, dtype=torch.float64)

    def loss() -> Tensor:
        difference: Tensor = layer(x)[0] - target
        return difference.square().mean()

    before = loss()
    before.backward()
    gradients = {parameter: parameter.grad for parameter in layer.parameters() if parameter.grad is not None}
    rate = 1e-4 / sum(gradient.square().sum().item() for gradient in gradients.values())
    with torch.no_grad():
        for parameter, gradient in gradients.items():
            parameter.sub_(rate * gradient)
    assert before.item() - loss().item() == pytest.approx(1e-4, rel=0.1)


@each_published
def test_numpy_and_the_player_are_the_paper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    call = draw_call(name)
    tensors = {key: value.detach().numpy() for key, value in call.layer.cell_parameters().items()}
    x, states = call.x.detach().numpy(), tuple(state.detach().numpy() for state in call.states)
    found, final, _ = run_in_numpy(call.layer.cell, tensors, x, states)
    expected, ends = run(STEPS[name], call.layer.cell_parameters(), call.x, call.states)
    np.testing.assert_allclose(found, expected.detach(), rtol=0, atol=1e-11)
    for one, other in zip(final, ends, strict=True):
        np.testing.assert_allclose(one, other.detach(), rtol=0, atol=1e-11)
    player = StackPlayer(read_stack(json.loads(json.dumps(describe_layer(call.layer))), tensors))
    played, _ = player.run(x)
    np.testing.assert_allclose(played, run_in_numpy(call.layer.cell, tensors, x)[0], rtol=0, atol=1e-12)


@each_published
def test_gates_for_xray(name: str) -> None:
    cell = find_cell(name)
    equations = cell.equations()
    gates = {*find_gates(equations), *cell.keeps, *cell.writes}
    assert gates == set(GATES[name].split())
    assert gates <= set(equations.named)
    for gate in (*cell.keeps, *cell.writes):  # for `forget_bias_`
        assert {f"b_{gate}", f"bias_{gate}"} & set(equations.parameters)


@each_published
def test_a_model_takes_it_by_name(name: str) -> None:
    model = LanguageModel(9, LanguageModelSettings(cell=name, hidden=4, layers=2))
    assert sum(parameter.numel() for parameter in model.parameters()) > 0


@pytest.mark.long
@needs_kernels
@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("name", ["mlstm", "gla", "deltanet", "rwkv7"])
def test_a_matrix_as_memory_learns_from_the_first_updates_on(name: str) -> None:
    """Text by the default optimizer: no update may leave the loss above that of the uniform distribution by much."""
    torch.manual_seed(0)
    text = torch.tensor(list(("the cat sat on the mat and the dog sat on the log. " * 80).encode())) - 32
    batch = text[: 8 * 500].reshape(8, 500).T[:257]
    embedding, layer, head = torch.nn.Embedding(96, 32), Recurrent(name, 32, 64), torch.nn.Linear(64, 96)
    parameters = [*embedding.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, 3e-3, betas=(0.9, 0.99), weight_decay=0.0)
    losses = []
    for _ in range(50):
        scores = head(layer(embedding(batch[:-1]))[0])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), batch[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    uniform = math.log(96)
    assert max(losses) < uniform + 0.5
    assert losses[12] < uniform - 0.2
    assert losses[-1] < 0.6 * uniform


def first(name: str, parameter: str, units: int = 4000) -> Tensor:
    """What a parameter of a wide layer starts at."""
    torch.manual_seed(0)
    return Recurrent(name, 3, units).get_parameter(parameter).detach()


def assert_uniform(values: Tensor, low: float, high: float) -> None:
    """As a uniform distribution: within its bounds, and its quantiles are its quantiles."""
    assert low <= values.min()
    assert values.max() <= high
    places = torch.linspace(0, 1, 9)
    expected = low + (high - low) * places
    torch.testing.assert_close(values.quantile(places), expected, rtol=0, atol=0.03 * (high - low))


def test_first_values_of_the_papers() -> None:
    assert_uniform(first("indrnn", "u"), 0, 1)
    assert_uniform(first("unicornn", "w"), 0, 1)
    assert_uniform(first("unicornn", "s"), -0.1, 0.1)
    assert not first("unicornn", "b_z").any()
    softplus = torch.nn.functional.softplus(first("rg-lru", "lambda").double())
    assert_uniform(torch.exp(-8 * softplus).float(), 0.9, 0.999)
    assert_uniform(first("ltc", "A"), -1, 1)
    assert first("antisymmetric", "a", 30).var() == pytest.approx(1 / 30, rel=0.2)
    layer = Recurrent("rhn", 3, 4)
    assert all((getattr(layer, f"b_t{depth}") == -2).all() for depth in (1, 2, 3))
    assert layer.get_parameter("b_h1").abs().max() < 1
    Recurrent("rhn", 3, 4, bias=False)  # a bias that is not there is not filled


def test_poles_start_in_the_ring_of_the_lru() -> None:
    nu, theta, gamma = (first("lru", name) for name in ("nu", "theta", "gamma"))
    radius = torch.exp(-torch.exp(nu))
    assert_uniform(radius.square(), 0.9**2, 0.999**2)  # so the poles are spread evenly over the area
    assert_uniform(torch.exp(theta), 0, 2 * torch.pi)
    torch.testing.assert_close(torch.exp(gamma).square(), 1 - radius.square(), rtol=1e-3, atol=1e-6)


def test_poles_start_as_in_s4d_lin() -> None:
    assert_uniform(first("s4d", "log_dt").exp().log10(), -3, -1)
    torch.testing.assert_close(first("s4d", "frequency", 2), torch.pi * torch.arange(16.0).repeat(2))
    torch.testing.assert_close(first("s4d", "decay", 2).exp(), torch.full((32,), 0.5))


def test_two_draws_differ_and_a_seed_repeats_them() -> None:
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(Recurrent("indrnn", 3, 8).get_parameter("u").detach())
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
