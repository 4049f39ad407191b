"""Every rule has a network that it must speak up about, and all the others, about which it must not."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np
import pytest
import torch
from tests.insight import patients
from tests.insight.patients import OTHERS, PATIENTS
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.measurements import Measurements, take_measurements
from unspool.insight.measures.activation import Activations
from unspool.insight.measures.flow import GradientFlow
from unspool.insight.measures.lyapunov import Lyapunov
from unspool.insight.measures.participation import Participation
from unspool.insight.measures.truncation import Truncation
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.module import take_model
from unspool.insight.verdicts.activity import saturated
from unspool.insight.verdicts.judge import EFFECTS, RULES, judge
from unspool.insight.verdicts.rules import Case
from unspool.nn import Stack
from unspool.runs.follow_up import FollowUp

MEASURES = (
    *("flow", "forgetting", "need", "truncation", "lyapunov", "activations", "attenuation", "participation"),
    *("gates", "input_sizes"),
)


@cache
def examined(name: str) -> tuple[Specimen, Measurements, tuple[Verdict, ...]]:
    specimen = PATIENTS[name]().specimen()
    found = measure(specimen)
    return specimen, found, judge(specimen, found)


def measure(specimen: Specimen, only: tuple[str, ...] = MEASURES) -> Measurements:
    return take_measurements(specimen, CATALOGUE, only=only)


def changed(found: Measurements, **values: object) -> Measurements:
    """The same measurements with others in their place."""
    return replace(found, values={**found.values, **values})


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
def test_what_is_wrong_comes_with_settings_to_change(name: str) -> None:
    *_, verdicts = examined(name)
    assert bool(verdicts[0].settings) == (name not in ("healthy", "scaled"))  # data is scaled before it is given
    for setting, value in verdicts[0].settings.items():
        written = f'{setting}="{value}"' if isinstance(value, str) else f"{setting}={value}"
        assert f"`{written}`" in verdicts[0].remedy


@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_with_the_same_verdicts(name: str) -> None:
    expected, make = OTHERS[name]
    specimen = make().specimen()
    verdicts = judge(specimen, measure(specimen))
    assert verdicts[0].key == expected, [(one.key, one.evidence) for one in verdicts]


def test_a_latch_remembers_without_gradients() -> None:
    """Also where units saturate: what holds a memory is no fault."""
    specimen = patients.latch().specimen()
    said = judge(specimen, measure(specimen))
    assert [one.key for one in said][:2] == ["healthy", "latched"], [(one.key, one.evidence) for one in said]


def test_saturated_chaos_is_no_latch() -> None:
    """Signs of a random network never settle: states differ for ever, but nothing is held."""
    patient = patients.chaotic()
    with torch.no_grad():
        patients.layers_of(patient.model)[0].cell_parameters()["U_h"].mul_(50)
    specimen = patient.specimen()
    said = judge(specimen, measure(specimen))
    assert "latched" not in [one.key for one in said]
    assert said[0].severity == "fault"


def test_a_relu_network_that_runs_away_is_not_chaotic() -> None:
    patient = patients.exploding()
    with torch.no_grad():
        patients.layers_of(patient.model)[0].cell_parameters()["U_h"].mul_(1.09 / 1.3)
    specimen = patient.specimen()
    said = [one.key for one in judge(specimen, measure(specimen))]
    assert said[0] == "exploding"
    assert "chaotic" not in said


def test_an_exponent_in_doubt_is_no_verdict() -> None:
    specimen, found, _ = examined("chaotic")
    lyapunov = found.get(Lyapunov)
    assert lyapunov is not None
    doubtful = replace(lyapunov, interval=np.array([[0.01, 0.4]]))
    said = judge(specimen, changed(found, lyapunov=doubtful))
    assert "chaotic" not in [one.key for one in said]


def test_the_cause_comes_before_its_effects() -> None:
    *_, verdicts = examined("scaled")
    assert [one.key for one in verdicts][:3] == ["scaled", "saturated", "vanishing"]
    assert verdicts[0].severity == "fault"
    assert "Inputs are badly scaled" in verdicts[1].evidence


def test_every_effect_is_judged_after_its_causes() -> None:
    order = [{"short_memory": "memory"}.get(rule.__name__, rule.__name__) for rule in RULES]
    assert {*EFFECTS, *chain.from_iterable(EFFECTS.values())} <= {*order}
    for cause, effects in EFFECTS.items():
        assert all(order.index(cause) < order.index(effect) for effect in effects)


@pytest.mark.parametrize(("lag", "expected"), [(2, "healthy"), (40, "memory")])
def test_a_loss_may_need_more_than_a_network_has(lag: int, expected: str) -> None:
    """An LSTM that remembers some twenty steps, and a loss that asks for the input of some steps ago."""
    torch.manual_seed(0)
    model = nn.LSTM(3, 16)
    with torch.no_grad():
        dict(model.named_parameters())["bias_hh_l0"][16:32] = 1.0
    x = torch.randn(72, 16, 3, generator=torch.Generator().manual_seed(0))
    specimen = take_model(model, x, loss=lambda output: (output[0][lag:, :, :3] - x[:-lag]).square().mean())
    said = judge(specimen, measure(specimen))
    assert said[0].key == expected, [(one.key, one.evidence) for one in said]


def test_gradients_that_vanish_are_a_note_where_the_loss_needs_no_more() -> None:
    x = torch.randn(60, 16, 3, generator=torch.Generator().manual_seed(0))
    for lag, expected in ((1, "note"), (20, "fault")):
        torch.manual_seed(0)

        def loss(output: tuple[Tensor, Tensor], lag: int = lag) -> Tensor:
            return (output[0][lag:, :, :3] - x[:-lag]).square().mean()

        specimen = take_model(nn.RNN(3, 16), x, loss=loss)
        verdict = next(one for one in judge(specimen, measure(specimen)) if one.key == "vanishing")
        assert verdict.severity == expected


def test_nothing_wrong_says_what_was_looked_at() -> None:
    *_, verdicts = examined("healthy")
    assert verdicts[0].severity == "good"
    looked, missed = verdicts[0].evidence.split("Not looked for: ")
    assert "Gradients reach back at least" in looked
    assert "stuck gates" in looked
    assert "chaos" in looked
    assert missed == (
        "gates closed on both sides, a loss that needs a longer memory, truncation, layers that forget, "
        "the course of training."
    )  # it has one layer


def test_windows_that_are_long_enough_are_no_fault() -> None:
    specimen, found, _ = examined("truncated")
    truncation = found.get(Truncation)
    assert truncation is not None
    assert truncation.bptt == specimen.bptt == 5
    enough = replace(truncation, bptt=truncation.recommended)
    assert all(one.key != "truncated" for one in judge(specimen, changed(found, truncation=enough)))


def test_few_directions_are_a_note() -> None:
    specimen, found, _ = examined("healthy")
    participation = found.get(Participation)
    assert participation is not None
    few = replace(participation, ratio=np.array([1.2]), size=np.array([64]))
    verdicts = judge(specimen, changed(found, participation=few))
    assert [one.key for one in verdicts] == ["healthy", "idle"]
    assert verdicts[1].severity == "note"
    assert verdicts[1].settings == {"hidden": 32}


@pytest.mark.parametrize(("cell", "expected"), [("elman", "saturated"), ("lstm", None)])
def test_saturated_states_are_told_but_not_candidates_of_gated_cells(cell: str, expected: str | None) -> None:
    torch.manual_seed(0)
    model = Stack(cell, 3, 16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".W_" in name:
                parameter.mul_(60)
    specimen = take_model(model, torch.randn(30, 2, 3, generator=torch.Generator().manual_seed(0)))
    verdict = saturated(Case(specimen, measure(specimen, ("activations",))))
    assert (None if verdict is None else verdict.key) == expected


@pytest.mark.parametrize(("part", "expected"), [(0.6, None), (0.75, "saturated")])
def test_a_gated_cell_may_hold_more_values_at_their_limits(part: float, expected: str | None) -> None:
    specimen, found, _ = examined("healthy")
    activations = found.get(Activations)
    assert activations is not None
    values = tuple(replace(one, saturated=part) if one.name == "tanh(c)" else one for one in activations.values)
    verdict = saturated(Case(specimen, changed(found, activations=Activations(values))))
    assert (verdict and verdict.key) == expected


def test_the_longest_layer_decides_whether_sequences_are_long_enough() -> None:
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
    assert judge(specimen, measure(specimen))[0].key == "vanishing"
    assert dict(specimen.facts)["data"] == "4 sequence(s) of 60 steps"
    assert dict(specimen.facts)["gradient of"].startswith("the loss, ")


def test_what_is_not_known_is_no_sign_of_health() -> None:
    """An encoder is reached through its decoder's start alone: how far its gradients come is not known."""
    specimen, found, _ = examined("vanishing")
    flow = found.get(GradientFlow)
    assert flow is not None
    both = replace(
        flow,
        labels=("decoder", "encoder"),
        survival=np.vstack([flow.survival, np.full_like(flow.survival, np.nan)]),
        rate=np.append(flow.rate, np.nan),
        horizon=np.append(flow.horizon, 0),
        censored=np.append(flow.censored, False),
    )
    without = Measurements({key: value for key, value in found.values.items() if key not in ("flow", "forgetting")})
    assert judge(specimen, changed(without, flow=both))[0].key == "vanishing"


