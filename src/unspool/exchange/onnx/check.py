"""The check of what was emitted: onnx's own, then ONNX Runtime against the player at several shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from unspool.errors import ArgumentError
from unspool.exchange.onnx.graph import Array

#: Pairs of time and batch that a graph is run at. No graph knows either when it is made.
SHAPES = ((5, 2), (9, 4), (1, 1))
#: Of the other sides that vary from call to call.
OTHER_SIDES = {"lookback": 13, "horizon": 4, "forms": 6, "most": 3, "characters": 5}
#: What an input of whole numbers counts, or points into → below what its values lie.
Bounds = Mapping[str, int]
Expect = Callable[[dict[str, Array]], Mapping[str, Array]]


def check_structure(model: onnx.ModelProto) -> None:
    """Refuse a model that onnx's checker, with shape inference, does not accept."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ArgumentError.of(
            "model", model.graph.name, f"is no ONNX: {error}", "Report this, with the cell"
        ) from error


def open_session(model: onnx.ModelProto) -> Any | None:
    """A session of ONNX Runtime on one thread; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def measure_difference(
    model: onnx.ModelProto, expect: Expect, bounds: Bounds, shapes: tuple[tuple[int, int], ...] = SHAPES
) -> float | None:
    """The largest difference between ONNX Runtime and what is expected, over all outputs; None without ONNX Runtime.

    Differences are relative for values larger than 1.

    Args:
        model: The model.
        expect: Gives the outputs by name for inputs by name.
        bounds: What the whole numbers of an input are less than, by its name.
        shapes: Pairs of time and batch.

    Returns:
        The difference.
    """
    session = open_session(model)
    if session is None:
        return None
    worst = 0.0
    for place, (steps, rows) in enumerate(shapes):
        given = draw_inputs(model, bounds, {"time": steps, "batch": rows, **OTHER_SIDES}, seed=place)
        names = [one.name for one in session.get_outputs()]
        expected = expect(given)
        for name, value in zip(names, session.run(names, given), strict=True):
            worst = max(worst, difference(value, np.asarray(expected[name])))
    return worst


def difference(value: Array, expected: Array) -> float:
    """The largest absolute difference, of values beyond 1 relative to them; infinite for NaN or another shape."""
    if value.shape != expected.shape:
        return float("inf")
    if not value.size:
        return 0.0
    with np.errstate(invalid="ignore"):  # of two infinities, which are equal or are not
        error = np.abs(value - expected) / np.maximum(np.abs(expected), 1)
    return float(np.where(value == expected, 0, np.nan_to_num(error, nan=np.inf)).max())


def draw_inputs(model: onnx.ModelProto, bounds: Bounds, sides: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Random inputs of a model: normal numbers, lengths from 0 on, whole numbers below their bounds."""
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for one in model.graph.input:
        tensor = one.type.tensor_type
        shape = [sides[side.dim_param] if side.dim_param else side.dim_value for side in tensor.shape.dim]
        if tensor.elem_type == onnx.TensorProto.INT64:
            found[one.name] = generator.integers(0, _bound(one.name, bounds, sides), shape)
        else:
            found[one.name] = generator.normal(size=shape).astype(np.float32)
    if "there" in found:  # which steps of a source there are is no number like others
        found["there"] = (np.abs(found["there"]) < 1).astype(np.float32)
    return found


def _bound(name: str, bounds: Bounds, sides: Mapping[str, int]) -> int:
    counted = {"lengths": "time", "character_lengths": "characters", "ngram_counts": "most"}
    if name in counted:
        return sides[counted[name]] + 1
    return sides["forms"] if name == "forms" else bounds[name]
