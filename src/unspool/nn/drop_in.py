"""DropIn: torch.nn's recurrent layers on our loop over time, with torch.nn's parameters, checks and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unspool.cells import Cell
from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError, UnspoolError
from unspool.nn.checks import check_lengths, check_like, check_recompute
from unspool.nn.compiling import constant_result
from unspool.nn.layer import from_time_major, to_time_major
from unspool.nn.leaves import map_leaves
from unspool.nn.route import Route, choose_route, choose_route_in_graph, describe_routes, is_quick
from unspool.nn.runner import Runner, run_operator, stack_states, zeros
from unspool.nn.torch_layout import TorchLayout, name_parts

#: A cell's class and the options that make it.
Kind = tuple[Callable[..., Cell], tuple[tuple[str, Any], ...]]
#: Output, final states (layers · directions, batch, width), and the named values of each layer and direction.
Found = tuple[Tensor, tuple[Tensor, ...], dict[str, dict[str, Tensor]]]


@lru_cache
def _runner(kind: Kind, bias: bool, gates: tuple[str, ...], input_size: int, hidden_size: int) -> Runner:
    cell, options = kind
    equations = cell(**dict(options)).equations(bias)
    return Runner(equations, input_size, hidden_size, TorchLayout(equations, gates, input_size, hidden_size))


@lru_cache
def _first_layer(*made_of: Any) -> tuple[Runner, tuple[str, ...]]:
    """The runner of a first layer, and the names of its parameters."""
    runner = _runner(*made_of)
    return runner, tuple(f"{name}_l0" for name in runner.layout.names)


# torch.compile cannot trace how a runner is made, nor hold one as a constant. These tell it what it needs to know.


@constant_result
def _can_build(dtype: torch.dtype, *made_of: Any) -> bool:
    return _runner(*made_of).kernel.can_build(dtype)


@constant_result
def _constants(*made_of: Any) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """The cell as JSON, the parameters of its equations, and the widths of its states."""
    runner = _runner(*made_of)
    return runner.document, tuple(runner.equations.parameters), tuple(runner.widths)


class DropIn(nn.RNNBase):
    """What RNN, GRU and LSTM share: torch.nn's parameters around our loop over time.

    It has no attributes beyond torch.nn's, so that a torch.nn layer becomes one of these by changing its class. It is
    not a torch.nn.RNN, GRU or LSTM itself, since torch.compile refuses those.
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
        """As torch.nn's, with what is beyond it."""
        return super().extra_repr() + (f", recompute={self.recompute!r}" if self.recompute is not None else "")

    @property
    def cell(self) -> Cell:
        """The equations of every layer."""
        kind, options = self._kind()
        return kind(**dict(options))

    @property
    def engine(self) -> str:
        """How the layer runs on its own device and dtype, and why; see `unspool.nn.route`.

        Example:
            >>> unspool.nn.LSTM(3, 4).engine
            'kernel: float32 on the CPU'
        """
        return describe_routes(self.own_routes())

    def own_routes(self) -> dict[str, Route]:
        """The route of a call with an initial state, for each layer and direction: "l0", "l0_reverse", "l1", …

        Without one, further calls on tensors of the same kind take the quick kernel where this says kernel.
        """
        routes = {}
        for key, names in self.weight_names().items():
            parameters = [self._parameter(name) for name in names]
            width = parameters[0].shape[1]
            runner = _runner(self._kind(), self.bias, self.gates, width, self.hidden_size)
            x = parameters[0].new_empty(1, 1, width)
            routes[key] = choose_route(runner.kernel, parameters, x, states=())
        return routes

    def weight_names(self) -> dict[str, list[str]]:
        """The names of the parameters of each layer and direction: "l0", "l0_reverse", "l1", …"""
        return {names[0].removeprefix("weight_ih_"): names for names in self._all_weights}

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Any = None,
        *,
        lengths: Sequence[int] | Tensor | None = None,
        trace: bool = False,
    ) -> Any:
        """As torch.nn's, with two arguments more.

        Args:
            input: as torch.nn's: a padded tensor or a PackedSequence.
            hx: as torch.nn's: the initial state; zeros by default.
            lengths: the number of steps of each sequence of a padded batch, in any order, zero allowed.
            trace: whether to return every named value of the equations at every step.

        Returns:
            `(output, state)` as torch.nn's. With `trace=True` a third value: a dict from "l0", "l0_reverse", "l1", … to
            a dict from name to tensor, with the layout of a padded output.
        """
        if hx is None and lengths is None and not trace:
            found = self._run_if_quick(input)
            if found is not None:
                return found[0], self._as_torch(found[1])
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ArgumentError.of(
                    "lengths", lengths, "is given for a PackedSequence, which has its own", "Leave it out"
                )
            return self._forward_packed(input, hx, trace)
        return self._forward_padded(input, hx, lengths, trace)

    def _forward_padded(self, input: Tensor, hx: Any, lengths: Sequence[int] | Tensor | None, trace: bool) -> Any:
        batched = self._check_rank(input)
        hx = self._batched_states(hx, batched)
        self._check(input if batched else input.unsqueeze(0 if self.batch_first else 1), hx, None)
        x = to_time_major(input, self.batch_first)
        steps, rows, _ = x.shape
        if steps == 0:
            raise ShapeError("Expected sequence length to be larger than 0 in RNN. Give at least one step.")
        ends = None if lengths is None else check_lengths(lengths, steps, rows, x.device)
        output, final, values = self._run(x, hx, ends, trace)

        def leave(sequence: Tensor) -> Tensor:
            return from_time_major(sequence, batched, self.batch_first)

        final = final if batched else tuple(part.squeeze(1) for part in final)
        result = leave(output), self._as_torch(final)
        return (*result, map_leaves(leave, values)) if trace else result

    def _run_if_quick(self, input: Any) -> tuple[Tensor, tuple[Tensor, ...]] | None:
        """The result of one layer in one direction by the quick kernel, which needs no further checks; else None."""
        if self.num_layers > 1 or self.bidirectional or self.batch_first or self.recompute is not None:
            return None
        if type(input) is not Tensor or input.dim() != 3 or torch.compiler.is_compiling():
            return None
        runner, names = _first_layer(self._kind(), self.bias, self.gates, self.input_size, self.hidden_size)
        own = self._parameters
        try:
            parameters = [own[name] for name in names]
        except KeyError:  # it is parametrized
            return None
        if not is_quick(runner.kernel, parameters, input):  # type: ignore[arg-type]
            return None
        return runner.run_quick(parameters, input, False, True)  # type: ignore[arg-type]

    def _forward_packed(self, input: PackedSequence, hx: Any, trace: bool) -> Any:
        """The batch stays in the packed order, longest first; states come and go in the caller's order."""
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

    def _run(self, x: Tensor, hx: tuple[Tensor, ...] | None, ends: Tensor | None, trace: bool) -> Found:
        """Every layer and direction over time-major input."""
        if len(self._all_weights) != self.num_layers * (2 if self.bidirectional else 1):
            problem = f"needs other weights than the layer has, of {len(self._all_weights)} layers and directions"
            raise ArgumentError.of("num_layers", self.num_layers, problem, "Make a layer of these sizes")
        if len(self._all_weights) == 1:
            start = None if hx is None else tuple(part[0] for part in hx)
            output, final, values = self._run_one(0, x, start, ends, trace, stacked=True)
            return output, final, {"l0": values}
        directions = 2 if self.bidirectional else 1
        found = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = functional.dropout(x, self.dropout, self.training)
            for place in range(layer * directions, (layer + 1) * directions):
                start = None if hx is None else tuple(part[place] for part in hx)
                found.append(self._run_one(place, x, start, ends, trace))
            x = torch.cat([found[-2][0], found[-1][0]], -1) if self.bidirectional else found[-1][0]
        _, finals, each = zip(*found, strict=True)
        named = dict(zip(self.weight_names(), each, strict=True)) if trace else {}
        return x, tuple(torch.stack(parts) for parts in zip(*finals, strict=True)), named

    def _run_one(
        self,
        place: int,
        x: Tensor,
        start: tuple[Tensor, ...] | None,
        ends: Tensor | None,
        trace: bool,
        stacked: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...], dict[str, Tensor]]:
        """One layer in one direction, whose parameters stand at `place` in torch.nn's list of all weights."""
        made_of = self._kind(), self.bias, self.gates, x.shape[2], self.hidden_size
        parameters = [self._parameter(name) for name in self._all_weights[place]]
        reverse = self.bidirectional and place % 2 == 1
        if torch.compiler.is_compiling():
            route = choose_route_in_graph(x, trace, lambda dtype: _can_build(dtype, *made_of))
            if route.name == "operator":
                document, order, widths = _constants(*made_of)
                named = name_parts(parameters, self.gates, self.bias, "U_hn" in order, self.proj_size > 0)
                start = zeros(x, widths) if start is None else start
                ordered = [named[name] for name in order]
                found = run_operator(document, self.hidden_size, x, start, ordered, ends, reverse)
                return stack_states(found, stacked)
        return _runner(*made_of).run(parameters, x, start, ends, reverse, trace, self.recompute, stacked)

    def _parameter(self, name: str) -> Tensor:
        """A registered parameter, the quick way; else with its parametrization applied."""
        own = self._parameters.get(name)
        value: Tensor | None = getattr(self, name, None) if own is None else own
        if value is None:
            raise ArgumentTypeError.of(name, None, "is not a tensor", "Give the layer all its parameters")
        return value

    # What differs between the three

    def _kind(self) -> Kind:
        """The cell's class and options."""
        raise NotImplementedError

    def _states(self, hx: Any) -> tuple[Tensor, ...] | None:
        """What was given as `hx`, as a tuple of states."""
        if hx is not None and not isinstance(hx, Tensor):
            raise ArgumentTypeError.of("hx", hx, "is not a tensor", "Give the initial state as one tensor")
        return None if hx is None else (hx,)

    def _as_torch(self, states: tuple[Tensor, ...]) -> Any:
        """States as torch.nn returns them."""
        return states[0]

    # Checks

    def _check_rank(self, input: Any) -> bool:
        """Whether the input is batched."""
        if not isinstance(input, Tensor):
            raise ArgumentTypeError.of("input", input, "is neither a tensor nor a PackedSequence", "Convert it first")
        if input.dim() not in (2, 3):
            what = "D tensor instead" if self.mode.startswith("RNN") else "D instead"
            name = self.mode.split("_")[0]
            raise ShapeError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}{what}. Give (time, batch, features) or "
                "(time, features)."
            )
        return input.dim() == 3

    def _batched_states(self, hx: Any, batched: bool) -> tuple[Tensor, ...] | None:
        """The initial states with a batch axis, if any are given."""
        states = self._states(hx)
        if states is None:
            return None
        if any(part.dim() != (3 if batched else 2) for part in states):
            raise _wrong_rank(states, batched)
        return states if batched else tuple(part.unsqueeze(1) for part in states)

    def _check(self, input: Tensor, hx: tuple[Tensor, ...] | None, batch_sizes: Tensor | None) -> None:
        """torch.nn's own checks with its own messages, as our exceptions; then those that it does not make."""
        weight = self._parameter(self._flat_weights_names[0])
        if input.dtype != weight.dtype and not torch.is_autocast_enabled(weight.device.type):
            raise DTypeError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})."
            )
        self._check_shapes(input, hx, batch_sizes)
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

    def _check_shapes(self, input: Tensor, hx: tuple[Tensor, ...] | None, batch_sizes: Tensor | None) -> None:
        try:
            if input.dim() != (3 if batch_sizes is None else 2) or input.shape[-1] != self.input_size:
                self.check_input(input, batch_sizes)
            if hx is not None:
                self.check_forward_args(input, self._as_torch(hx), batch_sizes)
        except RuntimeError as error:
            raise ShapeError(f"{error}. Change its shape, or the layer's sizes.") from error


def _wrong_rank(states: tuple[Tensor, ...], batched: bool) -> ShapeError:
    """torch.nn's message about initial states of another rank than the input, and the remedy."""
    ranks = [f"{part.dim()}-D" for part in states]
    names, got = ("hx", f"{ranks[0]} tensor") if len(ranks) == 1 else ("hx and cx", f"({', '.join(ranks)}) tensors")
    kind, rank, batch = ("batched", 3, ", batch") if batched else ("unbatched", 2, "")
    return ShapeError(
        f"For {kind} {rank}-D input, {names} should also be {rank}-D but got {got}. "
        f"Give (layers · directions{batch}, width)."
    )
