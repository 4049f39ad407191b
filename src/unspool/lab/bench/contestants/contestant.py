"""Contestant: what a library has to show for one case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unspool.errors import UnspoolError
from unspool.lab.bench.cases import Array, Case
from unspool.lab.bench.timing import Call


class MissingError(UnspoolError):
    """A contestant is not installed."""


@dataclass(frozen=True)
class Contestant:
    """A case, ready to run: `infer()` returns the output, `train()` the weights' gradients of the output's sum."""

    infer: Call
    train: Call | None = None
    #: From what `infer` and `train` return to arrays in torch.nn's layout.
    output: Callable[[Any], Array] = np.asarray
    gradients: Callable[[Any], list[Array]] = lambda found: [np.asarray(part) for part in found]


#: A case and the number of threads → the contestant.
Maker = Callable[[Case, int], Contestant]
