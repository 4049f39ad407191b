"""Judge: all rules in the order of their importance, causes before their effects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unspool.insight.measurements import Measurements
from unspool.insight.measures.activation import Activations
from unspool.insight.measures.attenuation import Attenuation
from unspool.insight.measures.flow import GradientFlow
from unspool.insight.measures.gates import Gates
from unspool.insight.measures.inputs import Inputs
from unspool.insight.measures.lyapunov import Lyapunov
from unspool.insight.measures.participation import Participation
from unspool.insight.measures.truncation import Truncation
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen
from unspool.insight.verdicts.activity import ENOUGH_UNITS, dead, frozen, idle, saturated
from unspool.insight.verdicts.dynamics import chaotic, undecided_layers
from unspool.insight.verdicts.gates import shut, stuck
from unspool.insight.verdicts.gradients import exploding, orderly_layers, truncated
from unspool.insight.verdicts.inputs import scaled
from unspool.insight.verdicts.memory import (
    SHORTEST_SEQUENCE,
    compares_layers,
    forgetful,
    known_horizons,
    short_memory,
    vanishing,
)
from unspool.insight.verdicts.rules import Case, Rule
from unspool.insight.verdicts.training import training
from unspool.language import Message, at_least, listed, words


@dataclass(frozen=True)
class Check:
    """A rule, with what it looks for and whether it could look."""

    rule: Rule
    about: str  # what it looks for, in a few words
    possible: Callable[[Case], bool]


def _measured(*kinds: type) -> Callable[[Case], bool]:
    """Whether all of these numbers are there."""
    return lambda case: all(case.found.get(kind) is not None for kind in kinds)


def _decided(case: Case) -> bool:
    return _measured(Lyapunov)(case) and not undecided_layers(case)


def _reads_data(case: Case) -> bool:
    found = case.found.get(Inputs)
    return found is not None and bool(found.labels)


def _knows_window(case: Case) -> bool:
    found = case.found.get(Truncation)
    return found is not None and found.lost is not None


def _follows_gradients(case: Case) -> bool:
    flow = case.found.get(GradientFlow)
    return flow is not None and bool(np.isfinite(flow.survival).any())


def _compares_units(case: Case) -> bool:
    found = case.found.get(Participation)
    return found is not None and bool(np.isfinite(found.still).any())


def _has_many_units(case: Case) -> bool:
    found = case.found.get(Participation)
    return found is not None and any(size >= ENOUGH_UNITS for size in found.size)


def _has_layers_in_sequence(case: Case) -> bool:
    found = case.found.get(Attenuation)
    return found is not None and bool(found.pairs)


#: First what causes other things, then what stops learning, what limits it, and what is worth knowing.
CHECKS: tuple[Check, ...] = (
    Check(scaled, "badly scaled inputs", _reads_data),
    Check(chaotic, "chaos", _decided),
    Check(stuck, "stuck gates", _measured(Gates)),
    Check(exploding, "exploding gradients", lambda case: bool(orderly_layers(case))),
    Check(dead, "dead units", _measured(Activations)),
    Check(shut, "gates closed on both sides", _has_layers_in_sequence),
    Check(saturated, "saturated units", _measured(Activations)),
    Check(frozen, "a frozen state", _compares_units),
    Check(vanishing, "vanishing gradients", lambda case: bool(known_horizons(case).any())),
    Check(
        short_memory,
        "a loss that needs a longer memory",
        lambda case: case.need is not None and _follows_gradients(case),
    ),
    Check(truncated, "truncation", _knows_window),
    Check(forgetful, "layers that forget", compares_layers),
    Check(training, "the course of training", lambda case: case.specimen.course is not None),
    Check(idle, "few directions in use", _has_many_units),
)
RULES: tuple[Rule, ...] = tuple(check.rule for check in CHECKS)
ORDER = ("fault", "warning", "note", "good")

_STATES = ("vanishing", "forgetful", "memory", "frozen", "shut", "truncated")
#: What a verdict may be the cause of: it then comes first, and is as important. A gate that is stuck shut leaves so
#: little of the nearest gradient that all others seem to have grown; one update with a gradient that exploded can kill
#: relu units; and a cell whose output gate is nearly closed has to hold large values to be heard.
EFFECTS: Mapping[str, Sequence[str]] = {
    "scaled": ("dead", "exploding", "stuck", "saturated", *_STATES),
    "stuck": ("exploding", "saturated", *_STATES),
    "exploding": ("dead", "frozen"),
    "dead": _STATES,
    "shut": ("saturated",),
    "saturated": ("vanishing", "forgetful", "memory", "frozen"),
    "frozen": ("vanishing", "forgetful", "memory"),
}


def judge(specimen: Specimen, found: Measurements) -> tuple[Verdict, ...]:
    """What is wrong, the most important first; or that nothing was found."""
    case = Case(specimen, found)
    verdicts = [verdict for rule in RULES if (verdict := rule(case)) is not None]
    verdicts = _put_causes_first(list({verdict.key: verdict for verdict in reversed(verdicts)}.values())[::-1])
    verdicts = _defer_remedies(verdicts)
    if any(verdict.severity in ("fault", "warning") for verdict in verdicts):
        return tuple(verdicts)
    return (_nothing_wrong(case), *verdicts)


def _put_causes_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts by severity; a cause is as severe as its effects, and an effect says that it may be one."""
    severity = {verdict.key: verdict.severity for verdict in verdicts}
    judged = []
    for verdict in verdicts:
        effects = [severity[key] for key in EFFECTS.get(verdict.key, ()) if key in severity]
        judged.append(replace(verdict, severity=min([verdict.severity, *effects], key=ORDER.index)))
    judged.sort(key=lambda verdict: ORDER.index(verdict.severity))
    return [_as_effect(verdict, judged[:place]) for place, verdict in enumerate(judged)]


