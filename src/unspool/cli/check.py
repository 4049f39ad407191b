"""unspool check: is all here that unspool needs, and do kernels give right answers on this machine?"""

from __future__ import annotations

import ctypes
import json as json_
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import torch
import typer

from unspool.cells import Cell, sigmoid, tanh
from unspool.cells.symbols import Symbol
from unspool.cli.terminal import console
from unspool.engine import build, enabled, prebuilt
from unspool.engine.signature import is_whole
from unspool.errors import UnspoolError
from unspool.lab.bench.machine import cores, processor, version
from unspool.nn import Recurrent

#: Needed; and what adds a contestant or a format if it is there.
NEEDED = ("torch", "numpy")
OPTIONAL = ("jax", "onnx", "onnxruntime")


@dataclass(frozen=True)
class Fact:
    """One line: what, what was found, whether it is well, and if not the remedy."""

    name: str
    value: str
    ok: bool = True
    remedy: str = ""


def check(
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only what is broken.")] = False,
) -> None:
    """Tell what unspool finds on this machine, and whether its kernels build, run and are right.

    One line a fact. The exit code is 1 if something is broken.

    **Examples**

    - `unspool check`
    - `unspool check --quiet && python train.py`: only go on where all is well
    - `unspool check --json`: for another program
    - `UNSPOOL_ENGINE=off unspool check`: what a machine without kernels says
    """
    facts = []
    out = console()
    for fact in find():
        facts.append(fact)
        if not json and not (quiet and fact.ok):
            out.print("✓" if fact.ok else "✗", style="green" if fact.ok else "red", end=" ")
            out.print(f"{fact.name:<24}{fact.value}", soft_wrap=True)
            if fact.remedy:
                out.print(f"{'':<26}{fact.remedy}", soft_wrap=True)
    ok = all(fact.ok for fact in facts)
    if json:
        print(json_.dumps({"ok": ok, "facts": [asdict(fact) for fact in facts]}, indent=2, ensure_ascii=False))
    if not ok:
        raise typer.Exit(1)


def find() -> Iterator[Fact]:
    """The facts, one after the other."""
    yield Fact("unspool", version("unspool") or "not installed as a package")
    yield Fact("python", platform.python_version())
    for name in NEEDED:
        yield Fact(name, version(name) or "unknown version")
    for name in OPTIONAL:
        yield Fact(name, version(name) or "not installed (not needed)")
    yield Fact("processor", f"{processor()}, {platform.machine()}")
    yield Fact("instructions", build.instruction_set())
    yield Fact("threads", f"{torch.get_num_threads()} of {cores()} cores")
    yield Fact("engine", f"UNSPOOL_ENGINE={os.environ.get('UNSPOOL_ENGINE', '(not set: on)')}")
    if not enabled():
        yield Fact("kernels", "off, as UNSPOOL_ENGINE says; every cell runs eagerly")
        return
    yield shipped()
    yield compiler()
    yield cache()
    yield kernel("LSTM", "lstm")
    if build.find_compiler():
        yield kernel("a user's cell", Probe)


class Probe(Cell):
    """A cell that nobody else writes, so that it is compiled here."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x, z * h))
        return 0.25 * h + 0.75 * z * n


def shipped() -> Fact:
    """Which kernels of the built-in cells came with the wheel for this processor, and whether they can be used."""
    libraries = prebuilt.libraries(build.instruction_set())
    if not libraries:
        return Fact("shipped kernels", "none: built-in cells are compiled when they are first used")
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
    """Which compiler, of which version. Without one only the built-in cells can have kernels."""
    path = build.find_compiler()
    if path is None:
        return Fact("compiler", "none: users' cells run eagerly", True, "Install c++, g++ or clang++ to compile them.")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        return Fact("compiler", f"{path} does not run", False, done.stderr.strip() or "Install it again.")
    return Fact("compiler", f"{path}: {done.stdout.splitlines()[0]}")


def cache() -> Fact:
    """Where built kernels are kept."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            folder = build.cache_folder()
        except UnspoolError as error:
            return Fact("cache", "refused", False, str(error))
    if caught:
        return Fact("cache", str(folder), False, f"{caught[0].message} Set UNSPOOL_CACHE to a folder of your own.")
    libraries = list(folder.glob("*.so"))
    size = sum(library.stat().st_size for library in libraries)
    return Fact("cache", f"{folder}: {len(libraries)} kernels, {size / 2**20:.1f} MiB")


def kernel(title: str, cell: str | type[Cell]) -> Fact:
    """Whether a layer runs by a kernel, and as the eager loop does: output and every gradient."""
    name = f"kernel: {title}"
    started = time.perf_counter()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        layer = Recurrent(cell, 5, 7)
        engine = layer.engine
    spent = time.perf_counter() - started
    if engine != "kernel":
        return Fact(name, "runs eagerly", False, engine.removeprefix("eager: "))
    error = difference(layer)
    if not error < 1e-5:
        remedy = "Please report this with the output of unspool check. UNSPOOL_ENGINE=off gives right values meanwhile."
        return Fact(name, f"kernel, but it differs from the eager loop by {error:.0e}", False, remedy)
    return Fact(name, f"kernel, ready after {spent:.2f} s, equal to the eager loop within {error:.0e}")


def difference(layer: Recurrent) -> float:
    """The largest difference between the kernel and a plain loop over `layer.step`, in parts of the largest value."""
    x = torch.randn(6, 3, layer.input_size, generator=torch.Generator().manual_seed(0))
    parameters = list(layer.parameters())
    output = layer(x)[0]
    states: tuple[torch.Tensor, ...] = (x.new_zeros(3, layer.hidden_size),) * len(layer.equations.states)
    loop = []
    for x_t in x:
        states, _ = layer.step(layer.cell_parameters(), x_t, states)
        loop.append(states[0])
    expected = torch.stack(loop)
    ours = [output, *torch.autograd.grad(output.square().sum(), parameters)]
    eager = [expected, *torch.autograd.grad(expected.square().sum(), parameters)]
    return max(float(((a - b).abs().max() / b.abs().max()).detach()) for a, b in zip(ours, eager, strict=True))
