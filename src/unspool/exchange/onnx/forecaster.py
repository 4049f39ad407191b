"""The forecaster in ONNX: the past in, quantiles of the next steps out."""

from __future__ import annotations

from unspool.exchange.onnx.graph import FLOAT, GraphBuilder
from unspool.exchange.onnx.parts import emit_linear, emit_pooling, time_first
from unspool.exchange.onnx.stack import emit_stack
from unspool.runtime.network import Forecaster

#: The fraction of the unit that is added to the deviation of a past, so that a constant past has one.
LEAST_DEVIATION = 0.1


def emit_forecaster(network: Forecaster) -> GraphBuilder:
    """`past` (batch, lookback, width), `future` (batch, horizon, covariates) and `unit` (batch, targets) in.

    Out come `quantiles` (batch, horizon, targets, levels), in the scale of the past, which is standardized outside.
    """
    graph = GraphBuilder()
    levels, targets = len(network.quantiles), network.targets
    covariates = network.decoder.input_size - network.stack.output_size - 1
    past = time_first(graph, graph.input("past", FLOAT, ("batch", "lookback", network.stack.input_size)))
    future = time_first(graph, graph.input("future", FLOAT, ("batch", "horizon", covariates)))
    unit = graph.input("unit", FLOAT, ("batch", targets))
    base, size, read = _relate(graph, network, past, future, unit)
    rows = graph.add("Shape", unit, start=0, end=1)
    steps = graph.add("Expand", graph.add("Shape", past, start=0, end=1), rows)
    h = emit_stack(graph, network.stack, read).output
    context = emit_pooling(graph, network.pooling, h, steps)
    x = _beside(graph, context, future)
    decoded = emit_stack(graph, network.decoder, x).output
    raw = emit_linear(graph, network.head, decoded)
    raw = graph.add("Reshape", raw, graph.integers([0, 0, targets, levels]))
    found = _spread(graph, raw, network.quantiles.index(0.5), levels)
    if network.season:
        last = graph.integers([-1])
        scaled = graph.add("Mul", found, graph.add("Unsqueeze", size, last))
        found = graph.add("Add", graph.add("Unsqueeze", base, last), scaled)
    graph.output("quantiles", time_first(graph, found, 4), FLOAT, ("batch", "horizon", targets, levels))
    return graph


def _relate(graph: GraphBuilder, network: Forecaster, past: str, future: str, unit: str) -> tuple[str, str, str]:
    """The naive forecast, the size of differences, and the past as the layers read it; of no season only the last."""
    if not network.season:
        return "", "", past
    first, second = graph.integers([0]), graph.integers([network.targets])
    width = graph.integers([2**62])
    axis = graph.integers([2])
    values = graph.add("Slice", past, first, second, axis)
    others = graph.add("Slice", past, second, width, axis)
    size = _deviation(graph, values, unit)
    last = graph.add("Gather", values, graph.integers([-1]), axis=0)
    relative = graph.add("Div", graph.add("Sub", values, last), size)
    return _naive(graph, network.season, values, future), size, graph.add("Concat", relative, others, axis=-1)


def _deviation(graph: GraphBuilder, values: str, unit: str) -> str:
    """√(variance of the past + (0.1 unit)²), (batch, targets)."""
    centerd = graph.add("Sub", values, graph.add("ReduceMean", values, axes=[0], keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", centerd, centerd), axes=[0], keepdims=0)
    least = graph.add("Mul", unit, graph.floats(LEAST_DEVIATION))
    return graph.add("Sqrt", graph.add("Add", variance, graph.add("Mul", least, least)))


def _naive(graph: GraphBuilder, season: int, values: str, future: str) -> str:
    """The last season, repeated: (horizon, batch, targets)."""
    places = graph.add("Mod", _count(graph, future), graph.integers(season))
    places = graph.add("Sub", places, graph.integers(season))  # from the end
    return graph.add("Gather", values, places, axis=0)


def _count(graph: GraphBuilder, future: str) -> str:
    """0 … horizon − 1."""
    horizon = graph.add("Gather", graph.add("Shape", future), graph.integers(0), axis=0)
    return graph.add("Range", graph.integers(0), horizon, graph.integers(1))


def _beside(graph: GraphBuilder, context: str, future: str) -> str:
    """What the decoder reads at each step of the horizon: the context, the place of the step, its covariates."""
    shape = graph.add("Shape", future, start=0, end=2)
    wide = graph.add("Concat", shape, graph.integers([1]), axis=0)
    horizon = graph.add("Cast", graph.add("Shape", future, start=0, end=1), to=1)
    steps = graph.add("Cast", graph.add("Add", _count(graph, future), graph.integers(1)), to=1)
    place = graph.add("Unsqueeze", graph.add("Div", steps, horizon), graph.integers([1, 2]))
    one = graph.integers([1])
    each = graph.add("Concat", graph.add("Slice", shape, graph.integers([0]), one), one, one, axis=0)
    contexts = graph.add("Expand", context, each)
    return graph.add("Concat", contexts, graph.add("Expand", place, wide), future, axis=-1)


def _spread(graph: GraphBuilder, raw: str, middle: int, levels: int) -> str:
    """The median as it is, and every other quantile at a positive distance from the one next to it."""
    sizes = [size for size in (middle, 1, levels - middle - 1) if size]
    pieces = graph.add_many("Split", [raw, graph.integers(sizes)], len(sizes), axis=-1) if len(sizes) > 1 else [raw]
    median = pieces[bool(middle)]
    parts, last = [median], graph.integers(-1)
    if middle:
        down = graph.add("CumSum", graph.add("Softplus", pieces[0]), last, reverse=1)
        parts.insert(0, graph.add("Sub", median, down))
    if middle < levels - 1:
        up = graph.add("CumSum", graph.add("Softplus", pieces[-1]), last)
        parts.append(graph.add("Add", median, up))
    return graph.add("Concat", *parts, axis=-1)
