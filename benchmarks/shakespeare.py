"""How well does a character model know Shakespeare after five minutes on this machine?

    python benchmarks/shakespeare.py input.txt --out runs/shakespeare

`input.txt` is "tiny shakespeare", 1,115,394 characters. The last tenth is validation data; at the end it is read once
through, character after character, with the state carried on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import unspool
from unspool.learning.events import Evaluated, Event, Stepped

SETTINGS: dict[str, Any] = {
    **{"cell": "lstm", "hidden": 384, "embedding": 64, "batch": 32, "window": 64},
    **{"optimiser": "adamw", "rate": 5e-3, "schedule": "linear", "clip": 1.0, "evaluate_limit": 30_000},
    **{"dropout": 0.05, "weight_decay": 0.05},
}


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
    finished = unspool.train(asked.text, out=asked.out, force=True, tell=tell, **settings).finished
    speed = sorted(speeds)[len(speeds) // 2]
    print(f"{finished.step} updates in {finished.seconds:.1f} s, {speed:,.0f} characters/s (median), {settings}")
    print(f"validation, read once through: {finished.validation['loss']:.4f} nats a character")


if __name__ == "__main__":
    main()
