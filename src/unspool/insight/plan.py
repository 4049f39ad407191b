"""plan: before training, how long a memory the data needs, and which settings give a network that memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from unspool.cells import find_cell
from unspool.data.text import Source
from unspool.data.units import count_units
from unspool.insight.data_memory import DataMemory, measure_memory
from unspool.insight.gate_bias import SHORT, propose_cell, propose_forget_bias, time_constant
from unspool.insight.measures.context import Context
from unspool.insight.measures.dependence import Dependence
from unspool.insight.measures.depth import optimal_depth
from unspool.insight.memory_words import explain_memory, name_memory
from unspool.learning.scaling import explain_machines
from unspool.models.catalogue import make_learner
from unspool.runs.baselines import baselines_of
from unspool.runs.config import Config
from unspool.runs.train import plan as read_settings
from unspool.tasks.contract import Proposal, Task, TrainingSequences, WholeSequence

#: The most layers that are proposed.
DEEPEST = 4
#: Layers of the head.
HEAD = 1
#: Operations a second that a machine with a few cores does.
RATE = 1e11
#: What a GRU has of an LSTM.
FEWER = "three quarters of the parameters of an LSTM."
#: Why to compare with models without memory.
MEMORYLESS = "No step, or only the one before, tells of the next: see whether models without memory do as well."


@dataclass(frozen=True, eq=False)
class Plan:
    """What the data is, how long a memory it needs, and the settings that are proposed for it.

    `print(plan)` shows the reasons and the call of `unspool.train`.
    """

    source: tuple[str, ...]  # the files, as they were given
    task: str
    guessed: str  # why it is this task; empty if it was given
    unit: str  # what a step is, in the plural
    sequences: int  # to train on
    steps: int  # of all of them
    dependence: Dependence  # of pairs of steps, by lag
    context: Context  # what the last steps tell of the next, by how many they are
    memory: int  # steps: as measured, or the longest sequence from which something is predicted; 0 if there is neither
    reason: str  # how the memory is known, and what is not measured
    proposals: tuple[Proposal, ...]
    machines: str  # whether several are worth it
    settings: Mapping[str, Any]  # of a run: those that were given, and those that are proposed

    def __str__(self) -> str:
        many = "one sequence" if self.sequences == 1 else f"{self.sequences:,} sequences"
        lines = [
            f"task: {self.task}" + (f", guessed: {self.guessed}" if self.guessed else ""),
            f"data: {count_units(self.steps, self.unit)} in {many} to train on",
            f"memory: {name_memory(self.memory, self.context, self.unit)}. {self.reason}",
            *(f"{one.setting}={one.value!r}: {one.reason}" for one in self.proposals),
            f"machines: {self.machines}",
        ]
        files = repr(self.source[0] if len(self.source) == 1 else list(self.source))
        arguments = [files, *(f"{name}={value!r}" for name, value in self.settings.items())]
        return "\n".join([*lines, f"unspool.train({', '.join(arguments)})"])

    def __repr__(self) -> str:
        return f"Plan(task={self.task!r}, memory={self.memory}, settings={dict(self.settings)!r})"


def plan(source: Source, *, task: str | None = None, limit: int | None = None, **options: Any) -> Plan:
    """Estimate how long a memory data needs, and propose settings for it.

    Args:
        source: Files, folders and patterns.
        task: The task; guessed from the file by default.
        limit: The longest lag between two steps that is measured.
        **options: Settings of `unspool.train`, with which the data is read. What is given is not proposed.

    Returns:
        The memory, the reasons and the settings.

    Example:
        found = plan("book.txt")
        found.memory
        unspool.train("book.txt", out="runs/book", **found.settings)
    """
    given = {name: value for name, value in options.items() if value is not None}
    config = read_settings(source, task=task, **given)
    found = config.task.prepare(config.data, config.training.seed)
    sequences = found.sequences()
    lengths = [len(one) for one in sequences.sides[0]]
    needed = measure_memory(sequences, limit)
    memory, context, longest = needed.steps, needed.context, needed.longest
    advised = [*_propose(config, needed, sum(lengths)), *_open(found.propose(memory, config.training), needed)]
    proposals = tuple(one for one in advised if one.setting not in given)
    settings = {**given, **{one.setting: one.value for one in proposals}}
    accepted = read_settings(source, task=task, **settings)  # refuses what does not fit together
    return Plan(
        source=_names(source),
        task=accepted.task.name,
        guessed=config.guessed,
        unit=sequences.unit,
        sequences=len(lengths),
        steps=sum(lengths),
        dependence=needed.dependence,
        context=context,
        memory=memory,
        reason=explain_memory(context, needed.dependence, sequences.unit)
        + _explain_whole(sequences.whole, longest, sequences.unit)
        + _explain_longest(sequences, context.memory),
        proposals=proposals,
        machines=_explain_machines(found, accepted, sum(lengths) / max(1, len(lengths))),
        settings=settings if task is None else {"task": task, **settings},
    )


def _explain_machines(task: Task, config: Config, length: float) -> str:
    """Whether several machines are worth it, by counting operations: 3 passes over each weight, for each row and step.

    One process uses all cores of a machine: several there would only divide them.
    """
    learner = make_learner(task, config.model)
    embedded = {id(one.weight) for one in learner.modules() if isinstance(one, nn.Embedding)}
    parameters = [*learner.parameters()]
    weights = sum(each.numel() for each in parameters if each.dim() > 1 and id(each) not in embedded)
    bptt = config.training.bptt
    steps = config.training.batch_size * (bptt if isinstance(bptt, int) else length)
    size = sum(each.numel() * each.element_size() for each in parameters)
    told = explain_machines(6 * weights * steps / RATE, size)
    return f"one process uses all cores. At {RATE / 1e9:.0f} GFLOP/s {told}. `dry_run` measures it."


def _names(source: Source) -> tuple[str, ...]:
    return (str(source),) if isinstance(source, str | Path) else tuple(map(str, source))


def _explain_whole(whole: WholeSequence | None, longest: int, unit: str) -> str:
    """What is not measured where something is predicted from a whole sequence, and what is assumed instead."""
    if whole is None:
        return ""
    source, target = whole.source, whole.target
    return (
        f" That is within a sequence: what a {source} tells of its {target} is not measured. The {target} may depend "
        f"on any step of its {source}, so the memory is at least the longest {source}, {count_units(longest, unit)}; "
        f"{whole.shortcut} can shorten the way."
    )


def _explain_longest(sequences: TrainingSequences, memory: int) -> str:
    """That no more can be remembered than is read."""
    if sequences.longest is None or memory <= sequences.longest:
        return ""
    return f" A prediction reads {count_units(sequences.longest, sequences.unit)}, and needs no longer memory."


def _propose(config: Config, needed: DataMemory, steps: int) -> list[Proposal]:
    """The settings of every task that fit a memory, learned from so many steps."""
    found = [_cell(needed.known)]
    if isinstance(config.model.cell, str) and isinstance(config.model.hidden, int):  # lists say how many layers
        found.append(_layers(needed.steps, steps))
    given = "cell" in config.model.model_fields_set
    cells = config.model.cells if given else [find_cell(str(found[0].value))]
    bias = propose_forget_bias(needed.known)
    if bias is not None and config.model.engine == "kernel" and all(cell.keeps for cell in cells):
        found.append(Proposal("forget_bias", bias, _explain_bias(needed.known)))
    if needed.context.memory <= 1 and baselines_of(config):
        found.append(Proposal("baselines", True, MEMORYLESS))
    return found


def _open(proposals: Sequence[Proposal], needed: DataMemory) -> list[Proposal]:
    """Proposals that do not call a number of steps enough where the memory may be longer."""
    if needed.known is not None:
        return list(proposals)
    reason = f"The default: the memory may be longer than the {needed.steps} that were measured."
    return [one._replace(reason=reason) if one.enough else one for one in proposals]


def _cell(memory: int | None) -> Proposal:
    if memory is None:
        reason = "The memory may be longer than was measured, and an LSTM keeps a state the longest."
    elif memory > SHORT:
        reason = f"Over {memory:,} steps gradients survive only along a state that is kept, as in an LSTM."
    elif memory:
        reason = f"Over {count_units(memory, 'steps')} the gate of a GRU carries gradients, with {FEWER}"
    else:
        reason = f"No memory was found that needs more than a GRU, which has {FEWER}"
    return Proposal("cell", propose_cell(memory), reason)


def _layers(memory: int, steps: int) -> Proposal:
    """By A(N) = (1 − e^(−bN)) m^N, with rules of thumb for b and m.

    With each power of ten in the memory there is one more time scale to tell apart, and b is 2 over their number;
    m is the trainability that a layer leaves, and rises with the data: 0.7 for 10³ steps, 0.92 for 10⁶.
    """
    gain = 2 / (1 + math.log10(max(memory, 1)))
    kept = 1 - 0.3 * (1000 / max(steps, 1000)) ** 0.2
    best = optimal_depth(gain, kept)
    layers = int(np.clip(round(best) - HEAD, 1, DEEPEST))
    reason = (
        f"A(N) = (1 − e^(−bN)) m^N with b = {gain:.2f} for this memory and m = {kept:.2f} for {steps:,} steps of data "
        f"is greatest at N* = {best:.1f}, and the head is one of these layers."
    )
    return Proposal("layers", layers, reason)


def _explain_bias(memory: int | None) -> str:
    if memory is None:
        return "Gates then start with a time constant of 8 steps, as for any memory that is not known."
    constant = time_constant(memory)
    return f"Gates then start with a time constant of {constant:.0f} steps, the geometric mean of 1 and {memory:,}."
