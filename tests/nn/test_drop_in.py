"""The contract of torch.nn's recurrent modules, behaviour by behaviour: the drop-ins do what torch.nn's layers do."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
from tests.nn.torch_twins import KINDS, assert_alike, each_kind, flat, states, twins
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence
from torch.utils.checkpoint import checkpoint

import unspool
from unspool.errors import ArgumentTypeError, ShapeError


def gradients(layer: Any, x: Tensor, hx: Any = None) -> list[Tensor]:
    """What a training step gives: output, final states, and the gradients of all that wants one."""
    results = flat(layer(x, hx))
    wanted = [part for part in (x, *flat(() if hx is None else hx), *layer.parameters()) if part.requires_grad]
    loss = torch.stack([(place + 1) * part.square().sum() for place, part in enumerate(results)]).sum()
    return [*results, *torch.autograd.grad(loss, wanted, materialize_grads=True)]


# What a layer is


@each_kind
def test_an_instance_of_torchs_class_but_not_of_exactly_that_type(kind: str) -> None:
    theirs, ours = KINDS[kind]
    layer = ours(3, 4)
    assert isinstance(layer, theirs)
    assert isinstance(layer, nn.RNNBase)
    assert type(layer) is ours
    assert issubclass(ours, theirs)
    assert [part for part in nn.Sequential(layer).modules() if isinstance(part, theirs)] == [layer]


@each_kind
def test_an_initializer_that_asks_for_torchs_class_finds_ours(kind: str) -> None:
    def initialize(module: nn.Module) -> None:
        if isinstance(module, KINDS[kind][0]):
            for name, parameter in module.named_parameters():
                (nn.init.orthogonal_ if "weight_hh" in name else nn.init.zeros_)(parameter)

    layer = KINDS[kind][1](3, 4)
    nn.Sequential(layer).apply(initialize)
    columns = layer.weight_hh_l0.detach()
    torch.testing.assert_close(columns.T @ columns, torch.eye(4), rtol=0, atol=1e-6)
    assert not layer.bias_ih_l0.any()


@each_kind
def test_quantize_dynamic_leaves_it_and_says_so(kind: str) -> None:
    model = nn.Sequential(KINDS[kind][1](3, 4))
    with (
        pytest.warns(DeprecationWarning, match="quantization is deprecated"),
        pytest.warns(UserWarning, match=r"stays as it is. To quantize it too, call unspool\.restore\(model\) before"),
    ):
        made = torch.ao.quantization.quantize_dynamic(model, {nn.LSTM, nn.GRU, nn.RNN}, dtype=torch.qint8)
    assert type(made[0]) is KINDS[kind][1]


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantize_dynamic_after_restore() -> None:
    model = nn.Sequential(unspool.nn.LSTM(3, 4))
    unspool.restore(model)
    with pytest.warns(DeprecationWarning, match="quantization is deprecated"):
        made = torch.ao.quantization.quantize_dynamic(model, {nn.LSTM}, dtype=torch.qint8)
    assert type(made[0]) is torch.ao.nn.quantized.dynamic.LSTM


@each_kind
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bias": False},
        {"batch_first": True, "bidirectional": True},
        {"num_layers": 2, "dropout": 0.5},
    ],
    ids=str,
)
def test_text_names_and_lists_of_weights(kind: str, options: dict[str, Any]) -> None:
    theirs, ours = twins(kind, 3, 5, **options)
    assert repr(ours) == repr(theirs)
    assert ours.extra_repr() == theirs.extra_repr()
    assert nn.Sequential(ours).state_dict().keys() == nn.Sequential(theirs).state_dict().keys()
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert all(a is b for a, b in zip(chain(*ours.all_weights), ours.parameters(), strict=True))
    assert all(a is b for a, b in zip(ours._flat_weights, ours.parameters(), strict=True))
    for layer in (theirs, ours):
        torch.manual_seed(4)
        layer.reset_parameters()
        layer.flatten_parameters()
    assert_alike(list(ours.parameters()), list(theirs.parameters()), 0)


def test_projections_have_torchs_names() -> None:
    theirs, ours = twins("LSTM", 3, 5, 2, proj_size=2, bidirectional=True)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert repr(ours) == repr(theirs)


@each_kind
def test_a_state_dict_that_does_not_fit_is_refused_as_torch_does(kind: str) -> None:
    theirs, ours = twins(kind, 3, 5)
    whole = theirs.state_dict()
    missing = {name: value for name, value in whole.items() if name != "bias_hh_l0"}
    for state in (missing, whole | {"bias_hh_l1": whole["bias_hh_l0"]}, KINDS[kind][0](3, 6).state_dict()):
        with pytest.raises(RuntimeError) as expected:
            theirs.load_state_dict(state)
        with pytest.raises(RuntimeError) as actual:
            ours.load_state_dict(state)
        assert str(actual.value) == str(expected.value)
    assert ours.load_state_dict(missing, strict=False) == (["bias_hh_l0"], [])


# Copies


@each_kind
@pytest.mark.parametrize("make", [copy.deepcopy, copy.copy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies(kind: str, make: Callable[[Any], Any]) -> None:
    _, layer = twins(kind, 3, 5, 2, bidirectional=True)
    x = torch.randn(4, 2, 3)
    layer(x)
    twin = make(layer)
    assert type(twin) is KINDS[kind][1]
    assert_alike(twin(x), layer(x), 0)


@each_kind
def test_whole_modules_load_where_torchs_do(kind: str) -> None:
    x = torch.randn(4, 2, 3)
    for layer, known in zip(twins(kind, 3, 5), KINDS[kind], strict=True):
        file = io.BytesIO()
        torch.save(layer, file)
        with pytest.raises(pickle.UnpicklingError):
            torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        with torch.serialization.safe_globals([known]):
            loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        assert type(loaded) is known
        assert_alike(loaded(x), layer(x), 0)


@each_kind
def test_layers_without_memory(kind: str) -> None:
    theirs, _ = twins(kind, 3, 5)
    x = torch.randn(4, 2, 3)
    for make in KINDS[kind]:
        with pytest.raises(RuntimeError, match="must support a 'device' arg"):  # their constructors hide it
            nn.utils.skip_init(make, 3, 5)
    elsewhere = [make(3, 5, device="meta")(x.to("meta")) for make in KINDS[kind]]
    for mine, other in zip(*map(flat, elsewhere), strict=True):
        assert (mine.device, mine.shape, mine.dtype) == (other.device, other.shape, other.dtype)
    back = KINDS[kind][1](3, 5, device="meta").to_empty(device="cpu")
    back.load_state_dict(theirs.state_dict())
    assert_alike(back(x), theirs(x))


# Weights that are assigned, shared, frozen, parametrized


@each_kind
def test_what_is_assigned_to_the_list_of_weights_is_used(kind: str) -> None:
    layers, x = twins(kind, 3, 5), torch.randn(4, 2, 3)

    def both(change: Callable[[Any], object]) -> None:
        for layer in layers:
            layer(x)
            change(layer)
        assert_alike(layers[1](x), layers[0](x))

    before = layers[1](x)[0]
    both(lambda layer: setattr(layer, "_flat_weights", [2 * weight for weight in layer._flat_weights]))
    assert not torch.allclose(layers[1](x)[0], before, atol=1e-3)
    both(lambda layer: layer._flat_weights.__setitem__(1, layer._flat_weights[1] / 3))
    both(lambda layer: setattr(layer, "bias_ih_l0", nn.Parameter(torch.ones_like(layer.bias_ih_l0))))
    both(lambda layer: layer._parameters.__setitem__("weight_hh_l0", nn.Parameter(layer.weight_hh_l0.detach() * 2)))
    both(lambda layer: layer.weight_hh_l0.data.mul_(0.5))
    layers[1]._flat_weights = layers[1]._flat_weights[:-1]
    with pytest.raises(ShapeError, match="_flat_weights.*not 4 tensors"):
        layers[1](x)
    layers[1]._flat_weights = [*layers[1]._flat_weights, None]
    with pytest.raises(ArgumentTypeError, match="bias_hh_l0.*not a tensor"):
        layers[1](x)


@each_kind
def test_shared_weights_add_up_their_gradients(kind: str) -> None:
    found = []
    for make in KINDS[kind]:
        torch.manual_seed(0)
        below, above = make(5, 5), make(5, 5)
        above.weight_hh_l0 = below.weight_hh_l0
        model, x = nn.ModuleList([below, above]), torch.randn(4, 2, 5)
        output = above(below(below(x)[0])[0])[0]
        found.append([output, *torch.autograd.grad(output.square().sum(), list(model.parameters()))])
        assert len(list(model.parameters())) == 7
    assert_alike(found[1], found[0], 1e-5)


@each_kind
def test_frozen_parameters_and_gradients_of_the_states_alone(kind: str) -> None:
    found = []
    for layer in twins(kind, 3, 5, 2):
        layer.requires_grad_(False)
        layer.weight_hh_l1.requires_grad_()
        torch.manual_seed(1)
        x, hx = torch.randn(4, 2, 3), states(layer, 2)
        found.append(gradients(layer, x, hx))
        layer.requires_grad_(False)
        assert not any(part.requires_grad for part in flat(layer(x)))
        found[-1] += gradients(layer, x, hx) + gradients(layer, x.requires_grad_())
    assert_alike(found[1], found[0], 1e-5)


@each_kind
def test_parametrized_weights(kind: str) -> None:
    """Spectral norm changes at every call in training, so it must also be computed as often as by torch.nn."""
    x, found = torch.randn(4, 2, 3, dtype=torch.float64), []
    for layer in twins(kind, 3, 5, dtype=torch.float64):
        torch.manual_seed(1)
        parametrizations.spectral_norm(layer, "weight_hh_l0")
        parametrizations.weight_norm(layer, "weight_ih_l0")
        found.append([part for _ in range(3) for part in gradients(layer, x)])
    assert_alike(found[1], found[0], 1e-10)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@each_kind
def test_weights_that_a_hook_computes(kind: str) -> None:
    x, found = torch.randn(4, 2, 3), []
    for layer in twins(kind, 3, 5):
        nn.utils.weight_norm(layer, "weight_hh_l0")
        found.append([*gradients(layer, x), *gradients(layer, 2 * x)])
    assert_alike(found[1], found[0], 1e-5)


# Calls


@each_kind
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bidirectional": True}], ids=str)
def test_dropout_draws_torchs_masks(kind: str, packed: bool, options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    parts = [torch.randn(length, 3) for length in (3, 6, 1, 6)]
    x = pack_sequence(parts, enforce_sorted=False) if packed else torch.randn(6, 4, 3)
    found = []
    for layer in twins(kind, 3, 8, 3, dropout=0.5, **options):
        torch.manual_seed(7)
        results = [*flat(layer(x)), *flat(layer(x))]
        found.append([*results, *torch.autograd.grad(results[0].square().sum(), list(layer.parameters()))])
    assert_alike(found[1], found[0], 1e-5)
    assert not torch.allclose(found[1][0], found[1][len(flat(layer(x)))])


@each_kind
@pytest.mark.parametrize("rows", [1, 3])
def test_single_steps_carry_their_state_and_gradient(kind: str, rows: int) -> None:
    found = []
    for layer in twins(kind, 3, 5, 2):
        torch.manual_seed(1)
        hx, outputs = states(layer, rows), []
        start = flat(hx)
        for x in torch.randn(4, 1, rows, 3):
            output, hx = layer(x, hx)
            outputs.append(output)
        loss = torch.cat(outputs).square().sum()
        found.append([*outputs, *torch.autograd.grad(loss, [*start, *layer.parameters()])])
    assert_alike(found[1], found[0], 1e-5)


@each_kind
def test_a_batch_without_rows(kind: str) -> None:
    found = [gradients(layer, torch.randn(4, 0, 3, requires_grad=True)) for layer in twins(kind, 3, 5)]
    assert_alike(found[1], found[0], 0)


@each_kind
@pytest.mark.parametrize("kind_of_x", ["transposed", "expanded", "strided", "flipped"])
def test_inputs_laid_out_otherwise(kind: str, kind_of_x: str) -> None:
    torch.manual_seed(2)
    x = {
        "transposed": torch.randn(3, 2, 4).permute(2, 1, 0),
        "expanded": torch.randn(1, 1, 3).expand(4, 2, 3),
        "strided": torch.randn(8, 4, 6)[::2, 1::2, ::2],
        "flipped": torch.randn(4, 2, 3).flip(0),
    }[kind_of_x]
    found = [[*gradients(layer, x), *gradients(layer, x)] for layer in twins(kind, 3, 5)]
    assert_alike(found[1], found[0], 1e-5)


@each_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_torchs_own(kind: str, dtype: torch.dtype) -> None:
    theirs, ours = twins(kind, 3, 5, 2, bidirectional=True, dtype=dtype)
    assert ours.engine == f"torch's own: kernels are for float32 and float64 on the CPU, not {dtype} on cpu"
    x = torch.randn(4, 2, 3, dtype=dtype)
    assert_alike(ours(x), theirs(x), 0)
    packed = pack_padded_sequence(x, torch.tensor([4, 2]))
    assert_alike(ours(packed), theirs(packed), 0)
    padded, final = ours(x, lengths=[4, 2])
    assert_alike((pack_padded_sequence(padded, torch.tensor([4, 2])), final), theirs(packed), 0)
    assert not padded[2:, 1].any()


@each_kind
def test_autocast_is_torchs_own(kind: str) -> None:
    theirs, ours = twins(kind, 3, 5, 2)
    x = torch.randn(4, 2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert_alike(ours(x), theirs(x), 0)
        assert_alike(ours(x.bfloat16()), theirs(x.bfloat16()), 0)
    assert_alike(ours(x), theirs(x))


@each_kind
def test_conversions(kind: str) -> None:
    theirs, ours = twins(kind, 3, 5)
    x = torch.randn(4, 2, 3)
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        assert_alike(ours.to(dtype)(x.to(dtype)), theirs.to(dtype)(x.to(dtype)), 1e-6)


# Derivatives and transforms


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
def test_second_derivatives(kind: str) -> None:
    """torch.nn's LSTM has some on the CPU too, but not by every of its own kernels."""
    found = []
    for layer in twins(kind, 3, 4, dtype=torch.float64):
        torch.manual_seed(1)
        x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), [x, *layer.parameters()]))
    assert_alike(found[1], found[0], 1e-10)


