"""Reads stacks of recurrent layers from a document of unknown origin."""

from __future__ import annotations

import json
from typing import Any

from unspool.cells import document as cell_document
from unspool.cells.equations import Equations
from unspool.errors import CellError
from unspool.runtime.entries import Entry
from unspool.runtime.network import Layer, Recurrence, Stack
from unspool.runtime.sources import Sources

#: What the settings of a run allow, and more.
MOST_LAYERS, LONGEST_DELAY = 10_000, 10_000
#: Different cells of one document, each of which may have to be compiled: a layer has one, a model one or two.
MOST_CELLS = 32


class Layers:
    """Reads stacks; equal cells become one object, so that they share what is derived from it.

    Args:
        sources: The tensors.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._known: dict[str, Equations] = {}

    def stack(self, entry: Entry, reads: int | None = None, streams: bool = False) -> Stack:
        """A stack.

        Args:
            entry: Its place.
            reads: How wide its input must be, where that is known.
            streams: Whether it must run step by step: forward, and without looking ahead.
        """
        parts = entry.open("layers", "skip", "delay")
        skip, delay = parts["skip"].flag(), parts["delay"].whole(0, LONGEST_DELAY)
        layers: list[Layer] = []
        widths = [] if reads is None else [reads]
        for place in parts["layers"].each(1, MOST_LAYERS):
            wanted = sum(widths[-2:] if skip else widths[-1:]) if widths else None
            layer = self._layer(place, wanted)
            widths = [*(widths or [layer.input_size]), layer.output_size]
            layers.append(layer)
        found = Stack(tuple(layers), skip, delay)
        if streams and (delay or any(one.reverse for layer in layers for one in layer.directions)):
            entry.refuse("reads ahead, and must run step by step")
        return found

    def _layer(self, entry: Entry, reads: int | None) -> Layer:
        parts = entry.open("directions", "residual")
        directions = tuple(self._recurrence(one) for one in parts["directions"].each(1, 2))
        residual = parts["residual"].flag()
        layer = Layer(directions, residual)
        if len({one.input_size for one in directions} | ({reads} if reads is not None else set())) > 1:
            sizes = " and ".join(str(one.input_size) for one in directions)
            entry.refuse(f"reads a width of {sizes}, and what is below it gives {reads or directions[0].input_size}")
        if len(directions) == 2 and [one.reverse for one in directions] != [False, True]:
            entry.refuse("has two directions that are not one ahead and one back")
        if residual and layer.input_size != layer.output_size:
            entry.refuse(f"adds what it reads, {layer.input_size} wide, to an output {layer.output_size} wide")
        return layer

    def _recurrence(self, entry: Entry) -> Recurrence:
        parts = entry.open("cell", "input_size", "hidden_size", "reverse", "parameters", "initial")
        equations = self._equations(parts["cell"])
        widest = self._sources.widest
        input_size, hidden_size = (parts[name].whole(1, widest) for name in ("input_size", "hidden_size"))
        self._check_sizes(parts, equations, input_size, hidden_size)
        given = dict(parts["parameters"].items())
        shapes = equations.shapes(input_size, hidden_size)
        if set(given) != set(shapes):
            parts["parameters"].refuse(f"are not those of {equations.title}: {', '.join(shapes)}")
        parameters = {name: self._sources.shaped(given[name], shape) for name, shape in shapes.items()}
        made = Recurrence(equations, input_size, hidden_size, parts["reverse"].flag(), parameters, None)
        return self._with_initial(made, parts["initial"])

    def _with_initial(self, made: Recurrence, entry: Entry) -> Recurrence:
        if entry.value is None:
            return made
        sizes = made.state_sizes
        places = entry.each(len(sizes), len(sizes))
        initial = tuple(self._sources.shaped(place, (size,)) for place, size in zip(places, sizes, strict=True))
        return Recurrence(**{**vars(made), "initial": initial})

    def _equations(self, entry: Entry) -> Equations:
        try:
            text = json.dumps(entry.value)
            if text not in self._known:
                if len(self._known) == MOST_CELLS:
                    entry.refuse(f"is one cell more than the {MOST_CELLS} that a network may have")
                self._known[text] = cell_document.load(text)
            return self._known[text]
        except (CellError, ValueError, RecursionError) as error:
            said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).removesuffix(".")
            entry.refuse(f"is not equations: {said}")

    def _check_sizes(self, parts: dict[str, Entry], equations: Equations, input_size: int, hidden_size: int) -> None:
        """A layer reads x as wide as its equations say, and no width is one that only a bomb would have."""
        reads: Any = equations.nodes[0].width
        if equations.size(reads, input_size, hidden_size) != input_size:
            parts["input_size"].refuse(f"is {input_size}, and {equations.title} reads x unit by unit")
        for name, size in equations.sizes.items():
            if size > self._sources.widest:
                parts["cell"].refuse(f"has {name!r} of {size} units, and no tensor is as wide")
