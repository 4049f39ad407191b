"""Predictive coding against back-propagation, a closed form, and a slow twin without vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from unspool.cells import Elman
from unspool.cells.evaluate import Evaluator
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, TrainingError, UnspoolError
from unspool.learning.predictive_coding import PredictiveCoding, alignment
from unspool.nn import Recurrent, Stack

STEPS, ROWS, LENGTHS = 5, 4, (5, 2, 0, 3)
WEIGHTS = torch.linspace(-1, 2, 4, dtype=torch.float64)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")  # nothing needs compiling to be compared


def pile(*cells: str, **options: Any) -> list[Recurrent]:
    torch.manual_seed(3)
    sizes = zip(cells, (3, *(4 for _ in cells)), strict=False)
    return [Recurrent(cell, size, 4, dtype=torch.float64, **options) for cell, size in sizes]


def sequence(steps: int = STEPS, rows: int = ROWS) -> Tensor:
    return torch.randn(steps, rows, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def top_loss(output: Tensor) -> Tensor:
    """Every step and unit counts, and differently."""
    steps = torch.arange(1, len(output) + 1, dtype=torch.float64).view(-1, 1, 1)
    return (output.exp() * WEIGHTS * steps).sum() / 20


def run(layers: Sequence[Recurrent], x: Tensor, lengths: Sequence[int] | None = None) -> Tensor:
    for layer in layers:
        x, _ = layer(x, lengths=lengths)
    return x


def by_name(layers: Sequence[Recurrent], loss: Tensor) -> list[dict[str, Tensor]]:
    """The exact gradients, named as predictive coding names its own."""
    found = []
    for layer in layers:
        named = {name: part for name, part in layer.named_parameters() if part.requires_grad}
        gradients = torch.autograd.grad(loss, list(named.values()), retain_graph=True)
        found.append(dict(zip(named, gradients, strict=True)))
    return found


def assert_same(actual: Any, expected: Any, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(list(actual), list(expected), rtol=tolerance, atol=tolerance)


# ── predictions held ──


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("cells", [("elman",), ("elman", "elman"), ("gru", "gru"), ("lstm", "lstm"), ("lstm", "skip")])
def test_fixed_predictions_give_the_gradients_of_back_propagation(
    cells: tuple[str, ...], lengths: Sequence[int] | None
) -> None:
    layers, head = pile(*cells, learn_initial=True), nn.Linear(4, 2, dtype=torch.float64)
    embedding = nn.Linear(3, 3, dtype=torch.float64)

    def loss(output: Tensor) -> Tensor:
        return torch.tanh(head(output)).square().sum() + top_loss(output)

    exact = loss(run(layers, embedding(sequence()), lengths))
    around = [*head.parameters(), *embedding.parameters()]
    expected = by_name(layers, exact), torch.autograd.grad(exact, around, retain_graph=True)

    coding = PredictiveCoding(layers, iterations=STEPS + len(cells), step_size=1, fixed=True)
    local = coding.gradients(embedding(sequence()), loss, lengths=lengths)
    assert_same(local.gradients, expected[0])
    assert_same([{name: part.grad for name, part in layer.named_parameters()} for layer in layers], expected[0])
    assert_same([part.grad for part in around], expected[1])
    assert_same([local.loss, local.energy[0]], [exact.detach(), exact.item()])

    fewer = PredictiveCoding(layers, iterations=STEPS + len(cells) - 2, step_size=1, fixed=True)
    found = fewer.gradients(embedding(sequence()), loss, lengths=lengths).gradients
    with pytest.raises(AssertionError):
        assert_same(found, expected[0], 1e-6)


def test_an_error_comes_one_neighbour_further_an_iteration() -> None:
    layers = pile("gru", "gru")

    def loss(output: Tensor) -> Tensor:
        return top_loss(output[-1:])

    below = run(layers[:1], sequence()).detach()
    old = layers[1](below[:-1])[1].detach()
    (last,) = by_name(layers[1:], loss(layers[1](below[-1:], old)[0]))  # the top layer's last step, nothing before it
    for fixed in (True, False):
        lower, upper = PredictiveCoding(layers, iterations=1, fixed=fixed).gradients(sequence(), loss).gradients
        assert all(part.abs().max() < 1e-15 for part in lower.values())
        assert_same([upper], [last])
        twice = PredictiveCoding(layers, iterations=2, step_size=1, fixed=fixed)
        assert all(part.abs().max() > 1e-6 for part in twice.gradients(sequence(), loss).gradients[0].values())


def test_parameters_may_be_parametrised_or_frozen() -> None:
    layers = pile("elman", "elman")
    parametrizations.orthogonal(layers[0], "U_h")
    layers[1].W_h.requires_grad_(False)
    local = PredictiveCoding(layers, iterations=8, step_size=1, fixed=True).gradients(sequence(), top_loss)
    assert_same(local.gradients, by_name(layers, top_loss(run(layers, sequence()))))
    assert layers[1].W_h.grad is None


# ── predictions that follow ──


@pytest.mark.parametrize("u", [-0.5, 0.9])
def test_a_scalar_linear_layer_in_closed_form(u: float) -> None:
    """h_t = w x_t + u h_{t−1} and a top loss ½(y − h_T)².

    The errors are noises of variance one, of which h_T has Σ u^{2k}: min E = ½(y − ĥ_T)² / (1 + Σ u^{2k}). At the
    minimum the slope with the activities held is the whole slope.
    """
    layer = Recurrent(Elman("identity"), 1, 1, bias=False, dtype=torch.float64)
    W, U = layer.get_parameter("W_h"), layer.get_parameter("U_h")
    nn.init.constant_(W, 0.7)
    nn.init.constant_(U, u)
    x, y = sequence()[:, :1, :1], 2.0
    powers = torch.arange(STEPS)
    residual = y - (W * U ** powers.flip(0) * x[:, 0, 0]).sum()
    least = residual.square() / 2 / (1 + (U ** (2 * powers)).sum())

    def loss(output: Tensor) -> Tensor:
        return (y - output[-1, 0, 0]).square() / 2

    local = PredictiveCoding([layer], iterations=500, step_size=0.5, fixed=False).gradients(x, loss)
    assert local.energy == pytest.approx((residual.item() ** 2 / 2, least.item()), rel=1e-10)
    assert_same(local.gradients, by_name([layer], least), 1e-9)


def twin(
    layers: Sequence[Recurrent], x: Tensor, lengths: Sequence[int], iterations: int, rate: float
) -> tuple[float, list[dict[str, Tensor]]]:
    """The same, one state of one row at one step of one layer after the other."""
    places = [(level, row, t) for level in range(len(layers)) for row in range(ROWS) for t in range(lengths[row])]
    activities: dict[tuple[int, int, int], tuple[Tensor, ...]] = {}

    def predict(level: int, row: int, t: int) -> tuple[Tensor, ...]:
        below = activities[level - 1, row, t][0] if level else x[t, row]
        old = activities.get((level, row, t - 1))
        new = layers[level](below.unsqueeze(0), old if old is None or len(old) > 1 else old[0])[1]
        return new if isinstance(new, tuple) else (new,)

    def energies() -> list[Tensor]:
        """Of each layer, and the top loss."""
        squares = [torch.zeros((), dtype=torch.float64) for _ in layers]
        for place in places:
            for value, predicted in zip(activities[place], predict(*place), strict=True):
                squares[place[0]] = squares[place[0]] + (value - predicted).square().sum() / 2
        output = [
            torch.stack([activities.get((len(layers) - 1, row, t), (torch.zeros(4),))[0] for row in range(ROWS)])
            for t in range(STEPS)
        ]
        return [*squares, top_loss(torch.stack(output))]

    for place in places:
        activities[place] = tuple(value.detach().requires_grad_() for value in predict(*place))
    for _ in range(iterations):
        flat = [value for place in places for value in activities[place]]
        moved = iter(zip(flat, torch.autograd.grad(torch.stack(energies()).sum(), flat), strict=True))
        for place in places:
            pairs = [next(moved) for _ in activities[place]]
            activities[place] = tuple((value - rate * slope).detach().requires_grad_() for value, slope in pairs)
    *squares, top = energies()
    gradients = [by_name([layer], square)[0] for layer, square in zip(layers, squares, strict=True)]
    return float(torch.stack([*squares, top]).sum().detach()), gradients


@pytest.mark.parametrize("cells", [("elman", "elman"), ("gru", "lstm"), ("lstm", "skip")])
def test_all_at_once_is_one_after_the_other(cells: tuple[str, str]) -> None:
    layers, x = pile(*cells), sequence()
    energy, expected = twin(layers, x, LENGTHS, 4, 0.2)
    for row, length in enumerate(LENGTHS):
        x[length:, row] = math.nan  # steps beyond a row's end have no influence
    local = PredictiveCoding(layers, iterations=4, step_size=0.2, fixed=False).gradients(x, top_loss, lengths=LENGTHS)
    assert_same(local.gradients, expected)
    assert local.energy[1] == pytest.approx(energy, rel=1e-12)
    assert local.energy[1] < local.energy[0]


def test_small_errors_lead_to_back_propagation() -> None:
    """The difference is of the order of the top loss's weight."""
    layers, x = pile("gru", "elman"), sequence(3, 2)
    exact = by_name(layers, top_loss(run(layers, x)))

    def distance(weight: float) -> float:
        coding = PredictiveCoding(layers, iterations=200, step_size=0.4, fixed=False)
        found = coding.gradients(x, lambda output: weight * top_loss(output)).gradients
        pairs = zip(found, exact, strict=True)
        return max(float((one[name] / weight - two[name]).abs().max()) for one, two in pairs for name in two)

    assert distance(1e-3) / distance(1e-4) == pytest.approx(10, rel=0.05)
    assert distance(1e-4) < 1e-3


