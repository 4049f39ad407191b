"""`make sanitize` finds nothing where there is nothing, and finds mistakes that are planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unspool.engine import build

TOOL = Path(__file__).parent.parent / "tools" / "sanitize.py"


def has_sanitizers() -> bool:
    compiler = build.find_compiler()
    if compiler is None:
        return False
    command = [compiler, "-print-file-name=libasan.so"]
    return os.path.isabs(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


pytestmark = pytest.mark.skipif(not has_sanitizers(), reason="there is no compiler with sanitizers")


def sanitize(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "elman", "--random", "0", "--fuzz", "0", "--quick", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_clean() -> None:
    done = sanitize()
    assert done.returncode == 0, done.stderr
    assert "Elman of float32" in done.stdout
    assert "1 cells" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        ("overrun", "ERROR: AddressSanitizer"),
        pytest.param("scratch", "ERROR: AddressSanitizer", marks=pytest.mark.long),
        pytest.param("misaligned", "runtime error: load of misaligned address", marks=pytest.mark.long),
    ],
)
def test_what_is_planted_is_found(plant: str, said: str) -> None:
    done = sanitize("--plant", plant)
    assert done.returncode == 1
    assert said in done.stderr
