"""Keras 3 models (`.keras`, `.weights.h5`): LSTM, GRU, SimpleRNN, Bidirectional, Embedding and Dense."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unspool.errors import DataError
from unspool.exchange.gates import Parameters, gru_parameters, lstm_parameters, make_layer, rnn_parameters
from unspool.exchange.imported import ACTIVATIONS, ImportedModel, Part, chained
from unspool.exchange.limits import LONGEST_TEXT, SLACK, check_archive, check_file, is_archive

Array = NDArray[Any]
WEIGHTS = "model.weights.h5"
CELLS = {"LSTM": "lstm", "GRU": "gru", "SimpleRNN": "simple_rnn"}
#: Layers that change nothing in use.
IDLE = ("InputLayer", "Dropout", "SpatialDropout1D", "GaussianNoise", "ActivityRegularization", "Masking")
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    AttributeError,
    zipfile.BadZipFile,
    RecursionError,
)


def from_keras(path: str | Path) -> ImportedModel:
    """Read a Keras 3 model. No code of the file runs, and Keras need not be installed.

    Args:
        path: A `.keras` file, or the `.weights.h5` of `model.save_weights`. The latter says neither activations nor the
            order of layers of different kinds; defaults are assumed, and noted.

    Returns:
        The layers, as modules of unspool.nn and torch.nn.

    Raises:
        DataError: The file is not one, is damaged, or has layers that have no counterpart; the message names them.
        MissingPackageError: h5py is not installed.

    Example:
        model = unspool.exchange.from_keras("model.keras")
        probabilities = model(tokens)  # (batch, time)
    """
    path = Path(path)
    size = check_file(path, ".keras or .weights.h5")
    try:
        if is_archive(path):
            with zipfile.ZipFile(path) as archive:
                check_archive(archive, path, size)
                config = json.loads(_read(archive, "config.json", LONGEST_TEXT))
                content = _read(archive, WEIGHTS, size + SLACK)
            with h5py.File(io.BytesIO(content), "r") as file:
                return _from_config(config, _Weights(file, len(content)))
        with h5py.File(path, "r") as file:
            return _from_weights(_Weights(file, size))
    except DataError:
        raise
    except UNREADABLE as error:
        said = str(error).partition("\n")[0].removesuffix(".")
        raise DataError(f"{path} cannot be read as a model of Keras 3: {said}. Save it again.") from error


def _read(archive: zipfile.ZipFile, name: str, longest: int) -> bytes:
    with archive.open(name) as stream:
        content = stream.read(longest + 1)
    if len(content) > longest:
        raise DataError(f"{archive.filename} cannot be read: {name} has more than {longest:,} bytes. It is damaged.")
    return content


class _Weights:
    """The arrays of a file of weights by their layers' groups."""

    def __init__(self, file: Any, size: int) -> None:
        self._arrays: dict[str, dict[int, Array]] = {}
        self.names: dict[str, str] = {}  # the name of a layer, or of its cell → its group
        self.titles: dict[str, str] = {}  # a group → the name that Keras gave what is in it
        self._left = size
        self._visit(file, "")

    def _visit(self, group: Any, place: str, depth: int = 0) -> None:
        if depth > 32:
            raise DataError("its groups are nested too deeply. It is damaged.")
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise DataError(f"{place}/{name} is a link to elsewhere, which no file of Keras has.")
            one = group[name]
            if isinstance(one, h5py.Group):
                self._visit(one, f"{place}/{name}".strip("/"), depth + 1)
            else:
                self._arrays.setdefault(place.removesuffix("/vars"), {})[int(name)] = self._array(one, place)
        if place.endswith("/vars") and "name" in group.attrs:
            owner = place.removesuffix("/vars")
            self.titles[owner] = str(group.attrs["name"])
            self.names.setdefault(self.titles[owner], owner)

    def _array(self, dataset: Any, place: str) -> Array:
        self._left -= int(dataset.nbytes)
        if self._left < 0 or dataset.is_virtual or dataset.external:
            raise DataError(f"{place} says that it is larger than the file, or lies elsewhere. It is damaged.")
        if dataset.dtype.kind != "f":
            raise DataError(f"{place} is of type {dataset.dtype}, not of real numbers.")
        return np.asarray(dataset[()], np.float32)

    def of(self, group: str) -> list[Array]:
        """The variables of a group, in their order."""
        found = self._arrays.get(group, {})
        return [found[place] for place in sorted(found)]

    def groups(self) -> list[str]:
        """Every group that has variables."""
        return list(self._arrays)