def _as_effect(verdict: Verdict, earlier: Sequence[Verdict]) -> Verdict:
    cause = next((one for one in earlier if verdict.key in EFFECTS.get(one.key, ())), None)
    if cause is None or verdict.severity == "note":
        return verdict
    text = "{evidence} This may be an effect of what is named above: {cause}."
    return replace(verdict, evidence=Message(text, evidence=verdict.evidence, cause=words(cause.title)))


def _defer_remedies(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts; one that would give a setting another value than a more important one leaves that setting to it."""
    given: dict[str, tuple[Any, Verdict]] = {}
    found = []
    for verdict in verdicts:
        taken = {name for name, value in verdict.settings.items() if name in given and given[name][0] != value}
        one = _after(verdict, given[min(taken)][1], taken) if taken else verdict
        given = {**{name: (value, one) for name, value in one.settings.items()}, **given}
        found.append(one)
    return found


def _after(verdict: Verdict, first: Verdict, taken: Collection[str]) -> Verdict:
    """A verdict whose remedy comes after that of another; without its cell, the other settings may not be allowed."""
    kept = {} if "cell" in taken else {name: value for name, value in verdict.settings.items() if name not in taken}
    text = "First do what is said above ({first}), then look again. If this is still so: {remedy}"
    remedy = Message(text, first=words(first.title), remedy=verdict.remedy)
    return replace(verdict, settings=kept, remedy=remedy)


def _nothing_wrong(case: Case) -> Verdict:
    if case.steps < SHORTEST_SEQUENCE:
        evidence = Message("The longest sequence has {steps} step(s), too few to show memory.", steps=case.steps)
        remedy = Message("Give sequences of at least {steps} steps.", steps=SHORTEST_SEQUENCE)
        return Verdict("short", "note", "Sequences are too short to judge", evidence, remedy)
    if not any(check.possible(case) for check in CHECKS if check.rule is not training):
        evidence = Message(
            "Nothing that was measured tells whether something is wrong. Not looked for: {missed}.",
            missed=listed(words(check.about) for check in CHECKS if not check.possible(case)),
        )
        return Verdict("unjudged", "note", "Not judged", evidence, words("Take all measurements."))
    evidence = _tell_reach(case.found.get(GradientFlow), _tell_checks(case))
    remedy = words("Nothing in the dynamics of the network needs to change.")
    return Verdict("healthy", "good", "Nothing wrong found", evidence, remedy)


def _tell_checks(case: Case) -> Message:
    """What was looked for, and what could not be."""
    looked = listed(words(check.about) for check in CHECKS if check.possible(case))
    missed = listed(words(check.about) for check in CHECKS if not check.possible(case))
    if not missed:
        return Message("Looked for, over this data: {looked}.", looked=looked)
    return Message("Looked for, over this data: {looked}. Not looked for: {missed}.", looked=looked, missed=missed)


def _tell_reach(flow: GradientFlow | None, evidence: Message) -> Message:
    """The evidence with how far gradients reach before it, if that is known."""
    if flow is None or not np.isfinite(flow.survival).any():
        return evidence
    best = int(flow.horizon.argmax())
    return Message(
        "Gradients reach back {least}{horizon} steps. {evidence}",
        least=at_least(flow.censored[best]),
        horizon=int(flow.horizon[best]),
        evidence=evidence,
    )
