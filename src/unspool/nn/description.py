"""Recurrent layers as data: the equations of each and the names of its tensors, as `network.json` has them.

`unspool.runtime.network` says what the parts mean. Nothing here reads a weight: only names, sizes and options.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from typing import Any

from torch import Tensor, nn

from unspool.cells import derived, document
from unspool.cells.equations import Equations
from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.nn.accelerate import OURS
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.drop_in import DropIn
from unspool.nn.recurrent import Recurrent
from unspool.nn.stack import Stack
from unspool.nn.time_delay import TimeDelay
from unspool.nn.torch_layout import TorchLayout

#: A part of a document, as JSON has it.
Document = dict[str, Any]
#: A tensor of a file, rows of one, a sum of such, or a number for all units.
Source = str | Document
REMEDY = "Give a Recurrent, Bidirectional, Stack or TimeDelay of unspool.nn, or a recurrent layer of torch.nn"


class Names:
    """The names that the tensors of a module have in its `state_dict`.

    Args:
        module: The whole, such as a model.
    """

    def __init__(self, module: nn.Module) -> None:
        # a tensor with several names, such as a tied head, is called by its first
        every = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
        self._names = {id(tensor): name for name, tensor in reversed(every)}

    def of(self, tensor: Tensor) -> str:
        """The name of a tensor; one that is computed from others has none."""
        if id(tensor) not in self._names:
            problem = "is computed from other tensors, as by a parametrization"
            remedy = "Remove that first: torch.nn.utils.parametrize.remove_parametrizations"
            raise ArgumentError.of("module", f"<tensor {tuple(tensor.shape)}>", problem, remedy)
        return self._names[id(tensor)]


def describe_layer(module: nn.Module, names: Names | None = None) -> Document:
    """Describe a recurrent layer in evaluation as data.

    Args:
        module: A Recurrent, Bidirectional, Stack or TimeDelay of unspool.nn, an RNN, GRU or LSTM of unspool.nn or of
            torch.nn.
        names: What the tensors are called; by default as in the `state_dict` of `module`.

    Returns:
        A stack, as `unspool.runtime.read.read_stack` reads it.

    Raises:
        ArgumentError: It is another module, or a tensor of it is computed from others.

    Example:
        >>> describe_layer(unspool.nn.Recurrent("gru", 3, 4))["layers"][0]["directions"][0]["parameters"]["W_r"]
        'W_r'
    """
    names = names or Names(module)
    delay = 0
    while isinstance(module, TimeDelay):
        delay += module.delay
        module = module.layer
    layers, skip = _layers(module, names)
    return {"layers": layers, "skip": skip, "delay": delay}


def _layers(module: nn.Module, names: Names) -> tuple[list[Document], bool]:
    if isinstance(module, Stack):
        every = zip(module.layers, module.residual, strict=True)
        return [_layer(_directions(one, names), residual) for one, residual in every], bool(module.skip)
    if isinstance(module, nn.RNNBase):
        return [_layer(directions) for directions in _torch_directions(module, names)], False
    return [_layer(_directions(module, names))], False


def _layer(directions: list[Document], residual: bool = False) -> Document:
    return {"directions": directions, "residual": bool(residual)}


def _directions(module: nn.Module, names: Names) -> list[Document]:
    if isinstance(module, Bidirectional):
        return [one for part in (module.ahead, module.back) for one in _directions(part, names)]
    if not isinstance(module, Recurrent):
        raise ArgumentTypeError.of("module", type(module).__name__, "cannot be written down as data", REMEDY)
    return [_recurrent(module, names)]


def _recurrent(layer: Recurrent, names: Names) -> Document:
    equations, plain = layer.equations, layer.equations.parameters
    sources: dict[str, Source] = {name: names.of(getattr(layer, name)) for name in plain}
    if zoneout := layer.regularization.zoneout:
        equations = derived.with_expected_zoneout(equations, tuple(equations.states))
        sources |= {name: {"constant": float(zoneout)} for name in equations.parameters if name not in plain}
    initial = None
    if layer.learn_initial:
        initial = [names.of(getattr(layer, f"initial_{state}")) for state in layer.equations.states]
    return _recurrence(equations, layer.input_size, layer.hidden_size, layer.reverse, sources, initial)


def _recurrence(
    equations: Equations,
    input_size: int,
    hidden_size: int,
    reverse: bool,
    sources: dict[str, Source],
    initial: list[str] | None = None,
) -> Document:
    return {
        "cell": json.loads(document.dump(equations)),
        "input_size": input_size,
        "hidden_size": hidden_size,
        "reverse": bool(reverse),
        "parameters": sources,
        "initial": initial,
    }


def _torch_directions(layer: nn.RNNBase, names: Names) -> list[list[Document]]:
    """The directions of each layer of a module of torch.nn's, or of ours with its parameters."""
    ours = type(layer) if isinstance(layer, DropIn) else OURS.get(type(layer))
    if ours is None:
        raise ArgumentTypeError.of("module", type(layer).__name__, "cannot be written down as data", REMEDY)
    twin: Any = copy(layer)
    twin.__class__ = ours
    equations: Equations = twin.cell.equations(bool(layer.bias))
    count = 1 + bool(layer.bidirectional)
    groups = [[names.of(getattr(layer, name)) for name in each] for each in layer._all_weights]
    found = []
    for level in range(layer.num_layers):
        sizes = _input_size(layer, equations, level, count), layer.hidden_size
        layout = TorchLayout(equations, ours.gates, *sizes)
        pair = groups[count * level : count * (level + 1)]
        sources = [_torch_sources(equations, layout, tensors, *sizes) for tensors in pair]
        found.append([_recurrence(equations, *sizes, place == 1, one) for place, one in enumerate(sources)])
    return found


def _input_size(layer: nn.RNNBase, equations: Equations, level: int, directions: int) -> int:
    """The width that a layer reads: x, or the output of the layer below, which a projection may narrow."""
    if not level:
        return layer.input_size
    output = next(iter(equations.states.values()))
    return directions * equations.size(output, layer.input_size, layer.hidden_size)


def _torch_sources(
    equations: Equations, layout: TorchLayout, tensors: Sequence[str], input_size: int, hidden_size: int
) -> dict[str, Source]:
    """Where the parameters of the equations lie in torch.nn's tensors: rows of one, or the sum of rows of two."""
    wholes = layout.shapes(equations, input_size, hidden_size)
    shapes = equations.shapes(input_size, hidden_size)
    found: dict[str, Source] = {}
    for (name, shape), places in zip(shapes.items(), layout.places or (), strict=True):
        parts = [_rows(tensors[tensor], wholes[tensor], offset, shape[0]) for tensor, offset in places if tensor >= 0]
        found[name] = parts[0] if len(parts) == 1 else {"sum": parts}
    return found


def _rows(tensor: str, whole: tuple[int, ...], offset: int, count: int) -> Source:
    if count == whole[0]:
        return tensor
    first = offset // (whole[1] if len(whole) == 2 else 1)
    return {"tensor": tensor, "rows": [first, first + count]}
