"""Forecasters in C: the past in, quantiles of the next steps out."""

from __future__ import annotations

from unspool.errors import ArgumentError
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.pooling import write_pooling
from unspool.exchange.c.source import Source
from unspool.exchange.c.stack import write_stack
from unspool.runtime.network import Forecaster


def least_past(network: Forecaster, interface: Interface) -> int:
    """The fewest steps of a past that the model forecasts from: the lookback of its training, and a whole season."""
    return max(interface.lookback, network.season, 1)


def write_forecaster(source: Source, network: Forecaster, interface: Interface) -> None:
    """Write `workspace` and `run`.

    Args:
        source: The file.
        network: The model.
        interface: Its lookback, which must hold a season.
    """
    if 0 < interface.lookback < network.season:
        problem = f"has fewer steps than the season of {network.season}"
        raise ArgumentError.of("lookback", interface.lookback, problem, "Give that of the training, or 0 for all steps")
    stack = write_stack(source, "stack", network.stack, whole=True)
    decoder = write_stack(source, "decoder", network.decoder, whole=True)
    context = network.stack.output_size
    write_pooling(source, "pool", network.pooling, context)
    head = source.linear("head", network.head)
    inputs, read, targets = network.stack.input_size, network.decoder.input_size, network.targets
    future = read - context - 1
    source.constants |= {"INPUTS": inputs, "TARGETS": targets, "QUANTILES": len(network.quantiles), "FUTURE": future}
    source.constants["UNITS"] = context
    source.fields += [f"{stack.state} stack;", f"{decoder.state} decoder;", f"float units[{context}];"]
    source.start += [
        "@_stack_start(w, &s->stack);",
        "@_decoder_start(w, &s->decoder);",
        f"@_clear(s->units, {context});",
    ]
    source.export_units("units")
    needs = [("lookback", inputs), *stack.workspace_terms("lookback"), ("horizon", read)]
    source.export_workspace("size_t lookback, size_t horizon", [[*needs, *decoder.workspace_terms("horizon")]])
    least = max(network.season, 1)
    source.export(
        "Quantiles (horizon, targets, quantiles) after a past (lookback, inputs), from the state that `init` gives. "
        "All numbers are standardized; `future` (horizon, future) are covariates, `unit` (targets) is the mean change "
        f"over a season. Returns -1, and nothing is read, where the past has fewer than {least} steps; 0 otherwise.",
        "int @_run(@_state *s, const float *past, size_t lookback, const float *future, size_t horizon, "
        "const float *unit, float *y, float *workspace)",
        [
            f"if (lookback < {least})",
            "    return -1;",
            *(["(void)future;"] if not future else []),
            *_standardize(network, inputs),
            f"const float *const h = @_stack_run(w, &s->stack, x, lookback, x + lookback * {inputs});",
            "@_pool pool;",
            "@_pool_start(&pool);",
            "for (size_t t = 0; t < lookback; t++)",
            f"    @_pool_add(w, &pool, h + t * {context});",
            "@_pool_finish(&pool, s->units);",
            f"float *const steps = x + lookback * {inputs} + {stack.workspace('lookback')};",
            "for (size_t t = 0; t < horizon; t++) {",
            f"    float *const at = steps + t * {read};",
            f"    @_copy(at, s->units, {context});",
            f"    at[{context}] = (float)(t + 1) / (float)horizon;",
            *([f"    @_copy(at + {context + 1}, future + t * {future}, {future});"] if future else []),
            "}",
            f"const float *const d = @_decoder_run(w, &s->decoder, steps, horizon, steps + horizon * {read});",
            "for (size_t t = 0; t < horizon; t++) {",
            f"    float raw[{head.outputs}];",
            *(f"    {line}" for line in head.lines(f"(d + t * {network.decoder.output_size})", "raw")),
            *(f"    {line}" for line in _spread(network, inputs)),
            "}",
            "return 0;",
        ],
    )


def _standardize(network: Forecaster, inputs: int) -> list[str]:
    """x, the past as the layers read it: values relative to the last one, in deviations; and `size`, the deviations."""
    targets = network.targets
    lines = ["float *const x = workspace;", f"float size[{targets}];"]
    lines += [f"for (size_t i = 0; i < lookback * {inputs}; i++)", "    x[i] = past[i];"]
    if not network.season:
        return [*lines, "(void)unit;", f"for (int j = 0; j < {targets}; j++)", "    size[j] = 1.0f;"]
    return [
        *lines,
        f"for (int j = 0; j < {targets}; j++) {{",
        "    float mean = 0.0f, variance = 0.0f;",
        "    for (size_t t = 0; t < lookback; t++)",
        f"        mean += past[t * {inputs} + (size_t)j] / (float)lookback;",
        "    for (size_t t = 0; t < lookback; t++) {",
        f"        const float e = past[t * {inputs} + (size_t)j] - mean;",
        "        variance += e * e / (float)lookback;",
        "    }",
        "    size[j] = @_sqrt(variance + 0.1f * unit[j] * (0.1f * unit[j]));",
        "    for (size_t t = 0; t < lookback; t++) {",
        f"        const float last = past[(lookback - 1) * {inputs} + (size_t)j];",
        f"        x[t * {inputs} + (size_t)j] = (past[t * {inputs} + (size_t)j] - last) / size[j];",
        "    }",
        "}",
    ]


def _spread(network: Forecaster, inputs: int) -> list[str]:
    """The median as it is, and every other quantile at a positive distance from the one next to it."""
    quantiles, middle, targets = len(network.quantiles), network.quantiles.index(0.5), network.targets
    season = network.season
    base = "const float base = 0.0f;"
    if season:
        base = f"const float base = past[(lookback - {season} + t % {season}) * {inputs} + (size_t)j];"
    below = [
        f"    for (int q = {middle - 1}; q >= 0; q--)",
        f"        raw[j * {quantiles} + q] = raw[j * {quantiles} + q + 1] - @_softplus(raw[j * {quantiles} + q]);",
    ]
    above = [
        f"    for (int q = {middle + 1}; q < {quantiles}; q++)",
        f"        raw[j * {quantiles} + q] = raw[j * {quantiles} + q - 1] + @_softplus(raw[j * {quantiles} + q]);",
    ]
    return [
        f"for (int j = 0; j < {targets}; j++) {{",
        f"    {base}",
        *(below if middle else []),
        *(above if middle + 1 < quantiles else []),
        f"    for (int q = 0; q < {quantiles}; q++)",
        f"        y[t * {targets * quantiles} + (size_t)(j * {quantiles} + q)]",
        f"            = base + size[j] * raw[j * {quantiles} + q];",
        "}",
    ]
