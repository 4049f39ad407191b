"""Light to import: unspool.nn leaves torch's compiler alone until torch itself needs it; and what that leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.agreement import needs_compiler
from torch import Tensor, nn

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


class Model(nn.Module):
    """A recurrent layer between others."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(3, 3, dtype=torch.float64), layer

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(torch.tanh(self.before(x)))[0]
        return output.square()


@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")
@pytest.mark.parametrize("kind", [unspool.nn.LSTM, nn.LSTM], ids=["ours", "torch.nn's"])
def test_torch_compiles_no_model_with_its_recurrent_layers_unless_asked(kind: type[nn.LSTM]) -> None:
    """Neither the model nor its parts; ours are such layers."""
    model, x, graphs = Model(kind(3, 4, dtype=torch.float64)), torch.randn(5, 2, 3, dtype=torch.float64), []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    for allowed in (False, True):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(allow_rnn=allowed):
            outputs = [run(x) for run in (model, torch.compile(model, backend=backend))]
        slopes = [torch.autograd.grad(output.sum(), list(model.parameters())) for output in outputs]
        for mine, other in zip((outputs[1], *slopes[1]), (outputs[0], *slopes[0]), strict=True):
            torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)
        assert len(graphs) == allowed
