"""Held inputs: the constant inputs at which points are searched, and the states from which a search starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unspool.insight.points.search import Starts
from unspool.insight.points.system import System
from unspool.language import Message, words

#: Tokens at which points are searched, the commonest.
TOKENS = 3
#: Recorded states that a search starts from, beside random ones.
RECORDED = 24
#: How far random starts reach beyond the recorded states, and at least.
REACH, LEAST = 1.5, 1.0

Tokens = Sequence[Sequence[str]]


class Held(NamedTuple):
    """One constant input."""

    name: str
    x: Tensor  # (input,)


def hold(system: System, given: Mapping[str, Tensor] | None, tokens: Tokens | None) -> list[Held]:
    """The inputs to hold: what is given; else the mean, zero and the commonest tokens.

    A system that reads another layer is held at the mean of what it reads: zero and tokens are not what it sees.
    """
    if given is not None and system.entrance:
        return [Held(name, x) for name, x in given.items()]
    mean = Held(words("mean input"), system.x[system.live].mean(0))
    if not system.entrance:
        return [mean]
    zero = Held(words("zero input"), torch.zeros_like(mean.x))
    alike = bool(torch.allclose(mean.x, zero.x, atol=1e-12))
    return [zero] if alike else [mean, *_commonest(system, tokens), zero]


def _commonest(system: System, tokens: Tokens | None) -> list[Held]:
    """What the system reads at the commonest tokens, on average."""
    if tokens is None or len(tokens) != len(system.live):
        return []
    places: dict[str, list[tuple[int, int]]] = {}
    for t, row in system.live.nonzero().tolist():
        places.setdefault(tokens[t][row], []).append((t, row))
    places.pop("", None)
    chosen = Counter({token: len(where) for token, where in places.items()}).most_common(TOKENS)
    found = []
    for token, _ in chosen:
        steps, rows = map(list, zip(*places[token], strict=True))
        found.append(Held(Message("token {token}", token=repr(token)), system.x[steps, rows].mean(0)))
    return found


def make_starts(system: System, most: int, seed: int) -> Starts:
    """The origin and recorded states; then random ones: recorded states with and without noise, and a wide box."""
    states = system.after[system.live]
    generator = torch.Generator().manual_seed(seed)
    spread = _spread(states)
    places = torch.linspace(0, len(states) - 1, min(RECORDED, max(1, most - 1), len(states))).round().long()
    first = torch.cat([torch.zeros_like(states[:1]), states[places]])
    box = (REACH * states.abs().amax(0)).clamp(min=LEAST)

    def draw(count: int) -> Tensor:
        near = states[torch.randint(len(states), (count,), generator=generator)]
        noise = torch.randn(near.shape, dtype=near.dtype, generator=generator)
        wide = (2 * torch.rand(near.shape, dtype=near.dtype, generator=generator) - 1) * box
        noisy = near + noise * states.std(0, correction=0).clamp(min=1e-3 * spread)
        kind = torch.randint(4, (count, 1), generator=generator)
        return torch.where(kind == 0, near, torch.where(kind == 1, noisy, wide))

    return Starts(first[:most], draw, most, spread, box)


def _spread(states: Tensor) -> float:
    """The size of recorded states; 1 of states that are all alike."""
    spread = float((states - states.mean(0)).square().sum(-1).mean().sqrt())
    return spread if spread > 1e-6 else 1.0
