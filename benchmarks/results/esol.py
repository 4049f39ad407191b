"""How well does a recurrent network predict the solubility of molecules, with and without SMILES augmentation?

    python benchmarks/results/esol.py delaney-processed.csv
    python benchmarks/results/esol.py delaney-processed.csv --augment-smiles 20

ESOL: 1,128 molecules in SMILES and the logarithm of their measured solubility. Each of five random splits into 80 %,
10 % and 10 % trains one model. The weights are those of the best evaluation on validation data. The result is the RMSE
on test data, mean ± standard deviation (n − 1) over the splits. With --augment-smiles, each training molecule has
that many alternative SMILES strings, and a prediction is the mean over the strings of a molecule.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_options import make_parser, parse

import unspool
from unspool.learning.events import Evaluated, Event

TARGET = "measured log solubility in mols per litre"
SETTINGS: dict[str, Any] = {
    **{"target": [TARGET], "text_column": "smiles", "tokenizer": "smiles", "validation": 0.1, "test": 0.1},
    **{"cell": "lstm", "hidden": 128, "layers": 2, "dropout": 0.2, "pooling": "attention", "weight_decay": 0.01},
    **{"batch_size": 32, "lr": 2e-3, "schedule": "cosine", "warmup": 50, "eval_every": 100},
}
#: Updates: 70 epochs of the molecules as they are written, or 4 of them in 21 ways each.
STEPS, STEPS_ENUMERATED = 2_000, 2_400


def train(file: Path, split: int, seed: int, settings: dict[str, Any]) -> Mapping[str, float]:
    """The figures on the test data of one division."""

    def tell(event: Event) -> None:
        if isinstance(event, Evaluated):
            loss = "" if event.training is None else f"training {event.training:.4f}  "
            print(f"  {event.seconds:6.1f} s  {loss}validation RMSE {event.validation['RMSE']:.4f}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        options = {**settings, "split_seed": split, "seed": seed}
        finished = unspool.train(file, task="regress", out=out, tell=tell, **options).finished
    print(f"split {split}: {finished.step} updates in {finished.seconds:.1f} s, best at {finished.best_step}")
    print(f"  validation {finished.validation}\n  test {finished.test}", flush=True)
    return finished.test


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("table", type=Path, help="delaney-processed.csv")
    options.add_argument("--augment-smiles", type=int, default=0, help="other ways in which each molecule is written")
    options.add_argument("--splits", type=int, default=5)
    asked, changed = parse(options)
    steps = STEPS_ENUMERATED if asked.augment_smiles else STEPS
    settings = {**SETTINGS, "steps": steps, "augment_smiles": asked.augment_smiles, **changed}
    begun = time.perf_counter()
    found = [train(asked.table, split, asked.seed, settings) for split in range(asked.splits)]
    seconds = time.perf_counter() - begun
    print(f"seed {asked.seed}, settings {settings}")
    words = [f"`python {' '.join(sys.argv)}`", f"{seconds:.0f} s"]
    for name in ("RMSE", "MAE", "R²"):
        values = [figures[name] for figures in found]
        deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        words.append(f"{name} {statistics.mean(values):.3f}{deviation}")
    print(f"| {' | '.join(words)} |")


if __name__ == "__main__":
    main()
