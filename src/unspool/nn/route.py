"""Route: the one place that decides how a recurrence runs, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from unspool import engine
from unspool.nn.layout import Tensors
from unspool.nn.lazy_kernel import LazyKernel
from unspool.nn.observation import current_observer
from unspool.nn.recording import is_exported_to_onnx, is_traced
from unspool.nn.unroll import States

#: What kernels compute with.
DTYPES = (torch.float32, torch.float64)
#: The types of tensor whose memory a kernel may read. A subclass may mean anything.
PLAIN = (Tensor, nn.Parameter)


# Looked up once, as small calls ask them every time.
_count_modes, _find_tracer = torch._C._len_torch_dispatch_stack, torch._C._get_tracing_state
_find_transform = torch._C._functorch.maybe_current_level


class Route(NamedTuple):
    """How a recurrence runs: the name of the route, and why it is taken."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


QUICK = Route("quick kernel", "the tensors are like those of an earlier call")
KERNELS = {dtype: Route("kernel", f"{str(dtype).removeprefix('torch.')} on the CPU") for dtype in DTYPES}
OPERATOR = Route("operator", "torch compiles or exports the model")
OBSERVED = Route("observed", "an observer runs every recurrence of the model")
TORCHS_OWN = Route("torch's own", "the layer is torch.nn's; unspool.accelerate(model) makes it ours")
TRACED = Route("refused", "torch.jit.trace or an ONNX exporter would keep only the number of steps of its example")
ONNX = Route("ONNX operator", "an ONNX exporter records the model")
RECORDED = Route("torch's own", "torch.jit.trace records the model")
NO_RECURRENCE = Route("torch's own", "there is no recurrence, only torch operations")


def choose_route(
    kernel: LazyKernel,
    parameters: Tensors,
    x: Tensor,
    states: States | None = None,
    ends: Tensor | None = None,
    trace: bool = False,
    recompute: int | str | None = None,
    own: bool = False,
) -> Route:
    """How this call of a recurrence runs. The first route that applies, from the top:

    | route        | is taken when                                               | what runs                        |
    |--------------|-------------------------------------------------------------|----------------------------------|
    | quick kernel | a call without lengths, trace or `recompute`, on tensors    | the compiled kernel; of the      |
    |              | like those of an earlier such call                          | tensors only the memory is       |
    |              |                                                             | checked again                    |
    | refused      | torch.jit.trace runs, or an ONNX exporter                   | an error: one length would be    |
    |              |                                                             | kept                             |
    | operator     | torch.compile or torch.export traces the model, there is a  | `torch.ops.unspool.recurrence`,  |
    |              | kernel, and no trace is wanted                              | the kernel as one operator       |
    | observed     | an observer is set, as X-ray does                           | whatever the observer does       |
    | kernel       | plain float32 or float64 tensors on the CPU; no function    | the compiled kernel, forward and |
    |              | transform, recording, forward mode or autocast; the kernel  | backward                         |
    |              | can be built; a trace needs no gradient                     |                                  |
    | eager        | everything else                                             | the equations on tensors, step   |
    |              |                                                             | by step, in Python               |

    The drop-ins for torch.nn.RNN, GRU and LSTM have another route, torch's own: torch.nn's forward. They take it under
    torch.jit.trace, and in place of eager unless a trace is wanted, the batch is empty, or a function transform or
    forward-mode differentiation is active. RNN and GRU of several layers or with `batch_first` also take it for single
    steps in training, see `is_single_step_of_training`. ONNX's newer exporter gets ONNX's own operators, see
    `unspool.nn.onnx_layers`. Layers of torch.nn itself never come here: see `find_routes`.

    Where there is an entry in C++, small calls of drop-ins come here only until their kernel is built: then they run it
    without further questions, see `unspool.nn.quick_layers`.

    Args:
        kernel: the kernel of the equations; built now, if it is needed and was not built before.
        parameters: the layer's parameter tensors.
        x: the input, (time, batch, input_size).
        states: the initial states, or None to start from zeros; () asks how a call runs whose tensors are not known.
        ends: the length of each sequence, or None where all are as long as x.
        trace: whether every named value is wanted.
        recompute: as in `Recurrent`.
        own: whether torch.nn has a forward of its own for this call.

    Returns:
        The route with the reason why it is taken.
    """
    plain = ends is None and not trace and recompute is None and states != ()
    if plain and is_quick(kernel, parameters, x, states or ()):
        return QUICK
    if is_traced():
        return RECORDED if own else TRACED
    if torch.compiler.is_compiling():
        return choose_route_in_graph(x, trace, kernel.can_build, own)
    if current_observer() is not None:
        return OBSERVED
    tensors = (x, *states, *parameters) if states else (x, *parameters)
    why = _why_not_tensors(tensors) or _why_not_trace(tensors, trace) or kernel.why_not(x.element_size())
    # torch's own operations read zeros without memory as whatever they find
    own = own and not trace and not any(tensor._is_zerotensor() for tensor in tensors)
    return _choose_instead(why, x, own) if why else KERNELS[x.dtype]


def _choose_instead(why: str, x: Tensor, own: bool) -> Route:
    """The route of a call that a kernel cannot do."""
    return Route("torch's own" if own and not _needs_loop(x) else "eager", why)


