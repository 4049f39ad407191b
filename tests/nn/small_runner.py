"""A small layer that runs by kernels, sequences for it, and the eager loop that it is held to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.nn.gradients import leaves
from torch import Tensor
from torch.autograd import grad

from unspool.nn import Recurrent, runner
from unspool.nn.unroll import unroll

#: Marks of tests that run by kernels.
KERNELS = [
    needs_compiler,
    pytest.mark.usefixtures("kernels_on"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
RAGGED = (2, 5, 0, 4)


def make(dtype: torch.dtype = torch.float64, seed: int = 0, **options: Any) -> Any:
    """A Recurrent; as Any, since its weights are known by name only."""
    torch.manual_seed(seed)
    layer = Recurrent("gru", 3, 4, dtype=dtype, **options)
    assert layer.engine.startswith("kernel")
    return layer


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 1, wanted: bool = True) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_(wanted)


def sequences(dtype: torch.dtype = torch.float64, wanted: bool = True) -> tuple[Tensor, Tensor]:
    """x of five steps and four rows, and a state."""
    return draw(5, 4, 3, dtype=dtype, wanted=wanted), draw(4, 4, dtype=dtype, seed=2, wanted=wanted)


def by_loop(layer: Recurrent, x: Tensor, h: Tensor, lengths: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Output and final state by the eager loop: the oracle."""
    ends = None if lengths is None else torch.tensor(lengths)
    output, (final,), _ = unroll(layer.step, layer.cell_parameters(), x, (h,), ends, layer.reverse)
    return output, final


@contextmanager
def only_kernels() -> Iterator[None]:
    """It is an error if anything runs eagerly."""
    with patch.object(runner, "unroll", side_effect=AssertionError("the eager loop ran")):
        yield


def near(found: Any, expected: Any) -> None:
    """Equal up to rounding."""
    tolerance = 1e-5 if torch.float32 in {value.dtype for value in leaves(found)} else 1e-12
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def same(found: Any, expected: Any) -> None:
    """Equal to the last bit."""
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def loss(*results: Tensor) -> Tensor:
    return torch.stack([(value * value * (place + 1)).sum() for place, value in enumerate(results)]).sum()


def trained(layer: Recurrent, x: Tensor, h: Tensor, lengths: tuple[int, ...] | None = None) -> list[Tensor]:
    """Results of the layer, and all gradients."""
    results = layer(x, h, lengths=lengths)
    return [*(r.detach() for r in results), *grad(loss(*results), [x, h, *layer.parameters()])]
