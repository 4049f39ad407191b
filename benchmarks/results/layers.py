"""Does each rule for layers change what it is meant to change?

    python benchmarks/results/layers.py input.txt

A character model of three layers of 128 LSTM units learns from a text, once plainly and once with each rule. Deep
supervision: the norm of the gradient at the lowest layer, over some batches, at the beginning and at the end. Gates
that agree: the share of (unit, step) at which both neighbouring gates are below a half, on validation text. Dropout by
layer: the rates that were solved for, at each evaluation.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from typing import Any

import torch

from unspool.learning import double_closed, gradient_norm, neighboring_gates
from unspool.learning.events import Evaluated, Event
from unspool.learning.loop import Loop
from unspool.learning.penalties import objective
from unspool.models.language_model import LanguageModel
from unspool.nn import Recurrent, Stack
from unspool.runs.fitting import prepare_task
from unspool.runs.train import make_loop, plan
from unspool.tasks.lm import LanguageModelling, TextWindows

MODEL: dict[str, Any] = {"hidden": 128, "layers": 3, "batch_size": 32, "bptt": 64, "lr": 3e-3}
RULES: dict[str, dict[str, Any]] = {
    "none": {},
    "deep supervision, λ = 0.5": {"deep_supervision": 0.5},
    "gates that agree, λ = 0.01": {"gate_penalty": 0.01},
    "output gates held open": {"cell": "lstm-open"},
    "dropout by layer": {"dropout": "auto"},
}
BATCHES = 10


def lowest_gradient(loop: Loop) -> float:
    """The mean norm of what training makes small, at the lowest layer, over the first batches."""
    model = loop.learner
    assert isinstance(model, LanguageModel)
    assert isinstance(model.backbone, Stack)
    lowest = list(model.backbone.layers[0].parameters())
    total, carried = 0.0, model.initial_state(loop.batch_size)
    model.train()
    for number in range(BATCHES):
        model.zero_grad(set_to_none=True)
        outcome = model(loop.batches[number], carried)
        objective(outcome, loop.settings).backward()
        total += gradient_norm(lowest) / BATCHES
    model.zero_grad(set_to_none=True)
    return total


@torch.no_grad()
def closed_gates(loop: Loop) -> float | None:
    """The share of gates that are shut on both sides, on validation text; None where a cell has no output gate."""
    model, task = loop.learner, loop.task
    assert isinstance(model, LanguageModel)
    assert isinstance(model.backbone, Stack)
    assert isinstance(task, LanguageModelling)
    lowest = model.backbone.layers[0]
    assert isinstance(lowest, Recurrent)
    if "o" not in lowest.equations.named:
        return None
    model.eval()
    ids, _ = TextWindows(task.corpus.validation, 16, 512)[0]
    x = model.embedding(torch.from_numpy(ids))
    sequences, _ = model.backbone(x, every_layer=True)
    pairs = neighboring_gates(model.backbone, x, sequences)
    return sum(double_closed(*pair) for pair in pairs) / len(pairs)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("text")
    options.add_argument("--steps", type=int, default=600)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    print(f"python {shlex.join(sys.argv)}")
    for name, rule in RULES.items():
        rates: list[str] = []

        def hear(event: Event, rates: list[str] = rates) -> None:
            if isinstance(event, Evaluated):
                found = [f"{value:.2f}" for key, value in event.validation.items() if key.startswith("dropout")]
                rates += [" ".join(found)] if found else []

        settings = plan(asked.text, task="lm", steps=asked.steps, seed=asked.seed, **{**MODEL, **rule})
        loop = make_loop(*prepare_task(settings), tell=hear)
        begun, before = time.perf_counter(), lowest_gradient(loop)
        finished = loop.run()
        seconds, shut = time.perf_counter() - begun, closed_gates(loop)
        print(
            f"{name}: validation {finished.validation['loss']:.4f} nats, gradient at layer 1 {before:.4f} → "
            f"{lowest_gradient(loop):.4f}, both gates shut {'–' if shut is None else f'{shut:.4f}'}, {seconds:.0f} s"
            + (f", rates of dropout {' → '.join(rates)}" if rates else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
