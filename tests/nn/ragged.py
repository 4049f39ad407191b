"""What holds for every module that reads ragged sequences: padding changes nothing, and derivatives are right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call


def check_padding(model: nn.Module, x: Tensor, lengths: Sequence[int], junk: float) -> None:
    """Output and gradients are the same to the last bit whatever stands behind a row's end, which gets no gradient."""
    ends = torch.tensor(lengths)
    beyond = (torch.arange(len(x)).unsqueeze(1) >= ends).unsqueeze(-1)
    dirty = x.detach().masked_fill(beyond, junk).requires_grad_()
    results = []
    for value in (x, dirty):
        model.zero_grad()
        output = model(value, lengths=ends)
        (output**2).sum().backward()
        results.append((output.detach(), value.grad, [p.grad for p in model.parameters()]))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    gradient = dirty.grad
    assert gradient is not None
    assert bool((gradient[beyond.expand_as(gradient)] == 0).all())


def check_derivatives(model: nn.Module, x: Tensor, lengths: Sequence[int]) -> None:
    """First and second derivatives, in x and every parameter, are those of finite differences."""
    names = [name for name, _ in model.named_parameters()]

    def call(x: Tensor, *values: Tensor) -> Tensor:
        result: Tensor = functional_call(model, dict(zip(names, values, strict=True)), (x,), {"lengths": lengths})
        return result

    assert torch.autograd.gradcheck(call, (x, *model.parameters()))
    assert torch.autograd.gradgradcheck(call, (x, *model.parameters()))
