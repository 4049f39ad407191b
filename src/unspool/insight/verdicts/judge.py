"""Judge: all rules in the order of their importance."""

from __future__ import annotations

from unspool.insight.measurements import Measurements
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen
from unspool.insight.verdicts.dynamics import chaotic
from unspool.insight.verdicts.gradients import exploding, truncated, vanishing
from unspool.insight.verdicts.rules import Case, Rule
from unspool.insight.verdicts.units import dead, idle, saturated, shut

#: What stops learning altogether comes first, then what limits it, then what is worth knowing.
RULES: tuple[Rule, ...] = (dead, chaotic, exploding, saturated, vanishing, truncated, shut, idle)
ORDER = ("fault", "warning", "note", "good")


def judge(specimen: Specimen, found: Measurements) -> tuple[Verdict, ...]:
    """What is wrong, the most important first; or that nothing was found."""
    case = Case(specimen, found)
    said = [verdict for rule in RULES if (verdict := rule(case)) is not None]
    said.sort(key=lambda verdict: ORDER.index(verdict.severity))
    if any(verdict.severity in ("fault", "warning") for verdict in said):
        return tuple(said)
    return (_nothing(found), *said)


def _nothing(found: Measurements) -> Verdict:
    looked = [name.replace("_", " ") for name, value in vars(found).items() if name != "missing" and value is not None]
    evidence = f"Looked at: {', '.join(looked)}." if looked else "Nothing could be measured."
    if found.flow is not None:
        far = int(found.flow.horizon.max())
        least = "at least " if bool(found.flow.censored.any()) else ""
        evidence = f"Gradients come back from {least}{far} steps. {evidence}"
    return Verdict("healthy", "good", "Nothing wrong found", evidence, "Nothing needs to be changed.")
