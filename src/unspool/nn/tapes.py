"""Memory for tapes, reused between training steps: touching fresh pages costs as much time as filling them."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Bytes. Smaller tapes come from the allocator, which reuses such pieces itself; more than the other is not kept.
LEAST, MOST = 1 << 20, 256 << 20

_free: deque[NDArray[np.uint8]] = deque()


class _Loan(np.ndarray[Any, np.dtype[np.uint8]]):
    """A piece of memory that is returned when the last tensor on it is gone."""

    home: NDArray[np.uint8] | None = None

    def __del__(self) -> None:
        if self.home is not None:
            _free.append(self.home)
            while sum(piece.nbytes for piece in tuple(_free)) > MOST:
                _free.popleft()


def take(like: Tensor, numbers: int) -> Tensor:
    """An uninitialised vector of this many numbers, of the dtype of `like`."""
    need = numbers * like.element_size()
    if need < LEAST or torch.are_deterministic_algorithms_enabled():  # then torch fills new memory
        return like.new_empty(numbers)
    piece = _find(need)
    loan = piece[:need].view(_Loan)
    loan.home = piece
    return torch.from_numpy(loan).view(like.dtype)


def _find(need: int) -> NDArray[np.uint8]:
    """A free piece that is large enough and not much larger, else a new one."""
    for _ in range(len(_free)):
        try:
            piece = _free.pop()
        except IndexError:  # another thread was faster
            break
        if need <= piece.nbytes <= 2 * need:
            return piece
        _free.appendleft(piece)
    return np.empty(need, np.uint8)
