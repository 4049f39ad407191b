"""Batches on the device that trains."""

from __future__ import annotations

from typing import Any

import torch

from unspool.learning.device import to_device
from unspool.tasks.contract import Batches


class BatchesOnDevice(Batches):
    """Batches that become tensors on a device when they are asked for."""

    def __init__(self, batches: Batches, device: torch.device) -> None:
        self._batches, self._device = batches, device

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: int) -> Any:
        return to_device(self._batches[number], self._device)
