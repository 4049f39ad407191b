"""A cell over time in NumPy: the plain reference that faster ways are measured against."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.cells import Cell, find_cell
from unspool.cells.blocks import BLOCKS, expand_by
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError

Array = NDArray[Any]


def _sigmoid(v: Array) -> Array:
    with np.errstate(over="ignore"):  # e^−v may overflow; 1 / ∞ is the right 0
        return np.asarray(1 / (1 + np.exp(-v)))


def _linear(operands: Sequence[Array], matrices: Sequence[Array], bias: Array | None) -> Array:
    total = np.asarray(sum(operand @ matrix.T for operand, matrix in zip(operands, matrices, strict=True)))
    return total if bias is None else total + bias


def _normalise(v: Array, epsilon: float) -> Array:
    centerd = v - v.mean(-1, keepdims=True)
    return np.asarray(centerd / np.sqrt((centerd**2).mean(-1, keepdims=True) + epsilon))


def _softmax(v: Array) -> Array:
    e = np.exp(v - v.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _erf(v: Array) -> Array:
    """By Python's own function, number by number."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(v), np.asarray(v).dtype)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "constant": lambda number, _: number,
    "linear": _linear,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negative": np.negative,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu": lambda v: np.maximum(v, 0),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "absolute": np.abs,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "less": np.less,
    "less_equal": np.less_equal,
    "where": np.where,
    "normalise": _normalise,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "erf": _erf,
    "softplus": lambda v: np.logaddexp(v, 0),
    "softmax": _softmax,
    "max": lambda v: v.max(-1, keepdims=True),
    **BLOCKS,
    **expand_by(np.broadcast_to),
}


def run(
    cell: str | Cell | type[Cell],
    parameters: Mapping[str, ArrayLike],
    x: ArrayLike,
    states: Sequence[ArrayLike] | None = None,
    *,
    lengths: Sequence[int] | None = None,
    reverse: bool = False,
    inputs: Mapping[str, ArrayLike] | None = None,
) -> tuple[Array, tuple[Array, ...], dict[str, Array]]:
    """Run a cell over x (T, B, input_size) in float64 from parameters named as in its equations.

    What the cell reads besides x is in `inputs` by name, each (T, B, width).

    Returns the output (T, B, width), the final states, and every named value at every step. Parameters without
    biases give equations without biases. Steps beyond a row's length are zero and leave its state as it was.
    """
    x = _as_array("x", x)
    if x.ndim != 3:
        raise ShapeError.of("x", x.shape, "does not have three dimensions", "Give (time, batch, input_size)")
    cell = find_cell(cell)
    if not isinstance(parameters, Mapping):
        raise ArgumentTypeError.of("parameters", parameters, "is not a dict", "Give arrays by name")
    given = {name: _as_array(name, value) for name, value in parameters.items()}
    equations = cell.equations(bias=any(name.startswith("b_") for name in given))
    hidden_size = _check_parameters(equations, given, x.shape[2])
    if cell.input_width == "hidden" and x.shape[2] != hidden_size:
        unfit = f"is not {hidden_size} wide, and {equations.title} reads it unit by unit"
        raise ShapeError.of("x", x.shape, unfit, "Change one of the two")
    start = _check_states(equations, states, x, hidden_size)
    ends = _check_lengths(lengths, *x.shape[:2])
    sizes = x.shape[2], hidden_size
    x = np.concatenate([x, *_check_inputs(equations, inputs or {}, x, hidden_size)], 2)
    return _unroll(equations, given, x, start, ends, reverse, sizes)


