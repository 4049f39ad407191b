"""`unspool lab check`: files of readers, right and wrong in many ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.calling import call, refused

from unspool.lab.exercise.check import Finding, check_file, gradients_of
from unspool.lab.exercise.mistakes import make_cases

NUMPY = """
import numpy as np

def rnn(x, W, U, b, h0):
    h, outputs = h0, []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ W.T + h @ U.T + b)
        outputs.append(h)
    return np.stack(outputs, axis=1), h
"""
TORCH = NUMPY.replace("numpy as np", "torch").replace("np.stack(outputs, axis=1)", "torch.stack(outputs, dim=1)")
TORCH = TORCH.replace("np.", "torch.")


OTHER_IMPORTS = {
    "numpy beside torch": NUMPY.replace("import numpy as np", "import numpy as np\nimport torch"),
    "names from torch": TORCH.replace("import torch", "from torch import stack, tanh").replace("torch.", ""),
    "a dataclass": "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    + "@dataclass\nclass A:\n    x: int = 1\n"
    + NUMPY,
}


def check(folder: Path, text: str, limit: float = 60.0) -> Finding:
    path = folder / "my_rnn.py"
    path.write_text(text, encoding="utf-8")
    return check_file(path, limit)


@pytest.mark.parametrize("text", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_right_functions_are_right(tmp_path: Path, text: str) -> None:
    finding = check(tmp_path, text)
    assert finding.right, finding


@pytest.mark.parametrize("name", OTHER_IMPORTS)
def test_imports_do_not_decide(tmp_path: Path, name: str) -> None:
    finding = check(tmp_path, OTHER_IMPORTS[name])
    assert finding.right, finding


def test_a_list_of_tensors_is_to_be_stacked(tmp_path: Path) -> None:
    finding = check(tmp_path, TORCH.replace("torch.stack(outputs, dim=1), h", "outputs"))
    assert "returns a list" in finding.text
    assert "torch.stack" in finding.remedy


def test_a_state_changed_in_place_has_no_gradient(tmp_path: Path) -> None:
    inside = "h = torch.tanh(x[:, t] @ W.T + h @ U.T + b)"
    text = TORCH.replace("h, outputs = h0, []", "h, outputs = h0.clone(), []")
    assert inside in text
    finding = check(tmp_path, text.replace(inside, inside + "; k = h * h; h.mul_(1.0)"))
    assert not finding.right


WRONG = {
    "U is transposed": ("h @ U.T", "h @ U"),
    "the bias is missing": (" + b)", ")"),
    "the state is not carried": ("h @ U.T", "h0 @ U.T"),
    "has shape (5, 3, 4), not (3, 5, 4)": ("axis=1", "axis=0"),
    "has shape (3, 4)": ("np.stack(outputs, axis=1), h", "h"),
    "rnn failed: ValueError": ("x[:, t] @ W.T", "x[t] @ W"),
    "(line 7)": ("x[:, t] @ W.T", "x[t] @ W"),
    "rnn changes its argument h0": (
        "h = np.tanh(x[:, t] @ W.T + h @ U.T + b)",
        "h[:] = np.tanh(x[:, t] @ W.T + h @ U.T + b)",
    ),
    "it has no function rnn": ("def rnn", "def other"),
    "it imports surely_not_there": ("import numpy as np", "import numpy as np, surely_not_there"),
    "returns NoneType": ("return np.stack(outputs, axis=1), h", "return None"),
    "no array of numbers": ("np.stack(outputs, axis=1), h", "'text'"),
    "SyntaxError": ("def rnn(x", "def rnn(("),
    "it cannot be imported: SystemExit": ("import numpy as np", "import numpy as np; raise SystemExit(3)"),
    "its process ended with": ("    h, outputs", "    import os; os._exit(7)\n    h, outputs"),
}


@pytest.mark.parametrize("expected", WRONG)
def test_what_is_wrong_is_said(tmp_path: Path, expected: str) -> None:
    old, new = WRONG[expected]
    assert old in NUMPY
    finding = check(tmp_path, NUMPY.replace(old, new))
    assert not finding.right
    assert expected in finding.text
    assert finding.remedy
    assert "Traceback" not in finding.text


def test_single_precision_is_accepted_as_such(tmp_path: Path) -> None:
    text = NUMPY.replace(
        "h, outputs = h0, []", "x, W, U, b, h0 = (np.float32(one) for one in (x, W, U, b, h0))\n    h, outputs = h0, []"
    )
    assert check(tmp_path, text).right
    rounded = text.replace("np.stack(outputs, axis=1)", "np.stack(outputs, axis=1).astype(np.float64)")
    finding = check(tmp_path, rounded)
    assert not finding.right
    assert "single precision" in finding.text


def test_a_file_that_hangs_is_ended(tmp_path: Path) -> None:
    finding = check(tmp_path, "while True:\n    pass\n", limit=3.0)
    assert "did not end within 3 seconds" in finding.text


def test_a_file_that_prints_disturbs_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, NUMPY + "\nprint('{\"problem\": 1}')\n").right
    assert capfd.readouterr().out == ""


def test_a_detached_state_has_wrong_gradients(tmp_path: Path) -> None:
    finding = check(tmp_path, TORCH.replace("h @ U.T", "h.detach() @ U.T"))
    assert "the values are right, but the gradient" in finding.text
    assert "detach" in finding.remedy


def test_no_gradient_at_all(tmp_path: Path) -> None:
    finding = check(tmp_path, TORCH.replace("dim=1)", "dim=1).detach()"))
    assert "there is no gradient" in finding.text


def test_gradients_by_hand_are_torchs() -> None:
    for case in make_cases():
        tensors = [torch.tensor(value, requires_grad=True) for value in case]
        x, W, U, b, h = tensors
        outputs = []
        for t in range(x.shape[1]):
            h = torch.tanh(x[:, t] @ W.T + h @ U.T + b)
            outputs.append(h)
        states = torch.stack(outputs, 1)
        weights = torch.arange(1.0, states.numel() + 1, dtype=torch.float64).cos().reshape(states.shape)
        expected = torch.autograd.grad((states * weights).sum(), tensors)
        for found, gradient in zip(gradients_of(case).values(), expected, strict=True):
            np.testing.assert_allclose(found, gradient.numpy(), rtol=0, atol=1e-12)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(NUMPY.replace("U.T", "U"), encoding="utf-8")
    assert call("lab", "check", path, "--lang", "en") == 1
    said = capsys.readouterr().out
    assert "U is transposed" in said
    assert "Use h @ U.T" in said


def test_the_command_needs_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a file" in refused(capsys, "lab", "check", tmp_path / "missing.py")
    assert "is not one file" in refused(capsys, "lab", "check")
