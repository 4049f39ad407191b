"""Stack: layers on top of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells import Cell
from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.checks import check_probability, check_shape
from unspool.nn.layer import Layer, as_layer, valid_steps
from unspool.nn.recurrent import Recurrent, run_recurrences
from unspool.nn.regularized import Rates, drop_units

Item = TypeVar("Item")
MOST_LAYERS = 10_000
AnyCell = str | Cell | type[Cell]


class Stack(Layer):
    """Recurrent layers, each reading the whole sequence of the one below.

    Most options are one value for all layers or a list with one per layer; the number of layers is the lists' length or
    `num_layers`. The state is a list with the state of each layer, and so is the trace. A call with `every_layer=True`
    returns, in place of the output, the list of all layers' sequences from the lowest up, each before dropout.

    Dropout scales what it keeps by 1/(1 − p). Masks come from torch's global generator; every call draws its own. They
    are no part of the state, so a state carries over from call to call. In evaluation only zoneout has an effect.

    Args:
        cell: A cell as `Recurrent` takes it, or a list with one per layer.
        input_size: The width of x.
        hidden_size: The units of each layer, or a list.
        num_layers: How many layers; not needed if some option is a list.
        bidirectional: Whether a layer runs in both directions of time, or a list.
        residual: Whether a layer's output is its input plus its state, or a list. The widths must agree.
        skip: Layer ℓ reads the outputs of ℓ−1 and of ℓ−2, side by side; layer 0 is the input x.
        dropout: In training, on a layer's output on its way up. One number leaves out the last layer, as torch.nn does;
            a list does not.
        variational: This dropout has one mask for all steps of a call, one number per row and unit; or a list.
        recurrent_dropout: In training, a mask on the previous state where matrices read it (or a product of it, such as
            r·h), and nowhere else; one for all steps of a call, one number per row and unit.
        weight_dropout: In training, a mask on the recurrent matrices U (DropConnect), one for all rows and steps of a
            call.
        zoneout: In training, every unit of every state keeps its old value with this probability, drawn anew at every
            step; in evaluation the state is what is expected of that, p·old + (1 − p)·new.
        bias: Whether linear maps have biases.
        batch_first: Whether x is (batch, time, input_size).
        learn_initial: Whether the initial states are parameters instead of zeros.
        recompute: Saves memory in training, see `Recurrent`.
        device: Where the parameters are made.
        dtype: Their element type.

    Example:
        >>> stack = Stack(["lstm", "gru"], 8, [32, 16], dropout=0.1)
        >>> output, (lower, upper) = stack(torch.randn(20, 4, 8))  # (time, batch, input_size)
        >>> output.shape, upper.shape
        (torch.Size([20, 4, 16]), torch.Size([4, 16]))
    """

    def __init__(
        self,
        cell: AnyCell | Sequence[AnyCell],
        input_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int | None = None,
        *,
        bidirectional: bool | Sequence[bool] = False,
        residual: bool | Sequence[bool] = False,
        skip: bool = False,
        dropout: float | Sequence[float] = 0.0,
        variational: bool | Sequence[bool] = False,
        recurrent_dropout: float | Sequence[float] = 0.0,
        weight_dropout: float | Sequence[float] = 0.0,
        zoneout: float | Sequence[float] = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        learn_initial: bool = False,
        recompute: int | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.batch_first, self.skip = check_size("input_size", input_size), batch_first, skip
        recurrent = {"recurrent_dropout": recurrent_dropout, "weight_dropout": weight_dropout, "zoneout": zoneout}
        count = _count(
            num_layers,
            cell=cell,
            hidden_size=hidden_size,
            bidirectional=bidirectional,
            residual=residual,
            dropout=dropout,
            variational=variational,
            **recurrent,
        )
        cells: list[AnyCell] = _each(cell, count)
        sizes: list[int] = _each(hidden_size, count)
        both: list[bool] = _each(bidirectional, count)
        self.residual: list[bool] = _each(residual, count)
        self.dropout: list[float] = _each(dropout, count)
        if not isinstance(dropout, Sequence):
            self.dropout[-1] = 0.0
        self.variational: list[bool] = _each(variational, count)
        _check_flags("variational", self.variational)
        for p in _each(dropout, count):
            check_probability("dropout", p)
        self.rates = [Rates(*each) for each in zip(*(_each(p, count) for p in recurrent.values()), strict=True)]

        self.layers = nn.ModuleList()
        widths = [self.input_size]
        for level in range(count):
            read = sum(widths[-2:]) if skip else widths[-1]
            kind = Bidirectional if both[level] else Recurrent
            layer = kind(
                cells[level],
                read,
                sizes[level],
                bias=bias,
                learn_initial=learn_initial,
                recompute=recompute,
                device=device,
                dtype=dtype,
            )
            if self.residual[level]:
                _check_residual(level, read, layer, residual)
            _regularize(layer, self.rates[level])
            self.layers.append(layer)
            widths.append(layer.output_size)
        self.output_size = widths[-1]

    def run(
        self, x: Tensor, state: Any, ends: Tensor | None, trace: bool, every_layer: bool = False
    ) -> tuple[Any, list[Any], list[Any]]:
        if not (trace or every_layer) and (recurrences := self._recurrences()):
            met = run_recurrences(recurrences, x, state, ends)
            if met is not None:
                return *met, [{} for _ in recurrences]
        sequences: list[Tensor] = []  # what each layer gives
        rising = [x]  # what each layer gives, after dropout, below it x
        states, values = [], []
        drops = zip(self.dropout, self.variational, strict=True)
        for layer, start, residual, (p, same) in zip(self._layers(), state, self.residual, drops, strict=True):
            read = torch.cat(rising[-2:], -1) if self.skip else rising[-1]
            output, final, named = layer.run(read, start, ends, trace)
            if residual:
                output = _add_read(output, read, ends)
            sequences.append(output)
            drop = drop_units if same else functional.dropout
            rising.append(drop(output, p, self.training))
            states.append(final)
            values.append(named)
        return sequences if every_layer else rising[-1], states, values

    def _recurrences(self) -> list[Recurrent]:
        """The layers, if each of them is one recurrence that reads the output of the one below as it is; else none."""
        layers, dropped = self._layers(), self.training and any(self.dropout)
        if self.skip or dropped or any(self.residual) or any(type(layer) is not Recurrent for layer in layers):
            return []
        return layers  # type: ignore[return-value]

    def state_shapes(self, rows: int) -> Any:
        return [layer.state_shapes(rows) for layer in self._layers()]

    def initial_state(self, rows: int, like: Tensor) -> Any:
        return [layer.initial_state(rows, like) for layer in self._layers()]

    def extra_repr(self) -> str:
        said = [f"residual={self.residual}", f"skip={self.skip}", f"dropout={self.dropout}"]
        said += [f"variational={self.variational}"] if any(self.variational) else []
        for field in fields(Rates):
            each = [getattr(rates, field.name) for rates in self._checked_rates()]
            said += [f"{field.name}={each}"] if any(each) else []
        return ", ".join(said)

    def _layers(self) -> list[Layer]:
        """The layers, which may have been replaced; there is one for each entry of the options."""
        count = len(self._checked_rates())
        for name in ("layers", "residual", "dropout", "variational"):
            value = getattr(self, name)
            if not isinstance(value, nn.ModuleList | list) or len(value) != count:
                problem = f"does not have one entry for each of the {count} layers"
                raise ArgumentError.of(name, value, problem, "Make another Stack")
        for p in self.dropout:
            check_probability("dropout", p)
        return [as_layer(f"layers[{level}]", layer) for level, layer in enumerate(self.layers)]

    def _checked_rates(self) -> list[Rates]:
        if not isinstance(self.rates, list) or not all(isinstance(rates, Rates) for rates in self.rates):
            raise ArgumentTypeError.of("rates", self.rates, "is not a list of Rates", "Make another Stack")
        return self.rates


def _add_read(output: Tensor, read: Tensor, ends: Tensor | None) -> Tensor:
    """A layer's output plus what it read, where a sequence is not over."""
    check_shape("residual", output, read.shape)
    return output + (read if ends is None else read.masked_fill(~valid_steps(ends, len(read)), 0.0))


