"""Stacks drawn at random: any cells, sizes, directions, connections and delays."""

from __future__ import annotations

from random import Random

import numpy as np
from tests.engine.random_cells import random_cell
from tests.exchange.c.compiled import Model, as_floats, floats
from tests.exchange.c.test_networks import difference
from tests.variants import VARIANTS, possible_state

from unspool.cells import Cell
from unspool.exchange.c.stack import streams
from unspool.runtime.network import Array, Layer, Recurrence, Stack
from unspool.runtime.stack import StackPlayer


def make_recurrence(
    cell: Cell, input_size: int, hidden_size: int, seed: int, reverse: bool = False, learned: bool = False
) -> Recurrence:
    """A cell with random weights that float32 can hold, kept in float64."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        return np.asarray(random.standard_normal(shape).astype(np.float32) * np.float32(0.3), np.float64)

    hidden_size = input_size if cell.input_width == "hidden" else hidden_size
    equations = cell.equations(bias=bool(seed % 3))
    hidden_size = -(-hidden_size // equations.hidden_unit) * equations.hidden_unit
    parameters = {name: draw(*shape) for name, shape in equations.shapes(input_size, hidden_size).items()}
    plain = Recurrence(equations, input_size, hidden_size, reverse, parameters, None)
    drawn = zip(equations.states, (draw(size) for size in plain.state_sizes), strict=True)
    initial = tuple(possible_state(cell, name, value) for name, value in drawn)
    return Recurrence(equations, input_size, hidden_size, reverse, parameters, initial if learned else None)


def random_stack(seed: int) -> Stack:
    """One to three layers."""
    random = Random(seed)
    skip, whole = random.random() < 0.3, random.random() < 0.5
    widths, layers = [random.randint(1, 9)], []
    for level in range(random.randint(1, 3)):
        cell = random.choice(list(VARIANTS.values()))
        read = sum(widths[-2:]) if skip else widths[-1]
        size, learned = random.choice((read, random.randint(1, 9))), random.random() < 0.3
        ways = random.choice(((False,), (True,), (False, True))) if whole else (False,)
        numbers = (100 * seed + 10 * level + place for place in range(2))
        found = [make_recurrence(cell, read, size, next(numbers), way, learned) for way in ways]
        layer = Layer(tuple(found), False)
        layers.append(Layer(tuple(found), random.random() < 0.5 and layer.output_size == read))
        widths.append(layer.output_size)
    return Stack(tuple(layers), skip, random.choice((0, 0, 1, 3)) if whole else 0)


def cell_stack(seed: int) -> Stack:
    """One layer of a random cell."""
    width = 3 + seed % 5
    return Stack((Layer((make_recurrence(random_cell(seed, further=False), width, 6, seed),), False),), False, 0)


def published_stack(name: str) -> Stack:
    """One layer of a cell of the catalogue."""
    return Stack((Layer((make_recurrence(VARIANTS[name], 5, 6, 1),), False),), False, 0)


def compare(model: Model, stack: Stack, seed: int, steps: int = 6) -> float:
    """The difference between a compiled stack and its player, on random numbers."""
    x = np.random.default_rng(seed).standard_normal((steps, stack.input_size)).astype(np.float32)
    expected, _ = StackPlayer(stack).run(x[:, None].astype(np.float64))
    model.start()
    y = floats(steps, stack.output_size)
    room = () if streams(stack) else (model.workspace(steps),)
    model("run", as_floats(x), steps, y, *room)
    return difference(y, expected[:, 0])
