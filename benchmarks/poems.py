"""Do poems that a model writes have the form of those it read: four lines of seven characters?

    unspool train poems.txt --split lines --minutes 4 --out runs/poems
    python benchmarks/poems.py runs/poems

Each poem of the training text is a line of its own. The model writes as many as are asked for, each from the end of a
line to the next.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np

from unspool.decoding.generation import generate_many
from unspool.decoding.sampling import Sampling
from unspool.runs.generator import TextGenerator

#: Four times seven characters that are no punctuation, and what ends a line of verse.
FORM = re.compile(r"([^，。？！；、\s]{7}[，。？！；、]){4}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", type=Path)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--temperature", type=float, default=0.8)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    writer = TextGenerator.load(asked.run)
    (end,) = writer.vocabulary.ids("\n")
    sampling = Sampling(asked.temperature, banned=writer.banned)
    generator = np.random.default_rng(asked.seed)
    rows = generate_many(writer.model, writer.prompt(""), asked.count, 100, sampling, generator, stop_id=end)
    poems = [writer.vocabulary.decode(row) for row in rows]
    good = [poem for poem in poems if FORM.fullmatch(poem)]
    print("\n".join(poems[:5]))
    print(f"{len(good)} of {len(poems)} have four lines of seven characters")
    print(f"{len(set(good))} of these differ")


if __name__ == "__main__":
    main()
