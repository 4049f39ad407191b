"""Settings that someone says and nothing reads: they are refused, so that nobody believes in what does not happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unspool.learning.contract import Task
from unspool.learning.settings import Effect, Section, Training
from unspool.tasks.catalogue import TASKS

#: Settings of training that are for some tasks: those that say a step after the other, and those that have rivals.
OF_TASKS = (
    Effect(("forcing", "forcing_end"), "task", ("lm", "seq2seq")),
    Effect(("baselines",), "task", tuple(name for name, task in TASKS.items() if "reader" in task.Model.model_fields)),
)


def find_idle(documents: Sequence[Mapping[str, Any]], task: type[Task]) -> list[str]:
    """What is said in vain in documents of sections, the last of which are options.

    A document is judged by itself and those before it: what a recipe says is no mistake where an option chooses
    otherwise. Nor is a file's setting that is the task's own, as a run's config.toml has all of them, or that something
    shall be off which is off unless it is asked for.
    """
    sections: Sequence[type[Section]] = (task.Data, task.Model, Training)
    effects = (*OF_TASKS, *(effect for section in sections for effect in section.effects))
    own = {name: field.get_default() for section in sections for name, field in section.model_fields.items()}
    off = {name for name, value in own.items() if not value}
    own |= {"task": task.name} | _settings(task.defaults)
    held = dict(own)
    mistakes: dict[str, str] = {}  # one of each setting
    for place, document in enumerate(documents, 1):
        said = _settings(document)
        held |= said
        said = {name: value for name, value in said.items() if value or name not in off}
        if place < len(documents):
            said = {name: value for name, value in said.items() if _plain(value) != _plain(own.get(name))}
        for effect in effects:
            idle = said.keys() & effect.settings if (held[effect.other] in effect.values) != effect.among else ()
            for name in sorted(idle):
                mistakes.setdefault(name, _mistake(name, said[name], effect, held))
    return list(mistakes.values())


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Those of all sections; no two sections have a setting of the same name."""
    return {name: value for part in document.values() if isinstance(part, Mapping) for name, value in part.items()}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _mistake(name: str, value: Any, effect: Effect, held: Mapping[str, Any]) -> str:
    now = held[effect.other]
    where = f"`{effect.other}` is {'not given' if now is None else now}"
    fit = [str(one) for one in effect.values if one is not None] if effect.among else []
    wanted = f" {' or '.join(filter(None, (', '.join(fit[:-1]), fit[-1])))}" if fit else ""
    remedy = f"{'give' if wanted or now is None else 'change'} `{effect.other}`{wanted}"
    return f"`{name}` (={value!r}) has no effect where {where}. Leave it out, or {remedy}."
