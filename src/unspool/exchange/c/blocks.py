"""Sums over the factors of a width, and values brought to another width, as loops in C."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from unspool.cells.widths import factors
from unspool.engine.graph import Node

#: What is written into an array by loops of its own.
BLOCKS = ("expand", "reduce", "view", "cumsum")


def write_block(node: Node, name: str, source: str, size: Callable[[str], int]) -> Iterable[str]:
    """The loops that fill an array.

    Args:
        node: One of `BLOCKS`.
        name: The array.
        source: That of its input.
        size: The number that a width stands for.
    """
    total = size(str(node.width))
    if node.operation == "view":
        yield f"@_copy({name}, {source}, {total});"
    elif node.operation == "cumsum":
        yield f"@_copy({name}, {source}, {total});"
        yield f"for (int j = 1; j < {total}; j++)"
        yield f"    {name}[j] += {name}[j - 1];"
    else:
        yield from _nested(node, name, source, size)


def _nested(node: Node, name: str, source: str, size: Callable[[str], int]) -> Iterable[str]:
    """A loop for each factor of the wider of the two."""
    spread = node.operation == "expand"
    wide = str(node.width if spread else node.inputs[0].width)
    sizes = [size(part) for part in factors(wide)]
    whole, kept = _index(range(len(sizes)), sizes), _index(node.detail, sizes)
    if not spread:
        yield f"@_clear({name}, {size(str(node.width))});"
    for depth, count in enumerate(sizes):
        yield f"{'    ' * depth}for (int i{depth} = 0; i{depth} < {count}; i{depth}++)"
    indent = "    " * len(sizes)
    yield indent + (f"{name}[{whole}] = {source}[{kept}];" if spread else f"{name}[{kept}] += {source}[{whole}];")


def _index(places: Sequence[int], sizes: Sequence[int]) -> str:
    text = ""
    for place in places:
        text = f"({text}) * {sizes[place]} + i{place}" if text else f"i{place}"
    return text