def _from_config(config: Any, weights: _Weights) -> ImportedModel:
    if config.get("class_name") not in ("Sequential", "Functional"):
        raise DataError(f"it is a {config.get('class_name')!r}. Give a Sequential or Functional model of layers.")
    notes: list[str] = []
    parts = []
    for entry in config["config"]["layers"]:
        kind, settings = entry["class_name"], entry["config"]
        if kind in IDLE:
            if kind == "Masking" or settings.get("mask_zero"):
                notes.append(f"{settings['name']} masks steps: give `lengths` in its place")
            continue
        if settings.get("mask_zero"):
            notes.append(f"{settings['name']} masks token 0: give `lengths` in its place")
        parts.append(_part(kind, settings, weights))
    if not parts:
        raise DataError("it has no layers that can be read.")
    chain = config["class_name"] == "Sequential" or _is_line(config["config"]["layers"])
    return ImportedModel("keras", parts, notes, chain)


def _is_line(layers: list[Any]) -> bool:
    """Whether each layer of a Functional model is called once, on what the one before it in the list gives."""
    for below, layer in pairwise(layers):
        calls = layer.get("inbound_nodes", [])
        if len(calls) != 1 or json.dumps(calls[0]).count('"keras_history"') != 1:
            return False
        if f'"keras_history": [{json.dumps(below["config"]["name"])}, ' not in json.dumps(calls[0]):
            return False
    return True


def _part(kind: str, settings: Mapping[str, Any], weights: _Weights) -> Part:
    name = str(settings["name"])
    group = weights.names.get(name)
    if group is None:
        raise DataError(f"layer {name!r} has no weights in the file.")
    if kind == "Embedding":
        return Part(name, _embedding(weights.of(group)))
    if kind == "Dense":
        return Part(name, _dense(weights.of(group)), activation=_known(name, settings["activation"], ACTIVATIONS))
    if kind == "Bidirectional":
        return _bidirectional(name, settings, weights, group)
    if kind in CELLS:
        if settings.get("go_backwards"):
            raise DataError(f"layer {name!r} has go_backwards, and gives its steps in reverse. Use Bidirectional.")
        cell, parameters = _direction(kind, settings, weights.of(f"{group}/cell"))
        return Part(name, make_layer(cell, [parameters]), bool(settings["return_sequences"]))
    raise DataError(
        f"layer {name!r} is a {kind}, which has no counterpart. Known: {', '.join((*CELLS, 'Bidirectional'))}."
    )


def _bidirectional(name: str, settings: Mapping[str, Any], weights: _Weights, group: str) -> Part:
    if settings["merge_mode"] != "concat":
        raise DataError(f"layer {name!r} merges directions by {settings['merge_mode']!r}. Only 'concat' is read.")
    inner = settings["layer"]
    kind, own = inner["class_name"], inner["config"]
    if kind not in CELLS or own.get("go_backwards"):
        raise DataError(f"layer {name!r} has a {kind} inside that cannot be read. Known: {', '.join(CELLS)}.")
    back = settings.get("backward_layer") or inner
    sides = (("forward_layer", own), ("backward_layer", back["config"]))
    found = [_direction(kind, side, weights.of(f"{group}/{place}/cell")) for place, side in sides]
    if found[0][0] != found[1][0]:
        raise DataError(f"layer {name!r} has two directions of different kinds.")
    return Part(name, make_layer(found[0][0], [one for _, one in found]), bool(own["return_sequences"]))


def _direction(kind: str, settings: Mapping[str, Any], arrays: list[Array]) -> tuple[str, Parameters]:
    name = str(settings["name"])
    if kind == "SimpleRNN":
        activation = _known(name, settings["activation"], ("tanh", "relu", "sigmoid", "linear"))
        return _rnn(arrays, "identity" if activation == "linear" else activation)
    _known(name, settings["activation"], ("tanh",))
    _known(name, settings["recurrent_activation"], ("sigmoid",))
    return _lstm(arrays) if kind == "LSTM" else _gru(arrays, bool(settings["reset_after"]))


def _known(name: str, value: Any, known: Any) -> str:
    """An activation that can be read."""
    if not isinstance(value, str) or value not in known:
        raise DataError(f"layer {name!r} has the activation {value!r}. Known there: {', '.join(known)}.")
    return value


def _lstm(arrays: list[Array]) -> tuple[str, Parameters]:
    W, U, b = _three(arrays, 4)
    return "lstm", lstm_parameters(W, U, b, "ifgo")


def _gru(arrays: list[Array], reset_after: bool) -> tuple[str, Parameters]:
    W, U, b = _three(arrays, 3)
    if b is not None and (b.ndim == 2) != reset_after:
        raise DataError(f"a GRU's biases are of shape {b.shape}, which does not fit reset_after={reset_after}.")
    first, second = (b, None) if b is None or b.ndim == 1 else (b[0], b[1])
    cell = "gru-reset-after" if reset_after else "gru"
    return cell, gru_parameters(W, U, first, second, "zrn", reset_after)