def test_short_sequences_are_not_judged() -> None:
    specimen = take_model(nn.LSTM(3, 4), torch.randn(1, 2, 3))
    verdict = judge(specimen, measure(specimen))[0]
    assert (verdict.key, verdict.severity) == ("short", "note")


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no steps"):
        take_model(nn.LSTM(3, 4), torch.zeros(5, 0, 3))


def test_layers_that_cannot_be_seen_into_are_named() -> None:
    model = nn.ModuleDict({"seen": nn.LSTM(3, 4), "cell": nn.LSTMCell(3, 4)})
    model.forward = lambda x: model["seen"](x)[0]
    assert take_model(model, torch.randn(9, 2, 3)).missing[0].startswith("cell (LSTMCell)")


def test_what_the_run_showed_comes_with_what_the_network_shows() -> None:
    specimen, found, before = examined("healthy")
    assert "training" not in [one.key for one in before]
    flawed = replace(specimen, course=FollowUp("The model overfits: regularize it.", {"dropout": 0.2}))
    first, *_ = judge(flawed, found)
    assert (first.key, first.severity, first.settings) == ("training", "warning", {"dropout": 0.2})
    assert "healthy" not in [one.key for one in judge(flawed, found)]
    fine = replace(specimen, course=FollowUp("A larger model can learn more.", {"hidden": 512}, flawed=False))
    assert [one.key for one in judge(fine, found)[:2]] == ["healthy", "training"]


