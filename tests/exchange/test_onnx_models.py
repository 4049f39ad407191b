"""Whole models in ONNX: ONNX Runtime against the torch models, for every kind and every setting of their parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.runtime.small_models import CASES, Made, tensors_of

from unspool.models.describe import describe
from unspool.runtime.network import Tagger, Translator
from unspool.runtime.read import read_network

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from unspool.exchange.onnx.write import write_network  # noqa: E402 - needs onnx

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def run(path: Path, **given: Any) -> dict[str, Array]:
    """The outputs by name."""
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    arrays = {name: one.numpy() if isinstance(one, torch.Tensor) else one for name, one in given.items()}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, arrays), strict=True))


def compare(found: Array, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def check_language(path: Path, made: Made) -> None:
    (ids, _), model = made.batch, made.model
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    shapes = {one.name: one.shape for one in session.get_inputs()}
    states = {
        name: np.zeros((ids.shape[1], shape[-1]), np.float32) for name, shape in shapes.items() if name != "tokens"
    }
    first = run(path, tokens=ids[:4].T.numpy(), **states)
    carried = {name.replace("final", "initial"): one for name, one in first.items() if name.startswith("final")}
    later = run(path, tokens=ids[4:].T.numpy(), **carried)
    logits, _ = model.predict(ids.numpy(), model.initial_state(ids.shape[1]))
    compare(later["logits"][:, -1], logits)
    compare(later["probabilities"][:, -1], torch.as_tensor(logits).softmax(-1))


def check_pooled(path: Path, made: Made) -> None:
    inputs, more = made.batch.inputs, {}
    if hasattr(inputs, "spell"):
        forms, ngrams, starts = inputs.spell()
        counts = np.diff(np.append(starts, len(ngrams)))
        rows = np.zeros((len(counts), counts.max()), np.int64)
        for row, start, count in zip(rows, starts, counts, strict=True):
            row[:count] = ngrams[start : start + count] % made.model.token_embedding().ngrams.num_embeddings
        more = {"forms": forms.T, "ngrams": rows, "ngram_counts": counts}
        inputs = inputs.ids
    name = "x" if inputs.dim() == 3 else "tokens"
    given = {name: inputs.transpose(0, 1).numpy(), "lengths": made.batch.lengths, **more}
    compare(run(path, **given)["scores"], made.model.score(made.batch).levels[-1])


def check_tagger(path: Path, made: Made) -> None:
    words, lengths = made.batch.inputs, made.batch.lengths
    spelled = {"forms": words.forms.T, "characters": words.characters.T, "character_lengths": words.lengths}
    given = {"tokens": words.ids.T, "lengths": lengths, **(spelled if made.model.words.letters is not None else {})}
    found = run(path, **given)
    scores = made.model.score(made.batch).levels[-1]
    tags = getattr(scores, "tags", scores)
    compare(found["emissions"], tags.transpose(0, 1))
    if tags is not scores:
        compare(found["label_probabilities"], scores.labels.softmax(-1))


def check_forecaster(path: Path, made: Made) -> None:
    past, future, unit = made.batch.inputs
    found = run(path, past=past.transpose(0, 1).numpy(), future=future.transpose(0, 1).numpy(), unit=unit)
    compare(found["quantiles"], made.model.score(made.batch).levels[-1].transpose(0, 1))


def check_translator(path: Path, made: Made) -> None:
    network, batch = made.model.network, made.batch
    state = run(path.with_name("model.encoder.onnx"), tokens=batch.inputs.T, lengths=batch.lengths)
    expected = network.encode(batch.inputs.T, batch.lengths)
    for tokens in (torch.tensor([1, 1, 1, 1]), torch.tensor([4, 3, 5, 6])):
        log_p, expected = network.step(expected, tokens)
        given = {name.replace("final", "initial"): one for name, one in state.items() if name != "log_probabilities"}
        after = run(path.with_name("model.decoder.onnx"), tokens=tokens, **given)
        compare(after["log_probabilities"], log_p)
        state |= after


CHECKS = {
    **dict.fromkeys(("classify", "classify_words", "multilabel", "regress"), check_pooled),
    **dict.fromkeys(("tag", "joint"), check_tagger),
    "language": check_language,
    "forecast": check_forecaster,
    "translate": check_translator,
}
#: Of every kind, its own settings and some of those that all have.
CHEAP = [name for name in CASES if int(name.split("-")[1]) not in (3, 4, 6, 7)]


def export(name: str, path: Path) -> tuple[Made, Any]:
    """A model of the list, written with a document beside it."""
    made = CASES[name]()
    network = read_network(describe(made.model, name.split("-")[0]), tensors_of(made.model))
    return made, write_network(network, path, document={"tokens": ["a", "b"]})


@pytest.mark.parametrize("name", CHEAP)
def test_models_run_in_onnx(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    made, found = export(name, path)
    assert found.difference <= 1e-5
    with torch.no_grad():
        CHECKS[name.split("-")[0]](path, made)
    beside = json.loads((tmp_path / "model.json").read_text())
    assert beside["tokens"] == ["a", "b"]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in CASES if name not in CHEAP])
def test_all_models_run_in_onnx(name: str, tmp_path: Path) -> None:
    test_models_run_in_onnx(name, tmp_path)


def test_a_chain_of_tags_is_beside_its_model(tmp_path: Path) -> None:
    made, found = export("tag-0", tmp_path / "model.onnx")
    network = read_network(describe(made.model, "tag"), tensors_of(made.model))
    assert isinstance(network, Tagger)
    assert network.crf is not None
    said = json.loads((tmp_path / "model.json").read_text())["crf"]
    np.testing.assert_array_equal(np.float32(said["transitions"]), network.crf.transitions)
    facts = {one.key: one.value for one in onnx.load(found.files[0]).metadata_props}
    assert "outside" in facts["decoding"]
    assert facts["task"] == "tag"


def test_a_translator_is_two_files(tmp_path: Path) -> None:
    made, found = export("translate-0", tmp_path / "model.onnx")
    assert isinstance(read_network(describe(made.model, "seq2seq"), tensors_of(made.model)), Translator)
    names = [path.name for path in found.files]
    assert names == ["model.encoder.onnx", "model.decoder.onnx", "model.json"]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(names)
