"""The config of a run: TOML, recipes and options become checked settings; all mistakes are reported at once."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unspool.errors import ArgumentError, DataError, UnknownNameError
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
    guessed: str = field(default="", compare=False)  # why it is this task, if nobody said so

    def dump(self) -> dict[str, Any]:
        """As TOML has it: nothing is left out that is not None."""
        parts = {name: getattr(self, name).model_dump(mode="json", exclude_none=True) for name in SECTIONS}
        return {"task": self.task.name, **parts}


def read_config(*documents: Mapping[str, Any], task: str | None = None) -> Config:
    """Settings from documents of sections; a later document has precedence, key by key."""
    found, mistakes = _check(documents, task)
    refuse(mistakes)
    return Config(**found)


def read_toml(path: Path) -> dict[str, Any]:
    """A config file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"the config {path} cannot be read: {error}. Give TOML with [data], [model], [training]."
        ) from error
    found.pop("format", None)  # a run's own config.toml serves too
    sections = all(isinstance(found.get(name, {}), Mapping) for name in SECTIONS)
    if not sections or str(found.get("task", "lm")) not in TASKS:
        # Nothing can be put together with this, so that all its mistakes are said here.
        refuse(_check([found], partial=True)[1])
    return found


def to_sections(options: Mapping[str, Any], task: type[Task]) -> dict[str, dict[str, Any]]:
    """Options by name, such as hidden=128, each in the section that has it."""
    classes: dict[str, type[Section]] = {"data": task.Data, "model": task.Model, "training": Training}
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    mistakes: list[str] = []
    for key, value in options.items():
        section = next((name for name, of in classes.items() if key in of.model_fields), None)
        if section is None:
            known = [field for of in classes.values() for field in of.model_fields]
            mistakes.append(f"`{key}` (={value!r}) {_unknown(key, known, task)}")
        else:
            sections[section][key] = value
    refuse(mistakes)
    return sections


def _check(
    documents: Iterable[Mapping[str, Any]], task: str | None = None, partial: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The parts of a config that are well, and the mistakes in the others; `partial` lets settings be missing."""
    mistakes: list[str] = []
    merged: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
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
        kind = find_task("lm" if name is None else str(name))
    except UnknownNameError as error:
        mistakes.append(str(error))
    found: dict[str, Any] = {"task": kind}
    for section, of in (("data", kind.Data), ("model", kind.Model), ("training", Training)):
        try:
            found[section] = of.model_validate(merged[section])
        except ValidationError as error:
            mistakes += _mistakes(section, of, error, merged[section], kind, partial)
            mistakes += _joint_mistakes(section, of, error, merged[section], kind)
    return found, mistakes


def refuse(mistakes: Sequence[str]) -> None:
    """All of them at once, if there are any."""
    if len(mistakes) == 1:
        raise ArgumentError(mistakes[0])
    if mistakes:
        raise ArgumentError("\n  ".join([f"{len(mistakes)} mistakes in the settings:", *mistakes]))


def _mistakes(
    section: str,
    of: type[Section],
    error: ValidationError,
    given: Mapping[str, Any],
    task: type[Task],
    partial: bool = True,
) -> list[str]:
    found: dict[str, str] = {}
    said_before: set[tuple[str, str]] = set()
    for one in error.errors():
        place = [str(part) for part in one["loc"]]
        name = ".".join((section, *place[:1]))
        if one["type"] == "extra_forbidden":
            found[name] = f"{name}: {_unknown(place[0], of.model_fields, task)}"
        elif one["type"] == "missing" and len(place) == 1:
            if not partial:
                found[name] = f"{name}: is missing. Say it, as {place[0]} = …"
        else:
            value = f" (={given.get(place[0])!r})" if place else ""
            said = f"`{place[0]}`{value} " if place else ""  # a check of ours says name and value itself
            message = one["msg"].removeprefix("Value error, ").removeprefix(said).removeprefix("Input ")
            message = "has too few entries" if one["type"] == "missing" else message
            if (name, message) in said_before:  # both of a pair are wrong in the same way
                continue
            said_before.add((name, message))
            # of a choice of types each says what it would have taken
            found[name] = f"{found[name]}, or {message}" if name in found else f"{name}{value}: {message}"
    return list(found.values())


def _joint_mistakes(
    section: str, of: type[Section], error: ValidationError, given: Mapping[str, Any], task: type[Task]
) -> list[str]:
    """Settings that do not go together are looked for by pydantic only where each by itself is well."""
    bad = {str(one["loc"][0]) for one in error.errors() if one["loc"]}
    if not bad & given.keys():
        return []
    try:
        of.model_validate({name: value for name, value in given.items() if name not in bad})
    except ValidationError as rest:
        found = _mistakes(section, of, rest, given, task)
        return [mistake for mistake in found if mistake.startswith(f"{section}: ")]
    return []


def _unknown(name: str, known: Iterable[str], task: type[Task] | None = None) -> str:
    """What to say of a name: that it is another task's, or what it may have been meant to be."""
    owners = [one for one, of in TASKS.items() if name in {**of.Data.model_fields, **of.Model.model_fields}]
    if task is not None and owners and task.name not in owners:
        return f"is not for {task.name}; it is for {', '.join(owners)}."
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"is not known. Did you mean {near[0]}?" if near else f"is not known. Known: {', '.join(known)}."
