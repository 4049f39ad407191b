"""The parameters of an estimator, documented from the definition of the settings in numpydoc's form."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from unspool.settings.catalogue import SETTINGS, find_task_settings

#: What stands in a docstring where its parameters belong.
PLACE = "{parameters}"
#: Parameters that are not settings of a task: their types and descriptions.
OF_ESTIMATORS: Mapping[str, tuple[str, str]] = {
    "settings": (
        "dict or None, default=None",
        "Further settings of the task by name, such as `{'weight_decay': 0.01}`; all of them are in docs/reference.md.",
    ),
    "random_state": (
        "int, RandomState instance or None, default=None",
        "Seed of initial weights, dropout, shuffling and the choice of validation data. An int gives the same model "
        "every time.",
    ),
    "verbose": ("bool, default=False", "Print a line at every evaluation."),
}
WIDTH = 100


def document_parameters(estimator: type, task: str, notes: Mapping[str, str]) -> None:
    """Put the parameters of an estimator into its docstring, with types, defaults and help of the task's settings.

    Args:
        estimator: Its docstring holds `{parameters}` on a line of its own.
        task: The task whose settings the parameters are.
        notes: By parameter, what data in memory adds to the help.
    """
    names = [name for name in inspect.signature(estimator).parameters if name != "self"]
    text = inspect.cleandoc(estimator.__doc__ or "")
    estimator.__doc__ = text.replace(PLACE, _section(names, task, notes))


def _section(names: Iterable[str], task: str, notes: Mapping[str, str]) -> str:
    lines = ["Parameters", "----------"]
    for name in names:
        kind, text = OF_ESTIMATORS[name] if name in OF_ESTIMATORS else _describe(name, task)
        if name in notes:
            text += f" {notes[name]}"
        lines += [f"{name} : {kind}", *_indent(text)]
    return "\n".join(lines)


def _indent(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _describe(name: str, task: str) -> tuple[str, str]:
    """Types and default of a setting, such as "int, default=64", and its help."""
    settings = find_task_settings(task)
    info = settings.sections[settings.section_of(name) or ""].model_fields[name]
    default = SETTINGS[name].defaults[task]
    kinds = " or ".join(_kinds(info.annotation))
    text = str(info.description)
    return (
        f"{kinds}, optional" if default is None else f"{kinds}, default={default!r}",
        f"{text[:1].upper()}{text[1:]}.",
    )


def _kinds(annotation: Any) -> list[str]:
    """The types of values, in the words of scikit-learn's documentation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (NoneType, ...):
        return []
    if origin is Literal:
        return ["{" + ", ".join(map(repr, arguments)) + "}"]
    if hasattr(annotation, "__metadata__"):
        return _kinds(arguments[0])
    if not arguments:
        return [getattr(annotation, "__name__", str(annotation))]
    inner = list(dict.fromkeys(kind for one in arguments for kind in _kinds(one)))
    return [f"list of {' or '.join(inner)}"] if origin is tuple else inner
