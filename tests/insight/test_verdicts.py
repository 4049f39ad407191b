"""Every rule has a network that it must speak up about, and all the others, about which it must not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.insight.patients import PATIENTS

from unspool.insight.measurements import Measurements, measure
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen
from unspool.insight.verdicts import units
from unspool.insight.verdicts.judge import RULES, judge
from unspool.insight.verdicts.rules import Case

MEASURES = ("flow", "forgetting", "truncation", "lyapunov", "activations", "attenuation", "participation")


@cache
def examined(name: str) -> tuple[Specimen, Measurements, tuple[Verdict, ...]]:
    specimen = PATIENTS[name]().specimen()
    found = measure(specimen, only=MEASURES)
    return specimen, found, judge(specimen, found)


@pytest.mark.parametrize("name", PATIENTS)
def test_the_first_verdict_is_right(name: str) -> None:
    *_, verdicts = examined(name)
    assert verdicts[0].key == name, [(one.key, one.evidence) for one in verdicts]


@pytest.mark.parametrize("name", [name for name in PATIENTS if name != "healthy"])
def test_a_rule_speaks_of_its_patient_and_not_of_the_healthy_one(name: str) -> None:
    rule = next(rule for rule in RULES if any(one and one.key == name for one in [rule(Case(*examined(name)[:2]))]))
    specimen, found, _ = examined("healthy")
    assert rule(Case(specimen, found)) is None
    verdict = rule(Case(*examined(name)[:2]))
    assert verdict is not None
    assert verdict.evidence
    assert verdict.remedy


@pytest.mark.parametrize("name", PATIENTS)
def test_a_run_is_told_what_to_type(name: str) -> None:
    specimen, found, _ = examined(name)
    run = replace(specimen, retrain="unspool train --config runs/a/config.toml --out runs/a-2")
    first = judge(run, found)[0]
    if name == "healthy":
        assert first.command is None
    else:
        assert first.command is not None
        assert first.command.startswith("unspool train --config runs/a/config.toml --out runs/a-2 --")


def test_nothing_wrong_says_what_was_looked_at() -> None:
    *_, verdicts = examined("healthy")
    assert verdicts[0].severity == "good"
    assert "flow" in verdicts[0].evidence
    assert "steps" in verdicts[0].evidence


def test_windows_that_are_long_enough_are_no_fault() -> None:
    specimen, found, _ = examined("truncated")
    assert found.truncation is not None
    enough = replace(specimen, window=found.truncation.recommended)
    assert all(one.key != "truncated" for one in judge(enough, found))


def test_few_directions_are_a_note() -> None:
    specimen, found, _ = examined("healthy")
    assert found.participation is not None
    few = replace(found.participation, ratio=np.array([1.2]), size=np.array([64]))
    verdicts = judge(specimen, replace(found, participation=few))
    assert [one.key for one in verdicts] == ["healthy", "idle"]
    assert verdicts[1].severity == "note"


def test_saturated_states_of_a_gated_cell_do_no_harm() -> None:
    specimen, found, _ = examined("chaotic")
    assert units.saturated(Case(specimen, found)) is not None or found.activations is not None
    gated, measured, _ = examined("healthy")
    assert units.saturated(Case(gated, measured)) is None
