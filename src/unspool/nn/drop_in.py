"""DropIn: torch.nn's recurrent layers on our loop over time, with torch.nn's parameters, checks and results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unspool.cells import Cell
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError, UnspoolError
from unspool.nn.between_layers import drop, join_directions, may_overlap, stack_layers
from unspool.nn.checks import check_lengths, check_recompute
from unspool.nn.compiling import uncompiled
from unspool.nn.drop_in_checks import (
    QUANTIZED,
    check_assigned,
    check_attributes,
    check_call,
    check_for_torch,
    check_packed,
    check_weights,
    is_batched,
    is_settled,
    with_batch,
)
from unspool.nn.drop_in_runners import Kind, can_build, find_constants, find_runner, is_operator
from unspool.nn.entry import find_call
from unspool.nn.guard import guard_backward, must_not_read, weights_were_read
from unspool.nn.layer import from_time_major, to_time_major
from unspool.nn.layout import Tensors
from unspool.nn.leaves import map_leaves
from unspool.nn.onnx_layers import export_layers
from unspool.nn.quick_layers import enter, run_quickly
from unspool.nn.recording import (
    find_symbol,
    is_exported_to_onnx,
    is_traced,
    record_call,
    refuse,
    refuse_script,
    untraced,
)
from unspool.nn.route import (
    Route,
    choose_route,
    choose_route_in_graph,
    describe_routes,
)
from unspool.nn.runner import Runner, run_operator, stack_states, zeros
from unspool.nn.single_step import Operations, take_single_step
from unspool.nn.torch_layout import name_parts
from unspool.nn.wavefront import run_wavefront

#: Output, final states and named values of one layer in one direction.
FoundOne = tuple[Tensor, tuple[Tensor, ...], dict[str, Tensor]]
#: Output, final states (layers · directions, batch, width), and the named values of each layer and direction.
Found = tuple[Tensor, tuple[Tensor, ...], dict[str, dict[str, Tensor]]]


class DropIn(nn.RNNBase):
    """What RNN, GRU and LSTM share: torch.nn's parameters around our loop over time.

    Each of them is a subclass of torch.nn's, after this class: `super().forward` is torch.nn's forward. It has no
    attributes beyond torch.nn's, so that a torch.nn layer becomes one of these by changing its class.
    """

    #: The class of torch.nn whose place it takes.
    torch_class: ClassVar[type[nn.RNNBase]]
    #: The gates in the order in which torch.nn stacks them in weight_ih and weight_hh.
    gates: ClassVar[tuple[str, ...]]
    #: The operations of torch's, by `mode`, that are faster than several kernels at a single step in training.
    single_steps: ClassVar[Operations] = {}
    #: As in `Recurrent`.
    recompute: int | str | None = None
    #: Of a GRU: see there.
    reset: str | None = None

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

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "qconfig":
            warnings.warn(QUANTIZED, stacklevel=2)
        if "_flat_weights" in self.__dict__:  # before that torch.nn's constructor asks, in its own words
            check_assigned(name, value)
        super().__setattr__(name, value)

    def __prepare_scriptable__(self) -> nn.RNNBase:
        """The layer as torch.jit.script reads it: torch.nn's, with the same parameters."""
        if not self._matches_torch():
            raise refuse_script(self)
        twin = copy(self)
        twin.__class__ = self.torch_class  # type: ignore[assignment]
        return twin

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

        This is for sequences of several steps. Single steps in training of an RNN or a GRU of several layers are faster
        by torch.nn's own forward, and take it.

        Example:
            >>> unspool.nn.LSTM(3, 4).engine
            'kernel: float32 on the CPU'
        """
        return describe_routes(self.own_routes())

    def own_routes(self) -> dict[str, Route]:
        """The route of a call with an initial state, for each layer and direction: "l0", "l0_reverse", "l1", …

        Without one, further calls on tensors of the same kind take the quick kernel where this says kernel.
        """
        routes, weights = {}, self._weights()
        for place, key in enumerate(self.weight_names()):
            parameters = self._parameters_at(place, weights)
            width = parameters[0].shape[1]
            x = parameters[0].new_empty(1, 1, width)
            routes[key] = choose_route(self._runner(width).kernel, parameters, x, states=(), own=self._matches_torch())
        return routes

    def weight_names(self) -> dict[str, list[str]]:
        """The names of the parameters of each layer and direction: "l0", "l0_reverse", "l1", …"""
        return {names[0].removeprefix("weight_ih_"): names for names in self._all_weights}

    @uncompiled
    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Any = None,
        # not keyword-only: torch.onnx.export(dynamo=False) gives every default by its place
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
        if lengths is None and not trace and (found := self._run_unchecked(input, hx)) is not None:
            return found
        if (symbol := find_symbol(input, hx, lengths)) is not None:
            return record_call(self, symbol, input, hx, lengths=lengths, trace=trace)
        if is_traced():
            self._refuse_unless_recordable(lengths, trace)
            with untraced():
                check_for_torch(self, self._weights(), input, self._states(hx))
            return super().forward(input, hx)
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ArgumentError.of(
                    "lengths", lengths, "is given for a PackedSequence, which has its own", "Leave it out"
                )
            return self._forward_packed(input, hx, trace)
        return self._forward_padded(input, hx, lengths, trace)

    def _forward_padded(self, input: Tensor, hx: Any, lengths: Sequence[int] | Tensor | None, trace: bool) -> Any:
        batched = is_batched(self, input)
        states, weights = with_batch(self._states(hx), batched), self._weights()
        check_call(self, weights[0], input if batched else input.unsqueeze(0 if self.batch_first else 1), states)
        x = to_time_major(input, self.batch_first)
        steps, rows, _ = x.shape
        if steps == 0:
            raise ShapeError("Expected sequence length to be larger than 0 in RNN. Give at least one step.")
        ends = None if lengths is None else check_lengths(lengths, steps, rows, x.device)
        route = self._choose(x, weights, states, trace)
        if route.name == "torch's own":
            output, final, values = self._run_by_torch(weights, x, states, ends)
        else:
            output, final, values = self._run(weights, x, states, ends, trace, route=route)

        def leave(sequence: Tensor) -> Tensor:
            return from_time_major(sequence, batched, self.batch_first)

        final = final if batched else tuple(part.squeeze(1) for part in final)
        result = leave(output), self._as_torch(final)
        return (*result, map_leaves(leave, values)) if trace else result

    def _run_unchecked(self, input: Any, hx: Any) -> Any:
        """The result of a call without checks of ours: by the entry, the quick kernel or torch.nn; else None."""
        if type(input) is not Tensor or input.dim() != 3 or torch.compiler.is_compiling():
            return None
        if (call := find_call()) is not None and (found := enter(call, self, input, hx)) is not None:
            return found
        if len(self._all_weights) == 1 and not self.batch_first:
            return run_quickly(self, input, hx)
        return take_single_step(self, input, hx) if input.shape[self.batch_first] == 1 else None

    def _forward_packed(self, input: PackedSequence, hx: Any, trace: bool) -> Any:
        """The batch stays in the packed order, longest first; states come and go in the caller's order."""
        check_packed(input)
        data, batch_sizes, to_packed, to_caller = input
        states, weights = self._states(hx), self._weights()
        check_call(self, weights[0], data, states, batch_sizes)
        if self._choose(data.unsqueeze(1), weights, states, trace).name == "torch's own":
            check_for_torch(self, weights, data, states)
            return self._forward_by_torch(input, hx, weights)
        if states is not None and to_packed is not None:
            states = tuple(part.index_select(1, to_packed) for part in states)
        x, ends = pad_packed_sequence(PackedSequence(data, batch_sizes))
        output, final, values = self._run(weights, x, states, ends.to(x.device), trace, packed=True)
        if to_caller is not None:
            final = tuple(part.index_select(1, to_caller) for part in final)
            values = map_leaves(lambda value: value.index_select(1, to_caller), values)
        repacked = PackedSequence(pack_padded_sequence(output, ends).data, batch_sizes, to_packed, to_caller)
        if self.batch_first:
            values = map_leaves(lambda value: value.transpose(0, 1), values)
        return (repacked, self._as_torch(final), *([values] if trace else []))

    def _run_by_torch(
        self, weights: Tensors, x: Tensor, states: tuple[Tensor, ...] | None, ends: Tensor | None
    ) -> Found:
        """Time-major sequences by torch.nn's own forward, which takes no sequence of length zero."""
        if ends is not None and (torch.compiler.is_compiling() or not ends.all()):
            return self._run(weights, x, states, ends, trace=False)
        check_for_torch(self, weights, x, states)
        given: Any = x.transpose(0, 1) if self.batch_first else x
        if ends is not None:
            given = pack_padded_sequence(x, ends.cpu(), enforce_sorted=False)
        output, final = self._forward_by_torch(given, None if states is None else self._as_torch(states), weights)
        if ends is not None:
            output = pad_packed_sequence(output, total_length=len(x))[0]
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, self._states(final) or (), {}

    def _forward_by_torch(self, input: Tensor | PackedSequence, hx: Any, weights: Tensors) -> Any:
        """torch.nn's forward on the weights that `_weights` has read."""
        with weights_were_read(self):
            return guard_backward(super().forward(input, hx), self._flat_weights_names, weights)

    def _update_flat_weights(self) -> None:
        if not must_not_read(self):
            super()._update_flat_weights()

    def _choose(self, x: Tensor, weights: Tensors, states: tuple[Tensor, ...] | None, trace: bool) -> Route:
        """How this call runs, seen from its first layer; x has a time axis, whether it is packed or not."""
        own, made_of = self._matches_torch(), self._made_of(x.shape[2])
        if torch.compiler.is_compiling():
            return choose_route_in_graph(x, trace, lambda dtype: can_build(dtype, *made_of), own)
        return choose_route(find_runner(*made_of).kernel, weights, x, states or (), trace=trace, own=own)

    def _run(
        self,
        weights: Tensors,
        x: Tensor,
        hx: tuple[Tensor, ...] | None,
        ends: Tensor | None,
        trace: bool,
        packed: bool = False,
        route: Route | None = None,
    ) -> Found:
        """Every layer and direction over time-major input, the first by this route if it was chosen before."""
        if is_exported_to_onnx():
            self._refuse_unless_recordable(ends, trace)
            return *export_layers(self, weights, x, hx), {}
        if len(self._all_weights) > 1:
            return self._run_several(weights, x, hx, ends, trace, packed)
        start = None if hx is None else tuple(part[0] for part in hx)
        route = None if hx is None else route  # from zeros there may be a quicker one
        output, final, values = self._run_one(0, weights, x, start, ends, trace, stacked=True, route=route)
        return output, final, {"l0": values}

    def _run_several(
        self, weights: Tensors, x: Tensor, hx: tuple[Tensor, ...] | None, ends: Tensor | None, trace: bool, packed: bool
    ) -> Found:
        starts = list(zip(*(part.unbind() for part in hx), strict=True)) if hx else [None] * len(self._all_weights)
        directions = 2 if self.bidirectional else 1
        if may_overlap(self, trace) and (met := run_wavefront(*self._stacked(weights, x), x, starts, ends)):
            return met[0], stack_layers(met[1]), {}
        found: list[FoundOne] = []
        for place, start in enumerate(starts):
            if place and place % directions == 0:
                x = drop(self, join_directions(self, [one[0] for one in found]), ends if packed else None)
            found.append(self._run_one(place, weights, x, start, ends, trace))
        outputs, finals, each = zip(*found, strict=True)
        named = dict(zip(self.weight_names(), each, strict=True)) if trace else {}
        return join_directions(self, list(outputs)), stack_layers(finals), named

    def _stacked(self, weights: Tensors, x: Tensor) -> tuple[list[Runner], list[Tensors]]:
        """The runner and the parameters of each layer that runs in one direction."""
        return self.runners(x.shape[2]), [self._parameters_at(k, weights) for k in range(self.num_layers)]

    def runners(self, width: int | None = None) -> list[Runner]:
        """The runner of each layer of one direction; the lowest reads so many numbers per step, or `input_size`."""
        above = [self.proj_size or self.hidden_size] * (self.num_layers - 1)
        return [self._runner(w) for w in (self.input_size if width is None else width, *above)]

    def _run_one(
        self,
        place: int,
        weights: Tensors,
        x: Tensor,
        start: tuple[Tensor, ...] | None,
        ends: Tensor | None,
        trace: bool,
        stacked: bool = False,
        route: Route | None = None,
    ) -> FoundOne:
        """One layer in one direction, whose parameters stand at `place` in torch.nn's list of all weights."""
        parameters = self._parameters_at(place, weights)
        reverse = self.bidirectional and place % 2 == 1
        made_of = self._made_of(x.shape[2])
        if torch.compiler.is_compiling() and is_operator(x, trace, made_of):
            document, order, widths = find_constants(*made_of)
            named = name_parts(parameters, self.gates, self.bias, "U_hn" in order, self.proj_size > 0)
            start, ordered = zeros(x, widths) if start is None else start, [named[name] for name in order]
            return stack_states(run_operator(document, self.hidden_size, x, start, ordered, ends, reverse), stacked)
        given = parameters, x, start, ends, reverse, trace, self.recompute, stacked
        return self._runner(x.shape[2]).run(*given, None if torch.compiler.is_compiling() else route)

    def _refuse_unless_recordable(self, lengths: Any, trace: bool) -> None:
        """Refuse what torch.jit.trace and ONNX cannot write down for sequences of any length."""
        if lengths is not None or trace or not self._matches_torch():
            raise refuse(type(self).__name__)

    def _made_of(self, width: int) -> tuple[Any, ...]:
        """What determines the runner of a layer that reads this many numbers per step."""
        return self._kind(), self.bias, self.gates, width, self.hidden_size

    def _runner(self, width: int) -> Runner:
        return find_runner(*self._made_of(width))

    def _weights(self) -> list[Tensor]:
        """torch.nn's list of all weights, as its forward reads it: what was assigned last, to the list or to a name.

        Parametrized weights are computed anew, as often as in torch.nn. So this is called once per call.
        """
        names = self._flat_weights_names
        if torch.compiler.is_compiling():  # which notices what is assigned
            check_attributes(self)
            changed = self._weights_have_changed()  # type: ignore[no-untyped-call]
            return [getattr(self, name) for name in names] if changed else self._flat_weights  # type: ignore[return-value]
        if not is_settled(self):
            self._update_flat_weights()
        check_weights(self._flat_weights, names)
        check_attributes(self)
        return self._flat_weights  # type: ignore[return-value]

    def _parameters_at(self, place: int, weights: Tensors) -> Tensors:
        """The parameters of one layer in one direction."""
        count = len(self._all_weights[place])
        return weights[place * count : (place + 1) * count]

    def _kind(self) -> Kind:
        """The cell's class and options."""
        raise NotImplementedError

    def _matches_torch(self) -> bool:
        """Whether the equations are torch.nn's."""
        return True

    def _states(self, hx: Any) -> tuple[Tensor, ...] | None:
        """What was given as `hx`, as a tuple of states."""
        if hx is not None and not isinstance(hx, Tensor):
            raise ArgumentTypeError.of("hx", hx, "is not a tensor", "Give the initial state as one tensor")
        return None if hx is None else (hx,)

    def _as_torch(self, states: tuple[Tensor, ...]) -> Any:
        """States as torch.nn returns them."""
        return states[0]
