"""What the fuzzer changes: parts, parameters, their memory, attributes and arguments, each by one random change."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch
from tests.fuzz.targets import Target
from torch import Tensor, nn

from unspool.nn import Bidirectional, Recurrent, Stack
from unspool.nn.checks import has_memory

Change = Callable[[Random, Target], None]


# Tensors


def _freed(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().clone()
    tensor.untyped_storage().resize_(0)
    return tensor


def _shortened(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().clone()
    tensor.untyped_storage().resize_(tensor.untyped_storage().nbytes() // 2)
    return tensor


def _overlapping(tensor: Tensor) -> Tensor:
    storage = torch.randn(tensor.numel() + 8, dtype=tensor.dtype)
    return storage.as_strided(tensor.shape, tuple(1 for _ in tensor.shape), 3)


def _odd(tensor: Tensor) -> Tensor:
    """A tensor whose memory does not begin at a multiple of its element size."""
    room = bytearray(1 + tensor.numel() * tensor.element_size())
    return torch.frombuffer(room, dtype=tensor.dtype, offset=1).view(tensor.shape) if tensor.numel() else tensor


#: Other values that stand for a floating-point tensor.
TENSORS: dict[str, Callable[[Tensor], Any]] = {
    "wider": lambda t: torch.cat([t, t], -1) if t.dim() else t,
    "narrower": lambda t: t[..., :-1],
    "shorter": lambda t: t[:-1],
    "empty": lambda t: t[:0],
    "one number": lambda t: t.flatten()[:1],
    "a number": lambda t: t.sum(),
    "one dimension more": lambda t: t.unsqueeze(0),
    "one dimension less": lambda t: t[0] if t.dim() and len(t) else t,
    "two dimensions more": lambda t: t[None, None],
    "float16": lambda t: t.half(),
    "bfloat16": lambda t: t.bfloat16(),
    "float64": lambda t: t.double(),
    "float32": lambda t: t.float(),
    "int64": lambda t: t.long(),
    "bool": lambda t: t.bool(),
    "complex": lambda t: t.to(torch.complex64),
    "meta": lambda t: t.to("meta"),
    "sparse": lambda t: t.detach().to_sparse(),
    "freed": _freed,
    "shortened": _shortened,
    "overlapping": _overlapping,
    "odd": _odd,
    "expanded": lambda t: t.detach().flatten()[:1].expand(t.numel()).view(t.shape) if t.numel() else t,
    "strided": lambda t: torch.stack([t.detach(), t.detach()], -1)[..., 0],
    "transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
    "negated": lambda t: torch.complex(t, t).conj().imag if t.dtype in (torch.float32, torch.float64) else t,
    "zeros": lambda t: torch._efficientzerotensor(t.shape, dtype=t.dtype),
    "numpy": lambda t: t.detach().numpy(),
    "a list": lambda t: t.tolist(),
    "None": lambda t: None,
    "text": lambda t: "x",
    "number": lambda t: 3,
}
#: Those that a parameter may be replaced by.
PARAMETERS = [name for name in TENSORS if name not in ("numpy", "a list", "text", "number", "int64", "bool", "None")]

LENGTHS: dict[str, Callable[[Random, int], Any]] = {
    "a tuple": lambda r, n: (1,) * n,
    "int32": lambda r, n: torch.ones(n, dtype=torch.int32),
    "uint8": lambda r, n: torch.ones(n, dtype=torch.uint8),
    "numpy": lambda r, n: np.ones(n, np.int64),
    "float": lambda r, n: torch.ones(n),
    "float list": lambda r, n: [1.0] * n,
    "bool": lambda r, n: torch.ones(n, dtype=torch.bool),
    "meta": lambda r, n: torch.ones(n, dtype=torch.long, device="meta"),
    "sparse": lambda r, n: torch.ones(n, dtype=torch.long).to_sparse(),
    "freed": lambda r, n: _freed(torch.ones(n, dtype=torch.long)),
    "strided": lambda r, n: torch.ones(n, 2, dtype=torch.long)[:, 0],
    "expanded": lambda r, n: torch.ones(1, dtype=torch.long).expand(n),
    "too many": lambda r, n: [1] * (n + 1),
    "too few": lambda r, n: [1] * (n - 1),
    "none": lambda r, n: [],
    "negative": lambda r, n: [-1] * n,
    "too large": lambda r, n: [10 ** r.randint(1, 40)] * n,
    "nested": lambda r, n: [[1]] * n,
    "ragged": lambda r, n: [[1], [1, 2]],
    "text": lambda r, n: "ab",
    "texts": lambda r, n: ["a"] * n,
    "Nones": lambda r, n: [None] * n,
    "a number": lambda r, n: 1,
    "a dict": lambda r, n: {0: 1},
    "a scalar": lambda r, n: torch.tensor(1),
    "complex": lambda r, n: torch.ones(n, dtype=torch.complex64),
    "an object": lambda r, n: object(),
}


def _map_one(random: Random, tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """A nested state with one of its tensors changed."""
    if isinstance(tree, Tensor):
        return change(tree) if has_memory(tree) else tree
    if not isinstance(tree, tuple | list) or not tree:
        return tree
    place = random.randrange(len(tree))
    return type(tree)(_map_one(random, part, change) if i == place else part for i, part in enumerate(tree))


def argument(random: Random, target: Target) -> None:
    """Another value for one argument."""
    name = random.choice(sorted(target.arguments))
    value = target.arguments[name]
    if "lengths" in name:
        rows = random.randint(1, 4)
        target.arguments[name] = LENGTHS[random.choice(sorted(LENGTHS))](random, rows)
    elif isinstance(value, Tensor) and has_memory(value):
        target.arguments[name] = TENSORS[random.choice(sorted(TENSORS))](value)
    elif isinstance(value, tuple | list):
        kinds: list[Callable[[Any], Any]] = [tuple, list, lambda v: v[:-1], lambda v: (*v, *v), lambda v: v[0]]
        change = TENSORS[random.choice(sorted(TENSORS))]
        changed = _map_one(random, value, change) if random.random() < 0.7 else random.choice(kinds)(value)
        target.arguments[name] = changed
    elif isinstance(value, np.ndarray):
        arrays: list[Callable[[Any], Any]] = [lambda a: a[..., :-1], lambda a: a[:0], lambda a: a[0], lambda a: "x"]
        target.arguments[name] = random.choice(arrays)(value)
    elif isinstance(value, dict):
        key = random.choice(sorted(value))
        other: Any = random.choice((None, "x", np.zeros(3), np.zeros((1, 1)), 3))
        target.arguments[name] = {k: other if k == key else v for k, v in value.items()}
    else:
        target.arguments[name] = random.choice((None, True, 0, -1, 2, "x", 1.5))


# Modules


def parameter(random: Random, target: Target) -> None:
    """Another tensor, or none, for one parameter."""
    assert target.module is not None
    owners = [
        (part, name)
        for part in target.module.modules()
        for name in part._parameters
        if part._parameters[name] is not None
    ]
    if not owners:
        return
    part, name = random.choice(owners)
    old = part._parameters[name]
    assert old is not None
    way = random.random()
    if way < 0.1:
        setattr(part, name, None)
    elif way < 0.2:
        delattr(part, name)
    elif way < 0.3:  # the memory of another one
        other = random.choice(owners)
        old.data = other[0]._parameters[other[1]].data  # type: ignore[union-attr]
    elif way < 0.35:
        old.requires_grad_(False)
    elif has_memory(old):
        kind = random.choice(PARAMETERS)
        if kind in ("freed", "shortened") and type(part).__module__.startswith("torch."):
            kind = "strided"  # torch's own operations do not look after their memory
        new = TENSORS[kind](old.detach())
        setattr(part, name, nn.Parameter(new, requires_grad=new.is_floating_point()))


def storage(random: Random, target: Target) -> None:
    """Less memory behind a parameter, as offloading leaves it."""
    assert target.module is not None
    own = [
        p
        for part in target.module.modules()
        if isinstance(part, Recurrent | nn.RNNBase)
        for p in part._parameters.values()
    ]
    if own:
        chosen = random.choice([p for p in own if p is not None])
        if chosen.device.type == "cpu" and chosen.layout == torch.strided:
            old = chosen.untyped_storage()
            old.resize_(random.choice((0, old.nbytes() // 2)))


def submodule(random: Random, target: Target) -> None:
    """Another module in place of one."""
    assert target.module is not None
    paths = [path for path, _ in target.module.named_modules() if path]
    if not paths:
        return
    *parents, name = random.choice(paths).split(".")
    owner = target.module.get_submodule(".".join(parents))
    dtype = next((p.dtype for p in target.module.parameters()), torch.float32)
    dtype = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    a, b = random.choice((1, 3, 4, 8)), random.choice((1, 3, 4, 8))
    makers: list[Callable[[], nn.Module]] = [
        lambda: Recurrent(random.choice(("gru", "lstm")), a, b, dtype=dtype),
        lambda: Stack("gru", a, b, 2, dtype=dtype),
        lambda: Bidirectional("gru", a, b, dtype=dtype),
        lambda: nn.GRU(a, b, dtype=dtype),
        lambda: nn.Linear(a, b, dtype=dtype),
        lambda: nn.Identity(),
    ]
    new = random.choice(makers)()
    if random.random() < 0.15 and isinstance(owner, nn.ModuleList):
        del owner[int(name)]
    else:
        setattr(owner, name, new)


ATTRIBUTES = (
    *("hidden_size", "input_size", "output_size", "num_layers", "batch_first", "reverse", "learn_initial", "recompute"),
    *("cell", "delay", "bias", "bidirectional", "proj_size", "skip", "tags", "width", "num_heads", "memory", "tied"),
    *("max_iterations", "start", "end", "padding", "source_size", "target_size", "training", "positions", "residual"),
    *("dropout", "variational", "steps", "mode", "nonlinearity", "tolerance", "detach_cache"),
)


def attribute(random: Random, target: Target) -> None:
    """Another value for one attribute."""
    assert target.module is not None
    owners = [
        (part, name)
        for part in target.module.modules()
        for name in ATTRIBUTES
        if name in part.__dict__ and not type(part).__module__.startswith("torch.")
    ]
    if not owners:
        return
    part, name = random.choice(owners)
    old = part.__dict__[name]
    if isinstance(old, bool):
        new: Any = not old
    elif isinstance(old, int):
        new = random.choice((old + 1, old - 1, 2 * old, 0, -1))
    elif isinstance(old, list):
        new = random.choice((old[:-1], [*old, *old]))
    else:
        new = random.choice(("gru", "lstm", None, 2))
    part.__dict__[name] = new


OF_MODULES: tuple[Change, ...] = (parameter, parameter, storage, submodule, attribute)
