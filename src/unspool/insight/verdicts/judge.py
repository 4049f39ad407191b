"""Judge: all rules in the order of their importance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unspool.insight.measurements import Measurements
from unspool.insight.measures.flow import GradientFlow
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen
from unspool.insight.verdicts.activity import dead, idle, saturated, shut
from unspool.insight.verdicts.dynamics import chaotic
from unspool.insight.verdicts.gradients import SHORTEST_SEQUENCE, exploding, truncated, vanishing
from unspool.insight.verdicts.rules import Case, Rule
from unspool.insight.verdicts.training import training
from unspool.language import Message, at_least, listed, words

#: First what stops learning, then what limits it, then what is worth knowing.
RULES: tuple[Rule, ...] = (dead, chaotic, exploding, saturated, vanishing, truncated, shut, training, idle)
ORDER = ("fault", "warning", "note", "good")


def judge(specimen: Specimen, found: Measurements) -> tuple[Verdict, ...]:
    """What is wrong, the most important first; or that nothing was found."""
    case = Case(specimen, found)
    verdicts = [verdict for rule in RULES if (verdict := rule(case)) is not None]
    verdicts.sort(key=lambda verdict: ORDER.index(verdict.severity))
    verdicts = [verdict for place, verdict in enumerate(verdicts) if not _contradicts(verdict, verdicts[:place])]
    if any(verdict.severity in ("fault", "warning") for verdict in verdicts):
        return tuple(verdicts)
    return (_nothing_wrong(case), *verdicts)


def _contradicts(verdict: Verdict, earlier: Sequence[Verdict]) -> bool:
    """Whether a verdict would give another value to a setting that a more important one gives."""
    given = {name: value for one in earlier for name, value in one.settings.items()}
    return any(name in given and given[name] != value for name, value in verdict.settings.items())


def _nothing_wrong(case: Case) -> Verdict:
    measured = listed(words(key.replace("_", " ")) for key in case.found.values)
    evidence = Message("Measured: {measured}.", measured=measured) if measured else words("Nothing could be measured.")
    if case.steps < SHORTEST_SEQUENCE:
        few = "The longest sequence has {steps} step(s), too few to show memory. {evidence}"
        evidence = Message(few, steps=case.steps, evidence=evidence)
        remedy = Message("Give sequences of at least {steps} steps.", steps=SHORTEST_SEQUENCE)
        return Verdict("short", "note", "Sequences are too short to judge", evidence, remedy)
    flow = case.found.get(GradientFlow)
    if flow is not None and np.isfinite(flow.survival).any():
        best = int(flow.horizon.argmax())
        evidence = Message(
            "Gradients reach back {least}{horizon} steps. {evidence}",
            least=at_least(flow.censored[best]),
            horizon=int(flow.horizon[best]),
            evidence=evidence,
        )
    remedy = words("Nothing in the dynamics of the network needs to change.")
    return Verdict("healthy", "good", "Nothing wrong found", evidence, remedy)