def test_no_two_verdicts_contradict_each_other() -> None:
    specimen, found, _ = examined("healthy")
    participation = found.get(Participation)
    assert participation is not None
    found = changed(found, participation=replace(participation, ratio=np.array([1.2]), size=np.array([64])))
    larger = replace(specimen, course=FollowUp("The losses are close.", {"hidden": 512}))
    verdicts = judge(larger, found)
    assert [one.settings["hidden"] for one in verdicts if "hidden" in one.settings] == [512]
    (idle,) = (one for one in verdicts if one.key == "idle")
    assert "move in about 1.2 directions" in idle.evidence
    assert idle.remedy.startswith("First do what is said above (Training can be improved)")


def test_a_remedy_that_conflicts_comes_second_and_its_verdict_stays() -> None:
    """A relu network of which half the units never fire, and the others forget at once."""
    patient = patients.dead()
    with torch.no_grad():
        patients.layers_of(patient.model)[0].cell_parameters()["U_h"].zero_()
    specimen = patient.specimen()
    verdicts = {one.key: one for one in judge(specimen, measure(specimen))}
    assert verdicts["dead"].settings == {"cell": "elman"}
    vanishing = verdicts["vanishing"]
    assert (vanishing.severity, dict(vanishing.settings)) == ("fault", {})  # gates are nothing to an elman cell
    assert "less than 1 % of a gradient is left" in vanishing.evidence
    assert vanishing.remedy.startswith("First do what is said above (Units are dead), then look again.")


def test_what_was_not_measured_is_not_called_healthy() -> None:
    specimen, *_ = examined("healthy")
    (verdict,) = judge(specimen, measure(specimen, ("forgetting",)))
    assert (verdict.key, verdict.severity, verdict.title) == ("unjudged", "note", "Not judged")
    assert "Not looked for: badly scaled inputs, chaos" in verdict.evidence
    ran = replace(specimen, course=FollowUp("A larger model can learn more.", {"hidden": 512}, flawed=False))
    assert [one.key for one in judge(ran, measure(ran, ("forgetting",)))] == ["unjudged", "training"]


def test_what_was_looked_for_is_what_its_rule_could_judge() -> None:
    specimen, found, _ = examined("healthy")
    flow = found.get(GradientFlow)
    assert flow is not None
    alone = judge(specimen, Measurements({"flow": flow}))[0].evidence
    assert "Looked for, over this data: exploding gradients, vanishing gradients." in alone
    unknown = replace(flow, survival=np.full_like(flow.survival, np.nan))
    assert judge(specimen, Measurements({"flow": unknown}))[0].key == "unjudged"


def test_chaos_in_one_layer_does_not_hide_gradients_that_explode_in_another() -> None:
    specimen, found, _ = examined("exploding")
    flow, (layer,) = found.get(GradientFlow), specimen.recording.layers
    chaos = examined("chaotic")[1].get(Lyapunov)
    calm = found.get(Lyapunov)
    assert flow is not None
    assert chaos is not None
    assert calm is not None
    restless = examined("chaotic")[0].recording.layers[0]
    recording = copy(specimen.recording)
    recording.layers = [restless, layer]
    both = replace(specimen, recording=recording)
    two = changed(
        Measurements({}),
        flow=replace(
            flow,
            labels=("lower", "upper"),
            survival=np.vstack([flow.survival, flow.survival]),
            rate=np.repeat(flow.rate, 2),
            horizon=np.repeat(flow.horizon, 2),
            censored=np.repeat(flow.censored, 2),
        ),
        lyapunov=replace(
            calm,
            labels=("lower", "upper"),
            largest=np.append(chaos.largest, calm.largest),
            interval=np.vstack([chaos.interval, calm.interval]),
        ),
    )
    said = {one.key: one.evidence for one in judge(both, two)}
    assert "In lower" in said["chaotic"]
    assert "In upper" in said["exploding"]
