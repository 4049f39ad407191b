"""The process in which a reader's file runs: `python -m unspool.lab.exercise.child FILE FOLDER`.

It reads `cases.npz` from the folder and writes `answers.npz` and `answers.json` there, so that nothing that the file
prints, and no way in which it ends, can be taken for a result.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

#: The function that a reader writes, with these arguments.
NAME, ARGUMENTS = "rnn", ("x", "W", "U", "b", "h0")
SHAPES = "x is (batch, time, input), W (hidden, input), U (hidden, hidden), b (hidden,), h0 (batch, hidden)"


class ExerciseError(Exception):
    """Something is wrong with the reader's file; the message is for the reader."""


def load(path: Path) -> ModuleType:
    """The reader's module."""
    specification = importlib.util.spec_from_file_location("exercise", path)
    if specification is None or specification.loader is None:
        raise ExerciseError(f"{path} is not a Python file. Give a file that ends in .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look there
    sys.path.insert(0, str(path.parent))
    try:
        specification.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise ExerciseError(f"it imports {error.name}, which is not installed. Install it, or do without") from None
    except (Exception, SystemExit) as error:
        raise ExerciseError(f"it cannot be imported: {describe(error, path)}. Run the file by itself") from None
    return module


def describe(error: BaseException, path: Path) -> str:
    """An exception with the line of the reader's file from which it came."""
    place, at = "", error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == str(path):
            place = f" (line {at.tb_lineno})"
        at = at.tb_next
    if isinstance(error, SyntaxError):
        place = f" (line {error.lineno})"
    said = str(error).splitlines()[0].removesuffix(".").replace(". ", ", ") if str(error) else "no message"
    return f"{type(error).__name__}: {said}{place}"


def call(module: ModuleType, case: dict[str, Any], path: Path) -> dict[str, Any]:
    """What the reader's function gives for one case: its output and, if it computes with torch, gradients."""
    function = getattr(module, NAME, None)
    if not callable(function):
        raise ExerciseError(f"it has no function {NAME}({', '.join(ARGUMENTS)}). Write one")
    try:
        return call_with_arrays(function, case, path)
    except ExerciseError:
        if "torch" not in sys.modules:
            raise
    return call_with_tensors(function, case, path)


def call_with_arrays(function: Callable[..., Any], case: dict[str, Any], path: Path) -> dict[str, Any]:
    """The output for NumPy's arrays; a tensor is refused, since the function is for tensors then."""
    given = {name: array.copy() for name, array in case.items()}
    output = run(function, given, case, path)
    if hasattr(output, "detach"):
        raise ExerciseError(f"{NAME} returns a tensor for arrays. Give torch's tensors to torch's functions")
    return {"output": as_array(output)}


def call_with_tensors(function: Callable[..., Any], case: dict[str, Any], path: Path) -> dict[str, Any]:
    """The output for tensors, and gradients."""
    given = as_tensors(case)
    output = run(function, given, case, path)
    if isinstance(output, list):
        raise ExerciseError(f"{NAME} returns a list. Stack the states of all steps: torch.stack(outputs, 1)")
    return {"output": as_array(output), **gradients(output, given), "tensors": np.array(True)}


def run(function: Callable[..., Any], given: dict[str, Any], case: dict[str, Any], path: Path) -> Any:
    """What the function returns as outputs; it must leave its arguments as they are."""
    try:
        output = first_of(function(*given.values()))
    except (Exception, SystemExit) as error:
        raise ExerciseError(f"{NAME} failed: {describe(error, path)}. {SHAPES}") from None
    changed = [name for name, array in case.items() if not np.array_equal(as_array(given[name]), array)]
    if changed:
        raise ExerciseError(f"{NAME} changes its argument {changed[0]}. Work on a copy")
    return output


def first_of(made: Any) -> Any:
    """The outputs of all steps, if the function also gives the last state."""
    return made[0] if isinstance(made, tuple | list) and len(made) in (1, 2) else made


def as_tensors(case: dict[str, Any]) -> dict[str, Any]:
    """Tensors of which gradients are wanted."""
    import torch

    return {name: torch.tensor(array, requires_grad=True) for name, array in case.items()}


def gradients(output: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Gradients of a weighted sum of the outputs; an argument that it does not depend on has none."""
    import torch

    if not isinstance(output, torch.Tensor) or not output.requires_grad:
        return {"detached": np.array(True)}
    weights = torch.arange(1.0, output.numel() + 1, dtype=output.dtype).reshape(output.shape).cos()
    try:
        found = torch.autograd.grad((output * weights).sum(), list(given.values()), allow_unused=True)
    except RuntimeError:
        raise ExerciseError("its gradient cannot be computed. Make a new state at each step") from None
    return {f"d{name}": as_array(one) for name, one in zip(given, found, strict=True) if one is not None}


def as_array(value: Any) -> Any:
    """A tensor, list or number as an array."""
    try:
        array = np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        raise ExerciseError(f"{NAME} returns {type(value).__name__}, which is no array. Return an array") from None
    if array.dtype.kind not in "fiub":
        raise ExerciseError(f"{NAME} returns {type(value).__name__}, which is no array of numbers. Return an array")
    return array


def main() -> None:
    """Run the reader's function on every case."""
    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    with np.load(folder / "cases.npz") as stored:
        arrays = dict(stored)
    answers: dict[str, Any] = {}
    status: dict[str, str] = {}
    try:
        module = load(path)
        for number in range(len(arrays) // len(ARGUMENTS)):
            case = {name: arrays[f"{number}.{name}"] for name in ARGUMENTS}
            answers |= {f"{number}.{name}": value for name, value in call(module, case, path).items()}
        status["uses"] = "torch" if "0.tensors" in answers else "numpy"
    except ExerciseError as error:
        status["problem"] = str(error)
    np.savez(folder / "answers.npz", **answers)
    (folder / "answers.json").write_text(json.dumps(status), encoding="utf-8")


if __name__ == "__main__":
    main()
