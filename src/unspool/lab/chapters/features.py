"""States as features: a language model's states and its word vectors, frozen, under the same small classifier."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import unspool
from unspool import lab
from unspool.insight import extract_states
from unspool.lab.data import ELMAN_CLASSES, ELMAN_WORDS, NO_ROLE, SUBJECT, elman_language

LABELS = ("role", "kind")
FEATURES = ("states", "untrained states", "word vectors")
ANIMATE = [ELMAN_WORDS.index(word) for word in ELMAN_CLASSES["animate"]]
KNOWN = 300


def write(path: Path, sentences: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A text file of the toy language, ten sentences per line; its tokens and their roles."""
    text = elman_language(10, sentences // 10, seed)
    lines = [" ".join(ELMAN_WORDS[token] for token in line) for line in text.tokens.T]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return text.tokens.T.ravel(), text.roles.T.ravel()


def train(folder: Path, name: str, steps: int, seed: int) -> Path:
    """The folder of a language model that has read the text; nobody told it about roles."""
    out = folder / name
    unspool.train(
        folder / "text.txt",
        out=out,
        quiet=True,
        task="lm",
        tokenizer="word",
        cell="gru",
        embedding=16,
        hidden=32,
        bptt=25,
        batch_size=32,
        lr=5e-3,
        steps=steps,
        eval_every=steps,
        seed=seed,
    )
    return out


def probe(features: NDArray[np.float32], labels: NDArray[np.bool_]) -> float:
    """The accuracy of a linear classifier, by ridge regression on the first 300 rows, on all others."""
    x = np.column_stack((features.astype(np.float64), np.ones(len(features))))
    seen, y = x[:KNOWN], np.where(labels[:KNOWN], 1.0, -1.0)
    weights = np.linalg.solve(seen.T @ seen + np.eye(x.shape[1]), seen.T @ y)
    return float(((x[KNOWN:] @ weights > 0) == labels[KNOWN:]).mean())


def compare(folder: Path, steps: int, seed: int) -> dict[str, dict[str, float]]:
    """Accuracies by label and feature, on the nouns of a text that the model has not read."""
    write(folder / "text.txt", 6000, seed)
    tokens, roles = write(folder / "new.txt", 1500, 1000 + seed)
    trained, untrained = (train(folder, name, count, seed) for name, count in (("trained", steps), ("untrained", 1)))
    found = {
        "states": extract_states(trained, folder / "new.txt"),
        "untrained states": extract_states(untrained, folder / "new.txt"),
        "word vectors": extract_states(trained, folder / "new.txt", layer=0),
    }
    words = np.isin(found["states"].tokens, ELMAN_WORDS)  # not the ends of lines
    assert found["states"].tokens[words].tolist() == [ELMAN_WORDS[token] for token in tokens]
    nouns = roles != NO_ROLE
    labels = {"role": (roles == SUBJECT)[nouns], "kind": np.isin(tokens, ANIMATE)[nouns]}
    features = {name: states.values[words][nouns] for name, states in found.items()}
    return {label: {name: probe(features[name], labels[label]) for name in FEATURES} for label in LABELS}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(300, 1000)
    runs = []
    for seed in study.seeds():
        with tempfile.TemporaryDirectory() as folder:
            runs.append(compare(Path(folder), steps, seed))
    return {"steps": steps, "runs": runs}


def judge(found: lab.Found) -> lab.Verdict:
    role = [run["role"] for run in found["runs"]]
    kind = [run["kind"]["states"] for run in found["runs"]]
    return lab.all_of(
        lab.above("role: states minus word vectors", [one["states"] - one["word vectors"] for one in role], 0.1),
        lab.above("role: states minus untrained states", [one["states"] - one["untrained states"] for one in role]),
        lab.above("animate or not: accuracy of states", kind, 0.9),
    )


def show(found: lab.Found) -> lab.Shown:
    titles = dict(zip(LABELS, ("subject or object", "animate or inanimate"), strict=True))
    every = {label: {name: [run[label][name] for run in found["runs"]] for name in FEATURES} for label in LABELS}
    rows: list[tuple[str | float, ...]] = [
        (name, *(statistics.fmean(every[label][name]) for label in LABELS)) for name in FEATURES
    ]
    series = []
    for label in LABELS:
        ends = [lab.interval_of(every[label][name]) for name in FEATURES]
        means, low, high = ([getattr(one, end) for one in ends] for end in ("mean", "low", "high"))
        series.append(lab.Series(titles[label], list(FEATURES), means, low, high))
    return lab.Shown(
        tables=(lab.Table(("features", *titles.values()), rows),),
        figures=(
            lab.Bars(
                "Accuracy of a linear classifier on new nouns", "accuracy", series, marks=(lab.Mark("chance", 0.5),)
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S3-11",
    equation="y = sign(w · h_t + b) against y = sign(w · x_t + b)",
    method=(
        "A GRU language model is trained on text of a generated language, without labels, by `unspool.train`. Its "
        "states and its word vectors for new text are written out as features and stay as they are; a linear "
        "classifier learns from 300 labelled nouns. The role of a noun, subject or object, depends on the context; "
        "whether it is animate depends on the word alone. The claim holds if states tell the role more than 0.1 better "
        "than word vectors and better than the states of an untrained network, and still know the word."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
