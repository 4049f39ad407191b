"""RNN, GRU and LSTM that take the place of torch.nn's: same constructor, call, shapes, state_dict and errors."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unspool import cells
from unspool.errors import ArgumentError, ShapeError, UnknownNameError
from unspool.nn.drop_in import DropIn, Kind


class RNN(DropIn):
    """torch.nn.RNN on our loop over time: Elman's network with tanh or relu.

    Args:
        *args: as torch.nn.RNN's.
        nonlinearity: "tanh" or "relu".
        recompute: as in `Recurrent`.
        **kwargs: as torch.nn.RNN's.

    Example:
        >>> output, h = unspool.nn.RNN(64, 128, nonlinearity="relu")(torch.randn(10, 3, 64), lengths=[10, 4, 0])
    """

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

    def _kind(self) -> Kind:
        return cells.Elman, (("activation", self.nonlinearity),)


class GRU(DropIn):
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

    def _kind(self) -> Kind:
        return (cells.ResetAfterGRU if self.reset == "after" else cells.GRU), ()


class LSTM(DropIn):
    """torch.nn.LSTM on our loop over time, `proj_size` included.

    Args:
        *args: as torch.nn.LSTM's.
        recompute: as in `Recurrent`.
        **kwargs: as torch.nn.LSTM's.

    Example:
        >>> output, (h, c) = unspool.nn.LSTM(64, 128, num_layers=2)(torch.randn(10, 3, 64), lengths=[10, 4, 0])
    """

    gates = ("i", "f", "g", "o")
    get_expected_cell_size = nn.LSTM.get_expected_cell_size
    check_forward_args = nn.LSTM.check_forward_args  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

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


def _refuse_projection(options: dict[str, Any]) -> None:
    if "proj_size" in options:
        raise ArgumentError("proj_size argument is only supported for LSTM, not RNN or GRU. Leave it out.")