def _check_residual(level: int, read: int, layer: Layer, residual: object) -> None:
    if layer.output_size != read:
        raise ShapeError.of(
            "residual",
            residual,
            f"adds layer {level + 1}'s input, {read} wide, to its state, {layer.output_size} wide",
            "Make the widths equal, or give a list such as residual=[False, True]",
        )


def _count(num_layers: int | None, **options: object) -> int:
    """The number of layers that `num_layers` and the lists among the options agree on."""
    counts = {name: len(value) for name, value in options.items() if isinstance(value, list | tuple)}
    if num_layers is not None:
        counts["num_layers"] = check_size("num_layers", num_layers)
    _check_counts(counts)
    count = next(iter(counts.values()), 1)
    if count > MOST_LAYERS:
        raise ArgumentError.of("num_layers", count, f"is more than {MOST_LAYERS}", "Give fewer layers")
    return count


def _check_counts(counts: dict[str, int]) -> None:
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise ArgumentError(f"the number of layers is said in different ways ({said}). Give one entry per layer.")
    if 0 in counts.values():
        raise ArgumentError.of(next(iter(counts)), [], "has no entry", "Give one entry per layer")


def _check_flags(name: str, values: Sequence[object]) -> None:
    for value in values:
        if not isinstance(value, bool):
            raise ArgumentError.of(name, value, "is neither True nor False", "Give the probability as `dropout`")


def _regularize(layer: Layer, rates: Rates) -> None:
    for part in layer.modules():
        if isinstance(part, Recurrent):
            part.regularize(rates)


def _each(value: Item | Sequence[Item], count: int) -> list[Item]:
    return list(value) if isinstance(value, list | tuple) else [value] * count  # type: ignore[list-item]
