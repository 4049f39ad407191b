"""What the weights of a run were made with: settings, vocabulary and cells; other files are not taken for theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.errors import DataError
from unspool.settings.catalogue import RESUMABLE, SECTIONS, SETTINGS
from unspool.storage.documents import digest

#: The fact of a file of tensors that holds all this.
ENTRY = "origin"
#: Settings that a user may edit in config.toml: they do not change what a model computes, or how it is learned.
EDITABLE = (*RESUMABLE, "files", "pretrained_embeddings", "device", "checkpoint_every", "save_total_limit", "baselines")
REMEDY = "Restore the files that the run was started with, or start a new run"


class Origin:
    """What weights are made with.

    Args:
        config: The config of the run, as config.toml has it.
        cells: The text of its cell.json; empty if all cells are built in.
        vocabulary: The content of its vocabulary.json; None where it is not known.

    Example:
        origin = Origin(config)
        write_tensors(path, tensors, {"origin": origin.facts()})
        origin.check(read_header(path).facts, path)
    """

    def __init__(self, config: Mapping[str, Any], cells: str = "", vocabulary: Mapping[str, Any] | None = None) -> None:
        self.settings = _fixed_settings(config)
        self.cells = digest({"cells": cells}) if cells else ""
        self.vocabulary = None if vocabulary is None else digest(vocabulary)

    def facts(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {"settings": self.settings, "cells": self.cells, "vocabulary": self.vocabulary}

    def check(self, facts: Mapping[str, Any], path: Path) -> None:
        """Refuse weights that were made with something else.

        Args:
            facts: The facts of a file of tensors. Where they have no origin, nothing is compared.
            path: That file, for the error.

        Raises:
            DataError: The message names the setting with both values, or the file.
        """
        given = facts.get(ENTRY)
        if given is None:
            return
        settings = given.get("settings") if isinstance(given, Mapping) else None
        if not isinstance(settings, Mapping):
            raise DataError(f"{path} cannot be read: it does not say which settings it was made with. {REMEDY}.")
        self._check_settings(settings, path)
        self._check_files(given, path)

    def _check_files(self, given: Mapping[str, Any], path: Path) -> None:
        for name, own, file in (("cells", self.cells, "cell.json"), ("vocabulary", self.vocabulary, "vocabulary.json")):
            if own is not None and given.get(name) not in (None, own):
                raise DataError(f"{file} is not the one that {path} was made with. {REMEDY}.")

    def _check_settings(self, given: Mapping[str, Any], path: Path) -> None:
        for name in sorted({*given, *self.settings}):
            was, now = (_value(one, name, self.settings.get("task")) for one in (given, self.settings))
            if was != now:
                raise DataError(f"`{name}` is {_short(now)} in config.toml and {_short(was)} in {path}. {REMEDY}.")


def _fixed_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that may not be edited, by name. Data in files of its own is known by its digest instead."""
    sections = [section for name in SECTIONS if isinstance(section := config.get(name), Mapping)]
    found = {name: value for section in sections for name, value in section.items() if name not in EDITABLE}
    found = {name: "files" if _names_files(name, value) else value for name, value in found.items()}
    plain: dict[str, Any] = json.loads(json.dumps({"task": config.get("task"), **found}, default=str))
    return plain


def _names_files(name: str, value: Any) -> bool:
    return name in ("validation", "test") and isinstance(value, list | tuple)


def _value(settings: Mapping[str, Any], name: str, task: Any) -> Any:
    """The value of a setting; its default where an older unspool did not have it."""
    if name in settings or name not in SETTINGS:
        return settings.get(name)
    return json.loads(json.dumps(SETTINGS[name].defaults.get(task), default=str))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
