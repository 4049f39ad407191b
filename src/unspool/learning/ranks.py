"""Processes that train one model together, each a part of every batch, with torch's DDP over gloo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from unspool.errors import OthersFailedError, TrainingError
from unspool.learning.meeting import find_store

#: The environment variable with the URL at which processes find each other, if not by torchrun's MASTER_ADDR.
MEETING = "UNSPOOL_MEETING"
#: One process prepares data and evaluates while the others wait. A process that has ended is noticed at once, without
#: this limit; who starts processes ends those that hang.
PATIENCE = timedelta(weeks=4)
#: Modules that hold the group of processes.
_WRAPPED: WeakSet[DistributedDataParallel] = WeakSet()


class Ranks:
    """This process among those that train together; one of one if torch.distributed is not in use."""

    def __init__(self) -> None:
        here = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if here else 0
        self.count = distributed.get_world_size() if here else 1

    @property
    def together(self) -> bool:
        """Whether there are others."""
        return self.count > 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """A context that the first process passes alone, and the others after it: they find what it has made.

        What is wrong for all is reported once, by the first: if it fails, the others do not get there.
        """
        if not self.first:
            self.barrier()
        yield
        if self.first:
            self.barrier()

    def wrap(self, module: nn.Module, example: Callable[[nn.Module], Tensor]) -> nn.Module:
        """The module, with gradients that are means over all processes; `example` is a loss of it."""
        if not self.together:
            return module
        wrapped = DistributedDataParallel(module)
        _WRAPPED.add(wrapped)
        # DDP arranges gradients again after the first that it sees, and the last bit of a sum of three or more depends
        # on the arrangement. So it happens before training, as it does when a run is resumed.
        state = torch.get_rng_state()
        example(wrapped).backward()
        module.zero_grad(set_to_none=True)
        torch.set_rng_state(state)
        return wrapped

    def no_sync(self, module: nn.Module) -> AbstractContextManager[Any]:
        """A context in which gradients are not summed over processes yet."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def seed(self, seed: int) -> int:
        """A seed of this process's own. Runs with neighboring seeds share none, as they would with seed + rank."""
        drawn = torch.randint(2**31, (self.count,), generator=torch.Generator().manual_seed(seed))
        return int(drawn[self.rank]) if self.together else seed

    def agreed(self, error: TrainingError) -> TrainingError:
        """An error that all processes raise at once: the first reports it."""
        return error if self.first else OthersFailedError(str(error))

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sum of all processes' values, everywhere."""
        if not self.together:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(total)
        return total.tolist()

    def broadcast(self, values: Sequence[float], source: int = 0) -> list[float]:
        """The values of one process, everywhere; all processes give as many."""
        if not self.together:
            return list(values)
        found = torch.tensor(values, dtype=torch.float64)
        distributed.broadcast(found, source)
        return found.tolist()

    def broadcast_bytes(self, content: bytes, source: int = 0) -> bytes:
        """The content that one process gives, everywhere."""
        if not self.together:
            return content
        (size,) = self.broadcast([len(content)], source)
        found = torch.zeros(int(size), dtype=torch.uint8)
        if self.rank == source and content:
            found.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        distributed.broadcast(found, source)
        return found.numpy().tobytes()

    def broadcast_text(self, text: str, source: int = 0) -> str:
        """The text that one process gives, everywhere; names of files that are not UTF-8 come through."""
        return self.broadcast_bytes(text.encode(errors="surrogateescape"), source).decode(errors="surrogateescape")

    def broadcast_from(self, text: str, knows: bool) -> str:
        """The text of the first process that `knows`, everywhere; of process 0 if none does."""
        knowing = self.sum([float(knows and rank == self.rank) for rank in range(self.count)])
        return self.broadcast_text(text, next((rank for rank, known in enumerate(knowing) if known), 0))

    def broadcast_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Copy the first process's tensors into those of the others."""
        for tensor in tensors if self.together else ():
            distributed.broadcast(tensor.detach(), 0)

    def gather(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """The tensors of all processes, of the same shapes, in the first one; elsewhere nothing."""
        if not self.together:
            return [list(tensors)]
        found: list[list[Tensor]] = [[] for _ in range(self.count)]
        for tensor in tensors:
            parts = self._gather_one(tensor)
            for one, part in zip(found, parts, strict=False):
                one.append(part)
        return found if self.first else []

    def _gather_one(self, tensor: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(tensor) for _ in range(self.count)] if self.first else None
        distributed.gather(tensor.detach().contiguous(), parts)
        return parts or []

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.together:
            distributed.barrier()


def can_restart() -> bool:
    """Whether torchrun starts all processes again when one has died."""
    return os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"


@contextmanager
def joined() -> Iterator[Ranks]:
    """A context in which this process is one of those that torchrun, or `nproc`, started; one of one if neither did.

    A group that was joined before stays as it is. If another process ends, this one raises `OthersFailedError`.
    """
    joining = "RANK" in os.environ and "WORLD_SIZE" in os.environ and not distributed.is_initialized()
    if joining:
        rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = find_store(PATIENCE)
        where: Any = {"init_method": os.environ.get(MEETING, "env://")} if store is None else {"store": store}
        distributed.init_process_group("gloo", **where, rank=rank, world_size=count, timeout=PATIENCE)
    try:
        yield Ranks()
    except RuntimeError as error:
        if "gloo" not in str(error):  # it has no exception of its own
            raise
        raise OthersFailedError(
            "a process that trained with this one has ended. Resume from the last checkpoint with `resume=True`."
        ) from error
    finally:
        _release()
        if joining:
            distributed.destroy_process_group()


def _release() -> None:
    """Take the group from what DDP has in C++.

    The end of the group waits for its threads, which may wait for Python's lock. Python gives the lock up when it
    releases the group; what DDP has in C++ does not, so that it must not be the last to hold the group.
    """
    for wrapped in list(_WRAPPED):
        del wrapped.reducer, wrapped.logger, wrapped.process_group
        _WRAPPED.discard(wrapped)
