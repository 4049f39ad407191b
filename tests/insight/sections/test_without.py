"""What the report says and draws where a layer has fewer steps, adds nothing, or where nothing can be measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.insight import made_up_measures as made_up

from unspool.insight.figures.gradient import draw_step_shares
from unspool.insight.figures.hidden_units import draw_activations, draw_inputs
from unspool.insight.figures.memory import draw_sensitivity
from unspool.insight.figures.text import draw_token_map, place_names
from unspool.insight.figures.theme import RELAYOUT
from unspool.insight.measures.activation import Activations, Activity
from unspool.insight.measures.inputs import Inputs
from unspool.insight.measures.saliency import Saliency
from unspool.insight.sections import fixed_points, frequency, inputs, saliency, sensitivity, shares

LABELS = ("encoder", "decoder")


def test_shares_count_a_layers_own_steps() -> None:
    found = made_up.shares(LABELS, steps=24)
    found.shares[1, 12:] = found.norms[1, 12:] = 0
    assert shares.tell(found).findings[1].endswith("of 12 steps.")
    drawn = draw_step_shares(found).data
    assert None not in drawn[0].y
    assert [height is None for height in drawn[1].y] == [False] * 12 + [True] * 12


def test_a_layer_that_adds_nothing_is_told_and_has_no_curve() -> None:
    found = made_up.sensitivity(LABELS)
    found.removed[1], found.delta[1] = found.kernel, 0
    assert [curve.name for curve in draw_sensitivity(found).data[:-1]] == [
        "without recurrence in encoder",
        "whole model",
    ]
    assert sensitivity.tell(found).findings[-1].startswith("decoder: not between this input and this output")


def test_a_response_of_zero_does_not_stretch_the_axis() -> None:
    found = made_up.sensitivity(LABELS)
    found.removed[0, 1:] = 0
    figure = draw_sensitivity(found)
    positive = min(found.kernel.min(), found.removed[found.removed > 0].min())
    assert np.isclose(min(figure.data[0].y), positive / 10, rtol=1e-3)
    assert figure.data[0].customdata[-1] == 0


def test_no_frequency_response_is_a_sentence_and_no_empty_axes() -> None:
    found = made_up.frequency(LABELS)
    none = np.full_like(found.gains, np.nan)
    section = frequency.tell(replace(found, gains=none, stack=none, phase=none))
    assert not section.figures
    assert "too short" in section.findings[0]


def test_waves_that_pass_alike_are_not_a_number_of_times_as_well() -> None:
    found = made_up.frequency(LABELS)
    stack = np.ones_like(found.stack)
    stack[1, 0] = 3
    first, second = frequency.tell(replace(found, stack=stack)).findings
    assert first.endswith("the slowest waves pass as well as the fastest.")
    assert second.endswith("the slowest waves pass 3 times as well as the fastest.")


def test_without_points_only_the_paths_are_drawn() -> None:
    found = made_up.fixed_points()
    assert len(fixed_points.tell(found).figures) == 3
    bare = tuple(replace(one, kind=(), points=one.points[:0], eigenvalues=one.eigenvalues[:0]) for one in found.sets)
    (portrait,) = fixed_points.tell(replace(found, sets=bare)).figures
    assert portrait.layout.title.text == "Phase portrait"


def test_directions_that_read_the_same_are_told_once() -> None:
    size = np.array([1.0, 2.0])
    one, two = np.ones(3), np.array([2.0, 2.0, 5.0])
    found = Inputs(("layer 1 →", "layer 1 ←", "other"), two, two, one, (size, size * (1 + 1e-15), size))
    first, second = inputs.tell(found).findings
    assert first.startswith("layer 1 →, layer 1 ←: the largest feature has a size of 2,")
    assert second.startswith("other: the largest feature has a size of 5,")
    assert [curve.name for curve in draw_inputs(found).data] == ["layer 1 →, layer 1 ←", "other"]


def test_an_activation_without_a_name_is_not_equal_to_itself() -> None:
    some = [Activity("layer 1", name, "tanh", 0.5, 0.0, np.zeros(2)) for name in ("g", "tanh(c)")]
    names = draw_activations(Activations(tuple(some))).layout.yaxis.ticktext
    assert names == ("layer 1: g = tanh", "layer 1: tanh(c)")


def test_saliency_names_steps_as_the_axis_does() -> None:
    values = np.array([0.1, 3.0, 0.2, 2.0])
    found = saliency.StepSaliency("the loss", Saliency(1.0, 0, "zero", values, values, values), ())
    assert "step 1, step 3, step 2" in saliency.tell(found).findings[0]


def test_names_on_the_map_of_tokens_do_not_overlap() -> None:
    heap = np.vstack([np.zeros((8, 2)), [[1.0, 1.0]]])
    places = place_names(heap, ["word"] * 9)
    given = [place for place in places[:8] if place]
    assert given == ["top center", "bottom center"]  # beside the point, a name would cover halves of both
    assert places[8]
    sides = place_names(np.array([[0.0, 0.0], [1.0, 1.0]]), ["a long name"] * 2)
    assert sides == ["middle right", "middle left"]  # above the point a name would be cut off
    beside = np.array([[0.0, 0.0], [0.2, 0.0], [1.0, 1.0]])  # 46 pixels apart
    assert place_names(beside, ["moon"] * 3)[1] == "top center"
    assert place_names(beside, ["明月何處"] * 3)[1] != "top center"
    high = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.05], [1.0, 0.5]])  # 16 pixels lie between the first and the third
    assert place_names(high, ["word"] * 4)[2] == "top center"
    states = replace(made_up.token_states(), centers2d=np.zeros((len(made_up.WORDS), 2)))
    (cloud,) = draw_token_map(states).data
    assert sum(map(bool, cloud.text)) == 2
    assert [name for name, _ in cloud.customdata] == list(made_up.WORDS)


def test_color_bars_have_powers_and_no_prefixes() -> None:
    for theme in RELAYOUT.values():
        assert theme["template"]["layout"]["coloraxis"]["colorbar"]["exponentformat"] == "power"
