"""Known: tensors in every respect like those that were checked before are recognised by one call of torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.nn.layout import Tensors

# torch's compiler uses this to recognise tensors: their types, sizes, strides and the modes that are active. It is not
# public. A torch without it only makes small calls slower.
TensorGuards: Any = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)

#: The sizes of a tensor; None is a dimension that may have any.
Sizes = Sequence[int | None]


class Known:
    """The kinds of tensors that were checked and found to fit; the latest eight of them.

    A tensor is of the same kind if its type, dtype, device, layout, sizes and `requires_grad` are the same, and for
    those that are fixed their strides. What can change without that is the memory behind a tensor: whoever asks has to
    ask for it too, see `unspool.nn.boundary.are_held`.
    """

    def __init__(self) -> None:
        self._guards: list[Any] = []

    def __contains__(self, tensors: Tensors) -> bool:
        """Whether the tensors are of a kind that was added, under the same modes of torch."""
        try:
            for guards in self._guards:
                if guards.check(*tensors):
                    return True
        except TypeError:  # they are more than those, or fewer, or no tensors
            pass
        return False

    def add(self, free: Sequence[tuple[Tensor, Sizes]], fixed: Tensors) -> None:
        """Recognise tensors of this kind from now on.

        Args:
            free: tensors with the sizes that they must have; their strides may be any.
            fixed: tensors that come after those. They are recognised only if all of them are contiguous.
        """
        if TensorGuards is None or not all(tensor.is_contiguous() for tensor in fixed):
            return
        sizes = [*(list(sizes) for _, sizes in free), *(list(tensor.shape) for tensor in fixed)]
        strides = [*([None] * len(sizes) for _, sizes in free), *(list(tensor.stride()) for tensor in fixed)]
        tensors = *(tensor for tensor, _ in free), *fixed
        guards = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        self._guards = [guards, *self._guards[:7]]
