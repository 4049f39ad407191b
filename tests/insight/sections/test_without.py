"""What the report says and draws where a layer has fewer steps, adds nothing, or where nothing can be measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.insight import made_up_measures as made_up

from unspool.insight.figures.gradient import draw_step_shares
from unspool.insight.figures.memory import draw_sensitivity
from unspool.insight.figures.text import draw_token_map, place_names
from unspool.insight.figures.theme import RELAYOUT
from unspool.insight.measures.saliency import Saliency
from unspool.insight.sections import frequency, saliency, sensitivity, shares

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
    high = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.05], [1.0, 0.5]])  # 16 pixels lie between the first and the third
    assert place_names(high, ["word"] * 4)[2] == "top center"
    states = replace(made_up.token_states(), centers2d=np.zeros((len(made_up.WORDS), 2)))
    (cloud,) = draw_token_map(states).data
    assert sum(map(bool, cloud.text)) == 2
    assert [name for name, _ in cloud.customdata] == list(made_up.WORDS)


def test_color_bars_have_powers_and_no_prefixes() -> None:
    for theme in RELAYOUT.values():
        assert theme["template"]["layout"]["coloraxis"]["colorbar"]["exponentformat"] == "power"