def _check_inputs(equations: Equations, inputs: Mapping[str, ArrayLike], x: Array, hidden_size: int) -> list[Array]:
    """What the cell reads besides x, in its order."""
    if set(inputs) != set(equations.inputs):
        wanted = ", ".join(equations.inputs) or "none"
        raise ArgumentError.of("inputs", sorted(inputs), f"are not those of {equations.title}", f"Give {wanted}")
    found = []
    for name, width in equations.inputs.items():
        shape = (*x.shape[:2], equations.size(width, x.shape[2], hidden_size))
        value = _as_array(name, inputs[name])
        if value.shape != shape:
            raise ShapeError.of(name, value.shape, f"is not of shape {shape}", "Reshape it")
        found.append(value)
    return found


def _as_array(name: str, value: Any, dtype: type[np.float64] | None = np.float64) -> Array:
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ArgumentTypeError.of(name, value, f"is no array: {error}", "Give numbers") from error


def _check_parameters(equations: Equations, given: Mapping[str, Array], input_size: int) -> int:
    """The hidden size, if all parameters are there and of its shapes."""
    if set(given) != set(equations.parameters):
        wanted = ", ".join(equations.parameters)
        raise ArgumentError.of("parameters", sorted(given), f"are not those of {equations.title}", f"Give {wanted}")
    for name, widths in equations.parameters.items():
        if given[name].ndim != len(widths):
            raise ShapeError.of(name, given[name].shape, f"does not have {len(widths)} dimension(s)", "Reshape it")
    hidden_size = _hidden_size(equations, given, input_size)
    for name, shape in equations.shapes(input_size, hidden_size).items():
        if given[name].shape != shape:
            raise ShapeError.of(name, given[name].shape, f"is not of shape {shape}", "Check x and the hidden size")
    return hidden_size


def _hidden_size(equations: Equations, given: Mapping[str, Array], input_size: int) -> int:
    """The size that a parameter has along an axis of hidden units; without such an axis that of the input."""
    return equations.find_hidden_size({name: value.shape for name, value in given.items()}) or input_size


def _check_states(
    equations: Equations, states: Sequence[ArrayLike] | None, x: Array, hidden_size: int
) -> tuple[Array, ...]:
    """The states to start from: those given, or zeros."""
    shapes = [(x.shape[1], equations.size(width, x.shape[2], hidden_size)) for width in equations.states.values()]
    if states is None:
        return tuple(np.zeros(shape) for shape in shapes)
    given = tuple(_as_array("states", state) for state in states)
    if [state.shape for state in given] != shapes:
        raise ShapeError.of("states", [s.shape for s in given], f"are not of shapes {shapes}", "Give one per state")
    return given


def _check_lengths(lengths: Sequence[int] | None, steps: int, rows: int) -> NDArray[Any]:
    """The number of steps of each row."""
    ends = np.full(rows, steps) if lengths is None else _as_array("lengths", lengths, None)
    whole = ends.shape == (rows,) and (not rows or ends.dtype.kind in "iu")
    if not whole or not all(0 <= end <= steps for end in ends):
        raise ArgumentError.of("lengths", lengths, f"are not {rows} numbers from 0 to {steps}", "Give one per row")
    return ends


def _unroll(
    equations: Equations,
    given: Mapping[str, Array],
    x: Array,
    now: tuple[Array, ...],
    ends: NDArray[Any],
    reverse: bool,
    sizes: tuple[int, int],
) -> tuple[Array, tuple[Array, ...], dict[str, Array]]:
    steps, rows, _ = x.shape
    step = Evaluator(equations, OPERATIONS, sizes)
    trace = {
        name: np.zeros((steps, rows, equations.size(str(node.width), *sizes))) for name, node in equations.named.items()
    }
    for t in reversed(range(steps)) if reverse else range(steps):
        live = t < ends
        new, named = step(given, x[t][live], [state[live] for state in now])
        now = tuple(_replace(state, live, value) for state, value in zip(now, new, strict=True))
        for name, value in named.items():
            trace[name][t, live] = value
    return trace[next(iter(equations.states))], now, trace


def _replace(state: Array, live: NDArray[Any], value: Array) -> Array:
    """A copy of a state with new values in the rows that are not over."""
    new = state.copy()
    new[live] = value
    return new
