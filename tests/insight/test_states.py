"""States as features: those that the layers of a run compute, in the order of the data, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.cli.calling import call, refused
from tests.tensors import as_tensors

from unspool.errors import ArgumentError
from unspool.insight import extract_states
from unspool.nn import Recurrent
from unspool.runs.load import load_run
from unspool.runs.train import train
from unspool.tasks.contract import Extent

TINY: dict[str, Any] = {"hidden": 4, "steps": 3, "eval_every": 3, "batch_size": 4, "seed": 0}
BOOK = "the cat saw the dog and the dog saw the cat and all was well \n" * 12
INTENTS = "text,label\n" + "".join(f"{'red hot cold' if n % 3 else 'blue'},{'xy'[n % 2]}\n" for n in range(24))


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    (folder / "book.txt").write_text(BOOK, "utf-8")
    train(folder / "book.txt", out=folder / "run", task="lm", tokenizer="word", layers=2, bptt=16, **TINY)
    return folder


@pytest.fixture(scope="module")
def intents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("intents")
    (folder / "intents.csv").write_text(INTENTS, "utf-8")
    train(folder / "intents.csv", out=folder / "run", task="classify", tokenizer="word", bidirectional=True, **TINY)
    return folder


def outputs(run: Path, data: Path) -> list[NDArray[np.float32]]:
    """What each recurrent layer gives, (time, batch, width), caught by hooks on `run`."""
    _, task, learner = load_run(run)
    material = task.material(learner, Extent(10**6, 10**6, None), str(data))
    caught: list[NDArray[np.float32]] = []
    for layer in [module for module in learner.modules() if isinstance(module, Recurrent)]:
        original = layer.run

        def run_and_keep(*args: Any, original: Any = original, **options: Any) -> Any:
            result = original(*args, **options)
            caught.append(result[0].detach().numpy())
            return result

        layer.run = run_and_keep  # type: ignore[method-assign]
    with torch.no_grad():
        learner(as_tensors(material.batch), learner.initial_state(material.batch_size))
    return caught


def test_the_states_of_a_text_are_those_of_its_layers(book: Path) -> None:
    found = extract_states(book / "run", book / "book.txt")
    lower, upper = outputs(book / "run", book / "book.txt")
    assert np.allclose(found.values, upper[:, 0], atol=1e-5)
    assert np.allclose(extract_states(book / "run", book / "book.txt", layer=1).values, lower[:, 0], atol=1e-5)
    assert found.tokens[:5].tolist() == ["the", "cat", "saw", "the", "dog"]
    assert found.step.tolist() == list(range(len(found.values)))
    assert set(found.sequence.tolist()) == {0}


def test_the_states_of_examples_have_both_directions_and_no_padding(intents: Path) -> None:
    found = extract_states(intents / "run", intents / "intents.csv")
    ahead, back = outputs(intents / "run", intents / "intents.csv")
    both = np.concatenate((ahead, back), -1)
    assert found.values.shape == (8 * 1 + 16 * 3, 8)
    assert np.allclose(found.values, both[found.step, found.sequence], atol=1e-5)
    assert found.sequence[:5].tolist() == [0, 1, 1, 1, 2]
    assert found.tokens[:5].tolist() == ["blue", "red", "hot", "cold", "red"]


def test_layer_0_is_the_embedding(book: Path) -> None:
    found = extract_states(book / "run", book / "book.txt", layer=0)
    _, task, learner = load_run(book / "run")
    embedding, ids = learner.token_embedding(), task.embedded_tokens()
    assert embedding is not None
    known = [place for place, token in enumerate(found.tokens) if token in ids]
    expected = embedding.weight.detach().numpy()[[ids[str(found.tokens[place])] for place in known]]
    assert len(known) > 100
    assert np.allclose(found.values[known], expected, atol=1e-6)


def test_the_command_writes_what_numpy_reads(book: Path, tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    assert call("predict", str(book / "run"), str(book / "book.txt"), "--states", str(path)) == 0
    found = extract_states(book / "run", book / "book.txt")
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays) == {"values", "sequence", "step", "tokens"}
        for name, value in arrays.items():
            assert np.array_equal(value, getattr(found, name))


def test_bad_wishes_are_refused(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArgumentError, match="2 layers"):
        extract_states(book / "run", book / "book.txt", layer=3)
    with pytest.raises(ArgumentError, match=r"\.npz"):
        extract_states(book / "run").save(tmp_path / "states.csv")
    run, data, path = str(book / "run"), str(book / "book.txt"), str(tmp_path / "f.npz")
    assert "predictions" in refused(capsys, "predict", run, data, "--states", path, "--json")
    assert "one file" in refused(capsys, "predict", run, "--states", path)
