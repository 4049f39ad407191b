"""unspool check: what unspool finds on this machine, how layers run, and whether their results are correct."""

from __future__ import annotations

import ctypes
import json as json_
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor

from unspool.cells import Cell, sigmoid, tanh
from unspool.cells.symbols import Symbol
from unspool.cli.terminal import console
from unspool.engine import build, enabled, prebuilt
from unspool.engine.signature import is_whole
from unspool.errors import UnspoolError
from unspool.lab.bench.machine import cores, processor, version
from unspool.nn import GRU, LSTM, RNN, Recurrent
from unspool.nn.drop_in import DropIn
from unspool.nn.entry import ENTRY

#: Required packages, and those that add a format or a peer to `unspool bench`.
NEEDED = ("torch", "numpy")
OPTIONAL = ("jax", "onnx", "onnxruntime")
#: Of the layers that are tried: input_size, hidden_size.
SIZES = (5, 7)


@dataclass(frozen=True)
class Fact:
    """One line of the output: what was checked, what was found, whether that is in order, and if not the remedy."""

    name: str
    value: str
    ok: bool = True
    remedy: str = ""


def check(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only what is broken.")] = False,
) -> None:
    """Show what unspool finds on this machine, how its layers run, and whether their results are correct.

    One line per fact. The exit code is 1 if something is broken.

    **Examples**

    - `unspool check`
    - `unspool check --quiet && python train.py`: train only if everything works
    - `unspool check --json`: for another program
    - `UNSPOOL_ENGINE=off unspool check`: without kernels
    """
    facts = []
    out = console()
    for fact in find():
        facts.append(fact)
        if not json and not (quiet and fact.ok):
            show(fact, out)
    ok = all(fact.ok for fact in facts)
    if json:
        _print_json(ok, facts)
    if not ok:
        raise typer.Exit(1)


def _print_json(ok: bool, facts: Sequence[Fact]) -> None:
    print(json_.dumps({"ok": ok, "facts": [asdict(fact) for fact in facts]}, indent=2, ensure_ascii=False))


def show(fact: Fact, out: Console) -> None:
    """Print a fact as a line, and its remedy below."""
    out.print("✓" if fact.ok else "✗", style="green" if fact.ok else "red", end=" ")
    out.print(f"{fact.name:<24}{fact.value}", soft_wrap=True)
    if fact.remedy:
        out.print(f"{'':<26}{fact.remedy}", soft_wrap=True)


def find() -> Iterator[Fact]:
    """The facts, one after the other."""
    yield from packages()
    yield Fact("processor", f"{processor()}, {platform.machine()}")
    yield Fact("instructions", build.instruction_set())
    yield Fact("threads", f"{torch.get_num_threads()} of {cores()} cores")
    yield Fact("engine", f"UNSPOOL_ENGINE={os.environ.get('UNSPOOL_ENGINE', '(not set: on)')}")
    if enabled():
        yield shipped()
        yield compiler()
        yield cache()
        yield entry()
    else:
        yield Fact("kernels", "off, as UNSPOOL_ENGINE says; every cell runs eagerly")
    yield layer("Recurrent", partial(Recurrent, "lstm"))
    for kind in (RNN, GRU, LSTM):
        yield layer(kind.__name__, kind)
    if enabled() and build.find_compiler():
        yield layer("a user's cell", partial(Recurrent, Probe))


def packages() -> Iterator[Fact]:
    """What is installed, with versions."""
    yield Fact("unspool", version("unspool") or "not installed as a package")
    yield Fact("python", platform.python_version())
    for name in NEEDED:
        yield Fact(name, version(name) or "unknown version")
    for name in OPTIONAL:
        yield Fact(name, version(name) or "not installed (not needed)")


