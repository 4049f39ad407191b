"""Light to import: unspool.nn leaves torch's compiler alone until torch itself needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

import unspool.nn
from unspool.nn.compiling import constant_result

ALONE = """
import sys, types
package = types.ModuleType("unspool")
package.__path__ = [sys.argv[1]]
sys.modules["unspool"] = package
import unspool.nn
print(*sorted({"torch._dynamo", "torch._inductor", "sympy", "polars", "pydantic", "plotly"} & set(sys.modules)))
"""


def test_importing_nn_imports_no_compiler() -> None:
    """Without the package's front door, which is not nn's matter."""
    source = Path(unspool.nn.__file__).parent.parent
    command = [sys.executable, "-c", ALONE, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_mark_is_the_one_that_torch_sets() -> None:
    def mine() -> None: ...

    def theirs() -> None: ...

    assert vars(constant_result(mine)) == vars(torch.compiler.assume_constant_result(theirs)) != {}
