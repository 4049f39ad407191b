"""RNN, LSTM and GRU that take the place of torch.nn's: same constructor, call, shapes, state_dict and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unspool import cells
from unspool.cells import Cell
from unspool.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    DTypeError,
    ShapeError,
    UnknownNameError,
    UnspoolError,
)
from unspool.nn.checks import check_lengths, check_like, check_recompute
from unspool.nn.layer import from_time_major, map_leaves, to_time_major
from unspool.nn.recurrence import Recurrence, fits, run_operator, stack_states
from unspool.nn.stacked import Stacked, name_parts


@lru_cache
def _recurrence(
    cell: Callable[..., Cell],
    options: tuple[tuple[str, Any], ...],
    bias: bool,
    gates: tuple[str, ...],
    input_size: int,
    hidden_size: int,
) -> Recurrence:
    equations = cell(**dict(options)).equations(bias)
    return Recurrence(equations, input_size, hidden_size, Stacked(equations, gates, input_size, hidden_size))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _cell_and_order(
    dtype: torch.dtype, cell: Callable[..., Cell], options: tuple[tuple[str, Any], ...], bias: bool, *rest: Any
) -> tuple[str, tuple[str, ...]] | None:
    """What torch's compiler must know of a cell without following how it came about; None if it has no kernel."""
    recurrence = _recurrence(cell, options, bias, *rest)
    return (recurrence.cell, tuple(recurrence.equations.parameters)) if recurrence.can_build(dtype) else None


def parameter_names(key: str, bias: bool, projected: bool) -> tuple[str, ...]:
    """The parameters of one layer and direction."""
    biases = ("bias_ih", "bias_hh") if bias else ()
    return tuple(f"{name}_{key}" for name in ("weight_ih", "weight_hh", *biases, *(("weight_hr",) * projected)))


_known_names = lru_cache(parameter_names)


