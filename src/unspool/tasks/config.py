"""The config of a run: TOML, recipes and options become checked settings; all mistakes are reported at once."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unspool.errors import ArgumentError, DataError, UnspoolError
from unspool.learning.contract import Task
from unspool.learning.settings import Section, Training
from unspool.tasks.catalogue import TASKS, find_task

SECTIONS = ("data", "model", "training")


@dataclass(frozen=True)
class Config:
    """What is learned, from what, by which model and how."""

    task: type[Task]
    data: Any
    model: Any
    training: Training

    def dump(self) -> dict[str, Any]:
        """As TOML has it: nothing is left out that is not None."""
        parts = {name: getattr(self, name).model_dump(mode="json", exclude_none=True) for name in SECTIONS}
        return {"task": self.task.name, **parts}


def read_config(*documents: Mapping[str, Any], task: str | None = None) -> Config:
    """Settings from documents of sections; a later document has precedence, key by key."""
    mistakes: list[str] = []
    merged: dict[str, Any] = {name: {} for name in SECTIONS}
    name: Any = task
    for document in documents:
        for key, value in document.items():
            if key == "task":
                name = task or value
            elif key not in SECTIONS:
                mistakes.append(f"{key}: {_unknown(key, (*SECTIONS, 'task'))}")
            elif not isinstance(value, Mapping):
                mistakes.append(f"{key} (={value!r}): is not a section. Write [{key}].")
            else:
                merged[key] |= value
    kind: type[Task] = TASKS["lm"]
    try:
        kind = find_task(name or "lm")
    except (UnspoolError, TypeError) as error:
        mistakes.append(str(error))
    found: dict[str, Any] = {}
    for section, of in (("data", kind.Data), ("model", kind.Model), ("training", Training)):
        try:
            found[section] = of.model_validate(merged[section])
        except ValidationError as error:
            mistakes += _mistakes(section, of, error)
    if mistakes:
        raise ArgumentError(
            mistakes[0]
            if len(mistakes) == 1
            else f"{len(mistakes)} mistakes in the settings:\n" + "\n".join(f"  {mistake}" for mistake in mistakes)
        )
    return Config(kind, **found)


def read_toml(path: Path) -> dict[str, Any]:
    """A config file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"the config {path} cannot be read: {error}. Give TOML with [data], [model], [training]."
        ) from error
    found.pop("format", None)  # a run's own config.toml serves too
    return found


def to_sections(options: Mapping[str, Any], task: type[Task]) -> dict[str, dict[str, Any]]:
    """Options by name, such as hidden=128, each in the section that has it."""
    classes: dict[str, type[Section]] = {"data": task.Data, "model": task.Model, "training": Training}
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, value in options.items():
        section = next((name for name, of in classes.items() if key in of.model_fields), None)
        if section is None:
            known = [field for of in classes.values() for field in of.model_fields]
            raise ArgumentError.of(key, value, "is no option", _unknown(key, known).rstrip("."))
        sections[section][key] = value
    return sections


def _mistakes(section: str, of: type[Section], error: ValidationError) -> list[str]:
    found: dict[str, str] = {}
    for one in error.errors():
        place = [str(part) for part in one["loc"]]
        name = ".".join((section, *place[:1]))
        if one["type"] == "extra_forbidden":
            found[name] = f"{name}: {_unknown(place[0], of.model_fields)}"
        elif one["type"] == "missing":
            found[name] = f"{name}: is missing. Say it, as {place[0]} = …"
        else:
            value = f" (={one['input']!r})" if place else ""
            message = one["msg"].removeprefix("Value error, ").removeprefix("Input ")
            found.setdefault(name, f"{name}{value}: {message}")
    return list(found.values())


def _unknown(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"is not known. Did you mean {near[0]}?" if near else f"is not known. Known: {', '.join(sorted(known))}."
