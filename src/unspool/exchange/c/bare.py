"""A stack alone in C: vectors in, vectors out."""

from __future__ import annotations

from unspool.exchange.c.source import Source
from unspool.exchange.c.stack import streams, write_stack
from unspool.runtime.network import Stack


def write_bare(source: Source, stack: Stack) -> None:
    """Write `step` (where the stack can be run step by step) and `run`.

    Args:
        source: The file.
        stack: The layers.
    """
    whole = not streams(stack)
    code = write_stack(source, "stack", stack, whole)
    source.constants |= {"INPUTS": stack.input_size, "OUTPUTS": stack.output_size}
    source.fields.append(f"{code.state} stack;")
    source.start.append("@_stack_start(w, &s->stack);")
    if whole:
        source.export_workspace("size_t steps", [code.workspace_terms("steps")])
        source.export(
            "All steps of a sequence: x (steps, inputs) gives y (steps, outputs).",
            "void @_run(@_state *s, const float *x, size_t steps, float *y, float *workspace)",
            [
                "const float *const output = @_stack_run(w, &s->stack, x, steps, workspace);",
                f"for (size_t i = 0; i < steps * {stack.output_size}; i++)",
                "    y[i] = output[i];",
            ],
        )
        return
    source.export(
        "One step: x (inputs) gives y (outputs).",
        "void @_step(@_state *s, const float *x, float *y)",
        ["@_stack_step(w, &s->stack, x, y);"],
    )
    source.export(
        "Further steps of a sequence: x (steps, inputs) gives y (steps, outputs).",
        "void @_run(@_state *s, const float *x, size_t steps, float *y)",
        [
            "for (size_t t = 0; t < steps; t++)",
            f"    @_step(s, x + t * {stack.input_size}, y + t * {stack.output_size});",
        ],
    )