class DropIn(nn.RNNBase):
    """What the three share: torch.nn's parameters around our loop over time.

    It keeps no state of its own, so that a torch.nn layer becomes one of these by changing its class. It is not a
    torch.nn.RNN, GRU or LSTM itself, since torch.compile refuses those.
    """

    #: The gates in the order in which torch.nn stacks them in weight_ih and weight_hh.
    gates: ClassVar[tuple[str, ...]]
    #: As in `Recurrent`.
    recompute: int | str | None = None

    def __init__(self, *args: Any, recompute: int | str | None = None, **kwargs: Any) -> None:
        if check_recompute(recompute) is not None:
            self.recompute = recompute
        try:
            super().__init__(*args, **kwargs)
        except UnspoolError:
            raise
        except (TypeError, ValueError) as error:
            kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
            raise kind(f"{error}. See help(torch.nn.{type(self).__name__}) for the arguments.") from error

    def extra_repr(self) -> str:
        """As torch.nn's, and what is beyond it."""
        return super().extra_repr() + (f", recompute={self.recompute!r}" if self.recompute is not None else "")

    @property
    def cell(self) -> Cell:
        """The equations of every layer."""
        kind, options = self._kind()
        return kind(**dict(options))

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Any = None,
        *,
        lengths: Sequence[int] | Tensor | None = None,
        trace: bool = False,
    ) -> Any:
        """As torch.nn's; `lengths=` makes a padded batch ragged, in any order, with zeros allowed.

        With `trace=True` a third value holds every named value of the equations at every step: a dict from "l0",
        "l0_reverse", "l1"… to a dict from name to tensor, laid out as a padded output.
        """
        plain = hx is None and lengths is None and not trace and not self.batch_first
        if plain and self.num_layers == 1 and not self.bidirectional and self.recompute is None:
            known = self._quick(input)
            if known is not None:
                return known[0], self._as_torch(known[1])
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ArgumentError.of(
                    "lengths", lengths, "is given for a PackedSequence, which has its own", "Drop it"
                )
            return self._packed(input, hx, trace)
        if not isinstance(input, Tensor):
            raise ArgumentTypeError.of("input", input, "is neither a tensor nor a PackedSequence", "Convert it first")
        if input.dim() not in (2, 3):
            what = "D tensor instead" if self.mode.startswith("RNN") else "D instead"
            name = self.mode.split("_")[0]
            raise ShapeError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}{what}. Give (time, batch, features) or "
                "(time, features)."
            )
        batched = input.dim() == 3
        if hx is not None:
            hx = self._states(hx)
            self._check_ranks(hx, batched)
            hx = hx if batched else tuple(part.unsqueeze(1) for part in hx)
        self._check(input if batched else input.unsqueeze(0 if self.batch_first else 1), hx, None)
        x = to_time_major(input, self.batch_first)
        steps, rows, _ = x.shape
        if steps == 0:
            raise ShapeError("Expected sequence length to be larger than 0 in RNN. Give at least one step.")
        ends = None if lengths is None else check_lengths(lengths, steps, rows, x.device)
        output, final, values = self._run(x, hx, ends, trace)
        if batched and not self.batch_first and not trace:
            return output, self._as_torch(final)

        def leave(sequence: Tensor) -> Tensor:
            return from_time_major(sequence, batched, self.batch_first)

        final = final if batched else tuple(part.squeeze(1) for part in final)
        result = leave(output), self._as_torch(final)
        return (*result, map_leaves(leave, values)) if trace else result

    def _quick(self, input: Any) -> tuple[Tensor, tuple[Tensor, ...]] | None:
        """The result of a call with tensors like those of an earlier call, which need no second look."""
        if type(input) is not Tensor or input.dim() != 3 or torch.compiler.is_compiling():
            return None
        recurrence = _recurrence(*self._kind(), self.bias, self.gates, self.input_size, self.hidden_size)
        own = self._parameters
        try:
            parameters = [own[name] for name in _known_names("l0", self.bias, self.proj_size > 0)]
        except KeyError:  # a parametrisation has it
            return None
        return recurrence.quick(parameters, input, False, True)  # type: ignore[arg-type]

    def _packed(self, input: PackedSequence, hx: Any, trace: bool) -> Any:
        """Rows stay in the packed order, longest first; states come and go in the caller's order."""
        data, batch_sizes, to_packed, to_caller = input
        hx = self._states(hx)
        self._check(data, hx, batch_sizes)
        if hx is not None and to_packed is not None:
            hx = tuple(part.index_select(1, to_packed) for part in hx)
        x, ends = pad_packed_sequence(PackedSequence(data, batch_sizes))
        output, final, values = self._run(x, hx, ends.to(x.device), trace)
        if to_caller is not None:
            final = tuple(part.index_select(1, to_caller) for part in final)
            values = map_leaves(lambda value: value.index_select(1, to_caller), values)
        repacked = PackedSequence(pack_padded_sequence(output, ends).data, batch_sizes, to_packed, to_caller)
        if self.batch_first:
            values = map_leaves(lambda value: value.transpose(0, 1), values)
        result = repacked, self._as_torch(final)
        return (*result, values) if trace else result

    def _run(
        self, x: Tensor, hx: tuple[Tensor, ...] | None, ends: Tensor | None, trace: bool
    ) -> tuple[Tensor, tuple[Tensor, ...], dict[str, dict[str, Tensor]]]:
        """Every layer and direction over time-major input, with states of (layers · directions, batch, width)."""
        if self.num_layers == 1 and not self.bidirectional:
            start = None if hx is None else tuple(part[0] for part in hx)
            output, final, named = self._run_one("l0", x, start, ends, False, trace, stacked=True)
            return output, final, {"l0": named}
        finals: list[tuple[Tensor, ...]] = []
        values: dict[str, dict[str, Tensor]] = {}
        for layer in range(self.num_layers):
            outputs = []
            for suffix in ("", "_reverse") if self.bidirectional else ("",):
                key = f"l{layer}{suffix}"
                start = None if hx is None else tuple(part[len(finals)] for part in hx)
                output, final, values[key] = self._run_one(key, x, start, ends, bool(suffix), trace)
                outputs.append(output)
                finals.append(final)
            x = torch.cat(outputs, -1) if self.bidirectional else outputs[0]
            if self.dropout and layer < self.num_layers - 1:
                x = functional.dropout(x, self.dropout, self.training)
        return x, tuple(torch.stack(parts) for parts in zip(*finals, strict=True)), values

    def _run_one(
        self,
        key: str,
        x: Tensor,
        start: tuple[Tensor, ...] | None,
        ends: Tensor | None,
        reverse: bool,
        trace: bool,
        stacked: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...], dict[str, Tensor]]:
        """One layer in one direction."""
        kind, options = self._kind()
        parameters = [self._parameter(name) for name in parameter_names(key, self.bias, self.proj_size > 0)]
        asked = kind, options, self.bias, self.gates, x.shape[2], self.hidden_size
        if torch.compiler.is_compiling() and not trace and fits(x):
            known = _cell_and_order(x.dtype, *asked)
            if known is not None:
                cell, order = known
                named = name_parts(parameters, self.gates, self.bias, "U_hn" in order, self.proj_size > 0)
                if start is None:
                    start = tuple(x.new_zeros(x.shape[1], width) for width in self._state_widths())
                ordered = [named[name] for name in order]
                return stack_states(run_operator(cell, self.hidden_size, x, start, ordered, ends, reverse), stacked)
        return _recurrence(*asked).run(parameters, x, start, ends, reverse, trace, self.recompute, stacked)

    def _parameter(self, name: str) -> Tensor:
        """One that is registered, the quick way; else as a parametrisation has it now."""
        own = self._parameters.get(name)
        return getattr(self, name) if own is None else own

    def _kind(self) -> tuple[Callable[..., Cell], tuple[tuple[str, Any], ...]]:
        """The cell's class and options."""
        raise NotImplementedError

    def _states(self, hx: Any) -> tuple[Tensor, ...] | None:
        """What was given as `hx`, as a tuple of states."""
        if hx is not None and not isinstance(hx, Tensor):
            raise ArgumentTypeError.of("hx", hx, "is not a tensor", "Give the initial state as one tensor")
        return None if hx is None else (hx,)

    def _as_torch(self, states: tuple[Tensor, ...]) -> Any:
        return states[0]

    def _state_widths(self) -> tuple[int, ...]:
        return (self.hidden_size,)

    def _check_ranks(self, hx: tuple[Tensor, ...], batched: bool) -> None:
        rank = 3 if batched else 2
        if any(part.dim() != rank for part in hx):
            ranks = [f"{part.dim()}-D" for part in hx]
            got = f"{ranks[0]} tensor" if len(hx) == 1 else f"({', '.join(ranks)}) tensors"
            raise ShapeError(
                f"For {'batched' if batched else 'unbatched'} {rank}-D input, {'hx' if len(hx) == 1 else 'hx and cx'} "
                f"should also be {rank}-D but got {got}. "
                f"Give (layers · directions{', batch' if batched else ''}, width)."
            )

    def _check(self, input: Tensor, hx: tuple[Tensor, ...] | None, batch_sizes: Tensor | None) -> None:
        """torch.nn's own checks with its own messages, under our exceptions; then those that it leaves to chance."""
        weight = self._parameter(self._flat_weights_names[0])
        if input.dtype != weight.dtype and not torch.is_autocast_enabled(weight.device.type):
            raise DTypeError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})."
            )
        try:
            if input.dim() != (3 if batch_sizes is None else 2) or input.shape[-1] != self.input_size:
                self.check_input(input, batch_sizes)
            if hx is not None:
                self.check_forward_args(input, self._as_torch(hx), batch_sizes)
        except RuntimeError as error:
            raise ShapeError(f"{error}. Change its shape, or the layer's sizes.") from error
        if input.device != weight.device:
            raise DeviceError(
                "Input and parameter tensors are not at the same device, found input tensor at "
                f"{input.device} and parameter tensor at {weight.device}. Move one of them by .to(device)."
            )
        for part in hx or ():
            if part.device != input.device:
                raise DeviceError(
                    "Input and hidden tensors are not at the same device, found input tensor at "
                    f"{input.device} and hidden tensor at {part.device}. Move one of them by .to(device)."
                )
            check_like("hx", part, input)


