"""What tasks answer when X-ray asks for a batch: which data it is, its tokens, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tensors import as_tensors
from torch.nn import functional

from unspool.errors import ArgumentError, DataError
from unspool.models.catalogue import make_learner
from unspool.settings.data import LabelledData, TaggedData, TextData
from unspool.settings.model import LanguageModelSettings
from unspool.tasks.classify import Classification
from unspool.tasks.contract import Extent, Task
from unspool.tasks.lm import LanguageModelling, textless_ids
from unspool.tasks.tag import Tagging

SMALL = Extent(batch_size=3, steps=5, bptt=None)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))


def read_text(folder: Path, text: str = "abcdefghij" * 40) -> LanguageModelling:
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return LanguageModelling.prepare(TextData(files=(str(folder / "text.txt"),), validation=0.5), seed=0)


def make_model(task: LanguageModelling) -> Any:
    torch.manual_seed(0)
    return make_learner(task, LanguageModelSettings(hidden=6, engine="torch")).eval()


@pytest.mark.parametrize(
    ("bptt", "steps"),
    [(None, 5), (1, 5), (2, 6), (3, 9), (100, 10)],
    ids=["all", "short", "three times", "longer", "at most twice"],
)
def test_a_text_is_read_from_the_start_of_its_validation_part(tmp_path: Path, bptt: int | None, steps: int) -> None:
    """Three times `bptt`, but at least the steps that are asked for and at most twice as many."""
    task = read_text(tmp_path)
    found = task.material(None, SMALL._replace(bptt=bptt))
    inputs, targets = found.batch
    assert (found.source, found.batch_size, found.missing) == ("validation data", 3, ())
    tokens = np.asarray(task.corpus.validation, np.int64)
    length = (len(tokens) - 1) // 3
    for part in range(3):
        own = tokens[part * length :]
        assert inputs[:, part].tolist() == own[:steps].tolist()
        assert targets[:, part].tolist() == own[1 : steps + 1].tolist()
    assert found.tokens is not None
    assert ["".join(column) for column in zip(*found.tokens, strict=True)] == [
        task.vocabulary.decode(inputs[:, part].tolist()) for part in range(3)
    ]


def test_a_short_text_has_fewer_parts_and_steps(tmp_path: Path) -> None:
    task = read_text(tmp_path, "abcdefgh" * 2)  # eight tokens to validate on
    found = task.material(None, SMALL)
    assert (found.batch_size, len(found.batch[0])) == (1, 5)
    found = task.material(None, SMALL._replace(steps=50))
    assert (found.batch_size, len(found.batch[0])) == (1, 7)


def test_other_text_is_read_with_the_vocabulary_of_the_model(tmp_path: Path) -> None:
    task = read_text(tmp_path)
    (tmp_path / "other.txt").write_text("jihg?", encoding="utf-8")
    found = task.material(None, SMALL, str(tmp_path / "other.txt"))
    assert found.source == str(tmp_path / "other.txt")
    assert task.vocabulary.decode(found.batch[1][:, 0].tolist()) == "ihg\ufffd"
    (tmp_path / "other.txt").write_text("ab", encoding="utf-8")
    with pytest.raises(DataError, match=r"other.txt has 2 token\(s\). Give text of three at least"):
        task.material(None, SMALL, str(tmp_path / "other.txt"))


def test_where_data_is_missing_a_language_model_generates_its_own(tmp_path: Path) -> None:
    task = read_text(tmp_path)
    restored = LanguageModelling.restore(task.dump(), TextData(files=("gone",)))
    model = make_model(task)
    found, again = (restored.own_material(model, SMALL) for _ in range(2))
    assert found.source == "text that the model generated"
    np.testing.assert_array_equal(found.batch[0], again.batch[0])
    assert tuple(found.batch[0].shape) == (5, 3)
    assert not set(textless_ids(task.vocabulary)) & {*found.batch[0].flatten().tolist()}


def test_surprise_is_the_loss_of_every_token(tmp_path: Path) -> None:
    task = read_text(tmp_path)
    model = make_model(task)
    batch = as_tensors(task.material(model, SMALL).batch)
    surprise = model.surprise(batch)
    assert surprise.shape == (5, 3)
    assert surprise.mean() == pytest.approx(float(model(batch, model.initial_state(3)).loss.detach()), rel=1e-6)
    state: Any = model.initial_state(3)
    for step, (ids, targets) in enumerate(zip(*batch, strict=True)):
        logits, state = model.predict(ids.unsqueeze(0).numpy(), state)
        nats = functional.cross_entropy(torch.from_numpy(logits), targets, reduction="none")
        np.testing.assert_allclose(surprise[step], nats.detach().numpy(), rtol=1e-5)


def texts(folder: Path, rows: list[str]) -> Classification:
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    file = str(folder / "texts.csv")
    return Classification.prepare(LabelledData(files=(file,), validation=(file,), tokenizer="word"), seed=0)


def test_the_longest_of_some_examples_are_read_with_their_words(tmp_path: Path) -> None:
    lengths = [1, 9, 4, 2, 7, 8, 3, 5, 6]
    task = texts(tmp_path, [f"{'w ' * length},{'xy'[length % 2]}" for length in lengths])
    found = task.material(None, Extent(4, 50, None))
    assert sorted(found.batch.lengths.tolist()) == [6, 7, 8, 9]
    assert found.batch_size == 4
    order = [lengths.index(one) for one in found.batch.lengths.tolist()]
    assert order == sorted(order)  # as in the file
    assert found.batch.targets.tolist() == [lengths[place] % 2 for place in order]
    assert found.tokens is not None
    assert [sum(token == "w" for token in column) for column in zip(*found.tokens, strict=True)] == [
        *found.batch.lengths.tolist()
    ]


def test_examples_that_are_too_long_or_without_targets_are_refused(tmp_path: Path) -> None:
    task = texts(tmp_path, [f"{'w ' * length},{'xy'[length % 2]}" for length in (11, 12, 3)])
    assert task.material(None, SMALL).batch.lengths.tolist() == [3]  # at most twice the steps
    with pytest.raises(DataError, match="validation data are longer than 2 steps. Give shorter ones as `data`"):
        task.material(None, Extent(3, 1, None))
    (tmp_path / "bare.conll").write_text("Anna O\nsang B-x\n", encoding="utf-8")
    file = str(tmp_path / "bare.conll")
    tagging = Tagging.prepare(TaggedData(files=(file,), validation=(file,)), seed=0)
    found = tagging.material(None, SMALL)
    assert found.tokens == [["Anna"], ["sang"]]
    assert task.own_material(None, SMALL) is None


def test_what_a_task_does_not_have_is_refused() -> None:
    class Bare(Task):
        name = "bare"

    Bare.__abstractmethods__ = frozenset()
    task: Task = Bare()  # type: ignore[abstract]
    assert (task.recognize(None), task.propose(3, None), task.own_material(None, SMALL)) == (None, [], None)  # type: ignore[arg-type]
    assert (task.generates, task.prediction_columns) == (False, ())
    for ask in (lambda: task.predict_files(None, "a"), task.sequences, lambda: task.material(None, SMALL)):
        with pytest.raises(ArgumentError, match=r"`task` \(='bare'\)"):
            ask()
