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
        self.far = 0  # ends out of reach
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

    def add(self, ends: Ends, independent: bool, anywhere: bool = False) -> None:
        """Take in where starts arrived, within reach or `anywhere`; only independent starts are counted."""
        good = ends.residual <= self._limits.slow  # false for NaN
        near = ~self._far(ends.states, good) | anywhere
        self.far += int((good & ~near).sum())
        kept = (good & near).nonzero().squeeze(1)
        kept = kept[torch.argsort(ends.residual[kept], stable=True)]
        kept = kept[~self._absorb(ends.states[kept], independent)]
        for state, residual in zip(ends.states[kept], ends.residual[kept], strict=True):
            self._add_one(state, residual, independent)

    def _far(self, states: Tensor, good: Tensor) -> Tensor:
        """Which of the good states are out of reach in a region that is flat: where the map moves no state."""
        far = good & ~self._limits.inside(states)
        places = far.nonzero().squeeze(1)
        change = self._step.jacobians(states[places]) - torch.eye(states.shape[-1], dtype=states.dtype)
        inverse, _ = torch.linalg.inv_ex(change)
        steep = torch.linalg.matrix_norm(inverse) * torch.linalg.matrix_norm(change).clamp(max=1.0) < 1 / MARGINAL
        far[places] = ~steep  # also where there is no inverse
        return far

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
