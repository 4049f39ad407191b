"""RNN, GRU and LSTM that take the place of torch.nn's: same constructor, call, shapes, state_dict and errors."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unspool import cells
from unspool.errors import ShapeError, UnknownNameError
from unspool.nn.drop_in import DropIn
from unspool.nn.drop_in_runners import Kind
from unspool.nn.single_step import OF_GRU, OF_RNN

#: torch.nn.RNN's mode → the activation.
ACTIVATIONS = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}


class RNN(DropIn, nn.RNN):
    """torch.nn.RNN on our loop over time: Elman's network with tanh or relu.

    Args:
        *args: as torch.nn.RNN's.
        recompute: as in `Recurrent`.
        **kwargs: as torch.nn.RNN's.

    Example:
        >>> output, h = unspool.nn.RNN(64, 128, nonlinearity="relu")(torch.randn(10, 3, 64), lengths=[10, 4, 0])
    """

    torch_class = nn.RNN
    gates = ("h",)
    single_steps = OF_RNN

    def _kind(self) -> Kind:
        if self.mode not in ACTIVATIONS:  # torch.nn's forward reads `mode`, not `nonlinearity`
            raise UnknownNameError.among("mode", self.mode, ACTIVATIONS)
        return cells.Elman, (("activation", ACTIVATIONS[self.mode]),)


class GRU(DropIn, nn.GRU):
    """torch.nn.GRU on our loop over time.

    Args:
        *args: as torch.nn.GRU's.
        reset: "after" is torch.nn's: the reset gate acts after the recurrent product. With "before" the parameters keep
            torch.nn's names and shapes, and the equations are `unspool.cells.GRU`: the reset gate acts before the
            recurrent product, and z weights the new state.
        recompute: as in `Recurrent`.
        **kwargs: as torch.nn.GRU's.

    Example:
        >>> output, h = unspool.nn.GRU(64, 128, num_layers=2)(torch.randn(10, 3, 64), lengths=[10, 4, 0])
    """

    torch_class = nn.GRU
    gates = ("r", "z", "n")
    single_steps = OF_GRU
    reset: str | None = "after"

    def __init__(self, *args: Any, reset: str = "after", **kwargs: Any) -> None:
        if reset not in ("before", "after"):
            raise UnknownNameError.among("reset", reset, ("before", "after"))
        super().__init__(*args, **kwargs)
        self.reset = reset

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", reset={self.reset!r}" if self.reset != "after" else "")

    def _kind(self) -> Kind:
        return (cells.ResetAfterGRU if self.reset == "after" else cells.GRU), ()

    def _matches_torch(self) -> bool:
        return self.reset == "after"


class LSTM(DropIn, nn.LSTM):
    """torch.nn.LSTM on our loop over time, `proj_size` included.

    Args:
        *args: as torch.nn.LSTM's.
        recompute: as in `Recurrent`.
        **kwargs: as torch.nn.LSTM's.

    Example:
        >>> output, (h, c) = unspool.nn.LSTM(64, 128, num_layers=2)(torch.randn(10, 3, 64), lengths=[10, 4, 0])
    """

    torch_class = nn.LSTM
    gates = ("i", "f", "g", "o")

    def _kind(self) -> Kind:
        return cells.LSTM, (("projection", self.proj_size or None),)

    def _states(self, hx: Any) -> tuple[Tensor, ...] | None:
        if hx is None:
            return None
        if not isinstance(hx, tuple | list) or len(hx) != 2 or not all(isinstance(part, Tensor) for part in hx):
            raise ShapeError.of("hx", type(hx).__name__, "lstm expects two hidden states", "Give a tuple (h_0, c_0)")
        return tuple(hx)

    def _as_torch(self, states: tuple[Tensor, ...]) -> Any:
        return states
