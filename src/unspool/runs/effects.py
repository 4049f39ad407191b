"""Settings that are given and have no effect: they are refused, so that nobody relies on what does not happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unspool.settings.catalogue import TaskSettings
from unspool.settings.section import Effect


def find_ineffective(documents: Sequence[Mapping[str, Any]], task: TaskSettings) -> list[str]:
    """One message for each setting without effect in documents of sections, the last of which holds options.

    A document is judged by itself and those before it: what a recipe says is no mistake where an option chooses
    otherwise. Nor is a file's setting that equals the task's default, as a run's config.toml has all of them, or a
    setting that turns off what is off by default.
    """
    sections = task.sections.values()
    plain = {name: field.get_default() for section in sections for name, field in section.model_fields.items()}
    own = plain | {"task": task.name} | _settings(task.defaults)
    held = dict(own)
    mistakes: dict[str, str] = {}  # one per setting
    for place, document in enumerate(documents, 1):
        given = _settings(document)
        held |= given
        switched = {name: value for name, value in given.items() if value or plain.get(name, True)}
        judged = switched if place == len(documents) else _unlike(own, switched)
        for name, said in _judge(judged, task, held).items():
            mistakes.setdefault(name, said)
    return list(mistakes.values())


def _judge(given: Mapping[str, Any], task: TaskSettings, held: Mapping[str, Any]) -> dict[str, str]:
    """One message for each setting without effect where all settings are as `held`."""
    mistakes: dict[str, str] = {}
    for effect in _missing_effects(task, held):
        for name in sorted(given.keys() & effect.settings):
            mistakes.setdefault(name, _mistake(name, given[name], effect, held))
    return mistakes


def keep_effective(chosen: Mapping[str, Any], settings: Mapping[str, Any], task: TaskSettings) -> dict[str, Any]:
    """Those of the chosen settings that have an effect beside the others.

    Args:
        chosen: Settings by name.
        settings: All settings of a config by name, without what is chosen.
        task: The settings of the task.

    Example:
        keep_effective({"pooling": "max", "lr": 4e-3}, {**defaults, "backbone": "bag"}, task)  # {"lr": 4e-3}
    """
    missing = _missing_effects(task, {**settings, "task": task.name, **chosen})
    without = {name for effect in missing for name in effect.settings}
    return {name: value for name, value in chosen.items() if name not in without}


def _missing_effects(task: TaskSettings, held: Mapping[str, Any]) -> list[Effect]:
    """The effects that settings do not have, as another setting is what it is."""
    effects = (effect for section in task.sections.values() for effect in section.effects)
    return [effect for effect in effects if (held[effect.other] in effect.values) != effect.among]


def _unlike(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are not as the task has them by default."""
    return {name: value for name, value in given.items() if _plain(value) != _plain(own.get(name))}


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Those of all sections; no two sections have a setting of the same name."""
    return {name: value for part in document.values() if isinstance(part, Mapping) for name, value in part.items()}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _mistake(name: str, value: Any, effect: Effect, held: Mapping[str, Any]) -> str:
    now = held[effect.other]
    where = f"`{effect.other}` is {'not given' if now is None else now}"
    wanted = _wanted(effect)
    remedy = f"{'give' if wanted or now is None else 'change'} `{effect.other}`{wanted}"
    return f"`{name}` (={value!r}) has no effect where {where}. Leave it out, or {remedy}."


def _wanted(effect: Effect) -> str:
    """The values of the other setting with which there is an effect, such as " adam, sgd or lion"."""
    fit = [str(one) for one in effect.values if one is not None] if effect.among else []
    return f" {' or '.join(filter(None, (', '.join(fit[:-1]), fit[-1])))}" if fit else ""
