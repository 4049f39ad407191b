"""The functions that equations are written with. Numbers give numbers, symbols give symbols."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from unspool.cells.symbols import Number, Symbol, as_number, elementwise
from unspool.errors import CellError, UnknownNameError

Value = TypeVar("Value", Symbol, float)


def sigmoid(v: Value) -> Value:
    """1 / (1 + e⁻ᵛ)."""
    if isinstance(v, Symbol):
        return elementwise("sigmoid", v)
    return 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v))


def tanh(v: Value) -> Value:
    """Hyperbolic tangent."""
    return elementwise("tanh", v) if isinstance(v, Symbol) else math.tanh(v)


def relu(v: Value) -> Value:
    """max(v, 0); its slope at 0 is 0."""
    return elementwise("relu", v) if isinstance(v, Symbol) else max(v, 0.0)


def exp(v: Value) -> Value:
    """eᵛ."""
    return elementwise("exp", v) if isinstance(v, Symbol) else math.exp(v)


def log(v: Value) -> Value:
    """Natural logarithm."""
    return elementwise("log", v) if isinstance(v, Symbol) else math.log(v)


def sqrt(v: Value) -> Value:
    """Square root."""
    return elementwise("sqrt", v) if isinstance(v, Symbol) else math.sqrt(v)


def absolute(v: Value) -> Value:
    """|v|; `abs(v)` is the same."""
    return elementwise("absolute", v) if isinstance(v, Symbol) else abs(v)


def log1p(v: Value) -> Value:
    """ln(1 + v), exact near 0."""
    return elementwise("log1p", v) if isinstance(v, Symbol) else math.log1p(v)


def sin(v: Value) -> Value:
    """Sine."""
    return elementwise("sin", v) if isinstance(v, Symbol) else math.sin(v)


def cos(v: Value) -> Value:
    """Cosine."""
    return elementwise("cos", v) if isinstance(v, Symbol) else math.cos(v)


def erf(v: Value) -> Value:
    """The error function."""
    return elementwise("erf", v) if isinstance(v, Symbol) else math.erf(v)


def softplus(v: Value) -> Value:
    """ln(1 + eᵛ)."""
    return elementwise("softplus", v) if isinstance(v, Symbol) else max(v, 0.0) + math.log1p(math.exp(-abs(v)))


def log_sigmoid(v: Value) -> Value:
    """ln σ(v) = −softplus(−v)."""
    return -softplus(-v)


def silu(v: Value) -> Value:
    """v σ(v), also known as swish."""
    return v * sigmoid(v)


def gelu(v: Value) -> Value:
    """v Φ(v) with the normal distribution Φ, by erf."""
    return 0.5 * v * (1 + erf(v * math.sqrt(0.5)))


def softmax(v: Symbol) -> Symbol:
    """eᵛ / Σ eᵛ over the units of one row."""
    _one_symbol("softmax", v)
    return elementwise("softmax", v)


def cumsum(v: Symbol) -> Symbol:
    """The sum of a row's units up to each of them."""
    _one_symbol("cumsum", v)
    return elementwise("cumsum", v)


def minimum(a: Symbol | Number, b: Symbol | Number) -> Symbol:
    """The smaller of two values, unit by unit."""
    _one_symbol("minimum", a, b)
    return elementwise("minimum", a, b)


def maximum(a: Symbol | Number, b: Symbol | Number) -> Symbol:
    """The larger of two values, unit by unit."""
    _one_symbol("maximum", a, b)
    return elementwise("maximum", a, b)


def where(condition: Symbol, a: Symbol | Number, b: Symbol | Number) -> Symbol:
    """`a` in the units in which the condition (`u < v`, `u >= v`, …) holds, else `b`."""
    _one_symbol("where", condition)
    return elementwise("where", condition, a, b)


def normalise(v: Symbol, epsilon: float = 1e-5) -> Symbol:
    """(v − mean) / √(variance + epsilon) over the units of one row: layer normalisation without its scale and shift."""
    _one_symbol("normalise", v)
    return elementwise("normalise", v, detail=as_number(epsilon))


def _one_symbol(function: str, *values: object) -> None:
    if not any(isinstance(value, Symbol) for value in values):
        raise CellError(
            f"{function} needs a value of the equations, got {CellError.shown(values)}. On plain numbers use Python."
        )


#: The functions that a cell offers as its activation, by name.
ACTIVATIONS: Mapping[str, Callable[[Symbol], Symbol]] = {
    "tanh": tanh,
    "relu": relu,
    "sigmoid": sigmoid,
    "silu": silu,
    "gelu": gelu,
    "softplus": softplus,
    "sin": sin,
    "identity": lambda v: v,
}


def check_activation(name: str, value: str) -> str:
    """`value`, if it is the name of an activation."""
    if not isinstance(value, str) or value not in ACTIVATIONS:
        raise UnknownNameError.among(name, value, ACTIVATIONS)
    return value
