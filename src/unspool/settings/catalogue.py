"""Every setting of every task, by name; help, config checks, advice and reference are derived from this list."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from unspool.errors import UnknownNameError
from unspool.settings.data import (
    LabelledData,
    MeasuredData,
    MultiLabelData,
    PairedData,
    SeriesData,
    TaggedData,
    TextData,
)
from unspool.settings.model import (
    ForecasterSettings,
    JointSettings,
    LanguageModelSettings,
    PooledSettings,
    Seq2SeqSettings,
    TaggerSettings,
)
from unspool.settings.names import SYNONYMS
from unspool.settings.search import Choices, Declared
from unspool.settings.section import Section
from unspool.settings.training import Training

#: The sections of a config.
SECTIONS = ("data", "model", "training")


@dataclass(frozen=True)
class TaskSettings:
    """The sections of a task's config, and the defaults that differ from those of the sections."""

    name: str
    summary: str  # what the task predicts
    data: type[Section]
    model: type[Section]
    defaults: Mapping[str, Mapping[str, Any]]
    training: type[Section] = Training

    @property
    def sections(self) -> dict[str, type[Section]]:
        """The class of each section, by its name in the config."""
        return {name: getattr(self, name) for name in SECTIONS}

    def section_of(self, setting: str) -> str | None:
        """The section that has this setting; None if the task does not have it."""
        return next((name for name, section in self.sections.items() if setting in section.model_fields), None)


def _of_examples(name: str, summary: str, data: type[Section], model: type[Section]) -> TaskSettings:
    """The settings of a task that learns from examples."""
    return TaskSettings(name, summary, data, model, defaults={"training": {"epochs": 20.0, "bptt": "all", "lr": 2e-3}})


TASK_SETTINGS: Mapping[str, TaskSettings] = MappingProxyType(
    {
        task.name: task
        for task in (
            TaskSettings(
                *("lm", "the next token of a text", TextData, LanguageModelSettings),
                defaults={"training": {"epochs": 10.0}},
            ),
            _of_examples("classify", "the label of a text or a sequence of numbers", LabelledData, PooledSettings),
            _of_examples("multilabel", "any number of labels of a text or a sequence", MultiLabelData, PooledSettings),
            TaskSettings(
                *("regress", "numbers of a text, a molecule or a sequence of numbers", MeasuredData, PooledSettings),
                defaults={
                    "model": {"layers": 2, "dropout": 0.1},
                    "training": {"epochs": 60.0, "bptt": "all", "lr": 2e-3},
                },
            ),
            _of_examples("tag", "a tag for every word of a sentence", TaggedData, TaggerSettings),
            _of_examples("joint", "a tag for every word and a label for the whole sentence", TaggedData, JointSettings),
            _of_examples("seq2seq", "a text from another text", PairedData, Seq2SeqSettings),
            TaskSettings(
                *("forecast", "the next steps of series, as quantiles", SeriesData, ForecasterSettings),
                defaults={
                    "training": {"steps": 1000, "bptt": "all", "lr": 3e-3, "weight_decay": 0.1, "average": "ema"}
                },
            ),
        )
    }
)


@dataclass(frozen=True)
class Setting:
    """One setting, as help, advice and the reference show it."""

    name: str
    section: str
    group: str
    help: str
    common: bool  # the short help lists it
    resume: bool  # a run may be resumed with another value
    defaults: Mapping[str, Any] = field(default_factory=dict)  # by task; every task that has the setting is here
    types: tuple[Any, ...] = ()  # of its values: int, float, str, bool, and the words it takes
    many: bool = False  # it may take a list
    single: tuple[Any, ...] = ()  # types of values that are not a list
    declared: Declared | None = None  # the values that a search tries
    uniform: bool = True  # all its tasks take the same values

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have it."""
        return tuple(self.defaults)

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.types == (bool,)

    @property
    def is_number(self) -> bool:
        """Whether it takes numbers."""
        return int in self.types or float in self.types

    @property
    def search(self) -> Declared | None:
        """The values that a search tries: those declared; or all, where there are few; else None."""
        if self.declared is not None or self.section == "data":
            return self.declared
        if self.is_switch:
            return Choices((False, True))
        return Choices(self.choices) if self.choices and self.types == self.choices and self.uniform else None

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it takes."""
        return tuple(one for one in self.types if isinstance(one, str))


def _flatten(annotation: Any) -> Iterator[tuple[Any, bool]]:
    """Plain types and literal words within an annotation, and whether each is the entry of a tuple."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from ((word, False) for word in arguments)
    elif origin is tuple:
        yield from ((kind, True) for kind, _ in _flatten_each(arguments))
    elif hasattr(annotation, "__metadata__"):
        yield from _flatten(arguments[0])
    elif arguments:
        yield from _flatten_each(arguments)
    elif annotation not in (NoneType, ...):
        yield annotation, False


def _flatten_each(annotations: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    for one in annotations:
        yield from _flatten(one)


def _default(task: TaskSettings, section: str, name: str, info: FieldInfo) -> Any:
    plain = None if info.default is PydanticUndefined else info.default
    return task.defaults.get(section, {}).get(name, plain)


def _applies(section: type[Section], name: str, task: str) -> bool:
    """Whether a setting of the section has an effect on the task."""
    rules = [effect for effect in section.effects if effect.other == "task" and name in effect.settings]
    return all((task in rule.values) == rule.among for rule in rules)


def _collect() -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for task in TASK_SETTINGS.values():
        for section, of in task.sections.items():
            for name, info in of.model_fields.items():
                if not _applies(of, name, task.name):
                    continue
                new = _describe(name, section, info, {task.name: _default(task, section, name, info)})
                found[name] = _join(found[name], new) if name in found else new
    return found


def _describe(name: str, section: str, info: FieldInfo, defaults: Mapping[str, Any]) -> Setting:
    """A setting as one task's section defines it."""
    kinds = list(_flatten(info.annotation))
    facts: Any = info.json_schema_extra
    return Setting(
        name,
        section,
        str(facts["group"]),
        str(info.description),
        bool(facts["common"]),
        bool(facts["resume"]),
        defaults,
        tuple(dict.fromkeys(kind for kind, _ in kinds)),
        any(within for _, within in kinds),
        tuple(dict.fromkeys(kind for kind, within in kinds if not within)),
        facts["search"],
    )


def _join(earlier: Setting, later: Setting) -> Setting:
    """A setting that several tasks have, with the defaults and the types of all."""
    types = dict.fromkeys((*earlier.types, *later.types))
    many = earlier.many or later.many
    uniform = earlier.uniform and earlier.types == later.types
    defaults = {**earlier.defaults, **later.defaults}
    return replace(earlier, defaults=defaults, types=tuple(types), many=many, uniform=uniform)


#: Every setting, by name. No two sections have a setting of the same name.
SETTINGS: Mapping[str, Setting] = MappingProxyType(_collect())
#: Settings that may change when a run is resumed.
RESUMABLE = tuple(name for name, one in SETTINGS.items() if one.resume)


def find_task_settings(name: str) -> TaskSettings:
    """The sections and defaults of a task."""
    if name not in TASK_SETTINGS:
        raise UnknownNameError.among("task", name, TASK_SETTINGS)
    return TASK_SETTINGS[name]


def suggest(name: str, known: Iterable[str], mark: str = "`") -> str:
    """That a name is not known, and the name that may have been meant, within marks."""
    known = sorted(known)
    meant = SYNONYMS.get(name)
    near = [meant] if meant in known else difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"is not known. Did you mean {mark}{near[0]}{mark}?" if near else f"is not known. Known: {', '.join(known)}."
