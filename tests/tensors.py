"""Batches as torch models take them."""

from __future__ import annotations

from typing import Any

import torch

from unspool.learning.device import to_device
from unspool.learning.device_batches import BatchesOnDevice
from unspool.tasks.contract import Batches, Task

CPU = torch.device("cpu")


def as_tensors(batch: Any) -> Any:
    """A batch of arrays as one of tensors."""
    return to_device(batch, CPU)


def tensor_batches(task: Task, *given: Any) -> Batches:
    """The batches of a task as tensors."""
    return BatchesOnDevice(task.batches(*given), CPU)