@each_kind
def test_function_transforms(kind: str) -> None:
    _, layer = twins(kind, 3, 4)
    x = torch.randn(5, 2, 3)
    weights = {name: torch.stack([value.detach(), -value.detach()]) for name, value in layer.named_parameters()}

    def loss(weights: dict[str, Tensor]) -> Tensor:
        result: Tensor = torch.func.functional_call(layer, weights, (x,))[0].square().sum()
        return result

    slopes = torch.func.vmap(torch.func.grad(loss))(weights)
    for place in range(2):
        theirs = KINDS[kind][0](3, 4)
        theirs.load_state_dict({name: value[place] for name, value in weights.items()})
        theirs(x)[0].square().sum().backward()
        for name, parameter in theirs.named_parameters():
            torch.testing.assert_close(slopes[name][place], parameter.grad, rtol=0, atol=1e-5)


@each_kind
def test_checkpoints_and_hooks(kind: str) -> None:
    found, calls = [], []
    for layer in twins(kind, 3, 5, 2, dropout=0.5):
        seen: list[str] = []
        layer.register_forward_pre_hook(lambda *_, seen=seen: seen.append("before"))
        layer.register_forward_hook(lambda *_, seen=seen: seen.append("after"))
        torch.manual_seed(1)
        x = torch.randn(4, 2, 3, requires_grad=True)
        output = checkpoint(lambda x, layer=layer: layer(x)[0], x, use_reentrant=False)
        found.append([output, *torch.autograd.grad(output.square().sum(), [x, *layer.parameters()])])
        calls.append(seen)
    assert calls[1] == calls[0] != []
    assert_alike(found[1], found[0], 1e-5)
