"""Runs the fuzzer: `python -m tests.fuzz.run FIRST COUNT` makes that many calls, each drawn from its own seed.

Every call is made with one or two random changes, forward, and often backward and twice backward. It must give finite
numbers, or raise one of our errors, or whatever torch's own Python code raises. Anything else is a defect, and is
printed with its seed, also an error while what is called is made. The last seed begun stands in the file PROGRESS, so
that a crash can be attributed. The process ends with 0 if there is no defect, and with FOUND if there are some.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from tests.fuzz import targets
from tests.fuzz.changes import OF_MODULES, argument, attribute, submodule
from tests.fuzz.targets import TARGETS, Sizes, Target
from torch import Tensor, nn

import unspool
from unspool.errors import UnspoolError
from unspool.nn import Bidirectional, Recurrent, Stack, TimeDelay
from unspool.nn.checks import has_memory
from unspool.nn.leaves import leaves

MODES = (contextlib.nullcontext, contextlib.nullcontext, contextlib.nullcontext, torch.no_grad, torch.inference_mode)
TORCH = str(Path(torch.__file__).parent)
OURS = str(Path(unspool.__file__).parent)
#: How the process ends where there are defects; Python itself ends with 1 and 2.
FOUND = 3


@contextlib.contextmanager
def _no_kernels() -> Iterator[None]:
    os.environ["UNSPOOL_ENGINE"] = "off"
    try:
        yield
    finally:
        del os.environ["UNSPOOL_ENGINE"]


#: What is on during a call, and while its module is made.
SETTINGS: tuple[Callable[[], AbstractContextManager[Any]], ...] = (
    *[contextlib.nullcontext] * 6,
    _no_kernels,
    lambda: torch.autocast("cpu", torch.bfloat16),
)


def call(seed: int) -> str | None:
    """Make the call of a seed. Returns what is wrong, or None."""
    random = Random(seed)
    torch.manual_seed(seed)
    kind = random.choice(sorted(TARGETS))
    with random.choice(SETTINGS)():
        try:
            target = TARGETS[kind](Sizes(random))
        except Exception as error:
            return f"{kind}, while it is made: {_last_lines(error)}"
        try:
            for _ in range(random.choice((0, 1, 1, 1, 2))):
                change(random, target)
            _use(random, target)
        except Exception as error:
            return None if is_legitimate(error) else f"{kind}: {_last_lines(error)}"
    return None


def change(random: Random, target: Target) -> None:
    """One random change of the module or of an argument; one that torch refuses is left out."""
    with contextlib.suppress(Exception):
        if target.module is None or random.random() < 0.4:
            argument(random, target)
        else:
            random.choice(OF_MODULES)(random, target)


def is_legitimate(error: BaseException) -> bool:
    """Whether an error is one of ours, or one that torch.nn's layers raise, too."""
    if isinstance(error, UnspoolError):
        return True
    if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
        return not _is_raised_by_us(error)
    if isinstance(error, TypeError) and re.search(r"^\w+\(\)[:\s].*argument", str(error)):
        return True  # of one of torch's operations, given what is not a tensor
    frames = list(traceback.extract_tb(error.__traceback__))
    while frames[-1].name == "__getattr__":  # a module's, called by who looks for what is not there
        frames.pop()
    # Torch's own Python code, or a `step` that the fuzzer wrote.
    return frames[-1].filename.startswith((TORCH, targets.__file__))


def _is_raised_by_us(error: BaseException) -> bool:
    """Whether the innermost frame is ours: an operation of torch's was given what we should have refused."""
    return traceback.extract_tb(error.__traceback__)[-1].filename.startswith(OURS)


class NotFiniteError(Exception):
    """Finite numbers went in, and others came out."""


def _use(random: Random, target: Target) -> None:
    """The call, and its derivatives."""
    finite = _all_finite(target)
    with random.choice(MODES)():
        result = target.call(**target.arguments)
    _check("output", result, finite)
    wanted = [value for value in _inputs(target) if value.requires_grad]
    outputs = [value for value in leaves(result) if value.requires_grad]
    if not wanted or not outputs or random.random() < 0.3:
        return
    total = sum(value.double().tanh().sum() for value in outputs)
    twice = random.random() < 0.25
    if target.module is not None and not twice and random.random() < 0.2:
        _change_between(random, target)
        finite = False
    assert isinstance(total, Tensor)
    slopes = torch.autograd.grad(total, wanted, allow_unused=True, create_graph=twice)
    _check("gradient", [slope for slope in slopes if slope is not None], finite)
    again = [slope for slope in slopes if slope is not None and slope.requires_grad]
    if twice and again:
        second = torch.autograd.grad(sum(g.double().sum() for g in again), wanted, allow_unused=True)  # type: ignore[arg-type]
        _check("second gradient", [slope for slope in second if slope is not None], finite)


def _change_between(random: Random, target: Target) -> None:
    """A change between the passes. Memory is taken only from recurrences: other operations of torch have no guard."""
    x = target.arguments.get("x", target.arguments.get("input"))
    guarded = isinstance(target.module, Recurrent | Stack | Bidirectional | TimeDelay | nn.RNNBase)
    guarded = guarded and isinstance(x, Tensor) and not _is_single_step(target.module, x)
    changes = OF_MODULES if guarded and not target.arguments.get("trace") else (submodule, attribute)
    with contextlib.suppress(Exception):
        random.choice(changes)(random, target)


def _is_single_step(module: nn.Module | None, x: Tensor) -> bool:
    """Whether a pass is torch's own operation, whose backward pass is not guarded: a single step of an RNN or a GRU."""
    return isinstance(module, nn.RNN | nn.GRU) and 1 in x.shape[:2]


def _inputs(target: Target) -> list[Tensor]:
    parameters = [] if target.module is None else list(target.module.parameters())
    return [*leaves(tuple(target.arguments.values())), *parameters]


def _all_finite(target: Target) -> bool:
    return all(_is_finite(value) for value in _inputs(target))


def _is_finite(value: Tensor) -> bool:
    """Whether all numbers are finite. One without memory has none: whoever reads it all the same is to be found."""
    try:
        if not value.numel() or not has_memory(value):
            return True
        return value.layout == torch.strided and not value.is_meta and bool(value.isfinite().all())
    except RuntimeError:
        return False


def _check(what: str, result: Any, finite: bool) -> None:
    values = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in _flat(result)]
    for value in values:
        if finite and not value.is_meta and value.is_floating_point() and not bool(value.isfinite().all()):
            raise NotFiniteError(f"the {what} of shape {tuple(value.shape)} is not finite")


def _flat(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in _flat(part)]
    return [tree] if isinstance(tree, Tensor | np.ndarray) else []


def _last_lines(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
    return f"{type(error).__name__}: {error} ({where})"


def main(first: int, count: int) -> int:
    """Make the calls of `count` seeds. Returns how many defects there are."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    progress = os.environ.get("PROGRESS")
    defects = 0
    for seed in range(first, first + count):
        if progress:
            Path(progress).write_text(str(seed), encoding="ascii")
        wrong = call(seed)
        if wrong is not None:
            defects += 1
            print(json.dumps({"seed": seed, "wrong": wrong}), flush=True)
    return defects


if __name__ == "__main__":
    sys.exit(FOUND if main(int(sys.argv[1]), int(sys.argv[2])) else 0)
