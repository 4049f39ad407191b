"""How the command line spells settings: as options. Everything below names them as Python's keywords."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.errors import ArgumentError
from unspool.insight.report.advice import Retrain, Spelling
from unspool.settings.names import NAMES

#: Options of commands that are not settings of a run.
RUN_OPTIONS = (
    *("task", "recipe", "config", "out", "resume", "overwrite", "nproc", "dry_run", "lr_find", "xray", "xray_every"),
    *("tensorboard", "data", "torch", "input", "weights", "beam", "stop", "prompt", "set", "lang", "dask"),
)
#: Settings that are arguments.
ARGUMENTS = {"files": "FILE", "run": "RUN"}
#: An argument, which is named in capitals.
PLACE = re.compile(r"`([A-Z]+)`")
MENTION = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")


def option(name: str) -> str:
    """The option of a setting: `batch_size` is --batch-size."""
    return f"--{name.replace('_', '-')}"


def as_options(settings: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command.

    Args:
        settings: Values by the settings' names. A boolean becomes `--name` or `--no-name`, a list one option per item.

    Returns:
        Words that a shell passes on, unquoted: `{"clip": 1.0, "tied": True}` gives `["--clip", "1.0", "--tied"]`.
    """
    return [word for name, value in settings.items() for word in _words(name, value)]


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option(name if value else f"no_{name}")]
    if isinstance(value, list | tuple):
        return [word for one in value for word in _words(name, one)]
    if not isinstance(value, str | int | float | Path):
        raise ArgumentError.of(name, value, "cannot be written as an option", "Give a string, a number or a list")
    return [option(name), str(value)]


def spell(text: str) -> str:
    """A message in which settings stand in backticks, as in `lr` or `clip=1`, with their options instead."""

    def replace(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name in ARGUMENTS:
            return ARGUMENTS[name]
        if name not in NAMES and name not in RUN_OPTIONS:
            return found[0]
        given = None if value is None else _literal(value)
        return option(name) if given is None else shlex.join(as_options({name: given}))

    return PLACE.sub(r"\1", MENTION.sub(replace, text))


def spell_command(retrain: Retrain, settings: Mapping[str, Any]) -> str:
    """The command that trains a run again with some settings changed.

    Example:
        >>> spell_command(Retrain.of("runs/book"), {"clip": 1.0})
        'unspool train --config runs/book/config.toml --out runs/book-2 --clip 1.0'
    """
    return shlex.join(["unspool", "train", "--config", retrain.config, "--out", retrain.out, *as_options(settings)])


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


#: Settings as options of the command line.
OPTIONS = Spelling(spell_command, spell)
