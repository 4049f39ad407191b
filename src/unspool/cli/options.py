"""Options derived from the settings: every setting is an option of its own name, in `--help-all` and in commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer
from typer.core import TyperOption

from unspool.cli.spelling import ARGUMENTS, option, spell
from unspool.errors import ArgumentError
from unspool.runs.recipes import RECIPES
from unspool.settings.catalogue import SECTIONS, SETTINGS, TASK_SETTINGS, Setting
from unspool.settings.search import read_value as read_toml_value

Many = list[str] | None
TASK_HELP = f"{', '.join(TASK_SETTINGS)}. Default: guessed from the file, and the reason is printed."
WHOLE = re.compile(r"[-+]?[0-9]+")


# ── options of the commands that train ──


def recipe_option(panel: str) -> Any:
    """`--recipe`, in a panel of the help."""
    return typer.Option(help=f"{', '.join(RECIPES)}.", rich_help_panel=panel)


def config_option(panel: str) -> Any:
    """`--config`, in a panel of the help."""
    return typer.Option(metavar="TOML", help="Settings from a file.", rich_help_panel=panel)


def flag(name: str, text: str, panel: str) -> Any:
    """An option without a value, in a panel of the help."""
    return typer.Option(name, help=text, rich_help_panel=panel)


# ── options of settings ──


def takes_settings(sections: Sequence[str] = SECTIONS) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option per setting of these sections, `--set` for the others, and `--help-all`.

    The command receives what was given as its argument `settings`, a dict by name.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        offered = [one for one in SETTINGS.values() if one.section in sections and one.name not in {*ARGUMENTS, *own}]

        @wraps(command)
        def run(**given: Any) -> None:
            given.pop("help_all", None)
            settings = {one.name: read_value(one, given.pop(one.name)) for one in offered}
            settings |= read_assignments(given.pop("set_") or ())
            command(**given, settings={name: value for name, value in settings.items() if value is not None})

        parameters = [parameter for name, parameter in own.items() if name != "settings"]
        parameters += [_parameter(one.name, _annotation(one)) for one in offered]
        parameters += [_parameter("set_", SET), _parameter("help_all", HELP_ALL, False)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def show_all(ctx: typer.Context, _: Any, wanted: bool) -> None:
    """The help with every option, also those that the short help leaves out."""
    if wanted and not ctx.resilient_parsing:
        hidden = [one for one in ctx.command.params if isinstance(one, TyperOption) and one.hidden]
        _hide(hidden, False)
        try:
            print(ctx.get_help(), end="")
        finally:
            _hide(hidden, True)
        raise typer.Exit


def _hide(options: Iterable[TyperOption], hidden: bool) -> None:
    for one in options:
        one.hidden = hidden


SET = Annotated[
    Many,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, by its name in the config: --set zoneout=0.1."),
]
HELP_ALL = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=show_all, help="List every setting, and exit.")
]


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _annotation(one: Setting) -> Any:
    details: dict[str, Any] = {"rich_help_panel": one.group, "hidden": not one.common, "help": describe(one)}
    if one.is_switch:
        return Annotated[bool | None, typer.Option(f"{option(one.name)}/{option('no_' + one.name)}", **details)]
    kind = Many if one.many else str | None
    return Annotated[kind, typer.Option(option(one.name), metavar=metavar(one), **details)]


def metavar(one: Setting) -> str:
    """What stands for the value in help."""
    if one.is_number:
        return "|".join(["NUMBER", *one.choices, *(["FILE"] if str in one.types else [])])
    return "NAME" if "column" in one.name else "TEXT"


def describe(one: Setting) -> str:
    """A setting's help, with the tasks that have it and their defaults."""
    text = f"{_capitalize(spell(one.help), one)}."
    if len(one.tasks) < len(SETTINGS["cell"].tasks):
        text += f" ({', '.join(one.tasks)})"
    return f"{text}{_show_defaults(one)}"


def _show_defaults(one: Setting) -> str:
    """The default in brackets; where tasks have different ones, each with its tasks."""
    tasks: dict[str, list[str]] = {}
    for task, value in one.defaults.items():
        tasks.setdefault(show_default(value), []).append(task)
    if len(tasks) == 1:
        return f" \\[{next(iter(tasks))}]" if "" not in tasks else ""
    shown = "; ".join(f"{', '.join(names)}: {default or 'none'}" for default, names in tasks.items())
    return f" \\[{shown}]"


def _capitalize(text: str, one: Setting) -> str:
    """With a capital letter, unless it starts with a value to type."""
    first = re.split(r"[ :,]", text, maxsplit=1)[0]
    return text if first in one.choices or first == "cpu" else text[:1].upper() + text[1:]


def show_default(value: Any) -> str:
    """A default as it would be given; empty where there is none, or where it is off."""
    if value is None or value is False or value == ():
        return ""
    if value is True:
        return "on"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def read_value(one: Setting, given: Any) -> Any:
    """What was given for a setting: numbers where it takes them, a fraction in place of one file."""
    if given is None or given in ([], ()):
        return None
    if isinstance(given, bool):
        return given
    if isinstance(given, list | tuple):
        return _read_words(one, given)
    return _read_word(one, given)


def _read_words(one: Setting, given: Sequence[Any]) -> Any:
    """The values of an option that was given several times, or that one that was given once."""
    values = [_read_word(one, word) for word in given]
    return values[0] if len(values) == 1 and _is_single(one, values[0]) else values


def _read_word(one: Setting, word: Any) -> Any:
    return number(word) if one.is_number else word


def _is_single(one: Setting, value: Any) -> bool:
    """Whether a value given once is meant by itself, and not as a list of one."""
    if isinstance(value, str):
        return str in one.single or value in one.single or str not in one.types  # a mistake for a number
    return int in one.single or float in one.single


def number(given: str) -> float | str:
    """A number where it is one; else the word."""
    try:
        return int(given) if WHOLE.fullmatch(given) else float(given)
    except ValueError:
        return given


def read_assignments(given: Iterable[str]) -> dict[str, Any]:
    """Settings as NAME=VALUE, with values as TOML has them; a word may go without quotes."""
    found: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        name = name.strip()
        if not equals or not name:
            problem = "has no name before its =" if equals else "has no ="
            raise ArgumentError.of("set", one, problem, "Give NAME=VALUE, such as zoneout=0.1")
        if name in NOT_SETTINGS:
            raise ArgumentError.of("set", one, "is not a setting", "Use the option of that name, or FILE")
        found[name] = read_toml_value(value)
    return found


#: What has an option or an argument of its own, and is not a setting.
NOT_SETTINGS = {"source", "files", "out", "resume", "overwrite", "tell", "watch", "stop", "task", "recipe", "config"}
