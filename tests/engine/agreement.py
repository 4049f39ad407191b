"""The same call by the kernel and by the eager loop: values, final states and all gradients, by name."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import pytest
import torch
from tests.variants import as_state, as_states, possible_state
from torch import Tensor

from unspool.cells import Cell
from unspool.engine import build
from unspool.nn import runner
from unspool.nn.recurrent import Recurrent
from unspool.nn.unroll import unroll

Values = dict[str, Tensor]
needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C++ compiler")
needs_kernels = pytest.mark.skipif(
    build.find_compiler() is None or not build.enabled(), reason="there is no C++ compiler, or kernels are off"
)


@dataclass(frozen=True)
class Call:
    """A layer and what it is called with. `used` are the results that the loss reads, "output" and names of states."""

    layer: Recurrent
    x: Tensor
    states: tuple[Tensor, ...]
    lengths: tuple[int, ...] | None = None
    used: frozenset[str] | None = None

    def to(self, dtype: torch.dtype) -> Call:
        """The same call with numbers of this type; gradients are wanted of what they were wanted of."""

        def turned(tensor: Tensor) -> Tensor:
            return tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)

        layer = copy.deepcopy(self.layer).to(dtype)
        return replace(self, layer=layer, x=turned(self.x), states=tuple(map(turned, self.states)))


def draw(
    cell: Cell,
    steps: int,
    rows: int,
    input_size: int,
    hidden_size: int,
    *,
    seed: int = 0,
    lengths: Sequence[int] | None = None,
    reverse: bool = False,
    bias: bool = True,
) -> Call:
    """A call in float64 with numbers drawn at random, such that values stay around one whatever the sizes are."""
    generator = torch.Generator().manual_seed(seed)
    hidden_size = -(-hidden_size // cell.equations().hidden_unit) * cell.equations().hidden_unit
    input_size = hidden_size if cell.input_width == "hidden" else input_size
    layer = Recurrent(cell, input_size, hidden_size, bias=bias, reverse=reverse, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            scale = 0.9 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.5
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    widths = [layer.equations.size(width, input_size, hidden_size) for width in layer.equations.states.values()]
    shapes = [(steps, rows, layer.equations.x_size(input_size, hidden_size)), *((rows, width) for width in widths)]
    x, *drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    named = zip(layer.equations.states, drawn, strict=True)
    states = tuple(possible_state(cell, name, value).requires_grad_() for name, value in named)
    return Call(layer, x.requires_grad_(), states, None if lengths is None else tuple(lengths))


def ragged(steps: int, rows: int) -> tuple[int, ...]:
    """Lengths in no order, among them zero, one and all steps, as far as there are rows."""
    return tuple((steps, 0, 1, steps // 2, steps - 1, 1)[row % 6] for row in range(rows))[::-1]


def by_kernel(call: Call, threads: int = 1) -> Values:
    """Results and gradients by the kernel; it is an error if anything ran eagerly."""
    assert call.layer.engine.startswith("kernel")
    with _settings(threads), patch.object(runner, "unroll", side_effect=AssertionError("the eager loop ran")):
        x, further = split_x(call)
        output, final = call.layer(x, as_state(call.states), lengths=call.lengths, **further)
        return with_gradients(call, output, as_states(final))


def split_x(call: Call) -> tuple[Tensor, Values]:
    """x without the further inputs, and these by name."""
    layer, equations = call.layer, call.layer.equations
    sizes = [equations.size(width, layer.input_size, layer.hidden_size) for width in equations.x_widths]
    x, *further = call.x.split(sizes, 2)
    return x, dict(zip(equations.inputs, further, strict=True))


def by_loop(call: Call) -> Values:
    """Results and gradients by the eager loop."""
    layer = call.layer
    ends = None if call.lengths is None else torch.tensor(call.lengths)
    output, final, _ = unroll(layer.step, layer.cell_parameters(), call.x, call.states, ends, layer.reverse)
    return with_gradients(call, output, final)


def assert_agree(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float) -> None:
    """Every value within `tolerance` of the expected one, as a share of the largest number of its tensor (or of 1)."""
    wrong = {name: error for name, error in _errors(found, expected).items() if not error <= tolerance}  # NaN is wrong
    assert not wrong, f"relative errors above {tolerance}: {wrong}"


def assert_agree_in_float32(call: Call, threads: int, exact: Values) -> None:
    """The kernel in float32 within 1e-5 or, where a cell that grows magnifies rounding, ten times the loop's errors."""
    call = call.to(torch.float32)
    rounding = _errors(by_loop(call), exact).values()
    if all(error < 1e-3 for error in rounding):  # also not NaN: the cell stays within float32
        assert_agree(by_kernel(call, threads), exact, max(1e-5, *(10 * error for error in rounding)))


def _errors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> dict[str, float]:
    assert {name: value.shape for name, value in found.items()} == {name: v.shape for name, v in expected.items()}
    return {
        name: (value.double() - expected[name].double()).abs().max().item() / _scale(expected[name])
        for name, value in found.items()
    }


def _scale(value: Tensor) -> float:
    return max(1.0, value.abs().max().item())


def with_gradients(call: Call, output: Tensor, final: tuple[Tensor, ...]) -> Values:
    names = tuple(call.layer.equations.states)
    results = {"output": output, **{f"final {name}": value for name, value in zip(names, final, strict=True)}}
    sources = {"x": call.x, **dict(zip(names, call.states, strict=True)), **call.layer.cell_parameters()}
    sources = {name: tensor for name, tensor in sources.items() if tensor.requires_grad}
    loss = sum(
        (value * weights(name, value)).sum()
        for name, value in results.items()
        if call.used is None or name.removeprefix("final ") in call.used
    )
    assert isinstance(loss, Tensor)
    gradients = torch.autograd.grad(loss, list(sources.values()), materialize_grads=True)
    return {name: value.detach() for name, value in results.items()} | {
        f"d {name}": gradient for name, gradient in zip(sources, gradients, strict=True)
    }


def weights(name: str, like: Tensor) -> Tensor:
    """What the loss multiplies a result with."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.dtype)


@contextmanager
def _settings(threads: int) -> Iterator[None]:
    """So many threads, and NaN in whatever is allocated and not written."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)
