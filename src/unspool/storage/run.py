"""The folder of a run as it lies on the disk: the names of its files, its config, and which versions can be read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.cells.numbers import is_whole
from unspool.errors import DataError
from unspool.storage.documents import read_toml

#: Changes when one unspool cannot read what another writes.
FORMAT = 2
CONFIG, CELLS, VOCABULARY, NETWORK, MODEL = (
    "config.toml",
    "cell.json",
    "vocabulary.json",
    "network.json",
    "model.safetensors",
)


def check_run(path: Path) -> dict[str, Any]:
    """The config of a run; a clear error if the folder is not that of a run that this unspool can read."""
    config, version = read_run(path)
    check_version(path, version)
    return config


def read_run(path: Path) -> tuple[dict[str, Any], int]:
    """The config of a run, and its format, whichever it is."""
    if not path.is_dir():
        raise DataError(f"there is no run {path}. Give the folder of a run.")
    if not os.path.isfile(path / CONFIG):
        raise DataError(f"{path} is not the folder of a run: it has no config.toml. Give the folder of a run.")
    config = read_toml(path / CONFIG, "Correct it")
    if "format" not in config or not {"task", "data", "model", "training"} <= config.keys():
        raise DataError(f"{path} is not the folder of a run: its config.toml is not that of a run.")
    version = read_version(path / CONFIG, config)
    return {name: value for name, value in config.items() if name != "format"}, version


def read_version(path: Path, facts: Mapping[str, Any]) -> int:
    """The format of a config or checkpoint."""
    version = facts.get("format")
    if not is_whole(version) or version < 1:
        raise DataError(f"{path} cannot be read: its format is {version!r}, not a number from 1 on. Restore it.")
    return version


def check_version(path: Path, version: int) -> None:
    """Refuse what another version wrote."""
    refuse_newer(path, version)
    if version < FORMAT:
        raise DataError(
            f"{path} was written by an older unspool (format {version}; this one reads {FORMAT}). Train it again: "
            "start a new run, or replace this one with `overwrite=True`."
        )


def refuse_newer(path: Path, version: int) -> None:
    """Refuse what a newer version wrote."""
    if version > FORMAT:
        raise DataError(
            f"{path} was written by a newer unspool (format {version}; this one reads {FORMAT}). Update unspool."
        )
