"""Recurrence: equations over time, by a compiled kernel where that can be, else by the eager loop; it says which."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unspool import engine
from unspool.cells import document
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.errors import ArgumentError, DeviceError, ShapeError, UnspoolError
from unspool.nn.job import PLAIN, Differentiable, Job, Layout, Tensors, steps_between
from unspool.nn.observation import current_observer
from unspool.nn.operations import OPERATIONS
from unspool.nn.unroll import States, Trace, unroll

# What torch's compiler uses to see that tensors are as before, their types, sizes, strides and the modes at work. It is
# not public: a torch without it only makes small calls slower.
TensorGuards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
TensorGuards = getattr(TensorGuards, "TensorGuards", None)

REALS = (torch.float32, torch.float64)


class Recurrence:
    """One cell's equations, ready to run over time with any parameters of the sizes they were made for."""

    def __init__(self, equations: Equations, input_size: int, hidden_size: int, layout: Layout | None = None) -> None:
        self.equations = equations
        self.layout = layout or Layout(tuple(equations.parameters))
        self.step = Evaluator(equations, OPERATIONS)
        self.cell = document.dump(equations)
        self._sizes = input_size, hidden_size
        self._widths = [equations.size(width, input_size, hidden_size) for width in equations.states.values()]
        self._shapes = [torch.Size(shape) for shape in self.layout.shapes(equations, input_size, hidden_size)]
        self._kernel: engine.Kernel | None = None
        self._known: list[Any] = []
        self._why_not: str | None = None

    def run(
        self,
        parameters: Tensors,
        x: Tensor,
        states: States | None,
        ends: Tensor | None = None,
        reverse: bool = False,
        trace: bool = False,
        recompute: int | str | None = None,
        stacked: bool = False,
    ) -> tuple[Tensor, States, Trace]:
        """Output (time, batch, width), final states, and, if asked, every named value at every step.

        Without states it begins at zero. `recompute` and `stacked` are told in `Job`; the eager loop keeps everything.
        """
        observer = None if torch.compiler.is_compiling() else current_observer()
        if observer is not None:
            start = states or self._zeros(x)
            return stack_states(observer.recur(self, parameters, x, start, ends, reverse), stacked)
        plain = states is None and ends is None and not trace and recompute is None
        known = self.quick(parameters, x, reverse, stacked) if plain else None
        if known is not None:
            return *known, {}
        if torch.compiler.is_compiling():
            named = self.layout.named(parameters)
            start = states or self._zeros(x)
            if not trace and fits(x) and self.can_build(x.dtype):
                ordered = [named[name] for name in self.equations.parameters]
                return stack_states(run_operator(self.cell, self._sizes[1], x, start, ordered, ends, reverse), stacked)
            return stack_states(unroll(self.step, named, x, start, ends, reverse, trace), stacked)
        self._check_parameters(parameters, x.device)
        tensors = (x, *states, *parameters) if states else (x, *parameters)
        if self.engine_for(tensors, trace) is not None:
            start = states or self._zeros(x)
            return stack_states(
                unroll(self.step, self.layout.named(parameters), x, start, ends, reverse, trace), stacked
            )
        assert self._kernel is not None
        if plain:
            self._remember(tensors)
        every = None if recompute is None else steps_between(recompute, x.shape[0])
        job = Job(self._kernel, self.layout, self.step, ends, reverse, every, stacked)
        if trace:
            return job.trace(tensors)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            output, *finals = Differentiable.apply(job, *tensors)  # type: ignore[no-untyped-call]
        else:
            output, finals, _ = job.forward(tensors)
        return output, tuple(finals), {}

    def quick(self, parameters: Tensors, x: Tensor, reverse: bool, stacked: bool) -> tuple[Tensor, States] | None:
        """Output and final states from zero, if the tensors are in every respect like those of an earlier call.

        For calls so small that looking at each tensor takes longer than the kernel does. None: look again.
        """
        if not self._known or not x.numel() or torch.compiler.is_compiling() or current_observer() is not None:
            return None
        for known in self._known:
            if known.check(x, *parameters):
                break
        else:
            return None
        if forward_ad._current_level >= 0 or torch._C._len_torch_dispatch_stack() or not engine.enabled():
            return None
        at, places = x.data_ptr(), [tensor.data_ptr() for tensor in parameters]
        if not at or not all(places):  # freed
            return None
        if torch.is_grad_enabled() and (x.requires_grad or any(p.requires_grad for p in parameters)):
            job = Job(self._kernel, self.layout, self.step, None, reverse, None, stacked)  # type: ignore[arg-type]
            output, *finals = Differentiable.apply(job, x, *parameters)  # type: ignore[no-untyped-call]
            return output, tuple(finals)
        if not x.is_contiguous():
            return None
        steps, rows, _ = x.shape
        output = x.new_empty(steps, rows, self._widths[0])
        lead = (1,) if stacked else ()
        final = [x.new_empty(*lead, rows, width) for width in self._widths]
        ends = [state.data_ptr() for state in final]
        size, threads = x.element_size(), torch.get_num_threads()
        self._kernel.forward(size, (steps, rows), threads, reverse, 0, at, places, (), output.data_ptr(), ends)  # type: ignore[union-attr]
        return output, tuple(final)

    def _remember(self, tensors: Tensors) -> None:
        """That the kernel may be called with such an x and such parameters."""
        if TensorGuards is not None and all(tensor.is_contiguous() for tensor in tensors[1:]):
            sizes = [[None, None, tensors[0].shape[2]], *(list(tensor.shape) for tensor in tensors[1:])]
            strides = [[None, None, None], *(list(tensor.stride()) for tensor in tensors[1:])]
            known = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
            self._known = [known, *self._known[:3]]

    def _zeros(self, x: Tensor) -> States:
        return tuple(x.new_zeros(x.shape[1], width) for width in self._widths)

    def _check_parameters(self, parameters: Tensors, device: torch.device) -> None:
        """A kernel takes addresses: parameters that were replaced by others that do not fit must not reach it."""
        for place, tensor in enumerate(parameters):
            if tensor.shape != self._shapes[place]:
                got, shape = tuple(tensor.shape), tuple(self._shapes[place])
                raise ShapeError.of(
                    self.layout.names[place], got, f"is not of shape {shape}", "Make a layer of these sizes"
                )
            if tensor.device != device:
                name, where = self.layout.names[place], tensor.device
                raise DeviceError.of(name, where, f"is where x is not, on {device}", "Move the layer by .to(device)")

    def __deepcopy__(self, memo: dict[int, Any]) -> Recurrence:
        return self  # nothing in it changes with a layer

    def job(self, x: Tensor, ends: Tensor | None, reverse: bool) -> Job:
        """A call of the kernel, built now if it has to be."""
        why_not = self._build(x.element_size())
        if self._kernel is None or why_not is not None:
            raise UnspoolError(f"there is no kernel of {self.equations.title}: {why_not}")
        return Job(self._kernel, self.layout, self.step, ends, reverse)

    @property
    def record(self) -> int:
        """How many numbers the kernel keeps for each row and step."""
        return engine.record_length(self.equations, *self._sizes)

    def engine_for(self, tensors: Tensors, trace: bool = False) -> str | None:
        """None if the kernel can run these tensors, else the reason why the eager loop does."""
        x = tensors[0]
        dtype = x.dtype
        if dtype not in REALS or not x.is_cpu:
            return f"kernels are for float32 and float64 on the CPU, not {x.dtype} on {x.device}"
        if torch._C._functorch.maybe_current_level() is not None:
            return "a function transform is at work"
        if torch._C._get_tracing_state() is not None or torch._C._len_torch_dispatch_stack():
            return "the operations are being recorded"
        if forward_ad._current_level >= 0 or torch.is_autocast_enabled("cpu"):
            return "forward-mode differentiation or autocast is at work"
        for tensor in tensors:
            plain = type(tensor) in PLAIN and tensor.dtype is dtype and tensor.is_cpu and tensor.layout is torch.strided
            if not plain or tensor.is_neg() or tensor._is_zerotensor():
                return "the tensors are not all plain tensors of one dtype on one device"
            if not tensor.data_ptr() and tensor.numel():
                raise ArgumentError.of("storage", tuple(tensor.shape), "was freed", "Give a tensor that has its memory")
        if not x.numel() and 0 in x.shape[:2]:
            return "there is nothing to compute"
        if trace and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return "a trace that can be differentiated is made eagerly; use torch.no_grad() otherwise"
        return self._build(x.element_size())

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def can_build(self, dtype: torch.dtype) -> bool:
        """Whether there is a kernel for such numbers; asked while torch compiles."""
        return self._build(dtype.itemsize) is None

    def _build(self, itemsize: int) -> str | None:
        if self._why_not is not None or not engine.enabled():
            return self._why_not or "UNSPOOL_ENGINE=off"
        try:
            if self._kernel is None:
                self._kernel = engine.Kernel(self.equations, *self._sizes, self.layout.places)
            self._kernel.prepare(itemsize)
        except UnspoolError as error:
            self._why_not = str(error)
            warnings.warn(f"{self.equations.title} runs eagerly: {error}", RuntimeWarning, stacklevel=2)
        return self._why_not


def fits(x: Tensor) -> bool:
    """Whether there are kernels for such tensors."""
    return x.dtype in REALS and x.device.type == "cpu"


def run_operator(
    cell: str, hidden_size: int, x: Tensor, states: Tensors, parameters: Tensors, ends: Tensor | None, reverse: bool
) -> tuple[Tensor, States, Trace]:
    """The kernel as torch's compiler sees it: one operator, which carries the cell as JSON."""
    keep = torch.is_grad_enabled()
    found = torch.ops.unspool.recurrence(cell, hidden_size, x, list(states), list(parameters), ends, reverse, keep)
    return found[0], tuple(found[1:-1]), {}


def stack_states(results: tuple[Tensor, States, Trace], stacked: bool) -> tuple[Tensor, States, Trace]:
    """Final states with a first dimension of one, where that is wanted."""
    output, final, values = results
    return output, tuple(state.unsqueeze(0) for state in final) if stacked else final, values
