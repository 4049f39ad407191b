"""Does the recipe of Zaremba et al. (2014) train as a plain torch script of the paper does?

    python benchmarks/results/zaremba.py train.txt --characters 500000 --epochs 6

All contestants start from the same weights and read the same batches. A line per epoch has the perplexity of the last
tenth of the text. The contestants:

- unspool: the recipe.
- plain: `tests/oracles/zaremba.py`, to which a test holds the recipe, update by update.
- both biases: the plain script with the two biases per gate of torch.nn.LSTM, where the paper's text has one.
- mean: the recipe with a loss that is a mean over tokens.

At the learning rate of the first epochs, training is chaotic: a rounding error grows about tenfold in ten updates, so
that even with --float64 two scripts of the same updates part before an epoch is over. What remains is the spread of
perplexities that rounding alone makes: compare a contestant with itself, with and without --float64.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.oracles import zaremba

from unspool.learning.events import Evaluated, Event
from unspool.learning.loop import Loop
from unspool.learning.stopping import Stop
from unspool.models.catalogue import make_learner
from unspool.runs.progress import silent
from unspool.runs.train import plan
from unspool.tasks.lm import LanguageModelling

RECIPE = "zaremba-small"


def prepare(asked: argparse.Namespace, folder: str, tell: Callable[[Event], None], **options: Any) -> Loop:
    """A run of the recipe before its first update."""
    text = Path(folder, "text.txt")
    text.write_text(asked.text.read_text(encoding="utf-8")[: asked.characters], encoding="utf-8")
    sizes = {"vocab_size": asked.vocab_size, "epochs": asked.epochs, "seed": asked.seed}
    settings = plan(text, recipe=RECIPE, **sizes, **options)
    task = settings.task.prepare(settings.data, asked.seed)
    torch.manual_seed(asked.seed)
    learner = make_learner(task, settings.model).to(torch.float64 if asked.float64 else torch.float32)
    return Loop(task, learner, settings.training, None, tell, Stop())


def tokens_of(loop: Loop, part: str) -> Tensor:
    """The tokens of the training or validation text."""
    assert isinstance(loop.task, LanguageModelling)
    return torch.from_numpy(getattr(loop.task.corpus, part).astype("int64"))


def unspool(asked: argparse.Namespace, folder: str, **options: Any) -> None:
    """Run the recipe."""

    def hear(event: Event) -> None:
        if isinstance(event, Evaluated):
            report(math.exp(LanguageModelling.measure(loop.learner, loop.task.corpus.validation)))  # type: ignore[arg-type, attr-defined]

    loop = prepare(asked, folder, hear, **options)
    loop.run()


def plain(asked: argparse.Namespace, folder: str, both_biases: bool = False) -> None:
    """Run the plain script from the weights that the run starts with."""
    loop = prepare(asked, folder, silent)
    weights, recipe = dict(loop.learner.named_parameters()), zaremba.RECIPES[RECIPE]
    words, width = weights["head"].shape
    model = zaremba.Model(words, width, recipe, both_biases).to(weights["head"].dtype).take(weights)
    for _ in islice(zaremba.train(model, tokens_of(loop, "training"), recipe), asked.epochs):
        report(zaremba.perplexity(model, tokens_of(loop, "validation")))


def report(perplexity: float) -> None:
    print(f"  {perplexity:.2f}", flush=True)


CONTESTANTS: dict[str, Callable[[argparse.Namespace, str], None]] = {
    "unspool": unspool,
    "plain": plain,
    "both biases": lambda asked, folder: plain(asked, folder, both_biases=True),
    "mean": lambda asked, folder: unspool(asked, folder, loss_reduction="mean"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("text", type=Path)
    options.add_argument("--characters", type=int, help="of the text, from its start; default: all")
    options.add_argument("--vocab-size", type=int, default=10_000)
    options.add_argument("--epochs", type=int, default=13)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--float64", action="store_true")
    options.add_argument("--only", choices=CONTESTANTS, action="append")
    asked = options.parse_args()
    torch.set_num_threads(1)
    print(f"python {shlex.join(sys.argv)}", flush=True)
    for name in asked.only or CONTESTANTS:
        print(name, flush=True)
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            CONTESTANTS[name](asked, folder)
        print(f"  {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
