"""Inputs that are made for an exported model: ONNX Runtime then answers what the player predicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.test_predict import DATA, TINY

import unspool
from unspool.runs.train import train

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from unspool.exchange.onnx.write import write_run  # noqa: E402

pytestmark = pytest.mark.usefixtures("own_cache")


def made(folder: Path, task: str, **settings: Any) -> tuple[Any, Any, list[str]]:
    """The player of a run, and a session of ONNX Runtime that gives outputs by name."""
    suffix, training, _ = DATA.get(task, ("txt", "to be or not to be\n" * 40, ""))
    (folder / f"training.{suffix}").write_text(training, encoding="utf-8")
    train(folder / f"training.{suffix}", out=folder / "run", task=task, quiet=True, **{**TINY, **settings})
    files = write_run(folder / "run", folder / "model.onnx").files
    session = onnxruntime.InferenceSession(files[0].read_bytes(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return unspool.load(folder / "run"), lambda given: dict(zip(names, session.run(names, given), strict=True)), names


TEXTS = ["red hot", "blue cold green unseen", "cold"]


@pytest.mark.parametrize("subwords", [0, 50])
def test_texts_of_a_classifier(subwords: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    player, run, _ = made(tmp_path, "classify", tokenizer="word", subwords=subwords)
    inputs = unspool.export.onnx_inputs(player, TEXTS)
    assert ("ngrams" in inputs) == bool(subwords)
    found = run(inputs)["probabilities"]
    expected = [[row[f"p({label})"] for label in "xyz"] for row in player.predict(TEXTS)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_text_of_a_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    player, run, names = made(tmp_path, "lm", bptt=4)
    assert "final_layer0_h" in names
    inputs = unspool.export.onnx_inputs(player, "to be")
    np.testing.assert_allclose(run(inputs)["logits"][0, -1], player.start().feed("to be"), rtol=0, atol=1e-5)


def test_sentences_of_a_tagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    player, run, _ = made(tmp_path, "tag")
    sentences = [text.split() for text in TEXTS]
    found = run(unspool.export.onnx_inputs(player, sentences))["emissions"]
    part = player.task.part_of(sentences)
    expected = player.model.score(part.batch(np.arange(3))).levels[-1]
    for row, sentence in enumerate(sentences):
        np.testing.assert_allclose(found[row, : len(sentence)], expected[: len(sentence), row], rtol=0, atol=1e-5)


def test_sources_of_a_translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    player, run, names = made(tmp_path, "seq2seq")
    found = run(unspool.export.onnx_inputs(player, ["red hot", "cold"]))
    batch = player.task.part_of(["red hot", "cold"]).batch(np.arange(2))
    state = player.model.encode(batch.inputs, batch.lengths)
    first = next(name for name in names if name.startswith("final_layer0"))
    np.testing.assert_allclose(found[first], state.states[0][0][0], rtol=0, atol=1e-5)


def test_a_series_of_a_forecaster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    player, run, _ = made(tmp_path, "forecast", horizon=3, validation=6)
    series = [float(n % 4) for n in range(40)]
    found = run(unspool.export.onnx_inputs(player, series))["quantiles"]
    batch = player.task.part_of(series).batch(np.arange(1))
    np.testing.assert_allclose(found.swapaxes(0, 1), player.model.score(batch).levels[-1], rtol=1e-5, atol=1e-5)
