"""Does an encoder–decoder learn to write a string backwards, and dates as ISO 8601 has them, exactly?

    python benchmarks/results/reverse.py runs/reverse

Both sets of pairs are generated, no source twice: strings of 4 to 16 letters, and dates of the years 1900 to 2099 in
three forms, such as "3 March 2021", "Mar 3, 2021" and "Sunday, 28 February 2021". Exact match is of greedy decoding on
the tenth of the pairs that is for the test, which neither training nor the choice of the best weights has seen.
"""

from __future__ import annotations

import argparse
import random
import string
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path

import torch

from unspool import train

FORMS = ("{0.day} {0:%B} {0.year}", "{0:%b} {0.day}, {0.year}", "{0:%A}, {0.day} {0:%B} {0.year}")
FIRST, DAYS = date(1900, 1, 1), (date(2100, 1, 1) - date(1900, 1, 1)).days


def reverse(chance: random.Random) -> tuple[str, str]:
    """A string of letters, and the same backwards."""
    text = "".join(chance.choices(string.ascii_lowercase, k=chance.randint(4, 16)))
    return text, text[::-1]


def normalise(chance: random.Random) -> tuple[str, str]:
    """A date in one of the forms, and in ISO 8601's."""
    day = FIRST + timedelta(chance.randrange(DAYS))
    return chance.choice(FORMS).format(day), day.isoformat()


PAIRS: Mapping[str, Callable[[random.Random], tuple[str, str]]] = {"reverse": reverse, "dates": normalise}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="for the pairs and the runs")
    options.add_argument("--pairs", type=int, default=8000)
    options.add_argument("--minutes", type=float, default=2.0, help="of training, for each of the two")
    options.add_argument("--hidden", type=int, default=128)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    print(f"python {' '.join(sys.argv)}: seed {asked.seed}, torch threads {torch.get_num_threads()}", flush=True)
    for name, make in PAIRS.items():
        chance, pairs = random.Random(asked.seed), dict[str, str]()
        while len(pairs) < asked.pairs:
            source, target = make(chance)
            pairs[source] = target
        file = asked.folder / f"{name}.tsv"
        file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs.items()), encoding="utf-8")
        begun = time.perf_counter()
        trained = train(
            file,
            task="seq2seq",
            out=asked.folder / name,
            overwrite=True,
            tokenizer="char",
            hidden=asked.hidden,
            minutes=asked.minutes,
            lr=0.004,
            test=0.1,
            seed=asked.seed,
        )
        seconds, found = time.perf_counter() - begun, trained.finished
        print(
            f"| {name} | {found.test['exact match']:.2%} | {found.test['edit distance']:.3f} | "
            f"{found.test['token accuracy']:.2%} | {found.baselines['copying']['edit distance']:.2f} | "
            f"{found.step:,} updates, {seconds:.0f} s |",
            flush=True,
        )
        print(found.sample, flush=True)


if __name__ == "__main__":
    main()
