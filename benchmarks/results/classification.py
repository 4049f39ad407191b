"""Do the default classifier and tagger beat models without memory, on five published data sets?

    python benchmarks/results/classification.py DATA --keep results.jsonl

DATA has the folders trec, movie-reviews, names-by-language, snips and wnut17 as they are published. Everything is
trained with the task's defaults, without vectors that others have trained. The best weights are chosen on validation
data: the set's own, or a tenth of the training data; test data is read once per run. Film reviews have no fixed split:
each tenth is the test data of one run. Runs are kept in a file, one line each, and are not repeated.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import unspool

SEEDS = (0, 1, 2)
FOLDS = 10
Labelled = list[tuple[str, str]]


class Split(NamedTuple):
    """The files of one run, and the settings that say how they are divided."""

    task: str
    files: Path
    held_out: dict[str, Any]
    seed: int


def read_labels_first(path: Path) -> Labelled:
    """Lines of a label and, after a space, a text."""
    pairs = (line.rstrip("\n").split(" ", 1) for line in path.open(encoding="latin-1"))
    return [(text.strip(), label) for label, text in pairs]


def write_table(pairs: Sequence[tuple[str, str]], target: Path) -> Path:
    """A table of texts and labels."""
    with target.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *pairs])
    return target


def trec(data: Path, folder: Path) -> Iterator[Split]:
    """Questions, 6 classes."""
    train, test = (
        write_table(read_labels_first(data / f"TREC.{part}.all"), folder / f"{part}.csv") for part in ("train", "test")
    )
    yield from (Split("classify", train, {"test": [str(test)], "split_seed": seed}, seed) for seed in SEEDS)


def movie_reviews(data: Path, folder: Path) -> Iterator[Split]:
    """Sentences, good or bad, in ten parts."""
    pairs = read_labels_first(data / "rt-polarity.all")
    order = np.random.default_rng(0).permutation(len(pairs))
    for fold in range(FOLDS):
        tested = {*order[fold::FOLDS].tolist()}
        parts = [[pair for place, pair in enumerate(pairs) if (place in tested) == test] for test in (False, True)]
        train, test = (write_table(part, folder / f"{fold}-{name}.csv") for part, name in zip(parts, "ab", strict=True))
        yield Split("classify", train, {"test": [str(test)]}, fold)


def names_by_language(data: Path, folder: Path) -> Iterator[Split]:
    """Surnames, 18 languages; a tenth is test data."""
    listed = [path for path in sorted(data.glob("*.txt")) if path.stem != "SOURCE"]
    lines = ((path.stem, path.read_text(encoding="utf-8").splitlines()) for path in listed)
    table = write_table([(name, label) for label, names in lines for name in names if name], folder / "names.csv")
    yield from (Split("classify", table, {"test": 0.1}, seed) for seed in SEEDS)


def snips_intents(data: Path, folder: Path) -> Iterator[Split]:
    """Queries, 7 intents."""
    for part in ("train", "valid", "test"):
        texts, labels = ((data / part / name).read_text(encoding="utf-8").split("\n") for name in ("seq.in", "label"))
        pairs = [(text.strip(), label.strip()) for text, label in zip(texts, labels, strict=True) if text.strip()]
        write_table(pairs, folder / f"{part}.csv")
    held_out = {"validation": [str(folder / "valid.csv")], "test": [str(folder / "test.csv")]}
    yield from (Split("classify", folder / "train.csv", held_out, seed) for seed in SEEDS)


def wnut17(data: Path, folder: Path) -> Iterator[Split]:
    """Names in messages: tags."""
    files = {"train": "wnut17train.conll", "dev": "emerging.dev.conll", "test": "emerging.test.annotated"}
    for part, file in files.items():
        shutil.copy(data / file, folder / f"{part}.conll")
    held_out = {"validation": [str(folder / "dev.conll")], "test": [str(folder / "test.conll")]}
    yield from (Split("tag", folder / "train.conll", held_out, seed) for seed in SEEDS)


#: By name: the folder, what splits it, and the metric.
SETS: dict[str, tuple[str, Callable[[Path, Path], Iterator[Split]], str]] = {
    "TREC": ("trec", trec, "accuracy"),
    "film reviews": ("movie-reviews", movie_reviews, "accuracy"),
    "surnames": ("names-by-language", names_by_language, "accuracy"),
    "SNIPS intents": ("snips", snips_intents, "accuracy"),
    "WNUT 17": ("wnut17", wnut17, "span F1"),
}


#: What is compared: the defaults, and the same with models without memory.
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "classify": {
        "recurrent": {},
        "bag of vectors": {"backbone": "bag"},
        "shared FCN, summed": {"backbone": "fcn"},
        "1-D convolution": {"backbone": "cnn"},
        "3-layer convolution": {"backbone": "cnn", "cnn_layers": 3},
    },
    "tag": {"recurrent": {}, "stateless MLP": {"backbone": "mlp", "crf": False}},
}


def measure(split: Split, settings: dict[str, Any], metric: str) -> dict[str, float]:
    """Train a model; its metric on test and on validation data, and the CPU time that it took."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        given = {"task": split.task, "seed": split.seed, **split.held_out, **settings}
        finished = unspool.train(split.files, out=Path(folder) / "run", quiet=True, **given).finished
    seconds = time.process_time() - begun
    return {"test": finished.test[metric], "validation": finished.validation[metric], "seconds": seconds}


def run(name: str, data: Path, keep: Path, wanted: Sequence[str]) -> None:
    """Make the runs of a set that are not kept yet."""
    own, split_up, metric = SETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for split in split_up(data / own, Path(folder)):
            for model, settings in MODELS[split.task].items():
                known = {"set": name, "seed": split.seed, "model": model}
                if (wanted and model not in wanted) or any(known.items() <= one.items() for one in read_kept(keep)):
                    continue
                found = {**known, **measure(split, settings, metric)}
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
                print(json.dumps(found), flush=True)


def read_kept(keep: Path) -> list[dict[str, Any]]:
    """The runs that were made."""
    return [json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines()] if keep.exists() else []


def show(keep: Path) -> None:
    """The table: mean and standard error of the metric over the runs of a set, in percent."""
    kept = read_kept(keep)
    models = list(dict.fromkeys(one["model"] for one in kept))
    print(
        "| set | " + " | ".join(models) + " | CPU seconds of a recurrent model |\n" + "|---" * (len(models) + 2) + "|"
    )
    for name in [name for name in SETS if any(one["set"] == name for one in kept)]:
        runs = [[one for one in kept if (one["set"], one["model"]) == (name, model)] for model in models]
        seconds = [one["seconds"] for one in kept if (one["set"], one["model"]) == (name, "recurrent")]
        taken = f"{statistics.mean(seconds):.0f}" if seconds else "–"
        cells = [*(spread([one["test"] for one in found]) for found in runs), taken]
        print(f"| {name} | {' | '.join(cells)} |")


def spread(values: Sequence[float]) -> str:
    """Mean ± standard error, in percent, and of how many runs."""
    if not values:
        return "–"
    error = f" ± {100 * statistics.stdev(values) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{error} ({len(values)})"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--keep", type=Path, default=Path("classification.jsonl"))
    options.add_argument("--sets", nargs="*", choices=[*SETS], default=[*SETS])
    options.add_argument("--models", nargs="*", default=[], help="by default all")
    options.add_argument("--threads", type=int, default=2)
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    for name in asked.sets:
        run(name, asked.data, asked.keep, asked.models)
    show(asked.keep)


if __name__ == "__main__":
    main()
