"""The kernels' vector functions, compiled for every instruction set at hand, against NumPy in higher precision."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from unspool import engine

Array = npt.NDArray[Any]
COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
FLAGS = ["-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC", "-Wall", "-Werror"]
SOURCE, NATIVE = Path(__file__).with_name("mathematics.cpp"), Path(engine.__file__).with_name("native")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")


def sigmoid(v: Array) -> Array:
    return 1 / (1 + np.exp(-v))


#: What the built libraries bring: the C library's own function in long double.
ERF: dict[str, Callable[[Array], Array]] = {}
TRUE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "sqrt": np.sqrt,
    "log1p": np.log1p,
    "softplus": lambda v: np.logaddexp(v, 0),
    "erf": lambda v: ERF["true"](v),
    "sin": np.sin,
    "cos": np.cos,
}
#: Those whose truth NumPy computes quickly.
QUICK = ("exp", "log", "tanh", "sigmoid", "sqrt")
each_function = pytest.mark.parametrize("name", TRUE)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@functools.cache
def libraries(folder: Path) -> dict[int, ctypes.CDLL]:
    """One library for each level of x86-64 that this processor has; elsewhere, one for whatever it is."""

    def build(level: int) -> ctypes.CDLL:
        target, machine = folder / f"mathematics{level}.so", [f"-march=x86-64-v{level}"] if level > 1 else []
        command = [str(COMPILER), *FLAGS, *machine, f"-I{NATIVE}", str(SOURCE), "-o", str(target)]
        subprocess.run(command, check=True, timeout=60)
        return ctypes.CDLL(str(target))

    baseline = build(1)
    ERF["true"] = functools.partial(true_erf, baseline)
    return {1: baseline} | {level: build(level) for level in (3, 4) if level <= baseline.level()}


def true_erf(library: ctypes.CDLL, v: Array) -> Array:
    wide = np.ascontiguousarray(v, np.longdouble)
    out = np.empty_like(wide)
    library.erf_true(ctypes.c_void_p(wide.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(wide.size))
    return out.astype(v.dtype)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mathematics")


def call(library: ctypes.CDLL, name: str, a: Array, b: Array | None = None) -> Array:
    a = np.ascontiguousarray(a)
    b = a if b is None else np.ascontiguousarray(b)
    assert a.size % 16 == 0
    assert (b.size, b.dtype) == (a.size, a.dtype)
    out = np.empty_like(a)
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (a, b, out))
    getattr(library, f"{name}_{a.dtype}")(*pointers, ctypes.c_int64(a.size))
    return out


@np.errstate(all="ignore")
def ulps(y: Array, true: Array) -> Array:
    """How far y is from the true value, in units of the last place that y's type has at that value."""
    kind = np.finfo(y.dtype)
    if true.dtype == np.float64:
        below = (true.view(np.int64) & 0x7FF0000000000000).view(np.float64)  # the power of two at or below |true|
    else:
        below = np.ldexp(np.ones_like(true), np.frexp(true)[1] - 1)
    unit = np.maximum(below * true.dtype.type(kind.eps), true.dtype.type(kind.smallest_subnormal))
    error: Array = np.abs(y - true) / unit
    error[(y == true.astype(y.dtype)) | (np.isnan(y) & np.isnan(true))] = 0  # above all ∞ − ∞ and NaN − NaN
    return error


def worst(name: str, folder: Path, v: Array, wider: type) -> dict[int, float]:
    libraries(folder)
    with np.errstate(all="ignore"):
        true = TRUE[name](v.astype(wider))
    results = {level: call(library, name, v) for level, library in libraries(folder).items()}
    if name in ("tanh", "sigmoid"):
        assert not any((np.abs(y) > 1).any() for y in results.values())
    return {level: float(ulps(y, true).max()) for level, y in results.items()}


def sweep(name: str, folder: Path, step: int) -> None:
    some = step * np.arange(1 << 15, dtype=np.uint32)
    for start in range(0, 1 << 32, step << 15):
        found = worst(name, folder, (np.uint32(start) + some).view(np.float32), np.float64)
        assert all(error <= 2 for error in found.values()), (hex(start), found)


@each_function
def test_float32_is_within_2_ulp(name: str, folder: Path) -> None:
    sweep(name, folder, 61 if name in QUICK else 641)


@pytest.mark.long
@each_function
def test_every_float32_is_within_2_ulp(name: str, folder: Path) -> None:
    sweep(name, folder, 1)


# Where each function does its work, and where its formulas change over.
NEAR = [(-1e-3, 1e-3), (-0.3, 0.3), (0.4, 0.6), (-1, 1), (0.7, 1.5), (-4, 4), (-20, 20)]
FAR = [(-40, 40), (-750, 720), (-745.2, -708), (0, 1e-307), (-6e5, 6e5)]


@each_function
def test_float64_is_within_2_ulp(name: str, folder: Path) -> None:
    rng = np.random.default_rng(0)
    anywhere = rng.integers(0, 1 << 64, 1 << 16, dtype=np.uint64).view(np.float64)
    v = np.concatenate([anywhere, *(rng.uniform(*ends, 1 << 15) for ends in NEAR + FAR)])
    found = worst(name, folder, v, np.longdouble)
    bound = 2 if np.finfo(np.longdouble).nmant >= 63 else 3  # where long double is double, the truth itself is off
    assert all(error <= bound for error in found.values()), found


@each_dtype
@each_function
def test_special_numbers(name: str, dtype: type, folder: Path) -> None:
    kind = np.finfo(dtype)
    libraries(folder)
    ends: list[Any] = [0.0, kind.smallest_subnormal, kind.tiny, kind.max, np.inf, np.nan, 1, 0.5]
    v: Array = np.array([*ends, *(-end for end in ends)], dtype)
    with np.errstate(all="ignore"):
        true = TRUE[name](v.astype(np.longdouble))
        expected: Array = true.astype(dtype)
    exact = np.isin(np.abs(expected), [0, 0.5, 1, np.inf]) | (expected == v)
    for library in libraries(folder).values():
        y = call(library, name, v)
        assert (ulps(y, true) <= 2).all()
        np.testing.assert_array_equal(y[exact], expected[exact])
        np.testing.assert_array_equal(np.signbit(y)[exact], np.signbit(expected)[exact])


@each_dtype
def test_exact_functions(dtype: type, folder: Path) -> None:
    kind = np.finfo(dtype)
    some: Array = np.array(
        [0.0, -0.0, 1, -1, kind.smallest_subnormal, -kind.tiny, kind.max, -np.inf, np.inf, np.nan], dtype
    )
    a, b = (np.concatenate([grid.ravel(), np.zeros(12, dtype)]) for grid in np.meshgrid(some, some))
    exact = {
        "abs": np.abs(a),
        "relu": torch.relu(torch.from_numpy(a)).numpy(),
        "minimum": np.minimum(a, b),
        "maximum": np.maximum(a, b),
        "where": np.where(a < b, a, b),
    }
    for library in libraries(folder).values():
        for name, expected in exact.items():
            np.testing.assert_array_equal(call(library, name, a, b), expected, err_msg=name)
        assert not np.signbit(call(library, "abs", a)).any()
