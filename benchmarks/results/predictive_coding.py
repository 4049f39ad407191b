"""Does predictive coding learn what back-propagation through time learns, and do their gradients point the same way?

    python benchmarks/results/predictive_coding.py

scikit-learn's digits, read row by row (8 steps of 8), by two recurrent layers and a linear head of the last step.
All rules begin at the same weights and see the same batches. Alignment is the cosine between a rule's gradients and
back-propagation's at the same weights on one batch of training data: all gradients together, then the layers, lowest
first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool.learning.predictive_coding import PredictiveCoding, alignment
from unspool.nn import Recurrent

WIDTH, ROWS, TEST = 64, 64, 400
#: Options of predictive coding by the name of the rule; None is back-propagation.
RULES: Mapping[str, dict[str, Any] | None] = {
    "back-propagation": None,
    "predictive coding, fixed predictions": {},
    **{f"predictive coding, {k} iterations": {"iterations": k, "lr": 0.1, "fixed": False} for k in (32, 120)},
}


class Model(nn.Module):
    """Two layers and a head."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.lower, self.upper = Recurrent(cell, 8, WIDTH), Recurrent(cell, WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        """The top layer's output."""
        output: Tensor = self.upper(self.lower(x)[0])[0]
        return output

    def top_loss(self, y: Tensor) -> Callable[[Tensor], Tensor]:
        """The loss as a function of that output."""
        return lambda output: cross_entropy(self.head(output[-1]), y)


def align(model: Model, coding: PredictiveCoding, x: Tensor, y: Tensor) -> str:
    """The alignment of the two rules' gradients, in words; the gradients are forgotten."""
    model.zero_grad()
    model.top_loss(y)(model(x)).backward()
    exact = [
        {name: part.grad.clone() for name, part in layer.named_parameters() if part.grad is not None}
        for layer in coding.layers
    ]
    found = alignment(coding.gradients(x, model.top_loss(y)).gradients, exact)
    model.zero_grad()
    return f"{found.together:.3f} ({', '.join(f'{cosine:.3f}' for cosine in found.layers)})"


def train(options: dict[str, Any] | None, cell: str, epochs: int, seed: int) -> tuple[float, float, list[str]]:
    """Test accuracy, seconds, and the alignment at the start, in the middle and at the end."""
    torch.manual_seed(seed)
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32).view(-1, 8, 8).transpose(0, 1)
    y = torch.tensor(digits.target)
    order = torch.randperm(len(y))
    held, rest = order[:TEST], order[TEST:]
    model = Model(cell)
    coding = None if options is None else PredictiveCoding([model.lower, model.upper], **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    seconds, aligned = 0.0, []
    moments = {epochs // 2: "middle", 0: "start", epochs: "end"}
    for epoch in range(epochs + 1):
        if coding is not None and epoch in moments:
            aligned.append(f"{moments[epoch]}: {align(model, coding, x[:, rest[:ROWS]], y[rest[:ROWS]])}")
        if epoch == epochs:
            break
        begun = time.perf_counter()
        for rows in rest[torch.randperm(len(rest))].split(ROWS):
            optimizer.zero_grad()
            if coding is None:
                model.top_loss(y[rows])(model(x[:, rows])).backward()
            else:
                coding.gradients(x[:, rows], model.top_loss(y[rows]))
            optimizer.step()
        seconds += time.perf_counter() - begun
    with torch.no_grad():
        right = model.head(model(x[:, held])[-1]).argmax(-1) == y[held]
    return float(right.double().mean()), seconds, aligned


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cell", default="gru")
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    for name, rule in RULES.items():
        accuracy, seconds, aligned = train(rule, asked.cell, asked.epochs, asked.seed)
        print(f"{name}: test accuracy {accuracy:.1%}, {seconds:.0f} s", flush=True)
        for line in aligned:
            print(f"    alignment at the {line}", flush=True)


if __name__ == "__main__":
    main()
