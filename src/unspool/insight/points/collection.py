"""Collection: the different points that a search has come to so far, and how often to each."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unspool.insight.points.continua import MARGINAL, Continuum, Limits, find_continua, on_continuum
from unspool.insight.points.counted_map import CountedMap
from unspool.insight.points.recall import Recall, estimate_recall
from unspool.insight.points.solver import Ends, residual_of

#: Points nearer to each other than this, beside the size of the states, are one. Slow points are minima that are flat.
SAME, SAME_SLOW = 1e-5, 1e-2
#: So many starts that arrive at the same place out of reach make it a single point, however slow the map is there.
MEET = 3
#: So many points make it worth asking whether they are a continuum, before the search ends.
MANY = 12


class Collection:
    """Different points, each once."""

    def __init__(self, step: CountedMap, limits: Limits) -> None:
        self._step, self._limits = step, limits
        self.points = torch.zeros(0, len(limits.reach), dtype=torch.float64)
        self.residual = torch.zeros(0, dtype=torch.float64)
        self.reached = np.zeros(0, np.int64)
        self.continua: list[Continuum] = []
        self._outside = Ends(self.points, self.residual, True)  # out of reach, where the map is flat
        self._outside_independent = torch.zeros(0, dtype=torch.bool)
        self.on = np.zeros(0, np.int64)  # per continuum: starts that arrived there

    @property
    def count(self) -> int:
        """Points and continua that were found."""
        return len(self.points) + len(self.continua)

    def slow(self) -> Tensor:
        """Which points are slow, and not fixed."""
        size = self._limits.spread + self.points.norm(dim=-1)
        found: Tensor = self.residual > self._limits.fixed * size.square()
        return found

    @property
    def far(self) -> int:
        """How many ends out of reach were left out."""
        return len(self._outside.residual)

    def add(self, ends: Ends, independent: bool, anywhere: bool = False) -> None:
        """Take in where starts arrived, within reach or `anywhere`; only independent starts are counted."""
        good = ends.residual <= self._limits.slow  # false for NaN
        out = good & ~self._limits.inside(ends.states) & (not anywhere)
        self._take_in(ends.states[good & ~out], ends.residual[good & ~out], independent)
        if bool(out.any()):
            self._add_outside(ends.states[out], ends.residual[out], independent)

    def _add_outside(self, states: Tensor, residual: Tensor, independent: bool) -> None:
        """Take in ends out of reach that are isolated: saturated gates make whole regions there fixed.

        A point is isolated where the map is steep, and where several starts meet: in a flat region, each stays apart.
        """
        states = torch.cat([self._outside.states, states])
        residual = torch.cat([self._outside.residual, residual])
        flags = torch.cat([self._outside_independent, torch.full((len(states) - self.far,), independent)])
        single = self._meets(states)
        new = (~single).nonzero().squeeze(1)
        new = new[new >= self.far]  # the others were found to be flat
        single[new] = self._steep(states[new])
        for flag in (True, False):
            self._take_in(states[single & (flags == flag)], residual[single & (flags == flag)], flag)
        self._outside = Ends(states[~single], residual[~single], True)
        self._outside_independent = flags[~single]

    def _meets(self, states: Tensor) -> Tensor:
        """Which states are where several others are, or a known point."""
        size = self._limits.spread + states.norm(dim=-1, keepdim=True)
        met = (torch.cdist(states, states) <= SAME * size).sum(-1) >= MEET
        known = (torch.cdist(states, self.points) <= SAME * size).any(-1)
        found: Tensor = met | known
        return found

    def _steep(self, states: Tensor) -> Tensor:
        """Where F(s) − s changes in all directions."""
        change = self._step.jacobians(states) - torch.eye(states.shape[-1], dtype=states.dtype)
        inverse, _ = torch.linalg.inv_ex(change)
        size = torch.linalg.matrix_norm(change).clamp(max=1.0)
        found: Tensor = torch.linalg.matrix_norm(inverse) * size < 1 / MARGINAL
        return found  # false where there is no inverse

    def _take_in(self, states: Tensor, residual: Tensor, independent: bool) -> None:
        """Add what is on no known continuum, the most exact first."""
        order = torch.argsort(residual, stable=True)
        order = order[~self._absorb(states[order], independent)]
        for state, own in zip(states[order], residual[order], strict=True):
            self._add_one(state, own, independent)

    def _absorb(self, states: Tensor, independent: bool) -> Tensor:
        """Which states are on a known continuum."""
        taken = torch.zeros(len(states), dtype=torch.bool)
        for number, one in enumerate(self.continua):
            on = on_continuum(self._step, one, states, self._limits) & ~taken
            self.on[number] += int(on.sum()) * independent
            taken |= on
        return taken

    def _add_one(self, state: Tensor, residual: Tensor, independent: bool) -> None:
        size = self._limits.spread + float(state.norm())
        fixed = float(residual) <= self._limits.fixed * size**2
        apart = (self.points - state).norm(dim=-1)
        near = apart <= torch.where(self.slow() | (not fixed), SAME_SLOW, SAME) * size
        close = (~near & (apart <= SAME_SLOW * size)).nonzero().squeeze(1)
        if len(close):  # where the map is flat, states around a point are fixed to the precision of the search, too
            between = residual_of(self._step, (self.points[close] + state) / 2)[1]
            near[close] = between <= self._limits.fixed * size**2
        if bool(near.any()):
            self.reached[int(near.to(torch.int8).argmax())] += independent
            return
        self.points = torch.cat([self.points, state.unsqueeze(0)])
        self.residual = torch.cat([self.residual, residual.unsqueeze(0)])
        self.reached = np.append(self.reached, int(independent))

    def find_continua(self, few: bool = False) -> None:
        """Replace points that lie on continua by these; without `few` only if there are many points."""
        if not few and len(self.points) < MANY:
            return
        order = torch.argsort(self.residual, stable=True)
        for one in find_continua(self._step, self.points[order], self._limits):
            on = on_continuum(self._step, one, self.points, self._limits)
            self.continua.append(one)
            self.on = np.append(self.on, int(self.reached[on.numpy()].sum()))
            self._keep(~on)

    def _keep(self, which: Tensor) -> None:
        self.points, self.residual = self.points[which], self.residual[which]
        self.reached = self.reached[which.numpy()]

    def recall(self) -> Recall:
        """The estimate of what is missing; a continuum counts as one point."""
        return estimate_recall(np.concatenate([self.reached, self.on]))
