"""The config of a run: TOML, recipes and options become checked settings; all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unspool.errors import ArgumentError, UnknownNameError
from unspool.learning.contract import Task
from unspool.settings.catalogue import SECTIONS, SETTINGS, TASK_SETTINGS, TaskSettings, find_task_settings, suggest
from unspool.settings.section import Section
from unspool.settings.training import Training
from unspool.storage import documents
from unspool.tasks.catalogue import find_task

#: Mistakes that pydantic words for programmers.
NOT_OF_TYPE = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "is not a whole number."),
    **dict.fromkeys(("float_parsing", "float_type"), "is not a number."),
    **dict.fromkeys(("bool_parsing", "bool_type"), "is neither true nor false."),
    "string_type": "is not text.",
    "tuple_type": "is not a list.",
}


@dataclass(frozen=True)
class Config:
    """What is learned, from what data, by which model and how."""

    task: type[Task]
    data: Any
    model: Any
    training: Training
    guessed: str = field(default="", compare=False)  # why it is this task, if the user did not name one
    #: Names of the settings that the user gave; None: all of them, as in the config of a run.
    given: frozenset[str] | None = field(default=None, compare=False)
    chosen: str = field(default="", compare=False)  # which defaults follow from the data, in words

    def dump(self) -> dict[str, Any]:
        """All settings that are not None, as TOML has them."""
        parts = {name: getattr(self, name).model_dump(mode="json", exclude_none=True) for name in SECTIONS}
        return {"task": self.task.name, **parts}


def read_config(*documents: Mapping[str, Any], task: str | None = None) -> Config:
    """Check settings from documents of sections; a later document has precedence, key by key.

    Args:
        *documents: Mappings such as `{"model": {"hidden": 64}}`.
        task: The task; by default what the documents say, or "lm".

    Raises:
        ArgumentError: One message that lists every mistake.
    """
    found, mistakes = _check(documents, task)
    refuse(mistakes)
    return Config(**found)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a config file."""
    found = documents.read_toml(path, "Give TOML with [data], [model], [training]")
    found.pop("format", None)  # the config.toml of a run can be used too, with the cells beside it
    sections = all(isinstance(found.get(name, {}), Mapping) for name in SECTIONS)
    if not sections or str(found.get("task", "lm")) not in TASK_SETTINGS:
        # Nothing can be merged with this document, so all its mistakes are reported here.
        refuse(_check([found], partial=True)[1])
    return found


def to_sections(options: Mapping[str, Any], task: str) -> dict[str, dict[str, Any]]:
    """Sort options by name, such as hidden=128, into the sections that have them."""
    settings = find_task_settings(task)
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    mistakes: list[str] = []
    for key, value in options.items():
        section = settings.section_of(key)
        if section is None:
            mistakes.append(f"`{key}` (={value!r}) {_unknown(key, settings)}")
        else:
            sections[section][key] = value
    refuse(mistakes)
    return sections


def refuse(mistakes: Sequence[str]) -> None:
    """Raise one error for all mistakes, if there are any."""
    if len(mistakes) == 1:
        raise ArgumentError(mistakes[0])
    if mistakes:
        raise ArgumentError("\n  ".join([f"{len(mistakes)} mistakes in the settings:", *mistakes]))


