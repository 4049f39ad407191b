"""How well does a character model know Shakespeare after five minutes on this machine?

    python benchmarks/shakespeare.py input.txt --out runs/shakespeare

`input.txt` is "tiny shakespeare", 1,115,394 characters. The last tenth is validation data. At the end its loss is given
in two ways: read once from start to end with the state carried on; and, as nanoGPT measures it, as the mean over random
windows of 256 characters, each from a state of zeros.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

import unspool
from unspool.learning.events import Evaluated, Event, Stepped
from unspool.tasks.lm import LanguageModelling

SETTINGS: dict[str, Any] = {
    **{"cell": "lstm", "hidden": 384, "embedding": 64, "batch_size": 32, "bptt": 64},
    **{"optimizer": "adamw", "lr": 5e-3, "schedule": "linear", "clip": 1.0, "eval_limit": 30_000},
    **{"dropout": 0.05, "weight_decay": 0.05},
}


#: nanoGPT's evaluation: windows per batch, batches, and characters per window.
WINDOWS, BATCHES, LENGTH = 64, 200, 256


@torch.no_grad()
def random_window_loss(model: Any, tokens: NDArray[Any], seed: int = 0) -> float:
    """The mean loss over random windows, without a state from the text before them."""
    model.eval()
    chance = np.random.default_rng(seed)
    losses = []
    for _ in range(BATCHES):
        starts = chance.integers(0, len(tokens) - LENGTH, WINDOWS)
        ids = torch.from_numpy(np.stack([tokens[start : start + LENGTH + 1] for start in starts], 1).astype(np.int64))
        losses.append(float(model((ids[:-1], ids[1:]), model.initial_state(WINDOWS)).loss))
    return float(np.mean(losses))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("text", type=Path)
    options.add_argument("--out", type=Path, default=Path("runs/shakespeare"))
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other settings than the recorded")
    asked = options.parse_args()
    changed = {name: json.loads(value) for name, value in (one.split("=", 1) for one in asked.set)}
    torch.set_num_threads(2)
    speeds: list[float] = []

    def tell(event: Event) -> None:
        if isinstance(event, Stepped):
            speeds.append(event.speed)
        if isinstance(event, Evaluated):
            print(f"{event.seconds:6.1f} s  training {event.training:.4f}  validation {event.validation['loss']:.4f}")

    settings = {**SETTINGS, **changed, "minutes": asked.minutes, "seed": asked.seed}
    run = unspool.train(asked.text, out=asked.out, overwrite=True, tell=tell, **settings)
    finished, task = run.finished, cast(LanguageModelling, run.task)
    speed = sorted(speeds)[len(speeds) // 2]
    print(f"{finished.step} updates in {finished.seconds:.1f} s, {speed:,.0f} characters/s (median), {settings}")
    windows = random_window_loss(run.learner, np.asarray(task.corpus.validation), asked.seed)
    print(f"validation, read once, state carried on: {finished.validation['loss']:.4f} nats per character")
    print(f"validation, random windows of {LENGTH} characters, no carried state: {windows:.4f} nats per character")


if __name__ == "__main__":
    main()
