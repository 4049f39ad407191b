"""Points: what a search found at one held input, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unspool.insight.points.continua import Continuum
from unspool.insight.points.fates import Fates
from unspool.insight.points.recall import Recall

Array = NDArray[np.float64]
Kind = Literal["stable", "saddle", "unstable", "slow", "continuum", "unknown"]


@dataclass(frozen=True, eq=False)
class Points:
    """The fixed and slow points of one map, the slowest first.

    Attributes:
        points: (n, states). Of a continuum only the slowest point that was found.
        residual: ½‖F(s) − s‖² there, (n,).
        eigenvalues: of the Jacobian there, (n, states), the largest first.
        stable: whether all eigenvalues are within the unit circle, (n,).
        slow: not fixed, but nearly, (n,).
        kind: of each point: `stable`; `saddle` if some directions grow and others shrink; `unstable` if all grow;
            `slow` if it is not fixed; `continuum` if it stands for one; `unknown` if the Jacobian there is not finite,
            and the eigenvalues are NaN.
        time_constants: −dt / ln|λ|, (n, states): the time in which a mode decays to 1/e; negative if it grows, inf if
            |λ| = 1, and 0 if λ = 0.
        frequencies: |arg λ| / 2π dt, (n, states): turns per unit of time.
        modes: right eigenvectors of the leading modes, (n, at most 8, states), of length 1.
        reached: independent starts that arrived at each, (n,); 0 if only a guided start did.
        recall: an estimate of the fraction of all points that was found.
        continua: line attractors and slow manifolds.
        far: starts that arrived far outside of the states that were seen, at points that are left out.
        fates: what becomes of the starts if the map goes on.
        starts: independent starts that were made.
        evaluations: steps of the map that the search took, a Jacobian counted as one per state.
        stopped: why the search ended: `recall`, as nothing new is expected; `starts`, as all were made, or 256 and none
            arrived at a point; `budget`, as all evaluations were made.
        dt: time between steps.
    """

    points: Array
    residual: Array
    eigenvalues: NDArray[np.complex128]
    stable: NDArray[np.bool_]
    slow: NDArray[np.bool_]
    kind: tuple[Kind, ...]
    time_constants: Array
    frequencies: Array
    modes: NDArray[np.complex128]
    reached: NDArray[np.int64]
    recall: Recall
    continua: tuple[Continuum, ...]
    far: int
    fates: Fates
    starts: int
    evaluations: int
    stopped: Literal["recall", "starts", "budget"]
    dt: float
