"""Compares a reader's RNN with the reference, and says where and probably why it differs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from unspool.errors import DataError
from unspool.lab.exercise.child import ARGUMENTS
from unspool.lab.exercise.mistakes import Array, Case, diagnose, make_cases, reference
from unspool.language import Message

#: Seconds that a reader's file may take.
LIMIT = 30.0
#: The largest difference of values in float64, and in float32.
EXACT, SINGLE = 1e-9, 2e-5


@dataclass(frozen=True)
class Finding:
    """The result of a comparison.

    Attributes:
        right: whether the reader's function is right.
        text: what was found, in a sentence.
        remedy: what to change; empty if nothing.
    """

    right: bool
    text: str
    remedy: str = ""


def check_file(path: Path, limit: float = LIMIT) -> Finding:
    """Compare the function `rnn(x, W, U, b, h0)` of a file with the reference.

    Args:
        path: a Python file; it runs in a process of its own.
        limit: seconds after which that process is ended.

    Returns:
        The first difference that was found, or that there is none.

    Raises:
        DataError: there is no such file.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file. Give the Python file with your function rnn(x, W, U, b, h0).")
    cases = make_cases()
    with TemporaryDirectory() as folder:
        try:
            problem, answers, uses = run(path.absolute(), Path(folder), cases, limit)
        except subprocess.TimeoutExpired:
            return Finding(
                False,
                Message("it did not end within {limit:g} seconds", limit=limit),
                "Look for a loop that never ends",
            )
    if problem:
        text, _, remedy = problem.partition(". ")
        return Finding(False, text, remedy)
    for number, case in enumerate(cases):
        finding = compare(answers, number, case)
        if finding is not None:
            return finding
    if uses == "torch":
        return compare_gradients(answers, cases)
    return Finding(True, "the values are right at every step")


def run(path: Path, folder: Path, cases: tuple[Case, ...], limit: float) -> tuple[str, dict[str, Any], str]:
    """Run the reader's file; the problem if there is one, its answers, and the library that it uses."""
    arrays = {f"{number}.{name}": value for number, case in enumerate(cases) for name, value in case._asdict().items()}
    np.savez(folder / "cases.npz", **arrays)
    child = subprocess.run(
        [sys.executable, "-m", "unspool.lab.exercise.child", str(path), str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=limit,
        check=False,
    )
    status = folder / "answers.json"
    if not status.exists():
        last = child.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return (
            f"its process ended with {child.returncode}: {' '.join(last) or 'without a word'}. Run the file by itself",
            {},
            "",
        )
    said = json.loads(status.read_text(encoding="utf-8"))
    with np.load(folder / "answers.npz", allow_pickle=False) as stored:
        return said.get("problem", ""), dict(stored), said.get("uses", "")


def compare(answers: dict[str, Any], number: int, case: Case) -> Finding | None:
    """The first difference of values in one case, with a diagnosis; None if there is none."""
    output, expected = answers[f"{number}.output"], reference(*case)
    if output.shape != expected.shape:
        return wrong_shape(output, expected)
    if not np.isfinite(output).all():
        return Finding(False, "it gives NaN or infinity", "Look at the sizes of what you add")
    single = output.dtype != np.float64
    difference = np.abs(output.astype(np.float64) - expected)
    if difference.max() <= (SINGLE if single else EXACT):
        return None
    b, t, h = (int(place) for place in first_difference(difference, SINGLE if single else EXACT))
    where = Message(
        "step {t}, sequence {b}, unit {h}: {found:.6g} in place of {expected:.6g}",
        t=t, b=b, h=h, found=float(output[b, t, h]), expected=float(expected[b, t, h]),
    )  # fmt: skip
    mistake = diagnose(output.astype(np.float64), case)
    if mistake is not None:
        return Finding(False, Message("{where}; {mistake}", where=where, mistake=Message(mistake.name)), mistake.remedy)
    if difference.max() < SINGLE:
        return Finding(False, Message("{where}; it computes in single precision", where=where), "Keep the dtype of x")
    return Finding(False, where, "Compute step 0 by hand and compare")


def first_difference(difference: Array, tolerance: float) -> tuple[Any, ...]:
    """The sequence, step and unit of the earliest step that differs."""
    places = np.argwhere(difference > tolerance)
    return tuple(places[np.lexsort((places[:, 2], places[:, 0], places[:, 1]))[0]])


def wrong_shape(output: Any, expected: Array) -> Finding:
    """What a shape tells."""
    text = Message("the output has shape {found}, not {expected}", found=output.shape, expected=expected.shape)
    batch, steps, hidden = expected.shape
    remedies = {
        (steps, batch, hidden): "Put the batch first: np.stack(outputs, axis=1)",
        (batch, hidden): "Return the states of all steps, not only the last",
        (hidden, batch): "Return the states of all steps, each (batch, hidden)",
        (batch, steps + 1, hidden): "Leave h0 out of the outputs",
        (batch, hidden, steps): "Stack along the second axis: np.stack(outputs, axis=1)",
    }
    return Finding(False, text, remedies.get(output.shape, "Return (batch, time, hidden)"))


def compare_gradients(answers: dict[str, Any], cases: tuple[Case, ...]) -> Finding:
    """Whether gradients are right, where values are."""
    for number, case in enumerate(cases):
        if f"{number}.detached" in answers:
            return Finding(
                False, "the values are right, but there is no gradient", "Do without detach, numpy and no_grad"
            )
        for name, expected in gradients_of(case).items():
            found = answers.get(f"{number}.d{name}")
            if found is None:
                text = Message("the values are right, but the output has no gradient of {name}", name=name)
                return Finding(False, text, "Do not detach it or make a new tensor from its numbers")
            if not np.allclose(found, expected, rtol=1e-4, atol=1e-6):
                text = Message("the values are right, but the gradient of {name} is not", name=name)
                return Finding(
                    False, text, "Do not detach the state between steps: gradients go back through all of them"
                )
    return Finding(True, "values and gradients are right")


def gradients_of(case: Case) -> dict[str, Array]:
    """Gradients of the sum of the outputs times cos(1), cos(2), …, by hand: BPTT in NumPy."""
    states = reference(*case)
    weights = np.cos(np.arange(1.0, states.size + 1)).reshape(states.shape)
    before = np.concatenate([case.h0[:, None], states[:, :-1]], axis=1)
    found = {name: np.zeros_like(value) for name, value in case._asdict().items()}
    ahead = np.zeros_like(case.h0)
    for t in reversed(range(case.x.shape[1])):
        inner = (weights[:, t] + ahead) * (1 - states[:, t] ** 2)
        found["W"] += inner.T @ case.x[:, t]
        found["U"] += inner.T @ before[:, t]
        found["b"] += inner.sum(0)
        found["x"][:, t] = inner @ case.W
        ahead = inner @ case.U
    found["h0"] = ahead
    return {name: found[name] for name in ARGUMENTS}