# ── no graph crosses ──


def leaves(tensor: Tensor) -> list[Tensor]:
    """The leaves that wait for gradients at the ends of a tensor's graph."""
    if tensor.grad_fn is None:
        return [tensor] if tensor.requires_grad else []
    found, waiting, seen = [], [tensor.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            found += [node.variable] if hasattr(node, "variable") else []
            waiting += [following for following, _ in node.next_functions if following is not None]
    return found


@pytest.mark.parametrize("fixed", [True, False])
def test_no_graph_crosses_layers_or_steps(fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    layers, seen = pile("lstm", "gru", "elman"), []
    plain = Evaluator.__call__

    def watched(self: Evaluator, parameters: Any, x: Tensor, states: Sequence[Tensor]) -> Any:
        new, named = plain(self, parameters, x, states)
        if torch.is_grad_enabled():
            assert x.grad_fn is None
            seen.append((x, [leaves(state) for state in states], list(parameters.values()), list(map(leaves, new))))
        return new, named

    def top(output: Tensor) -> Tensor:
        assert [leaf.shape for leaf in leaves(output)] in ([], [(STEPS * ROWS, 4)])  # the top layer's activities alone
        return top_loss(output)

    monkeypatch.setattr(Evaluator, "__call__", watched)
    PredictiveCoding(layers, iterations=3, step_size=0.1, fixed=fixed).gradients(sequence(), top)
    assert len(seen) == len(layers) * (1 if fixed else 4)
    for below, states, parameters, new in seen:
        assert all(len(leaf) == 1 for leaf in states)
        own = {id(part) for part in (below, *(leaf for (leaf,) in states), *parameters)}
        assert {id(leaf) for each in new for leaf in each} == own


@pytest.mark.parametrize("fixed", [True, False])
def test_without_an_error_there_is_nothing_to_learn(fixed: bool) -> None:
    layers = pile("gru", "lstm")
    local = PredictiveCoding(layers, fixed=fixed).gradients(sequence(), lambda _: torch.tensor(2.5))
    assert all(part.abs().max() < 1e-15 for named in local.gradients for part in named.values())
    assert local.energy == pytest.approx((2.5, 2.5), rel=1e-12)


# ── as layers are called ──


def test_layouts_states_and_sums() -> None:
    x = sequence()
    layers, turned = pile("lstm", "gru"), pile("lstm", "gru", batch_first=True)
    coding, other = (PredictiveCoding(each, iterations=5, step_size=0.1, fixed=False) for each in (layers, turned))
    local = coding.gradients(x, top_loss)
    assert_same(other.gradients(x.transpose(0, 1), lambda h: top_loss(h.transpose(0, 1))).gradients, local.gradients)

    rows = [coding.gradients(x[:, row], lambda h: top_loss(h.unsqueeze(1))) for row in range(ROWS)]
    for level, layer in enumerate(layers):
        for name, part in layer.named_parameters():
            total = torch.stack([row.gradients[level][name] for row in rows]).sum(0)
            assert_same([total, part.grad], [local.gradients[level][name], 2 * total])  # `.grad` adds up

    stack = Stack(["lstm", "gru"], 3, [4, 4], dtype=torch.float64)
    for mine, layer in zip(stack.layers, layers, strict=True):
        mine.load_state_dict(layer.state_dict())
    assert_same(local.state, stack(x)[1])
    assert_same(rows[2].state, stack(x[:, 2])[1])
    both = coding.gradients(x, top_loss, state=local.state, lengths=LENGTHS)
    output, state = stack(x, local.state, lengths=LENGTHS)
    assert_same(both.state, state)
    assert both.loss.item() == pytest.approx(top_loss(output).item(), rel=1e-12)
    alone = coding.gradients(x[:, 0], lambda h: top_loss(h.unsqueeze(1)), state=rows[0].state)
    assert_same(alone.state, stack(x[:, 0], rows[0].state)[1])


@pytest.mark.parametrize(("steps", "rows", "lengths"), [(0, 2, None), (3, 0, None), (3, 2, [0, 0])])
def test_nothing_to_read_is_no_mistake(steps: int, rows: int, lengths: list[int] | None) -> None:
    local = PredictiveCoding(pile("lstm", "gru")).gradients(sequence(steps, rows), Tensor.sum, lengths=lengths)
    assert local.energy == (0.0, 0.0)
    assert not any(part.any() for named in local.gradients for part in named.values())


def test_alignment_is_a_cosine() -> None:
    one = [{"W": torch.tensor([[3.0, 0.0]]), "b": torch.tensor([4.0])}, {"W": torch.tensor([2.0])}]
    two = [{"b": torch.tensor([4.0]), "W": torch.tensor([[0.0, 3.0]])}, {"W": torch.tensor([-2.0])}]
    found = alignment(one, two)
    assert found.together == pytest.approx((16 - 4) / (25 + 4), rel=1e-12)
    assert found.layers == pytest.approx((16 / 25, -1), rel=1e-12)
    same = alignment(one, one)
    assert (same.together, *same.layers) == pytest.approx((1, 1, 1), rel=1e-12)
    assert math.isnan(alignment([{"W": torch.zeros(2)}], [{"W": torch.ones(2)}]).together)
    with pytest.raises(ArgumentError, match="`other` .* does not have the names of `local`"):
        alignment(one, two[:1])


# ── what is refused ──


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: PredictiveCoding([]), ArgumentError, "`layers` .* has no layer"),
        (
            lambda: PredictiveCoding(3),  # type: ignore[arg-type]
            ArgumentError,
            r"`layers` \(=3\) has no layer",
        ),
        (lambda: PredictiveCoding([nn.GRU(3, 4)]), ArgumentTypeError, "is not a Recurrent"),
        (lambda: PredictiveCoding(pile("gru", reverse=True)), ArgumentError, "runs in reverse"),
        (lambda: PredictiveCoding(Stack("gru", 3, 4, 1, zoneout=0.1).layers), ArgumentError, "at random"),
        (lambda: PredictiveCoding([*pile("gru"), *pile("gru")]), ShapeError, "reads 3 units where .* has 4"),
        (
            lambda: PredictiveCoding([*pile("gru"), Recurrent("gru", 4, 4, batch_first=True)]),
            ArgumentError,
            "another layout",
        ),
        (lambda: PredictiveCoding(pile("gru"), iterations=0), ArgumentError, r"`iterations` \(=0\) is not positive"),
        (
            lambda: PredictiveCoding(pile("gru"), step_size=math.nan),
            ArgumentError,
            r"`step_size` \(=nan\) is not a positive",
        ),
        (
            lambda: PredictiveCoding(pile("gru"), fixed="no"),  # type: ignore[arg-type]
            ArgumentTypeError,
            r"`fixed` \(='no'\) is neither",
        ),
    ],
)
def test_bad_settings(make: Callable[[], PredictiveCoding], error: type[UnspoolError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_bad_calls() -> None:
    coding: Any = PredictiveCoding(pile("gru", "gru"))
    x = sequence()
    for arguments, options, error, message in (
        ((x[..., :2], top_loss), {}, ShapeError, "is 2 wide where input_size is 3"),
        ((x.float(), top_loss), {}, DTypeError, "has dtype torch.float32"),
        ((x, top_loss), {"lengths": [6, 1, 1, 1]}, ArgumentError, "are not all from 0 to 5"),
        ((x, top_loss), {"state": x[0]}, ArgumentError, "is not a list of 2"),
        ((x, top_loss), {"state": [x[0], x[0]]}, ShapeError, r"is not of shape \(4, 4\)"),
        ((x[:, 0], top_loss), {"state": [None, None]}, ArgumentTypeError, "is not a tensor"),
        ((x, lambda output: output), {}, ArgumentTypeError, "is not a scalar"),
        ((x, lambda output: 3), {}, ArgumentTypeError, r"`top_loss` \(=3\) is not a scalar"),
    ):
        with pytest.raises(error, match=message):
            coding.gradients(*arguments, **options)
    coding.layers[1].float()
    with pytest.raises(DTypeError, match="has dtype torch.float64 where the layer has torch.float32"):
        coding.gradients(x, top_loss)
    assert all(part.grad is None for layer in coding.layers for part in layer.parameters())


def test_a_rate_that_diverges_is_named() -> None:
    layers = [Recurrent(Elman("identity"), 3, 4, dtype=torch.float64)]
    with pytest.raises(TrainingError, match=r"to (inf|nan) at `step_size=9.0`. Lower it"):
        PredictiveCoding(layers, iterations=300, step_size=9, fixed=False).gradients(
            sequence(), lambda h: h.square().sum()
        )
    assert layers[0].W_h.grad is None
