"""plan: before training, how long a memory the data asks for, and which settings give a network that memory."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.cells import find_cell
from unspool.data.text import Source
from unspool.errors import ArgumentError
from unspool.insight.measures.dependence import Dependence, measure_autocorrelation, measure_mutual_information
from unspool.insight.measures.depth import optimal_depth
from unspool.learning.contract import Task
from unspool.tasks.classify import Classification
from unspool.tasks.config import Config
from unspool.tasks.examples import ExampleTask
from unspool.tasks.forecast import Forecasting
from unspool.tasks.language_model import LanguageModelling
from unspool.tasks.regress import Regression
from unspool.tasks.rivals import rivals_of
from unspool.tasks.tag import Tagging
from unspool.tasks.train import plan as read_settings
from unspool.tasks.translate import Translation

#: Up to so many steps of memory a GRU is enough.
SHORT = 20
#: The least and the most steps that gradients are sent back, and of which they are a multiple. The least is what
#: `unspool train` has by itself: what single tokens tell of each other is less than what many tell together.
LEAST, MOST, MULTIPLE = 64, 512, 8
#: Layers beyond which nobody is advised.
DEEPEST = 4
#: Layers that read the state out.
READ_OUT = 1
#: Tasks that say something of a whole sequence: what it is said of must be held until then.
WHOLE = (Translation, Classification, Regression)
#: Why to compare with models without memory.
MEMORYLESS = "Nothing or one step before tells of what follows: see whether models without memory do as well."
#: Settings that `unspool train` has an option for; all others are given by --set.
FLAGS = {
    **{"tokens": "--tokens", "vocabulary": "--vocabulary", "split": "--split", "text_column": "--text-column"},
    **{"label_column": "--label-column", "targets": "--target", "id_column": "--id-column"},
    **{"time_column": "--time-column", "horizon": "--horizon", "look_back": "--look-back", "cell": "--cell"},
    **{"validation": "--validation", "test": "--test", "hidden": "--hidden", "layers": "--layers"},
    **{"batch": "--batch", "window": "--window", "engine": "--engine", "baselines": "--baselines", "seed": "--seed"},
}


@dataclass(frozen=True)
class Proposal:
    """A setting of `unspool train`, and why."""

    setting: str
    value: str | int | float | bool
    reason: str


@dataclass(frozen=True, eq=False)
class Plan:
    """What the data is, how long a memory it asks for, and what to do about it."""

    task: str
    why: str  # it is this task; empty if it was said
    unit: str  # what a step is, in the plural
    sequences: int  # to train on
    steps: int  # of all of them
    dependence: Dependence
    memory: int  # steps: as measured, or the longest sequence that something is said of; 0 if there is neither
    reason: str  # how the memory is known, and what is not measured
    proposals: tuple[Proposal, ...]
    command: str


def plan(source: Source, *, task: str | None = None, limit: int | None = None, **options: Any) -> Plan:
    """Read data as `unspool train` would, with the same `options`, and advise on it.

        found = plan("book.txt")
        found.memory, found.command

    `limit` is the longest lag that is looked at. What `options` say already is not proposed.
    """
    given = {name: value for name, value in options.items() if value is not None}
    settings = read_settings(source, task=task, **given)
    found = settings.task.prepare(settings.data, settings.training.seed)
    unit, sides = _read(found)
    measured = [_measure(side, limit, found) for side in sides]
    strongest = max(measured, key=lambda one: one.memory)
    sequences, steps = len(sides[0]), sum(len(one) for one in sides[0])
    whole = max(map(len, sides[0])) if isinstance(found, WHOLE) else 0
    memory = max(strongest.memory, whole)
    advised = _propose(settings, found, memory, steps)
    if strongest.memory <= 1 and rivals_of(settings):
        advised.append(Proposal("baselines", True, MEMORYLESS))
    proposals = tuple(one for one in advised if one.setting not in given)
    proposed: dict[str, Any] = {one.setting: one.value for one in proposals}
    accepted = read_settings(source, task=task, **given, **proposed)
    return Plan(
        accepted.task.name,
        settings.guessed,
        unit,
        sequences,
        steps,
        strongest,
        memory,
        _explain(strongest, unit) + _add_whole(found, whole, unit),
        proposals,
        _command(source, task, given, proposals),
    )


def _read(task: Task) -> tuple[str, list[list[NDArray[Any]]]]:
    """What a step is, and the training sequences: those of each side, where there is a source and a target."""
    if isinstance(task, LanguageModelling):
        return task.unit, [[np.asarray(task.corpus.training)]]
    assert isinstance(task, ExampleTask)
    part = task.parts["training"]
    if isinstance(task, Forecasting):
        ends = part.origins.ends()
        return "steps", [[one.values[:end] for one, end in zip(part.series, ends, strict=True)]]
    if isinstance(task, Tagging):
        return "words", [list(part.forms)]
    if isinstance(task, Translation):
        return _name(task.source.unit), [list(part.sources), list(part.targets)]
    assert isinstance(task, Classification | Regression)
    return _name(task.inputs.unit), [list(part.inputs)]


def _name(unit: str) -> str:
    """Of a kind of tokens, what people count."""
    return unit if unit in ("characters", "bytes", "words", "steps") else "tokens"


def several(number: int, unit: str) -> str:
    """So many of a unit, which is in the plural: 1 step, 2 steps."""
    return f"{number:,} {unit.removesuffix('s') if number == 1 else unit}"


def _measure(sequences: Sequence[NDArray[Any]], limit: int | None, task: Task) -> Dependence:
    if sequences[0].ndim == 1:
        return measure_mutual_information(sequences, limit)
    numbers = [np.asarray(one, np.float64) for one in sequences]
    return measure_autocorrelation(numbers, limit, detrend=isinstance(task, Forecasting))


def _explain(found: Dependence, unit: str) -> str:
    """How the memory is known, in a sentence."""
    if not len(found.lags):
        return "No sequence is long enough that a step could tell of a later one."
    if not (found.values.any() or found.noise.any()):
        line = ", or on a straight line" if found.measure == "autocorrelation" else ""
        return f"All steps are the same{line}: there is nothing that one could tell of another."
    if not found.memory:
        return f"At no lag up to {found.lags[-1]:,} is the {found.measure} above what shuffled data shows."
    place = int(np.flatnonzero(found.lags == found.memory)[0])
    what = "variance" if found.measure == "autocorrelation" else "entropy"
    share = f"{100 * found.shares[place]:.2g} % of the {what}"
    later = several(found.memory, unit)
    if found.repeats:
        return f"The data repeats itself without fading: a step tells {share} of the one {later} later."
    tail = "; it may reach further than was looked" if found.censored else ", and beyond no more than chance or a trace"
    return f"A step tells {share} of the one {later} later{tail}."


def _add_whole(task: Task, longest: int, unit: str) -> str:
    """What is not measured where something is said of a whole sequence, and what is taken instead."""
    if not longest:
        return ""
    if isinstance(task, Translation):
        one, other, way = "source", "target", "attention"
    else:
        one, other, way = (
            "sequence",
            "label" if isinstance(task, Classification) else "number",
            "pooling over all steps",
        )
    return (
        f" That is within a sequence: what a {one} tells of its {other} is not measured. The {other} may depend on any "
        f"step of its {one}, so the memory is at least the longest {one}, {several(longest, unit)}; {way} can shorten "
        "the way."
    )


def _propose(settings: Config, task: Task, memory: int, steps: int) -> list[Proposal]:
    """The settings that fit a memory of so many steps, learned from so many."""
    found = [_cell(memory), _layers(memory, steps)]
    cell = settings.model.cell if "cell" in settings.model.model_fields_set else str(found[0].value)
    if memory >= 4 and settings.model.engine == "kernel" and find_cell(cell).keeps:
        found.append(_forget_bias(memory))
    if isinstance(task, LanguageModelling):
        found += _window(settings, memory, steps)
    if isinstance(task, Forecasting):
        found += _look_back(task, memory)
    return found


def _cell(memory: int) -> Proposal:
    if memory <= SHORT:
        reason = f"Over {several(memory, 'steps')} a GRU's gate carries gradients, with "
        if not memory:
            reason = "No memory was found that asks for more than a GRU, which has "
        reason += "three quarters of an LSTM's parameters."
        return Proposal("cell", "gru", reason)
    reason = f"Over {memory:,} steps gradients live on only along a cell that is kept: that of an LSTM."
    return Proposal("cell", "lstm", reason)


def _layers(memory: int, steps: int) -> Proposal:
    """By A(N) = (1 − e^(−bN)) m^N, with rules of thumb for b and m.

    With each power of ten in the memory there is one more scale of time to be told apart, and b is 2 over their number;
    m is what a layer leaves of what can be trained, and rises with the data: 0.7 for 10³ steps, 0.92 for 10⁶.
    """
    gain = 2 / (1 + math.log10(max(memory, 1)))
    kept = 1 - 0.3 * (1000 / max(steps, 1000)) ** 0.2
    best = optimal_depth(gain, kept)
    layers = int(np.clip(round(best) - READ_OUT, 1, DEEPEST))
    reason = (
        f"A(N) = (1 − e^(−bN)) m^N with b = {gain:.2f} for this memory and m = {kept:.2f} for {steps:,} steps of data "
        f"is greatest at N* = {best:.1f}, and the read-out is one of these layers."
    )
    return Proposal("layers", layers, reason)


def _forget_bias(memory: int) -> Proposal:
    """b with σ(b) = e^(−1/τ), so that a gate's time constant is τ."""
    constant = math.sqrt(memory)
    bias = round(-math.log(math.expm1(1 / constant)), 1)
    reason = f"Gates then begin with a time constant of {constant:.0f} steps, midway by factors from 1 to {memory:,}."
    return Proposal("forget_bias", bias, reason)


