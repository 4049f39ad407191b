"""Fates: what becomes of states if the map simply goes on: they settle, cycle, keep moving, or run away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unspool.insight.points.counted_map import CountedMap

STEPS = 400
#: The last steps, in which a cycle is looked for; periods up to half of them are seen.
WINDOW = 128
#: A state has settled if a step moves it at most this far, for states of size 1.
SETTLED = 1e-6
#: A state whose size is this many times the largest start's has run away.
AWAY = 1e3
#: A path has left where it was if it is this far away, and is back if it is this near: mean squares of its variance.
LEFT, BACK = 0.5, 0.1


@dataclass(frozen=True, eq=False)
class Fates:
    """What became of the starts.

    Attributes:
        steps: that the map went on.
        settled: starts that reached a state which no longer changes.
        cycling: starts that came to repeat themselves.
        moving: starts that do none of the others: they still drift, or move without a period.
        escaped: starts that ran away.
        period: of the cycles, in steps, the median; NaN without any. A cycle that does not close in whole steps has
            the period after which it comes nearest.
    """

    steps: int
    settled: int
    cycling: int
    moving: int
    escaped: int
    period: float


def follow(step: CountedMap, starts: Tensor, steps: int = STEPS) -> tuple[Tensor, Fates]:
    """Let the map go on from each start.

    Args:
        step: the map.
        starts: (n, states).
        steps: how far, at most; fewer if the budget does not allow them.

    Returns:
        The last states of those that settled, and what became of all.
    """
    limit = AWAY * (1 + float(starts.norm(dim=-1).max())) if len(starts) else 0.0
    states, here = starts.clone(), torch.arange(len(starts))
    tail, made = [starts], 0
    for _ in range(steps):
        if not len(here) or not step.affords(len(here)):
            break
        states = states.index_copy(0, here, step(states[here]))
        made += 1
        tail = [*tail[1 - WINDOW :], states]
        inside = states[here].norm(dim=-1) <= limit  # false for NaN
        here = here[inside]
    kept = torch.stack(tail)[:, here]
    distance = (kept[-1] - kept[-2]).norm(dim=-1) if made else torch.full((len(here),), torch.inf)
    still = distance <= SETTLED * (1 + kept[-1].norm(dim=-1))
    periods = [_period(path) for path in kept[:, ~still].transpose(0, 1)]
    cycles = [period for period in periods if period is not None]
    return kept[-1][still], Fates(
        made,
        int(still.sum()),
        len(cycles),
        len(periods) - len(cycles),
        len(starts) - len(here),
        float(np.median(cycles)) if cycles else float("nan"),
    )


def _period(path: Tensor) -> int | None:
    """After how many steps a path, (steps, states), comes back to where it was; None if it does not."""
    path = path - path.mean(0)
    variance = path.square().sum(-1).mean()
    products = path @ path.T  # ‖a − b‖² = ‖a‖² + ‖b‖² − 2 a·b: one product for all lags
    square = products.diagonal()
    distances = square.unsqueeze(0) + square.unsqueeze(1) - 2 * products
    lags = range(1, max(2, len(path) // 2))
    apart = torch.stack([distances.diagonal(lag).mean() for lag in lags])
    away = (apart > LEFT * variance).nonzero().squeeze(1)  # a slow drift is near to itself as it never leaves
    back = (apart <= BACK * variance).nonzero().squeeze(1)
    back = back[back > away[0]] if len(away) else back[:0]
    if not len(back):
        return None
    first = int(back[0])
    again = away[away > first]
    return first + int(apart[first : int(again[0]) if len(again) else None].argmin()) + 1