def _rnn(arrays: list[Array], activation: str) -> tuple[str, Parameters]:
    W, U, b = _three(arrays, 1)
    return activation, rnn_parameters(W, U, b)


def _three(arrays: list[Array], gates: int) -> tuple[Array, Array, Array | None]:
    """W and U with a row per unit of a gate, and the bias, which may be missing."""
    if len(arrays) not in (2, 3):
        raise DataError(f"a recurrent layer has {len(arrays)} variables, not 2 or 3.")
    kernel, recurrent = arrays[:2]
    width = gates * recurrent.shape[0] if recurrent.ndim == 2 else -1
    fits = kernel.ndim == 2 and kernel.shape[1] == width and recurrent.shape[1] == width
    if not fits or (len(arrays) == 3 and arrays[2].shape not in ((width,), (2, width))):
        raise DataError(f"a recurrent layer has variables of shapes {[one.shape for one in arrays]}.")
    return kernel.T, recurrent.T, arrays[2] if len(arrays) == 3 else None


def _embedding(arrays: list[Array]) -> nn.Embedding:
    if len(arrays) != 1 or arrays[0].ndim != 2:
        raise DataError(f"an embedding has variables of shapes {[one.shape for one in arrays]}.")
    made = nn.Embedding(*arrays[0].shape)
    made.load_state_dict({"weight": torch.from_numpy(arrays[0])})
    return made


def _dense(arrays: list[Array]) -> nn.Linear:
    if len(arrays) not in (1, 2) or arrays[0].ndim != 2 or (arrays[1:] and arrays[1].shape != arrays[0].shape[1:]):
        raise DataError(f"a Dense layer has variables of shapes {[one.shape for one in arrays]}.")
    read, gives = arrays[0].shape
    made = nn.Linear(read, gives, bias=len(arrays) == 2)
    values = {"weight": torch.from_numpy(arrays[0].T.copy())}
    made.load_state_dict(values | ({"bias": torch.from_numpy(arrays[1])} if arrays[1:] else {}))
    return made


def _by_title(title: str, arrays: list[Array], notes: list[str]) -> tuple[str, Parameters]:
    """A direction by the name that Keras gives its cell's variables."""
    if title.startswith("lstm_cell"):
        return _lstm(arrays)
    if title.startswith("gru_cell"):
        if len(arrays) < 3:
            notes.append("a GRU without biases may be of either convention: reset_after=True is assumed")
        return _gru(arrays, len(arrays) < 3 or arrays[2].ndim == 2)
    notes.append("activations of SimpleRNN are not in the file: tanh is assumed")
    return _rnn(arrays, "tanh")


def _from_weights(weights: _Weights) -> ImportedModel:
    notes: list[str] = []
    parts: dict[str, Part] = {}
    cells: dict[str, list[str]] = {}  # a layer's group → its cells' groups, ahead first
    for group in sorted(weights.groups(), key=_natural):
        owner, cell, _ = group.rpartition("/cell")
        if cell:
            layer = owner.removesuffix("/forward_layer").removesuffix("/backward_layer")
            cells.setdefault(layer, []).append(group)
        elif group and (plain := _plain_part(group, weights)) is not None:
            parts[group] = plain
        elif group:
            notes.append(f"{group} was left out: it is neither recurrent, an embedding nor a Dense layer")
    for layer, groups in cells.items():
        ahead_first = sorted(groups, key=lambda group: "backward_layer" in group)
        found = [_by_title(weights.titles.get(one, ""), weights.of(one), notes) for one in ahead_first]
        parts[layer] = Part(_leaf(layer), make_layer(found[0][0], [one for _, one in found]))
    if not parts:
        raise DataError("it has no layers that can be read.")
    if any(isinstance(part.module, nn.Linear) for part in parts.values()):
        notes.append("activations of Dense are not in the file: none is assumed, and it reads every step")
    return ImportedModel("keras", chained(list(parts.values())), list(dict.fromkeys(notes)))


def _plain_part(group: str, weights: _Weights) -> Part | None:
    arrays, name = weights.of(group), _leaf(group)
    if name.startswith("embedding"):
        return Part(name, _embedding(arrays))
    return Part(name, _dense(arrays)) if name.startswith("dense") else None


def _leaf(group: str) -> str:
    return group.rpartition("/")[2]


def _natural(group: str) -> tuple[str, int]:
    """lstm_2 before lstm_10."""
    first, _, number = group.rpartition("_")
    return (first, int(number)) if number.isdigit() else (group, 0)
