"""Boundary: tensors are checked here before a kernel takes their addresses, whoever calls it and by whichever route."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unspool.cells.equations import Equations
from unspool.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from unspool.nn.checks import Shape, check_like, check_memory, check_shape, check_viewable
from unspool.nn.layout import Layout, Tensors
from unspool.nn.route import DTYPES, PLAIN

STRIDED = torch.strided
LARGEST = torch.finfo(torch.float32).max


class Boundary:
    """The tensors that fit one cell's equations at given sizes: x, then the states or none, then the parameters.

    Parameters, states and parts of a layer can be replaced and their memory freed at any time, also between a forward
    pass and its backward pass. A kernel knows addresses only, so every call of it comes through `admit`.
    """

    def __init__(self, equations: Equations, input_size: int, hidden_size: int, layout: Layout) -> None:
        self.layout = layout
        self.input_width = equations.x_size(input_size, hidden_size)
        self.state_widths = [equations.size(width, input_size, hidden_size) for width in equations.states.values()]
        self._shapes = [torch.Size(shape) for shape in layout.shapes(equations, input_size, hidden_size)]
        self._states = tuple(equations.states)
        self._last: tuple[object, list[Shape]] = (None, [])
        #: How many tensors the parameters lie in, and the shape of each.
        self.count, self.parameter_shapes = len(self._shapes), [list(shape) for shape in self._shapes]
        self._title, self._largest = equations.title, equations.largest_number

    def split(self, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensors, Tensors]:
        """x, the states (or none) and the parameters."""
        first = len(tensors) - len(self._shapes)
        return tensors[0], tensors[1:first], tensors[first:]

    def admit(self, tensors: Tensors, ends: Tensor | None) -> tuple[Tensor, Tensors, Tensors]:
        """x, states and parameters as a kernel takes them: of their shapes, contiguous, with memory behind them."""
        x = tensors[0]
        dtype = x.dtype
        if dtype not in DTYPES:
            raise DTypeError.of("x", dtype, "has no kernel", "Give float32 or float64")
        key, last = (x.shape, len(tensors)), self._last
        if last[0] != key:  # most calls have the shapes of the call before
            last = self._last = key, self._expected(x, len(tensors))
        admitted = list(tensors)
        for place, shape in enumerate(last[1]):
            if not _is_ready(tensors[place], shape, dtype, dtype.itemsize):
                admitted[place] = admit(self._name(place, tensors), tensors[place], shape, dtype)
        if ends is not None:
            _check_ends(ends, *x.shape[:2])
        return self.split(admitted)

    def shapes_back(self, x: Tensor, count: int, record: int, lead: tuple[int, ...]) -> list[Shape]:
        """The shapes of a backward pass: of so many tensors as `admit` takes, the output, the tape, and the gradients.

        Args:
            x: the input.
            count: of x, the states that were given, and the parameters.
            record: how many numbers of the tape belong to each step and row.
            lead: the first dimensions of final states.
        """
        (steps, rows, _), widths = x.shape, self.state_widths
        out = steps, rows, widths[0]
        return [*self._expected(x, count), out, (steps * rows * record,), out, *((*lead, rows, w) for w in widths)]

    def check_numbers(self, dtype: torch.dtype) -> None:
        """Refuse a dtype in which a number of the equations would be infinite; all but float64 compute in float32."""
        if self._largest > LARGEST and dtype != torch.float64:
            problem = f"cannot hold the number {self._largest} of {self._title}"
            raise DTypeError.of("dtype", dtype, problem, "Use float64, or smaller numbers in its `step`")

    def check(self, x: Tensor, states: Tensors, parameters: Tensors) -> None:
        """Refuse, for the routes without a kernel, what no route can run on."""
        self.check_numbers(x.dtype)
        tensors = (x, *states, *parameters)
        for place, shape in enumerate(self._expected(x, len(tensors))):
            name = self._name(place, tensors)
            check_shape(name, tensors[place], shape)
            check_like(name, tensors[place], x, "x")

    def check_parameters(self, parameters: Tensors) -> None:
        """Refuse parameters that were replaced by what does not fit the equations."""
        for name, tensor, shape in zip(self.layout.names, parameters, self._shapes, strict=True):
            check_shape(name, tensor, shape)
            check_viewable(name, tensor)
            self.check_numbers(tensor.dtype)

    def _expected(self, x: Tensor, count: int) -> list[Shape]:
        """The shapes of so many tensors, for x of these steps and this batch size."""
        if x.dim() != 3:
            raise ShapeError.of("x", tuple(x.shape), "is not (time, batch, features)", "Reshape it")
        given = count - 1 - len(self._shapes)
        if given not in (0, len(self._states)):
            problem = f"are not x, the {len(self._states)} state(s) or none, and the {len(self._shapes)} parameter(s)"
            raise ShapeError.of("tensors", count, problem, "Give as many as the cell has")
        steps, rows, _ = x.shape
        return [(steps, rows, self.input_width), *((rows, w) for w in self.state_widths[:given]), *self._shapes]

    def _name(self, place: int, tensors: Tensors) -> str:
        """The name of one of the tensors, for a message."""
        first = len(tensors) - len(self._shapes)
        if place == 0:
            return "x"
        return self._states[place - 1] if place < first else self.layout.names[place - first]


def admit(name: str, tensor: Tensor, shape: Shape, dtype: torch.dtype) -> Tensor:
    """The tensor, or a contiguous copy of it, for a kernel that computes with numbers of `dtype`.

    Args:
        name: what the tensor is called in a message.
        tensor: what is to be given to the kernel.
        shape: that it must have.
        dtype: that it must have.

    Returns:
        A contiguous tensor of that shape and dtype on the CPU, whose storage is large enough.

    Example:
        >>> admit("x", torch.zeros(3, 2).T, (2, 3), torch.float32).is_contiguous()
        True
    """
    if _is_ready(tensor, shape, dtype, dtype.itemsize):
        return tensor
    check_tensor(name, tensor, shape, dtype, torch.device("cpu"))
    return tensor.clone(memory_format=torch.contiguous_format)


def check_tensor(name: str, tensor: Tensor, shape: Shape, dtype: torch.dtype, device: torch.device) -> None:
    """`tensor` is a dense tensor of this shape and dtype, on this device, with memory behind it."""
    check_shape(name, tensor, shape)
    if tensor.dtype != dtype:
        raise DTypeError.of(name, tensor.dtype, f"is not x's {dtype}", "Convert one of them")
    if tensor.device != device or tensor.layout != torch.strided:
        where = f"{tensor.layout} on {tensor.device}"
        raise DeviceError.of(name, where, f"is not {torch.strided} on {device}, as x is", "Convert it")
    check_memory(name, tensor)


def check_quickly(name: str, tensor: Tensor, shape: Shape, dtype: torch.dtype, device: torch.device) -> None:
    """As `check_tensor`, in less time for a contiguous tensor on the CPU."""
    plain = device.type == "cpu" and type(tensor) in PLAIN and not torch.compiler.is_compiling()
    if not plain or not _is_ready(tensor, shape, dtype, dtype.itemsize):
        check_tensor(name, tensor, shape, dtype, device)


def are_held(tensors: Tensors, size: int) -> bool:
    """Whether tensors are contiguous, aligned and within their storages: all that is left to ask of known ones.

    Args:
        tensors: plain tensors on the CPU.
        size: of a number, in bytes.
    """
    return find_addresses(tensors, size) is not None


def find_addresses(tensors: Tensors, size: int) -> list[int] | None:
    """Where the memory of tensors begins; None unless all are contiguous, aligned and within their storages.

    Args:
        tensors: plain tensors on the CPU.
        size: of a number, in bytes.
    """
    found = []
    for tensor in tensors:
        place = tensor.data_ptr()
        if place % size or not tensor.is_contiguous():
            return None
        if tensor.untyped_storage().nbytes() < tensor.nbytes + tensor.storage_offset() * size:
            return None
        found.append(place)
    return found


def find_ready(tensors: Sequence[Tensor | None], shapes: Sequence[Shape], dtype: torch.dtype) -> list[int] | None:
    """Where the memory of tensors begins, 0 for None; no list unless a kernel can take all of them as they are.

    Args:
        tensors: plain, strided tensors, or None.
        shapes: that they must have.
        dtype: that they must have.
    """
    found, size = [], dtype.itemsize
    for tensor, shape in zip(tensors, shapes, strict=True):
        if tensor is None:
            found.append(0)
            continue
        place = tensor.data_ptr()
        if tensor.shape != shape or tensor.dtype is not dtype or not tensor.is_contiguous() or not tensor.is_cpu:
            return None
        if place % size or tensor.untyped_storage().nbytes() < tensor.nbytes + tensor.storage_offset() * size:
            return None
        found.append(place)
    return found


def _is_ready(tensor: Tensor, shape: Shape, dtype: torch.dtype, size: int) -> bool:
    """Whether a kernel for numbers of `size` bytes can take the tensor as it is. Each costs some 100 ns."""
    return (
        tensor.shape == shape
        and tensor.dtype is dtype
        and tensor.is_cpu
        and tensor.layout is STRIDED
        and tensor.is_contiguous()
        and not tensor.data_ptr() % size
        and tensor.untyped_storage().nbytes() >= tensor.nbytes + tensor.storage_offset() * size
    )


def _check_ends(ends: Tensor, steps: int, rows: int) -> None:
    """Lengths are checked where they come in; this is for those that come another way, or with another x."""
    if ends.shape != (rows,) or not all(0 <= end <= steps for end in ends.tolist()):
        problem = f"are not {rows} numbers from 0 to {steps}"
        raise ArgumentError.of("lengths", ends.tolist(), problem, "Give one per sequence")
