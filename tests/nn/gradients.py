"""gradcheck of a whole module: of everything that comes out, in everything that goes in and every parameter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unspool.nn.leaves import map_leaves


def leaves(tree: Any) -> list[Tensor]:
    """The tensors of a nest of tuples, lists and dicts, in order."""
    found: list[Tensor] = []
    map_leaves(found.append, tree)
    return found


def gradcheck(module: nn.Module, *inputs: Any, **options: Any) -> bool:
    """Whether the derivatives of `module(*inputs, **options)` are those of finite differences."""
    parameters = dict(module.named_parameters())
    parts = leaves([parameters, inputs])

    def call(everything: Tensor) -> Tensor:
        pieces = iter(everything.split([part.numel() for part in parts]))
        theirs, ours = map_leaves(lambda part: next(pieces).view(part.shape), [parameters, inputs])
        return torch.cat([value.flatten() for value in leaves(functional_call(module, theirs, ours, options))])

    everything = torch.cat([part.detach().flatten() for part in parts]).requires_grad_()
    return torch.autograd.gradcheck(call, everything, fast_mode=True)
