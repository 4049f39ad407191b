"""Poolings in C, which take in one step after the other: the mean, the maximum, the last step, and attention."""

from __future__ import annotations

from unspool.exchange.c.source import Source, indent
from unspool.runtime.network import Pooling


def write_pooling(source: Source, name: str, pooling: Pooling, width: int) -> None:
    """Write the struct `@_NAME` and `@_NAME_start(p)`, `@_NAME_add(w, p, h)` and `@_NAME_finish(p, y)`.

    Args:
        source: The file.
        name: The name of the pooling within the file.
        pooling: What is computed.
        width: The width of h.
    """
    softmax = pooling.kind == "attention"
    members = ["float count;", f"float value[{width}];", *(["float highest, total;"] if softmax else [])]
    source.types.append(f"typedef struct {{\n{indent(members)}}} @_{name};\n")
    start = ["p->count = 0.0f;", f"@_clear(p->value, {width});", *(["p->highest = p->total = 0.0f;"] * softmax)]
    add = _ADD[pooling.kind](source, name, pooling, width)
    unused = [] if "w->" in "".join(add) else ["(void)w;"]
    finish = [f"@_copy(y, p->value, {width});"]
    if pooling.kind in ("mean", "attention"):
        divisor = "p->total" if softmax else "p->count"
        finish = [f"for (int j = 0; j < {width}; j++)", f"    y[j] = p->count > 0.0f ? p->value[j] / {divisor} : 0.0f;"]
    for head, body in (
        (f"static void @_{name}_start(@_{name} *p)", start),
        (f"static void @_{name}_add(const @_weights *w, @_{name} *p, const float *h)", [*unused, *add]),
        (f"static void @_{name}_finish(const @_{name} *p, float *y)", finish),
    ):
        source.function(f"{head}\n{{\n{indent(body)}}}\n")


def _last(source: Source, name: str, pooling: Pooling, width: int) -> list[str]:  # noqa: ARG001
    if not pooling.bidirectional:
        return [f"@_copy(p->value, h, {width});", "p->count += 1.0f;"]
    half = width // 2
    return [
        f"@_copy(p->value, h, {half}); /* the direction that ends at the last step */",
        "if (p->count == 0.0f) /* the one that ends at the first */",
        f"    @_copy(p->value + {half}, h + {half}, {half});",
        "p->count += 1.0f;",
    ]


def _mean(source: Source, name: str, pooling: Pooling, width: int) -> list[str]:  # noqa: ARG001
    return [f"@_add(p->value, h, {width});", "p->count += 1.0f;"]


def _max(source: Source, name: str, pooling: Pooling, width: int) -> list[str]:  # noqa: ARG001
    return [
        f"for (int j = 0; j < {width}; j++)",
        "    p->value[j] = p->count == 0.0f || h[j] > p->value[j] ? h[j] : p->value[j];",
        "p->count += 1.0f;",
    ]


def _attention(source: Source, name: str, pooling: Pooling, width: int) -> list[str]:
    """Σ_t e^score_t h_t and Σ_t e^score_t, both divided by e^highest, so that nothing overflows."""
    assert pooling.inner is not None
    assert pooling.outer is not None
    inner, outer = source.linear(f"{name}_inner", pooling.inner), source.linear(f"{name}_outer", pooling.outer)
    return [
        f"float hidden[{inner.outputs}], score[1];",
        *inner.lines("h", "hidden"),
        f"for (int j = 0; j < {inner.outputs}; j++)",
        "    hidden[j] = @_tanh(hidden[j]);",
        *outer.lines("hidden", "score"),
        "const float highest = p->count == 0.0f || score[0] > p->highest ? score[0] : p->highest;",
        "const float keep = @_exp(p->highest - highest), weight = @_exp(score[0] - highest);",
        f"for (int j = 0; j < {width}; j++)",
        "    p->value[j] = p->count == 0.0f ? weight * h[j] : keep * p->value[j] + weight * h[j];",
        "p->total = p->count == 0.0f ? weight : keep * p->total + weight;",
        "p->highest = highest;",
        "p->count += 1.0f;",
    ]


_ADD = {"last": _last, "mean": _mean, "max": _max, "attention": _attention}
