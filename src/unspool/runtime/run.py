"""Reads a run folder without torch: config, vocabulary, network and weights, whole and of one run, or refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unspool.errors import DataError
from unspool.runtime.network import Array, Network
from unspool.runtime.read import read_network
from unspool.storage.documents import digest, read_sealed
from unspool.storage.run import MODEL, NETWORK, VOCABULARY, check_run
from unspool.storage.tensors import read_arrays, sum_arrays
from unspool.tasks.divergence import diverged

#: The entry of network.json, and the fact of model.safetensors, that say what the weights were made with.
ORIGIN = "origin"
RESTORE = "Restore the files that the run was started with"


class Kept(NamedTuple):
    """What a run folder holds of a trained model."""

    config: dict[str, Any]  # as config.toml has it
    vocabulary: dict[str, Any]  # what the task keeps: vocabularies, labels, scales
    network: Network
    facts: dict[str, Any]  # of model.safetensors: the step, and the metrics of validation
    digest: str  # of the network and its weights


def read_run(run: str | Path) -> Kept:
    """Read the best model of a run folder.

    Args:
        run: The folder, which may come from anywhere.

    Returns:
        All that playing the model needs.

    Raises:
        DataError: It is not the folder of a run, has no model yet, is damaged, or its files are of different runs.
        DivergenceError: The weights are not finite.

    Example:
        kept = read_run("runs/book")
        player = make_player(kept.network)
    """
    path = Path(run)
    config = check_run(path)
    if not os.path.lexists(path / MODEL):
        raise DataError(f"{path} has no model yet. Resume it with `resume=True`.")
    if not os.path.lexists(path / NETWORK):
        said = "has no network.json: its model is a baseline without recurrent layers, or an older unspool wrote it"
        raise DataError(f"{path} {said}. Use it with torch, or resume it with `resume=True`, which writes it.")
    vocabulary = read_sealed(path / VOCABULARY, f"{RESTORE}, or resume the run with `resume=True`, which writes it")
    document = read_sealed(path / NETWORK, f"{RESTORE}, or resume the run with `resume=True`, which writes it")
    origin = document.pop(ORIGIN, None)
    tensors, facts = read_arrays(path / MODEL)
    _check_origins(path, origin, facts.get(ORIGIN), digest(vocabulary))
    _check_task(path, document, config)
    network = read_network(document, tensors)
    _check_finite(path, tensors, facts)
    whole = {"network": document, "weights": sum_arrays(tensors, facts), "facts": facts}
    return Kept(config, vocabulary, network, facts, digest(whole))


def _check_origins(path: Path, network: Any, weights: Any, vocabulary: str) -> None:
    """Network, weights and vocabulary are those of one run."""
    for name, given in ((NETWORK, network), (MODEL, weights)):
        if not isinstance(given, Mapping) or not isinstance(given.get("settings"), Mapping):
            raise DataError(f"{path / name} cannot be read: it does not say what it was made with. {RESTORE}.")
        if given.get("vocabulary") not in (None, vocabulary):
            raise DataError(f"{VOCABULARY} is not the one that {path / name} was made with. {RESTORE}.")
    ours, theirs = network["settings"], weights["settings"]
    both = [name for name in ours if name in theirs]  # another version may know more settings
    if network.get("cells") != weights.get("cells") or any(ours[name] != theirs[name] for name in both):
        raise DataError(f"{NETWORK} is not the one that {path / MODEL} was made with. {RESTORE}.")


def _check_task(path: Path, document: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    if document.get("task") != config["task"]:
        raise DataError(f"{path / NETWORK} is of another task than {config['task']!r}, that of config.toml. {RESTORE}.")


def _check_finite(path: Path, tensors: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
            held = "NaN" if np.isnan(tensor).any() else "infinity"
            raise diverged(path / MODEL, facts.get("step"), f"the parameter {name} holds {held}")