class RNN(DropIn):
    """torch.nn.RNN on our loop: Elman's network with tanh or relu; plus `lengths=`, `trace=` and `recompute=`."""

    gates = ("h",)
    nonlinearity: str

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        if len(args) > 3:  # torch.nn's order: input_size, hidden_size, num_layers, nonlinearity, bias, …
            nonlinearity, args = args[3], args[:3] + args[4:]
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        _refuse_projection(kwargs)
        self.nonlinearity = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)

    def _kind(self) -> tuple[Callable[..., Cell], tuple[tuple[str, Any], ...]]:
        return cells.Elman, (("activation", self.nonlinearity),)


class GRU(DropIn):
    """torch.nn.GRU on our loop; plus `lengths=`, `trace=`, `recompute=` and `reset="before"`.

    With `reset="before"` the parameters keep torch's names and shapes, and the equations are `unspool.cells.GRU`:
    the reset gate acts before the recurrent product and z takes the new state.
    """

    gates = ("r", "z", "n")
    reset = "after"

    def __init__(self, *args: Any, reset: str = "after", **kwargs: Any) -> None:
        if reset not in ("before", "after"):
            raise UnknownNameError.among("reset", reset, ("before", "after"))
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)
        self.reset = reset

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", reset={self.reset!r}" if self.reset != "after" else "")

    def _kind(self) -> tuple[Callable[..., Cell], tuple[tuple[str, Any], ...]]:
        return (cells.ResetAfterGRU if self.reset == "after" else cells.GRU), ()


class LSTM(DropIn):
    """torch.nn.LSTM on our loop, `proj_size` included; plus `lengths=`, `trace=` and `recompute=`."""

    gates = ("i", "f", "g", "o")
    get_expected_cell_size = nn.LSTM.get_expected_cell_size
    check_forward_args = nn.LSTM.check_forward_args  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _kind(self) -> tuple[Callable[..., Cell], tuple[tuple[str, Any], ...]]:
        return cells.LSTM, (("projection", self.proj_size or None),)

    def _states(self, hx: Any) -> tuple[Tensor, ...] | None:
        if hx is None:
            return None
        if not isinstance(hx, tuple | list) or len(hx) != 2 or not all(isinstance(part, Tensor) for part in hx):
            raise ShapeError.of("hx", type(hx).__name__, "lstm expects two hidden states", "Give a tuple (h_0, c_0)")
        return tuple(hx)

    def _as_torch(self, states: tuple[Tensor, ...]) -> Any:
        return states

    def _state_widths(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)


def _refuse_projection(options: dict[str, Any]) -> None:
    if "proj_size" in options:
        raise ArgumentError("proj_size argument is only supported for LSTM, not RNN or GRU. Drop it.")
