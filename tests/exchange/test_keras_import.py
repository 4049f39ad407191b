"""Keras 3 models into unspool: Keras itself, on torch, is the judge."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unspool.errors import DataError
from unspool.exchange import from_keras

h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras with NumPy 2


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read are weights; that kernels compute as the loop does is tested elsewhere."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


@pytest.fixture(scope="module")
def keras() -> Any:
    """Keras on torch; its import takes seconds."""
    before = os.environ.get("KERAS_BACKEND")
    os.environ["KERAS_BACKEND"] = "torch"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytest.importorskip("keras")
    if before is None:
        del os.environ["KERAS_BACKEND"]
    if found.backend.backend() != "torch":
        pytest.skip("Keras was imported with another backend")
    return found


MODELS: dict[str, Callable[[Any], list[Any]]] = {
    "lstm": lambda L: [L.LSTM(4)],
    "lstm without bias": lambda L: [L.LSTM(4, use_bias=False, return_sequences=True)],
    "gru reset after": lambda L: [L.GRU(4, return_sequences=True)],
    "gru reset before": lambda L: [L.GRU(4, reset_after=False, return_sequences=True)],
    "gru without bias": lambda L: [L.GRU(4, use_bias=False), L.Dense(2)],
    "gru before without bias": lambda L: [L.GRU(4, use_bias=False, reset_after=False)],
    "rnn": lambda L: [L.SimpleRNN(4), L.Dropout(0.5), L.Dense(3, activation="sigmoid")],
    "rnn relu": lambda L: [L.SimpleRNN(4, activation="relu", return_sequences=True)],
    "rnn linear": lambda L: [L.SimpleRNN(4, activation="linear")],
    "both ways": lambda L: [L.Bidirectional(L.GRU(4)), L.Dense(3, activation="softmax")],
    "stacked": lambda L: [
        L.Bidirectional(L.LSTM(4, return_sequences=True)),
        L.GRU(5, return_sequences=True, name="mine"),
        L.LSTM(3),
        L.Dense(6, activation="relu"),
        L.Dense(2, use_bias=False),
    ],
}


def made(keras: Any, name: str) -> Any:
    """A model with random weights, biases included."""
    model = keras.Sequential([keras.Input((None, 3)), *MODELS[name](keras.layers)])
    generator = np.random.default_rng(0)
    model.set_weights([0.5 * generator.normal(size=one.shape) for one in model.get_weights()])
    return model


@pytest.mark.parametrize("name", MODELS)
def test_a_model_becomes_layers_with_the_same_output(keras: Any, name: str, tmp_path: Path) -> None:
    model = made(keras, name)
    model.save(tmp_path / "model.keras")
    x = np.random.default_rng(1).normal(size=(2, 6, 3)).astype(np.float32)
    with torch.no_grad():
        theirs = model(x, training=False).detach().numpy()
        ours = from_keras(tmp_path / "model.keras")(torch.from_numpy(x))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_embeddings_and_weights_alone_are_read(keras: Any, tmp_path: Path) -> None:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((None,)),
            layers.Embedding(9, 5),
            layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
            layers.GRU(6, return_sequences=True, reset_after=False),
            layers.Dense(2),
        ]
    )
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    tokens = np.random.default_rng(0).integers(0, 9, (2, 7))
    with torch.no_grad():
        theirs = model(tokens).detach().numpy()
        for name in ("model.keras", "model.weights.h5"):
            ours = from_keras(tmp_path / name)(torch.from_numpy(tokens))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_a_functional_model_that_branches_is_layers_alone(keras: Any, tmp_path: Path) -> None:
    layers = keras.layers
    given = keras.Input((None, 4))
    sides = [layers.LSTM(4, return_sequences=True)(given) for _ in range(2)]
    keras.Model(given, layers.Dense(4)(sides[1])).save(tmp_path / "line.keras")
    assert from_keras(tmp_path / "line.keras").is_chain
    model = keras.Model(given, [layers.Dense(4)(side) for side in sides])
    model.save(tmp_path / "branches.keras")
    found = from_keras(tmp_path / "branches.keras")
    assert not found.is_chain
    assert len(found.recurrent) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [("conv", "Conv1D"), ("activation", "activation"), ("merge", "merges"), ("backwards", "go_backwards")],
)
def test_what_has_no_counterpart_is_refused(keras: Any, name: str, said: str, tmp_path: Path) -> None:
    L = keras.layers
    layer = {
        "conv": lambda: L.Conv1D(4, 2),
        "activation": lambda: L.LSTM(4, activation="relu"),
        "merge": lambda: L.Bidirectional(L.GRU(4), merge_mode="sum"),
        "backwards": lambda: L.GRU(4, go_backwards=True),
    }[name]()
    keras.Sequential([keras.Input((None, 3)), layer]).save(tmp_path / "model.keras")
    with pytest.raises(DataError, match=said):
        from_keras(tmp_path / "model.keras")


def written(tmp_path: Path, change: Callable[[Any], None]) -> Path:
    """A file of weights that was tampered with."""
    path = tmp_path / "bad.weights.h5"
    with h5py.File(path, "w") as file:
        cell = file.create_group("layers/lstm/cell/vars")
        cell.attrs["name"] = "lstm_cell"
        for place, shape in enumerate(((3, 16), (4, 16), (16,))):
            cell[str(place)] = np.ones(shape, np.float32)
        change(file)
    return path


def _bomb(file: Any) -> None:
    file.create_dataset("layers/dense/vars/0", (1 << 14, 1 << 12), np.float32, chunks=True, compression="gzip")


def _link(file: Any) -> None:
    file["layers/dense"] = h5py.ExternalLink("/etc/hostname", "/")


def _loop(file: Any) -> None:
    file["layers/lstm/again"] = file["layers"]


def _integers(file: Any) -> None:
    file["layers/embedding/vars/0"] = np.ones((3, 3), np.int64)


def _shapes(file: Any) -> None:
    del file["layers/lstm/cell/vars/1"]
    file["layers/lstm/cell/vars/1"] = np.ones((5, 16), np.float32)


@pytest.mark.parametrize("change", [_bomb, _link, _loop, _integers, _shapes])
def test_hostile_weights_are_refused(change: Callable[[Any], None], tmp_path: Path) -> None:
    with pytest.raises(DataError):
        from_keras(written(tmp_path, change))
    assert from_keras(written(tmp_path, lambda file: None)).recurrent


def test_archives_that_unpack_to_more_than_they_are_are_refused(tmp_path: Path) -> None:
    for name in ("config.json", "model.weights.h5"):
        path = tmp_path / "bomb.keras"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("config.json", "{}" if name != "config.json" else " " * (1 << 25))
            archive.writestr("model.weights.h5", bytes(1 << 25 if name != "config.json" else 8))
        assert path.stat().st_size < 1 << 17
        with pytest.raises(DataError, match="say that they hold"):
            from_keras(path)


def test_mutated_weights_give_layers_or_a_clear_error(tmp_path: Path) -> None:
    path = written(tmp_path, lambda file: None)
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        bad = bytearray(whole)
        for place in generator.integers(0, len(bad), 5):
            bad[place] = generator.integers(256)
        path.write_bytes(bytes(bad))
        try:
            assert from_keras(path).recurrent
        except DataError:
            refused += 1
    assert refused


def test_hostile_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", b" " * (1 << 24))
    with pytest.raises(DataError, match="say that they hold"):
        from_keras(path)
    weights = io.BytesIO()
    h5py.File(weights, "w").close()
    for config in (b"[]", b"{", b'{"class_name": "Lambda"}', json.dumps({"class_name": "Sequential"}).encode()):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", config)
            archive.writestr("model.weights.h5", weights.getvalue())
        with pytest.raises(DataError):
            from_keras(path)
    path.write_bytes(b"no")
    with pytest.raises(DataError):
        from_keras(path)
