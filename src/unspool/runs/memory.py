"""Memory: what a model needs, compared with what the machine has; where there is too little, one error says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unspool.errors import TrainingError
from unspool.models.catalogue import make_learner
from unspool.nn.checks import machine_memory
from unspool.runs.config import Config
from unspool.tasks.contract import Task

#: Tensors of a parameter's size that every optimizer needs: the weight and its gradient.
COPIES = 2
#: Models of at most this `hidden` and `embedding` are not looked at beforehand: that takes a second.
SMALL = 4096
#: How torch says that memory could not be allocated on a CPU; on a GPU it has an exception of its own.
SAID = ("allocate memory", "not enough memory", "out of memory")
REMEDY = "Give a smaller `hidden`, fewer `layers`, or a smaller `batch_size`"


def check_memory(task: Task, config: Config) -> None:
    """Refuse a model that the machine has no memory for, before anything is allocated.

    Args:
        task: The task, with its data.
        config: The settings.

    Raises:
        TrainingError: Weights and gradients alone are more than the machine's memory.

    Example:
        check_memory(task, config)  # "the model needs 7,451 GB …, and this machine has 16 GB. …"
    """
    available = machine_memory()
    if _widest(config) > SMALL and (needed := count_bytes(task, config)) > available:
        raise TrainingError(f"{_describe(needed, config)}, and this machine has {_gigabytes(available)}. {REMEDY}.")


@contextmanager
def explaining_memory(task: Task, config: Config) -> Iterator[None]:
    """A context in which memory that cannot be allocated is one error, which says how much the model needs.

    Raises:
        TrainingError: In place of a `MemoryError`, or what torch raises.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_about_memory(error):
            raise
        needed = _describe(count_bytes(task, config), config)
        raise TrainingError(f"memory ran out: {needed}, and batches need more. {REMEDY}.") from error


def is_about_memory(error: Exception) -> bool:
    """Whether an error says that memory could not be allocated."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(said in str(error) for said in SAID)


def count_bytes(task: Task, config: Config) -> int:
    """The bytes of the model's weights and their gradients; no memory is taken."""
    with torch.device("meta"):
        parameters = make_learner(task, config.model).parameters()
    return COPIES * sum(one.numel() * one.element_size() for one in parameters)


def _widest(config: Config) -> int:
    hidden, embedding = config.model.hidden, getattr(config.model, "embedding", None)
    return int(max(*(hidden if isinstance(hidden, list | tuple) else (hidden,)), embedding or 0))


def _describe(needed: int, config: Config) -> str:
    return f"the weights of a model of `hidden` (={config.model.hidden}) and their gradients need {_gigabytes(needed)}"


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:,.1f} GB"