class Probe(Cell):
    """A cell that is in no wheel, so that it is compiled here."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x, z * h))
        return 0.25 * h + 0.75 * z * n


def shipped() -> Fact:
    """The kernels of built-in cells that came with the wheel for this processor, and whether they can be loaded."""
    libraries = prebuilt.libraries(build.instruction_set())
    if not libraries:
        return Fact("shipped kernels", "none: built-in cells are compiled at first use")
    if not all(map(is_whole, libraries)):
        return Fact("shipped kernels", "damaged", False, "Install unspool again.")
    try:
        for library in libraries:
            ctypes.CDLL(str(library))
    except OSError as error:
        remedy = "Build unspool's wheel on this machine, or install a C++ compiler."
        return Fact("shipped kernels", f"cannot be loaded: {error}", False, remedy)
    size = sum(library.stat().st_size for library in libraries)
    return Fact("shipped kernels", f"{len(libraries)} libraries for {build.instruction_set()}, {size / 2**20:.1f} MiB")


def compiler() -> Fact:
    """The compiler and its version. Without one only built-in cells can have kernels."""
    path = build.find_compiler()
    if path is None:
        return Fact("compiler", "none: users' cells run eagerly", True, "Install c++, g++ or clang++ to compile them.")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        return Fact("compiler", f"{path} does not run", False, done.stderr.strip() or "Install it again.")
    return Fact("compiler", f"{path}: {done.stdout.splitlines()[0]}")


def cache() -> Fact:
    """The folder in which built kernels are kept."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            folder = build.kernel_folder()
        except UnspoolError as error:
            return Fact("cache", "refused", False, str(error))
    if caught:
        return Fact("cache", str(folder), False, f"{caught[0].message} Set UNSPOOL_CACHE to a folder of your own.")
    libraries = list(folder.glob("*.so"))
    size = sum(library.stat().st_size for library in libraries)
    return Fact("cache", f"{folder}: {len(libraries)} kernels, {size / 2**20:.1f} MiB")


def entry() -> Fact:
    """The way through C++ that small calls take, compiled now if it was not before."""
    why = ENTRY.prepare()
    return Fact("small calls", f"through Python: {why}" if why else "through C++")


def layer(title: str, make: Callable[[int, int], Recurrent | DropIn]) -> Fact:
    """The route that a layer takes and why, and how far its results and gradients are from an independent way."""
    name = f"layer: {title}"
    started = time.perf_counter()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        made = make(*SIZES)
        route = made.engine
    spent = time.perf_counter() - started
    if not enabled():
        return Fact(name, route)
    if not route.startswith("kernel"):
        return Fact(name, route, False, "Remove the cause. Until then the layer works, but slowly.")
    error, other = difference(made), "torch.nn" if isinstance(made, DropIn) else "the eager loop"
    if not error < 1e-5:
        remedy = "Please report this with the output of unspool check. Until then, set UNSPOOL_ENGINE=off."
        return Fact(name, f"{route}, but it differs from {other} by {error:.0e}", False, remedy)
    return Fact(name, f"{route}; ready after {spent:.2f} s; equal to {other} within {error:.0e}")


def difference(layer: Recurrent | DropIn) -> float:
    """The largest difference of output and gradients from torch.nn or a plain loop, relative to the largest value."""
    x = torch.randn(6, 3, layer.input_size, generator=torch.Generator().manual_seed(0))
    parameters = list(layer.parameters())
    output = layer(x)[0]
    ours = [output, *torch.autograd.grad(output.square().sum(), parameters)]
    expected, sources = by_torch(layer, x) if isinstance(layer, DropIn) else (by_loop(layer, x), parameters)
    theirs = [expected, *torch.autograd.grad(expected.square().sum(), sources)]
    return max(float(((a - b).abs().max() / b.abs().max()).detach()) for a, b in zip(ours, theirs, strict=True))


def by_loop(layer: Recurrent, x: Tensor) -> Tensor:
    """The output of a layer by a plain loop over its step."""
    states: tuple[Tensor, ...] = (x.new_zeros(x.shape[1], layer.hidden_size),) * len(layer.equations.states)
    outputs = []
    for x_t in x:
        states, _ = layer.step(layer.cell_parameters(), x_t, states)
        outputs.append(states[0])
    return torch.stack(outputs)


def by_torch(layer: DropIn, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The output of torch.nn's layer with the same parameters, and these."""
    theirs = getattr(torch.nn, type(layer).__name__)(layer.input_size, layer.hidden_size)
    theirs.load_state_dict(layer.state_dict())
    return theirs(x)[0], list(theirs.parameters())
