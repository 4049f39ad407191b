"""Recurrent: any cell over time."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells import Cell, find_cell
from unspool.cells.cell import check_size
from unspool.cells.evaluate import Evaluator
from unspool.errors import ArgumentError, CellError
from unspool.nn.checks import check_recompute
from unspool.nn.layer import Layer
from unspool.nn.recurrence import Recurrence
from unspool.nn.regularised import Rates, Regularised
from unspool.nn.unroll import Trace


class Recurrent(Layer):
    """A cell over time.

    `cell` is a name ("lstm"; see `unspool.cells.CATALOGUE`), a Cell or a class of cells. Parameters carry the names
    they have in the equations: `W_r`, `U_r`, `b_r`. The output is the cell's first state at every step. The state is
    a tensor (batch, width), or a tuple of them if the cell has several. `reverse` runs from each row's last step to
    its first. `learn_initial` makes the initial state a parameter (`initial_h`) instead of zeros.

    `recompute` saves memory in training for some time: the kernel keeps only the state at every so many steps, or with
    "sqrt" at every 4√T-th, and computes what lies between them once more on its way back.
    """

    _rates = Rates()
    _regularised: Regularised | None = None

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
        self.bias, self.batch_first, self.reverse = bias, batch_first, reverse
        self.learn_initial, self.recompute = learn_initial, check_recompute(recompute)
        self._read()
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
                raise CellError(
                    f"a parameter of {self.equations.title} cannot be named {name!r}: a module has that already."
                )
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.output_size = next(iter(self._widths.values()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """torch.nn's uniform distribution within ±1/√hidden_size; vectors at their `initial`, first states at zero."""
        bound = 1 / math.sqrt(self.hidden_size)
        with torch.no_grad():
            for name in self.equations.parameters:
                if name in self.equations.initial:
                    getattr(self, name).fill_(self.equations.initial[name])
                else:
                    getattr(self, name).uniform_(-bound, bound)
            for state in self.equations.states if self.learn_initial else ():
                getattr(self, f"initial_{state}").zero_()

    def cell_parameters(self) -> dict[str, Tensor]:
        """The parameters by their names in the equations, as parametrisations have them now."""
        return {name: getattr(self, name) for name in self.equations.parameters}

    @property
    def step(self) -> Evaluator:
        """One step on tensors: (parameters, x, states) → (new states, named values)."""
        return self._recurrence.step

    @property
    def engine(self) -> str:
        """What runs this layer on its own device and dtype, in its present mode: "kernel", or "eager" and why."""
        like = next(self.parameters(), torch.empty(0))
        recurrence = self._regularised.recurrence(self.training) if self._regularised else self._recurrence
        why = recurrence.engine_for([like.new_empty(1, 1, 1), *self.cell_parameters().values()])
        return "kernel" if why is None else f"eager: {why}"

    def run(self, x: Tensor, state: Any, ends: Tensor | None = None, trace: bool = False) -> tuple[Tensor, Any, Trace]:
        single = isinstance(state, Tensor)
        states = (state,) if single else tuple(state)
        parameters = list(self.cell_parameters().values())
        given = parameters, x, states, ends, self.reverse, trace, self.recompute
        if self._regularised is None:
            output, states, values = self._recurrence.run(*given)
        else:
            output, states, values = self._regularised.run(self.training, *given)
        return output, states[0] if single else states, values

    def regularise(self, rates: Rates) -> None:
        """From now on, drop and keep at these rates; `Stack` says what they mean."""
        self._rates = rates
        self._regularised = None
        if rates != Rates():
            self._regularised = Regularised(rates, self._recurrence, self.input_size, self.hidden_size)

    def state_shapes(self, rows: int) -> Any:
        shapes = tuple(torch.Size((rows, width)) for width in self._widths.values())
        return shapes[0] if len(shapes) == 1 else shapes

    def initial_state(self, rows: int, like: Tensor) -> Any:
        if not self.learn_initial:
            return super().initial_state(rows, like)
        states = tuple(getattr(self, f"initial_{state}").expand(rows, -1) for state in self.equations.states)
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

    def _read(self) -> None:
        """What follows from the cell."""
        self.equations = self.cell.equations(self.bias)
        self._recurrence = Recurrence(self.equations, self.input_size, self.hidden_size)
        self._widths = {
            state: self.equations.size(width, self.input_size, self.hidden_size)
            for state, width in self.equations.states.items()
        }
        self.regularise(self._rates)

    def __getstate__(self) -> dict[str, Any]:
        derived = ("equations", "_recurrence", "_regularised", "_widths")
        return {key: value for key, value in self.__dict__.items() if key not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._read()
