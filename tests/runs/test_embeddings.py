"""Pretrained word vectors: they start the embedding, are tuned or frozen, and are not needed afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unspool
from unspool.errors import ArgumentError
from unspool.estimators import SequenceClassifier
from unspool.learning.events import Event, Started
from unspool.runs.baselines import baselines_of
from unspool.runs.embeddings import make_model
from unspool.runs.load import load_run
from unspool.runs.train import plan

VECTORS = {"the": [1.0, 2.0, 3.0], "fox": [-1.0, 0.5, 2.0], "dog": [0.25, -2.0, 1.0], "unused": [9.0, 9.0, 9.0]}
SMALL: dict[str, Any] = {"hidden": 8, "engine": "torch", "batch_size": 2, "steps": 3, "tokenizer": "word"}
TEXT = "the quick brown fox jumps over the lazy dog\n" * 40


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    lines = [f"{token} {' '.join(map(str, vector))}\n" for token, vector in VECTORS.items()]
    (tmp_path / "vectors.txt").write_text("".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(run: Any) -> dict[str, Any]:
    """The embedding's rows of the tokens that have a vector."""
    table = run.learner.token_embedding().weight.detach()
    return {token: table[number].tolist() for token, number in run.task.embedded_tokens().items() if token in VECTORS}


def test_frozen_vectors_stay_and_the_run_needs_their_file_no_more(folder: Path) -> None:
    events: list[Event] = []
    run = unspool.train(
        "book.txt", out="run", pretrained_embeddings="vectors.txt", freeze_embeddings=True, tell=events.append, **SMALL
    )
    assert rows(run) == {token: VECTORS[token] for token in ("the", "fox", "dog")}
    (started,) = (event for event in events if isinstance(event, Started))
    assert started.plan["embeddings"] == "3 of 9 tokens (33.3%) have a vector; frozen"
    (folder / "vectors.txt").unlink()
    loaded = load_run("run")
    assert loaded.config.model.embedding == 3
    assert rows(loaded) == rows(run)
    more = unspool.train("book.txt", out="run", resume=True, **{**SMALL, "steps": 5})
    assert more.finished.step == 5
    assert rows(more) == rows(run)


def test_tuned_vectors_start_there_and_are_learned(folder: Path) -> None:
    options: dict[str, Any] = {**SMALL, "pretrained_embeddings": "vectors.txt", "lr": 1e-6}
    run = unspool.train("book.txt", out="run", **options)
    for token, row in rows(run).items():
        np.testing.assert_allclose(row, VECTORS[token], atol=1e-4)
        assert row != VECTORS[token]


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "seq2seq"])
def test_every_task_with_tokens_takes_them(task: str, folder: Path) -> None:
    words = ["the fox", "a dog", "the dog", "a fox"] * 8
    if task == "tag":
        path = folder / "data.conll"
        path.write_text("".join(f"{a} O\n{b} B-animal\n\n" for a, b in map(str.split, words)), encoding="utf-8")
    else:
        path = folder / "data.csv"
        columns = {"classify": ("text", "label"), "regress": ("text", "target"), "seq2seq": ("source", "target")}[task]
        target: Any = {"classify": str, "regress": len, "seq2seq": str.upper}[task]
        path.write_text("\n".join([",".join(columns), *(f"{text},{target(text)}" for text in words)]), encoding="utf-8")
    options: dict[str, Any] = {"hidden": 4, "engine": "torch", "steps": 1, "task": task}
    options |= {} if task == "tag" else {"tokenizer": "word"}
    run = unspool.train(path, out="run", pretrained_embeddings="vectors.txt", freeze_embeddings=True, **options)
    assert rows(run) == {token: VECTORS[token] for token in rows(run)}
    assert len(rows(run)) >= 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pretrained_embeddings": "vectors.txt", "embedding": 4}, r"`embedding` \(=4\) is not the size .* 3"),
        ({"pretrained_embeddings": "none.txt"}, "none.txt cannot be read"),
        ({"freeze_embeddings": True}, "`freeze_embeddings` .* has no effect"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        plan("book.txt", tokenizer="word", **options)


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_from_the_vectors(folder: Path) -> None:
    options: dict[str, Any] = {**SMALL, "pretrained_embeddings": "vectors.txt", "freeze_embeddings": True}
    unspool.train("book.txt", out="run", **options)
    for path in (folder / "run" / "model.safetensors", *(folder / "run" / "checkpoints").iterdir()):
        path.unlink()
    run = unspool.train(out="run", resume=True)
    assert rows(run) == {token: VECTORS[token] for token in ("the", "fox", "dog")}


def test_estimators_and_baselines_start_from_them_too(folder: Path) -> None:
    texts, labels = ["the fox", "a dog", "the dog", "a fox"] * 6, ["one", "two"] * 12
    further: dict[str, Any] = {"pretrained_embeddings": "vectors.txt", "freeze_embeddings": True}
    fitted = SequenceClassifier(hidden=4, epochs=1, tokenizer="word", settings=further, random_state=0)
    fitted.fit(texts, labels)
    table = fitted.learner_.token_embedding().weight
    known = fitted.task_.embedded_tokens()
    assert table[known["fox"]].tolist() == VECTORS["fox"]
    config = plan("data.csv", task="classify", tokenizer="word", **further)
    for baseline in baselines_of(config).values():
        learner, notes = make_model(fitted.task_, baseline)
        made = learner.token_embedding()
        assert made is not None
        assert made.weight[known["fox"]].tolist() == VECTORS["fox"]
        assert "frozen" in notes["embeddings"]


def test_parts_of_words_have_no_vectors(folder: Path) -> None:
    with pytest.raises(ArgumentError, match="is for embeddings of whole tokens"):
        unspool.train("book.txt", out="run", **{**SMALL, "tokenizer": "byte"}, pretrained_embeddings="vectors.txt")
    assert not (folder / "run").exists()
    assert torch.is_grad_enabled()


def test_every_member_of_a_classifier_starts_from_the_vectors(folder: Path) -> None:
    lines = [f"the {word},{label}\n" for word, label in (("fox", "x"), ("dog", "y")) for _ in range(20)]
    (folder / "table.csv").write_text("text,label\n" + "".join(lines), encoding="utf-8")
    options: dict[str, Any] = {"members": 2, "pretrained_embeddings": "vectors.txt", "freeze_embeddings": True, **SMALL}
    run = unspool.train("table.csv", out="run", quiet=True, **options)
    assert load_run("run").config.model.describe() == "2 members of 1 × 8 lstm"
    place = run.task.embedded_tokens()["fox"]
    tables = [run.learner.token_embedding(), run.learner.companions[0].token_embedding()]  # type: ignore[index, union-attr]
    for table in tables:
        assert table is not None
        assert table.weight[place].tolist() == VECTORS["fox"]
        assert not table.weight.requires_grad
