"""Fixed and slow points of a model: where its state stays, or nearly stays, while the input is held constant.

Layers that are stacked move together, so that their points are those of the joint state of all of them. The eigenvalues
of the joint Jacobian at a point say what happens near it: if all are inside the unit circle, the state returns to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.insight.points.counted_map import WIDE, Map
from unspool.insight.points.found import Points
from unspool.insight.points.held import Held, Tokens, hold, make_starts
from unspool.insight.points.joint_step import JointStep
from unspool.insight.points.plane import Portrait, draw_portrait, find_plane
from unspool.insight.points.search import Starts, search
from unspool.insight.points.system import System, find_systems
from unspool.insight.recording import Recording, record
from unspool.language import words
from unspool.nn.leaves import leaves

Array = NDArray[np.float64]
Inputs = ArrayLike | Tensor | Mapping[str, ArrayLike | Tensor]

STARTS = 1024
#: Evaluations of a search of one recording: so many at most; of wide states, for which each takes longer, fewer.
MOST_EVALUATIONS, WORK = 2_000_000, 1.4e10
#: What a search at one held input takes at least: so many, and so many per state. Fewer inputs are held if needed.
FEWEST_EVALUATIONS, FEWEST_JACOBIANS = 6_000, 30
#: And of states so wide that no Jacobians are formed: most starts take 100 to 300.
FEWEST_OF_WIDE = 12_000
#: The part of them that the first held input gets; the others share the rest.
FIRST = 0.5
#: Steps and sequences of the noise over which a layer without data is run.
NOISE = (48, 8)


@dataclass(frozen=True, eq=False)
class PointSet(Points):
    """The points of one system of layers at one held input.

    Attributes:
        label: of the system, such as `layer 1 to layer 2`.
        held: what its input is held at, such as `mean input`.
        plane: the points in the plane of the system's portrait, (n, 2).
        curves: the paths of the continua there, each (k, 2).
    """

    label: str
    held: str
    plane: Array
    curves: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class FixedPoints:
    """The fixed and slow points of a model.

    Attributes:
        sets: one per system of layers and held input.
        portraits: one per system: the plane that its states vary in most, and recorded paths there.
    """

    sets: tuple[PointSet, ...]
    portraits: tuple[Portrait, ...]

    def of(self, portrait: Portrait) -> list[PointSet]:
        """The sets of one system."""
        return [one for one in self.sets if one.label == portrait.label]


def find_points(
    subject: nn.Module | Recording | Map,
    inputs: Inputs | None = None,
    *,
    dt: float = 1.0,
    starts: int | ArrayLike | Tensor = STARTS,
    seed: int = 0,
    budget: int | None = None,
) -> FixedPoints:
    """Find the fixed and slow points of a recurrent layer, a stack of them, a recorded model, or any map.

    Starts are drawn until the points that were reached only once say that nothing new is expected. All is computed in
    float64, with Jacobians by the equations of the cell.

    Args:
        subject: a recurrent layer of `unspool.nn` or `torch.nn`, of any number of layers; a recording of a model; or a
            differentiable function of states, (n, states) → (n, states).
        inputs: what the lowest layer reads, constantly: a vector; several, (n, input) or by name; or sequences as the
            layer reads them, with three axes, whose mean and zero are held and whose states are starts. By default
            zero, and of a recording its mean input and zero.
        dt: time between steps, for time constants and frequencies.
        starts: random starts at most; or the states to start from, (n, states), and no others.
        seed: of the random starts.
        budget: evaluations of the map at most, for all systems and inputs together; a Jacobian counts as one per state.
            By default up to 2 million; fewer if states are wide, so that it takes seconds.

    Returns:
        The points, one set per system of layers and held input. Stacked layers are one system. Directions of
        bidirectional layers are systems by themselves, held at their mean input above the lowest layer.

    Example:
        >>> layer = unspool.nn.Recurrent("gru", 3, 16)
        >>> found = unspool.insight.find_points(layer, inputs=torch.zeros(3), dt=0.02)
        >>> one = found.sets[0]
        >>> one.points.shape, one.kind, one.time_constants[0, :3], one.recall.fraction  # doctest: +SKIP
        ((1, 16), ('stable',), array([0.047, 0.031, 0.031]), 1.0)
    """
    _check(dt, starts, budget)
    if isinstance(subject, Recording):
        return measure_fixed_points(subject, starts, _named(inputs), dt=dt, seed=seed, budget=budget)
    if isinstance(subject, nn.Module):
        recording, given = _run_layer(subject, inputs, seed)
        return measure_fixed_points(recording, starts, given, dt=dt, seed=seed, budget=budget)
    if not callable(subject):
        raise ArgumentTypeError.of("subject", subject, "has no steps", "Give a layer, a recording or a function")
    if isinstance(starts, int) or inputs is not None:
        raise ArgumentError.of(
            "starts", starts, "does not tell the states of a function", "Give states, (n, states), and no `inputs`"
        )
    return _of_map(subject, torch.as_tensor(starts, dtype=torch.float64), dt, budget)


def _check(dt: float, starts: int | ArrayLike | Tensor, budget: int | None) -> None:
    if not (isinstance(dt, int | float) and math.isfinite(dt) and dt > 0):
        raise ArgumentError.of("dt", dt, "is not a positive number", "Give the time between steps, such as `dt=0.02`")
    if isinstance(starts, int):
        if starts < 1:
            raise ArgumentError.of("starts", starts, "is not a count", "Give an integer of at least 1")
    elif torch.as_tensor(starts).dim() != 2 or not len(torch.as_tensor(starts)):
        shape = tuple(torch.as_tensor(starts).shape)
        raise ArgumentError.of("starts", shape, "is no shape of starts", "Give a count, or states of shape (n, states)")
    if budget is not None and budget < 1:
        raise ArgumentError.of("budget", budget, "allows no evaluation", "Give such as `budget=100_000`")


def measure_fixed_points(
    recording: Recording,
    starts: int | ArrayLike | Tensor = STARTS,
    inputs: Mapping[str, Tensor] | None = None,
    *,
    tokens: Tokens | None = None,
    dt: float = 1.0,
    seed: int = 0,
    budget: int | None = None,
) -> FixedPoints:
    """Points of all layers of a recording, searched from recorded states, near them, and from a wide box.

    Args:
        recording: the model.
        starts: random starts at most, or the states to start from.
        inputs: what is held, by name; by default the mean input, the commonest tokens, and zero, as far as the budget
            allows.
        tokens: that the model read, [time][sequence].
        dt: time between steps.
        seed: of the random starts.
        budget: evaluations at most.

    Returns:
        The points, and the planes to draw them in.
    """
    _check(dt, starts, budget)
    systems = find_systems(recording)
    sets: list[PointSet] = []
    portraits = []
    for system in systems:
        portrait = draw_portrait(system)
        portraits.append(portrait)
        width = sum(system.widths)
        allowed = (budget or _usual_budget(width)) // len(systems)
        fewest = FEWEST_OF_WIDE if width > WIDE else FEWEST_EVALUATIONS + FEWEST_JACOBIANS * width
        states = system.after[system.live]
        if not len(states) or not bool(states.isfinite().all()):
            continue
        held = hold(system, inputs, tokens)
        if inputs is None:
            held = held[: 1 + int((1 - FIRST) * allowed / fewest)]
        if budget is None:
            allowed = max(allowed, fewest)
        for one, part in zip(held, _parts(len(held)), strict=True):
            sets.append(_of_system(system, portrait, one, _starts(system, starts, seed), int(part * allowed), dt))
    return FixedPoints(tuple(sets), tuple(portraits))


def _usual_budget(width: int) -> int:
    return min(MOST_EVALUATIONS, int(WORK / max(1, width) ** 2))


def _parts(count: int) -> list[float]:
    """The part of the budget of each held input."""
    return [1.0] if count == 1 else [FIRST, *[(1 - FIRST) / (count - 1)] * (count - 1)]


def _starts(system: System, starts: int | ArrayLike | Tensor, seed: int) -> Starts:
    if isinstance(starts, int):
        return make_starts(system, starts, seed)
    given = torch.as_tensor(starts, dtype=torch.float64)
    width = sum(system.widths)
    if given.shape[-1] != width:
        raise ArgumentError.of(
            "starts", tuple(given.shape), f"does not fit {system.label}", f"Give states of width {width}, or a count"
        )
    return Starts(given, None, len(given), make_starts(system, 1, seed).spread)


def _of_system(system: System, portrait: Portrait, held: Held, starts: Starts, budget: int, dt: float) -> PointSet:
    x = held.x.double().unsqueeze(0)
    if x.shape[-1] != system.x.shape[-1]:
        raise ArgumentError.of(
            "inputs", tuple(held.x.shape), f"does not fit {system.label}", f"Give vectors of width {system.x.shape[-1]}"
        )

    def advance(states: Tensor) -> Tensor:
        return system.advance(x.expand(len(states), -1), states)

    def linear(states: Tensor) -> JointStep:
        return system.linear(x.expand(len(states), -1), states)

    found = search(advance, starts, budget, dt, linear)
    return _placed(found, portrait, held.name)


def _placed(found: Points, portrait: Portrait, held: str) -> PointSet:
    curves = tuple(portrait.show(one.path) for one in found.continua)
    return PointSet(**vars(found), label=portrait.label, held=held, plane=portrait.show(found.points), curves=curves)


def _of_map(step: Map, starts: Tensor, dt: float, budget: int | None) -> FixedPoints:
    spread = float((starts - starts.mean(0)).square().sum(-1).mean().sqrt())
    center, axes, explained = find_plane(starts)
    portrait = Portrait("map", "", axes, center, explained, np.zeros((0, 0, 2)))
    begin = Starts(starts, None, len(starts), spread if spread > 1e-6 else 1.0)
    found = search(step, begin, budget or _usual_budget(starts.shape[-1]), dt)
    return FixedPoints((_placed(found, portrait, "no input"),), (portrait,))


def _named(inputs: Inputs | None) -> dict[str, Tensor] | None:
    """Held inputs by name."""
    if inputs is None:
        return None
    if isinstance(inputs, Mapping):
        return {name if isinstance(name, str) else str(name): _vector(x) for name, x in inputs.items()}
    rows = torch.as_tensor(inputs, dtype=torch.float64).detach()
    if rows.dim() == 1:
        return {"held input": rows}
    if rows.dim() == 2 and len(rows):
        return {f"input {number}": row for number, row in enumerate(rows, 1)}
    raise ArgumentError.of(
        "inputs", tuple(rows.shape), "are no held inputs", "Give a vector, or several of shape (n, input)"
    )


def _vector(x: ArrayLike | Tensor) -> Tensor:
    row = torch.as_tensor(x, dtype=torch.float64).detach()
    if row.dim() != 1:
        raise ArgumentError.of("inputs", tuple(row.shape), "is no vector", "Give one vector per name")
    return row


def _run_layer(layer: nn.Module, inputs: Inputs | None, seed: int) -> tuple[Recording, dict[str, Tensor] | None]:
    """The layer run over its data, or over noise, and the inputs to hold; None for those of the data."""
    width = getattr(layer, "input_size", None)
    if not isinstance(width, int):
        raise ArgumentError.of(
            "subject",
            type(layer).__name__,
            "does not tell the width of its input",
            "Give a recurrent layer, or a recording of the model: `find_points(record(model, run))`",
        )
    parameter = next(layer.parameters(), torch.zeros(0))
    if not isinstance(inputs, Mapping) and inputs is not None and torch.as_tensor(inputs).dim() == 3:
        sequences, given = torch.as_tensor(inputs).detach().to(parameter), None
    else:
        generator = torch.Generator().manual_seed(seed)
        sequences = torch.randn(*NOISE, width, generator=generator).to(parameter)
        given = _named(inputs) or {words("zero input"): torch.zeros(width, dtype=torch.float64)}
    return record(layer, lambda model: sum_up(model(sequences))), given


def sum_up(output: object) -> Tensor:
    """One number that depends on all states: a recording needs a loss, and its points do not depend on which."""
    floating = [tensor for tensor in leaves(output) if tensor.is_floating_point()]
    return torch.stack([tensor.double().sum() for tensor in floating]).sum()
