"""The loops around an emitted body: over the units of a row, or over the factors of a matrix's width."""

from __future__ import annotations

from unspool.cells.widths import factors
from unspool.engine.loop_body import Body, Indices


def over_units(indices: Indices, body: Body) -> list[str]:
    """The work on the units of a row, several at once, and the sums over them."""
    inner = _nested(indices, body) if body.places else _flat(indices, body)
    return [
        *body.pointers(),
        *(f"vec<real> total_{index}{{}};" for index in body.totals),
        *(f"vec<real> largest_{index} = broadcast(real(-INFINITY));" for index in body.largest),
        *inner,
        *(f"f.sums[{index}][r] = sum<real>(total_{index});" for index in body.totals),
        *(f"f.sums[{index}][r] = largest<real>(largest_{index});" for index in body.largest),
        *(_scan(indices, body, index) for index in body.scans),
    ]


def _flat(indices: Indices, body: Body) -> list[str]:
    size = indices.size(body.width)
    return [
        f"{_walk(body)}<real>(f.first[{size}], f.last[{size}], [&](int64_t j, auto lanes) {{",
        *(f"    {line}" for line in body.lines),
        "});",
    ]


def _nested(indices: Indices, body: Body) -> list[str]:
    """A loop for each factor, the last over units; j counts through all, and at_… through some of the factors."""
    parts = factors(body.width)
    sizes = [f"f.sizes[{indices.size(part)}]" for part in parts]
    depth, last = len(parts) - 1, sizes[-1]
    heads = [f"for (int64_t i_{k} = 0; i_{k} < {sizes[k]}; ++i_{k})" for k in range(depth)]
    return [
        *_clear(indices, body),
        f"{' '.join(heads)} {{",
        f"    const int64_t base = {_index(range(depth + 1), sizes)};",
        *(f"    const int64_t at_{place} = {_place(kept, sizes)};" for kept, place in body.places.items()),
        *(f"    vec<real> part_{index}{{}};" for index in body.parts),
        f"    {_walk(body)}<real>(base, base + {last}, [&](int64_t j, auto lanes) {{",
        *(f"        {line}" for line in body.lines),
        "    });",
        *(
            f"    cut_{index}_p[at_{body.place(body.program.cuts[index].detail)}] += sum<real>(part_{index});"
            for index in body.parts
        ),
        "}",
    ]


def _walk(body: Body) -> str:
    return "loop_in_pairs" if body.slow else "loop"


def _index(kept: range | tuple[int, ...], sizes: list[str]) -> str:
    """Where the units of some factors begin, with the last one's first unit if it is among them."""
    text = ""
    for k in kept:
        number = f"i_{k}" if k < len(sizes) - 1 else "0"
        text = f"({text} * {sizes[k]} + {number})" if text else number
    return text or "0"


def _place(kept: tuple[int, ...], sizes: list[str]) -> str:
    """An index of the factors `kept`, to which j is added if the last is among them: less than where j begins."""
    return f"{_index(kept, sizes)} - base" if len(sizes) - 1 in kept else _index(kept, sizes)


def _clear(indices: Indices, body: Body) -> list[str]:
    """Zeros where sums over factors will be."""
    sizes = {index: indices.size(body.program.cuts[index].width) for index in body.reduced}
    return [f"std::memset(cut_{index}_p, 0, size_t(f.sizes[{size}]) * sizeof(real));" for index, size in sizes.items()]


def _scan(indices: Indices, body: Body, index: int) -> str:
    node = body.program.cuts[index]
    return (
        f"accumulate<real>(cut_{index}_p, f.sizes[{indices.size(node.width)}], {'true' if node.detail else 'false'});"
    )
