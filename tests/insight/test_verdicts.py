"""Every rule has a network that it must speak up about, and all the others, about which it must not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from tests.insight.patients import PATIENTS
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.insight.measurements import Measurements, measure
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.module import take_model
from unspool.insight.verdicts import units
from unspool.insight.verdicts.judge import RULES, judge
from unspool.insight.verdicts.rules import Case
from unspool.nn import Stack

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


def test_saturated_states_are_told_but_of_gated_cells() -> None:
    for cell, expected in (("elman", "saturated"), ("lstm", None)):
        torch.manual_seed(0)
        model = Stack(cell, 3, 16)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if ".W_" in name:
                    parameter.mul_(60)
        specimen = take_model(model, torch.randn(30, 2, 3, generator=torch.Generator().manual_seed(0)))
        verdict = units.saturated(Case(specimen, measure(specimen, only=("activations",))))
        assert (None if verdict is None else verdict.key) == expected


def test_the_longest_unit_decides_whether_sequences_are_long_enough() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.short, self.long = nn.RNN(3, 8), nn.RNN(3, 8)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.short(x[:4])[0].sum() + self.long(x)[0].sum()
            return found

    x = torch.randn(60, 4, 3, generator=torch.Generator().manual_seed(0))
    specimen = take_model(Two(), x)
    assert judge(specimen, measure(specimen, only=MEASURES))[0].key == "vanishing"
    assert dict(specimen.facts)["data"] == "4 row(s) of 60 steps"
    assert dict(specimen.facts)["followed"].startswith("the loss, ")


def test_what_is_not_known_is_no_sign_of_health() -> None:
    """An encoder is reached through its decoder's start alone: how far its gradients come is not known."""
    specimen, found, _ = examined("vanishing")
    assert found.flow is not None
    unknown = np.vstack([found.flow.survival, np.full_like(found.flow.survival, np.nan)])
    both = replace(
        found.flow,
        labels=("decoder", "encoder"),
        survival=unknown,
        rate=np.append(found.flow.rate, np.nan),
        horizon=np.append(found.flow.horizon, 0),
        censored=np.append(found.flow.censored, False),
    )
    assert judge(specimen, replace(found, flow=both))[0].key == "vanishing"


def test_short_sequences_are_not_judged() -> None:
    specimen = take_model(nn.LSTM(3, 4), torch.randn(1, 2, 3))
    verdict = judge(specimen, measure(specimen, only=MEASURES))[0]
    assert (verdict.key, verdict.severity) == ("short", "note")


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no steps"):
        take_model(nn.LSTM(3, 4), torch.zeros(5, 0, 3))


def test_layers_that_cannot_be_seen_into_are_named() -> None:
    model = nn.ModuleDict({"seen": nn.LSTM(3, 4), "cell": nn.LSTMCell(3, 4)})
    model.forward = lambda x: model["seen"](x)[0]
    assert take_model(model, torch.randn(9, 2, 3)).missing[0].startswith("cell (LSTMCell)")


def test_a_latch_remembers_without_gradients() -> None:
    specimen, found, _ = examined("vanishing")
    assert found.forgetting is not None
    kept = replace(found.forgetting, horizon=np.array([45]), censored=np.array([True]))
    said = judge(specimen, replace(found, forgetting=kept))
    assert [one.key for one in said][:2] == ["healthy", "latched"]