def _check(
    documents: Iterable[Mapping[str, Any]], task: str | None = None, partial: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The valid parts of a config, and the mistakes in the others; with `partial`, settings may be missing."""
    merged, name, mistakes = _merge(documents)
    settings = TASK_SETTINGS["lm"]
    try:
        settings = find_task_settings(str(task or name or "lm"))
    except UnknownNameError as error:
        mistakes.append(str(error))
    found: dict[str, Any] = {"task": find_task(settings.name)}
    for section, of in settings.sections.items():
        try:
            found[section] = of.model_validate(merged[section])
        except ValidationError as error:
            mistakes += _mistakes(of, error, merged[section], settings, partial)
            mistakes += _joint_mistakes(of, error, merged[section], settings)
    return found, mistakes


def _merge(documents: Iterable[Mapping[str, Any]]) -> tuple[dict[str, dict[str, Any]], Any, list[str]]:
    """The sections of all documents, the task that the last of them names, and mistakes in their outline."""
    mistakes: list[str] = []
    merged: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    task: Any = None
    for document in documents:
        for key, value in document.items():
            if key == "task":
                task = value
            elif key not in SECTIONS:
                mistakes.append(_tell_misplaced(key))
            elif not isinstance(value, Mapping):
                mistakes.append(f"{key} (={value!r}) is not a section. Write [{key}].")
            else:
                merged[key] |= value
    return merged, task, mistakes


def _tell_misplaced(key: str) -> str:
    """That a key of the outline is no section: it may be a setting that stands outside of its own."""
    if key in SETTINGS and SETTINGS[key].section is not None:
        return f"{key} belongs in the section [{SETTINGS[key].section}]."
    return f"{key} {suggest(key, (*SECTIONS, 'task'), mark='')}"


def _mistakes(
    of: type[Section], error: ValidationError, given: Mapping[str, Any], task: TaskSettings, partial: bool = True
) -> list[str]:
    """One line per setting that is wrong; of a choice of types, each says what it would have taken."""
    found: dict[str, list[str]] = {}
    for one in error.errors():
        name = str(one["loc"][0]) if one["loc"] else ""
        message = _message(one, name, of, given, task)
        if partial and one["type"] == "missing" and len(one["loc"]) == 1:
            continue
        if name in found and _asks_for_a_list(one, given.get(name)):
            continue
        if message not in found.setdefault(name, []):  # both entries of a pair may be wrong in the same way
            found[name].append(message)
    return [_line(name, messages, given) for name, messages in found.items()]


def _asks_for_a_list(one: Any, value: Any) -> bool:
    """Whether an error says that a list would do where none was meant."""
    return one["type"] == "tuple_type" and not isinstance(value, list | tuple)


def _line(name: str, messages: Sequence[str], given: Mapping[str, Any]) -> str:
    """A mistake with the setting's name and value."""
    text = ", or ".join([*(message.removesuffix(".") for message in messages[:-1]), messages[-1]])
    if not name:
        return text
    value = f" (={given[name]!r})" if name in given else ""
    return f"`{name}`{value} {text}"


def _message(one: Any, name: str, of: type[Section], given: Mapping[str, Any], task: TaskSettings) -> str:
    """What pydantic, or a check of ours, says of a setting."""
    if one["type"] == "extra_forbidden":
        return _unknown(name, task, of)
    if one["type"] == "missing":
        return "is missing. Give it." if len(one["loc"]) == 1 else "has too few entries."
    if one["type"] in NOT_OF_TYPE:
        return NOT_OF_TYPE[one["type"]]
    message: str = one["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message.removeprefix(f"`{name}` (={given.get(name)!r}) ")  # ours say name and value themselves
    return message if message.endswith(".") else f"{message}."


def _joint_mistakes(
    of: type[Section], error: ValidationError, given: Mapping[str, Any], task: TaskSettings
) -> list[str]:
    """Settings that do not fit each other, which pydantic looks for only where each by itself is valid."""
    bad = {str(one["loc"][0]) for one in error.errors() if one["loc"]}
    if not bad & given.keys():
        return []
    rest = {name: value for name, value in given.items() if name not in bad}
    return [_message(one, "", of, given, task) for one in _errors(of, rest) if not one["loc"]]


def _errors(of: type[Section], given: Mapping[str, Any]) -> list[Any]:
    try:
        of.model_validate(given)
    except ValidationError as error:
        return error.errors()
    return []


def _unknown(name: str, task: TaskSettings, of: type[Section] | None = None) -> str:
    """That a task does not have a setting: which tasks do, or which setting may have been meant."""
    owners = [one.name for one in TASK_SETTINGS.values() if one.section_of(name) in ("data", "model")]
    if owners and task.name not in owners:
        return f"is not a setting of {task.name}, but of {', '.join(owners)}."
    sections = task.sections.values() if of is None else (of,)
    return suggest(name, [field for section in sections for field in section.model_fields])