def _window(settings: Config, memory: int, steps: int) -> list[Proposal]:
    wanted = int(np.clip(MULTIPLE * math.ceil(2 * memory / MULTIPLE), LEAST, MOST))
    rows = settings.training.batch
    said = "batch" in settings.training.model_fields_set
    fitting = min(wanted, max(1, (steps - 1) // (rows if said else 1)))
    reason = f"Twice the memory of {memory:,}: then half of all steps or more have their whole past within a window."
    if wanted == MOST and memory > MOST // 2:
        reason = f"Less than twice the memory of {memory:,}, as a window's time and memory grow with it."
    elif wanted == LEAST:
        enough = f"and enough: twice the memory of {memory} is {2 * memory}" if memory else "as no memory was found"
        reason = f"As is usual, {enough}."
    if fitting < wanted:
        reason = f"All that the text allows; {wanted} would be better."
    found = [Proposal("window", fitting, reason)]
    if not said and (steps - 1) // rows < fitting:
        fewer = max(1, (steps - 1) // fitting)
        found.append(Proposal("batch", fewer, f"The text in {rows} rows would be shorter than a window of {fitting}."))
    return found


def _look_back(task: Forecasting, memory: int) -> list[Proposal]:
    """As far as the memory reaches, if enough of the training part is left to forecast from."""
    shortest = min(task.parts["training"].origins.ends())
    most = max((shortest - task.data.horizon) // 2, 1)
    wanted = max(task.terms.look_back, memory)
    long = several(memory, "steps")
    reason = f"The memory is {long}, and a forecast cannot know what it does not read."
    if memory <= task.terms.look_back:
        reason = "Two seasons or two horizons" + (f", and at least the memory of {long}." if memory else ".")
    if wanted > most:
        reason = f"The memory is {long}, but half of the training part must be left to forecast from."
    return [Proposal("look_back", min(wanted, most) if wanted > task.terms.look_back else wanted, reason)]


def _command(source: Source, task: str | None, given: Mapping[str, Any], proposals: Sequence[Proposal]) -> str:
    """`unspool train …`, to be copied into a shell."""
    files = [str(source)] if isinstance(source, str | Path) else [str(one) for one in source]
    words = ["unspool", "train", *files, *([] if task is None else ["--task", task])]
    for name, value in [*given.items(), *((one.setting, one.value) for one in proposals)]:
        words += _option(name, value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    """A setting as the command line has it."""
    flag = FLAGS.get(name)
    several = list(value) if isinstance(value, list | tuple) else [value]
    if flag == "--baselines" or (flag is None and isinstance(value, bool)):
        on = "true" if value else "false"
        return [flag] if flag and value else [] if flag else ["--set", f"{name}={on}"]
    if flag is not None:
        return [word for one in several for word in (flag, str(one))]
    if isinstance(value, list | tuple):
        return ["--set", f"{name}={json.dumps(several, ensure_ascii=False)}"]
    if not isinstance(value, str | int | float):
        raise ArgumentError.of(name, value, "cannot be written as an option", "Give a string, a number or a list")
    return ["--set", f"{name}={value}"]
