"""Processes that train one model together, each some rows of every batch, by torch's DDP over gloo."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


class Ranks:
    """This process among those that train together; alone if torch.distributed is not in use."""

    def __init__(self) -> None:
        self.together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if self.together else 0
        self.count = distributed.get_world_size() if self.together else 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and talks."""
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module, with gradients that are means over all processes."""
        return DistributedDataParallel(module) if self.together else module

    def without_meeting(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Gradients that stay with each process for now."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def tell(self, values: Sequence[float]) -> list[float]:
        """The first process's values, everywhere."""
        if not self.together:
            return list(values)
        told = torch.tensor(values, dtype=torch.float64)
        distributed.broadcast(told, 0)
        return told.tolist()

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sum of all processes' values, everywhere."""
        if not self.together:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(total)
        return total.tolist()

    def gather(self, value: Any) -> list[Any]:
        """All processes' values, in the first one; elsewhere nothing."""
        if not self.together:
            return [value]
        found: list[Any] | None = [None] * self.count if self.first else None
        distributed.gather_object(value, found)
        return found or []

    def meet(self) -> None:
        """Wait for all."""
        if self.together:
            distributed.barrier()
