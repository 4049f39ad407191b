"""The program around an exported forecaster: the past on standard input, a line per step of the forecast."""

from __future__ import annotations

from unspool.errors import ArgumentError
from unspool.exchange.c.forecaster import least_past
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.reading import ALL_FINITE, LONGEST_NUMBERS, READ_COUNT, READ_LINE, READ_NUMBERS
from unspool.exchange.c.source import Source, indent
from unspool.exchange.c.statements import leave_if, out_of_memory, take_floats, take_workspace
from unspool.exchange.c.step import number
from unspool.runtime.network import Forecaster

#: The most steps that the program writes.
MOST_STEPS = 1_000_000


def write_forecast(source: Source, network: Forecaster, interface: Interface) -> None:
    """Lines of standard input are the steps of one past; the forecast has a line per step."""
    inputs, targets, quantiles = network.stack.input_size, network.targets, len(network.quantiles)
    if network.decoder.input_size > network.stack.output_size + 1:
        raise ArgumentError.of("main", True, "does not know the future covariates", "Leave out `main`, and call `run`")
    for text in (READ_LINE.replace("@limit", str(LONGEST_NUMBERS)), READ_COUNT, READ_NUMBERS, ALL_FINITE):
        source.function(text)
    least, wrong = least_past(network, interface), f"does not have {inputs} finite number{'s' if inputs > 1 else ''}"
    scale = interface.inputs
    means = [0.0] * inputs if scale is None else scale.mean.tolist()
    deviations = [1.0] * inputs if scale is None else scale.deviation.tolist()
    units = [1.0] * targets if interface.unit is None else interface.unit.tolist()
    table = "".join(
        f"static const float @_{name}[] = {{{', '.join(map(number, values))}}};\n"
        for name, values in (("past_means", means), ("past_deviations", deviations), ("past_units", units))
    )
    source.function(table)
    body = [
        "static @_state s;",
        f"uint32_t horizon = {interface.horizon};",
        f"if (argc > 2 || (argc > 1 && !@_read_count(argv[1], {MOST_STEPS}u, &horizon)) || horizon == 0) {{",
        f'    fprintf(stderr, "usage: %s [STEPS]\\nSTEPS: 1 to {MOST_STEPS}\\n", argv[0]);',
        "    return 2;",
        "}",
        "float *past = NULL;",
        "size_t steps = 0, room = 0;",
        "for (char *line = @_read_line(); line != NULL; line = @_read_line()) {",
        "    const int full = steps == room;",
        "    room = full ? 2 * room + 64 : room;",
        f"    float *const more = full ? realloc(past, room * {inputs} * sizeof *past) : past;",
        *(f"    {one}" for one in out_of_memory("more == NULL")),
        "    past = more;",
        f"    const size_t found = @_read_numbers(line, past + steps * {inputs}, {inputs});",
        "    free(line);",
        *(f"    {one}" for one in leave_if(f"found != {inputs}", wrong, ("past",))),
        f"    for (int j = 0; j < {inputs}; j++)",
        f"        past[steps * {inputs} + (size_t)j]",
        f"            = (past[steps * {inputs} + (size_t)j] - @_past_means[j]) / @_past_deviations[j];",
        "    steps++;",
        "}",
        f"if (@_failed || steps < {least}) {{",
        "    if (!@_failed)",
        f'        fprintf(stderr, "the past needs at least {least} steps, and has %lu\\n", (unsigned long)steps);',
        "    free(past);",
        "    return 1;",
        "}",
        f"const size_t read = {interface.lookback or 'steps'}; /* as many of the last as it was trained on */",
        *take_workspace(source, "read, horizon"),
        *take_floats(source, "y", f"@_room(0, horizon, {targets * quantiles})"),
        "@_init(&s);",
        f"(void)@_run(&s, past + (steps - read) * {inputs}, read, NULL, horizon, @_past_units, y, workspace);",
        f"const size_t count = (size_t)horizon * {targets * quantiles};",
        "for (size_t i = 0; i < count; i++) {",
        f"    const size_t j = i / {quantiles} % {targets};",
        "    y[i] = y[i] * @_past_deviations[j] + @_past_means[j];",
        "}",
        "@_failed = !@_all_finite(y, count);",
        "if (@_failed)",
        '    fprintf(stderr, "the forecast has what is no finite number\\n");',
        "for (size_t i = 0; !@_failed && i < count; i++)",
        f'    printf("%.9g%s", (double)y[i], (i + 1) % {targets * quantiles} == 0 ? "\\n" : "\\t");',
        *("free(past);", "free(y);", "free(workspace);"),
        "return @_failed;",
    ]
    source.function(f"int main(int argc, char **argv)\n{{\n{indent(body)}}}\n")
