"""Recurrent: any cell over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells import Cell, find_cell
from unspool.cells.cell import check_size
from unspool.cells.evaluate import Evaluator
from unspool.errors import ArgumentError, ArgumentTypeError, CellError
from unspool.nn.checks import check_flag, check_like, check_recompute, check_room, check_shape
from unspool.nn.further_inputs import join_inputs
from unspool.nn.layer import Layer
from unspool.nn.regularized import Rates, Regularized
from unspool.nn.route import Route, choose_route
from unspool.nn.runner import Runner
from unspool.nn.unroll import Trace
from unspool.nn.wavefront import run_wavefront


class Recurrent(Layer):
    """Any cell over time.

    Parameters have the names that they have in the equations: `W_r`, `U_r`, `b_r`. The output is the cell's first state
    at every step. The state is a tensor (batch, width), or a tuple of them if the cell has several.

    What the cell's `inputs` name is given to a call by name, laid out as x: `layer(x, dt=dt)`. Of width "one" it needs
    no last dimension.

    Args:
        cell: a name ("lstm"; see `unspool.cells.CATALOGUE`), a Cell, or a subclass of Cell.
        input_size: the width of x.
        hidden_size: the number of units.
        bias: whether the cell's linear maps have biases.
        batch_first: whether x and the output are (batch, time, width).
        reverse: run from each sequence's last step to its first.
        learn_initial: make the initial state a parameter (`initial_h`) instead of zeros.
        recompute: save memory in training at the cost of time. The kernel keeps only every n-th state, n being this
            number or with "sqrt" 4√T, and computes the steps between them again in its backward pass.
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> layer = unspool.nn.Recurrent("gru", 64, 128)
        >>> output, state = layer(torch.randn(10, 3, 64), lengths=[10, 4, 0])
        >>> output.shape, state.shape
        (torch.Size([10, 3, 128]), torch.Size([3, 128]))
    """

    _rates = Rates()
    _regularized: Regularized | None = None

    def __init__(
        self,
        cell: str | Cell | type[Cell],
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        batch_first: bool = False,
        reverse: bool = False,
        learn_initial: bool = False,
        recompute: int | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.cell = find_cell(cell)
        self.input_size = check_size("input_size", input_size)
        self.hidden_size = check_size("hidden_size", hidden_size)
        self.bias, self.batch_first, self.reverse = bias, batch_first, check_flag("reverse", reverse)
        self.learn_initial, self.recompute = learn_initial, check_recompute(recompute)
        self._read(torch.empty(0, device=device, dtype=dtype))
        if self.cell.input_width == "hidden" and self.input_size != self.hidden_size:
            raise ArgumentError.of(
                "input_size",
                input_size,
                f"differs from hidden_size (={hidden_size}), and {self.equations.title} reads x unit by unit",
                "Make them equal, or put a torch.nn.Linear in front",
            )
        shapes: dict[str, tuple[int, ...]] = self.equations.shapes(self.input_size, self.hidden_size)
        initial = {f"initial_{state}": (width,) for state, width in self._widths.items()} if learn_initial else {}
        for name, shape in (*shapes.items(), *initial.items()):
            if hasattr(self, name):
                title = self.equations.title
                raise CellError(f"a parameter of {title} cannot be named {name!r}: modules have such an attribute.")
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.output_size = next(iter(self._widths.values()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters: uniform within ±1/√hidden_size, as torch.nn does.

        Vectors get the value that their cell gives as `initial`, and what the cell names in `first_values` gets those.
        Learned initial states are zero.
        """
        bound = 1 / math.sqrt(self.hidden_size)
        with torch.no_grad():
            for name in self.equations.parameters:
                if name in self.equations.initial:
                    getattr(self, name).fill_(self.equations.initial[name])
                else:
                    getattr(self, name).uniform_(-bound, bound)
            self._fill_first_values()
            for state in self.equations.states if self.learn_initial else ():
                getattr(self, f"initial_{state}").zero_()

    def _fill_first_values(self) -> None:
        """Give parameters the first values that their cell has for them."""
        shapes = {name: tuple(getattr(self, name).shape) for name in self.equations.parameters}
        drawn = self.cell.first_values(shapes, lambda low, high: torch.empty(()).uniform_(low, high).item())
        for name in drawn.keys() & shapes.keys():
            parameter = getattr(self, name)
            values = torch.tensor(drawn[name], dtype=parameter.dtype)
            parameter.copy_(values.reshape(shapes[name] if values.dim() else ()))

    def cell_parameters(self) -> dict[str, Tensor]:
        """The parameters by their names in the equations, with parametrizations applied; they fit the equations."""
        parameters = self._ordered_parameters()
        self._runner.boundary.check_parameters(parameters)
        return dict(zip(self.equations.parameters, parameters, strict=True))

    def check_step(self, parameters: Sequence[Tensor], x: Tensor, states: tuple[Tensor, ...]) -> None:
        """Refuse what one step on x (batch, input_size) and these states cannot run on."""
        self._runner.boundary.check(x.unsqueeze(0), states, parameters)

    @property
    def step(self) -> Evaluator:
        """One step on tensors: (parameters, x, states) → (new states, named values)."""
        return self._runner.step

    def take_step(self, x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """One step on tensors that are checked: x (batch, input_size), and the states at t−1 → the states at t."""
        parameters = self._ordered_parameters()
        self.check_step(parameters, x, states)
        new, _ = self.step(dict(zip(self.equations.parameters, parameters, strict=True)), x, states)
        return tuple(value.expand(len(x), -1) for value in new)

    def own_routes(self) -> dict[str, Route]:
        """The route of a call of this layer, in its present mode, under the name ""."""
        like = next(self.parameters(), torch.empty(0))
        runner = self._regularized.runner(self.training) if self._regularized else self._runner
        parameters = self._ordered_parameters()
        return {"": choose_route(runner.kernel, parameters, self._like_x(like), states=())}

    def _like_x(self, like: Tensor) -> Tensor:
        return like.new_empty(1, 1, self.equations.x_size(self.input_size, self.hidden_size))

    def run(
        self, x: Tensor, state: Any, ends: Tensor | None = None, trace: bool = False, **inputs: Tensor
    ) -> tuple[Tensor, Any, Trace]:
        """Output, final state and trace for checked, batched, time-major input; `inputs` as the layer is given them."""
        if inputs or self.equations.inputs:
            x = join_inputs(self.equations, x, inputs, self.batch_first)
        single = isinstance(state, Tensor)
        states = (state,) if single else tuple(state)
        parameters = self._ordered_parameters()
        given = parameters, x, states, ends, check_flag("reverse", self.reverse), trace, self.recompute
        if self._regularized is None:
            output, states, values = self._runner.run(*given)
        else:
            output, states, values = self._regularized.run(self.training, *given)
        return output, states[0] if single else states, values

    @property
    def overlaps(self) -> bool:
        """Whether the layer may run at the same time as the one whose output it reads."""
        return not self.reverse and self.recompute is None and self._regularized is None

    def regularize(self, rates: Rates) -> None:
        """Regularize the recurrent connections at these rates from now on; see `Stack` for their meaning."""
        if not isinstance(rates, Rates):
            raise ArgumentTypeError.of("rates", rates, "is not a Rates", "Give unspool.nn.regularized.Rates(…)")
        self._rates = rates
        self._regularized = None
        if rates != Rates():
            self._regularized = Regularized(rates, self._runner, self.input_size, self.hidden_size)

    @property
    def regularization(self) -> Rates:
        """The rates of dropout and zoneout in the recurrent connections."""
        return self._rates

    def state_shapes(self, rows: int) -> Any:
        shapes = tuple(torch.Size((rows, width)) for width in self._widths.values())
        return shapes[0] if len(shapes) == 1 else shapes

    def initial_state(self, rows: int, like: Tensor) -> Any:
        if not self.learn_initial:
            zeros = tuple(like.new_zeros(rows, width) for width in self._widths.values())
            return zeros[0] if len(zeros) == 1 else zeros
        learned: dict[str, Any] = {
            name: getattr(self, name, None) for name in (f"initial_{state}" for state in self._widths)
        }
        for (name, value), width in zip(learned.items(), self._widths.values(), strict=True):
            check_shape(name, value, (width,))
            check_like(name, value, like, "x")
        states = tuple(value.expand(rows, -1) for value in learned.values())
        return states[0] if len(states) == 1 else states

    def extra_repr(self) -> str:
        options = [name for name in ("batch_first", "reverse", "learn_initial") if getattr(self, name)]
        without = [] if self.bias else ["bias=False"]
        again = [] if self.recompute is None else [f"recompute={self.recompute!r}"]
        return ", ".join(
            [
                repr(self.cell),
                str(self.input_size),
                str(self.hidden_size),
                *without,
                *(f"{name}=True" for name in options),
                *again,
            ]
        )

    def _ordered_parameters(self) -> list[Tensor]:
        """The parameters in the order of the equations; one that is registered, the quick way; None if it is gone."""
        own: dict[str, Any] = self._parameters
        found: list[Any] = [
            own[name] if name in own else getattr(self, name, None) for name in self.equations.parameters
        ]
        return found

    def _read(self, like: Tensor) -> None:
        """Set what is derived from the cell, and is not pickled with the layer, whose parameters are as `like`."""
        sizes = {name: check_size(name, getattr(self, name)) for name in ("input_size", "hidden_size")}
        self.equations = self.cell.equations(self.bias)
        largest = max(sizes, key=lambda name: sizes[name])
        check_room(largest, sizes[largest], self.equations.count_parameters(**sizes), like)
        self._runner = Runner(self.equations, self.input_size, self.hidden_size)
        self._widths = {
            state: self.equations.size(width, self.input_size, self.hidden_size)
            for state, width in self.equations.states.items()
        }
        self.regularize(self._rates)

    def __getstate__(self) -> dict[str, Any]:
        derived = ("equations", "_runner", "_regularized", "_widths")
        return {key: value for key, value in self.__dict__.items() if key not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._read(next(self.parameters(), torch.empty(0)))


def run_recurrences(
    layers: Sequence[Recurrent], x: Tensor, states: Sequence[Any], ends: Tensor | None
) -> tuple[Tensor, list[Any]] | None:
    """Layers that read the one below, as wavefronts; None where they had better run one after the other.

    Args:
        layers: from the lowest up.
        x: the input, (time, batch, input_size).
        states: the initial state of each layer.
        ends: the length of each sequence; None where all are as long as x.

    Returns:
        The output and the final state of each layer, a tensor or a tuple of them as that of a single layer.

    Example:
        >>> layers = [Recurrent("gru", 8, 16), Recurrent("gru", 16, 16)]
        >>> found = run_recurrences(layers, x, [layer.initial_state(4, x) for layer in layers], None)
    """
    if len(layers) < 2 or not all(layer.overlaps for layer in layers):
        return None
    starts = [(state,) if isinstance(state, Tensor) else tuple(state) for state in states]
    runners, parameters = [layer._runner for layer in layers], [layer._ordered_parameters() for layer in layers]
    met = run_wavefront(runners, parameters, x, starts, ends)
    return met and (met[0], [final[0] if len(final) == 1 else final for final in met[1]])