def is_quick(kernel: LazyKernel, parameters: Tensors, x: Tensor, states: Tensors = ()) -> bool:
    """Whether a call takes the quick kernel.

    This is for calls so small that checking each tensor takes longer than the kernel does.
    """
    if torch.compiler.is_compiling() or not kernel.knows(x, states, parameters) or not x.numel():
        return False
    return not is_watched()


def is_watched() -> bool:
    """Whether something is active that has to see a call in more detail than a quick one shows."""
    return (
        forward_ad._current_level >= 0
        or _count_modes() > 0
        or _find_transform() is not None
        or _find_tracer() is not None
        or current_observer() is not None
        or not engine.enabled()
    )


def is_single_step_of_training(x: Tensor) -> bool:
    """Whether torch.nn's forward may take a call of one step whose gradient can be wanted.

    For RNN and GRU of several layers, it takes less time at one step than a call of the kernel for each of them and
    their backward passes.
    """
    return torch.is_grad_enabled() and not _needs_loop(x) and current_observer() is None


def choose_route_in_graph(x: Tensor, trace: bool, can_build: Callable[[torch.dtype], bool], own: bool = False) -> Route:
    """The part of `choose_route` for calls that torch compiles or exports; `can_build` says if there is a kernel."""
    if is_exported_to_onnx():
        return ONNX if own else TRACED
    if trace:
        return Route("eager", "a trace is wanted while torch compiles or exports")
    if has_kernels(x) and can_build(x.dtype):
        return OPERATOR
    why = "there is no kernel to compile into the graph" if has_kernels(x) else _why_not_kind(x)
    return Route("torch's own" if own else "eager", why)


def has_kernels(x: Tensor) -> bool:
    """Whether kernels compute with such tensors."""
    return x.dtype in DTYPES and x.device.type == "cpu"


def _why_not_tensors(tensors: Tensors) -> str | None:
    """Why a kernel cannot run on these tensors now, or None."""
    x = tensors[0]
    dtype = x.dtype
    if dtype not in DTYPES or not x.is_cpu:
        return _why_not_kind(x)
    if active := _active_mode():
        return active
    for tensor in tensors:
        plain = type(tensor) in PLAIN and tensor.dtype is dtype and tensor.is_cpu and tensor.layout is torch.strided
        if not plain or tensor.is_neg() or tensor._is_zerotensor():
            return "the tensors are not all plain tensors of one dtype on one device"
    return "there is nothing to compute" if not x.numel() and 0 in x.shape[:2] else None


def _why_not_kind(x: Tensor) -> str:
    return f"kernels are for float32 and float64 on the CPU, not {x.dtype} on {x.device}"


def _needs_loop(x: Tensor) -> bool:
    """Whether torch.nn's forward may fail on such a call, where the eager loop does not."""
    transformed = torch._C._functorch.maybe_current_level() is not None or forward_ad._current_level >= 0
    return transformed or not x.numel()


def _active_mode() -> str | None:
    """What is active in torch that has to see every single operation, or None."""
    if torch._C._functorch.maybe_current_level() is not None:
        return "a function transform of torch.func is active"
    if torch._C._len_torch_dispatch_stack():
        return "torch records the operations"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation is active"
    return "autocast is active" if torch.is_autocast_enabled("cpu") else None


def _why_not_trace(tensors: Tensors, trace: bool) -> str | None:
    if trace and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return "a trace that can be differentiated is computed eagerly; without gradients, use torch.no_grad()"
    return None


# The routes of whole modules


@runtime_checkable
class Routed(Protocol):
    """A module that runs recurrences and knows their routes."""

    def own_routes(self) -> dict[str, Route]:
        """The route of each of its recurrences, by name; one alone has the name ""."""


def find_routes(module: nn.Module) -> dict[str, Route]:
    """The route of every recurrence in a model, as it is now.

    Args:
        module: any model, with layers of unspool.nn, of torch.nn, or both.

    Returns:
        Route by path, such as "encoder.layers.0". Layers of torch.nn take torch's own.

    Example:
        >>> {path: str(route) for path, route in find_routes(nn.Sequential(nn.LSTM(3, 4))).items()}
        {'0': "torch's own: the layer is torch.nn's; unspool.accelerate(model) makes it ours"}
    """
    found: dict[str, Route] = {}
    for path, part in module.named_modules():
        if isinstance(part, Routed):
            own = part.own_routes()
        else:
            own = {"": TORCHS_OWN} if isinstance(part, nn.RNNBase | nn.RNNCellBase) else {}
        found |= {".".join(filter(None, (path, name))): route for name, route in own.items()}
    return found


def describe_routes(routes: Mapping[str, Route]) -> str:
    """Routes as one line: one route if all are the same, else each with its path.

    Example:
        >>> describe_routes({"layers.0": Route("kernel", "float32 on the CPU"), "layers.1": Route("eager", "…")})
        'layers.0: kernel: float32 on the CPU; layers.1: eager: …'
    """
    different = set(routes.values()) or {NO_RECURRENCE}
    if len(different) == 1:
        return str(different.pop())
    return "; ".join(f"{path}: {route}" for path, route in routes.items())
