"""Figures that look further in: what they show is what was measured, and texts of the data do no harm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.insight import made_up_looks as made_up
from tests.insight.figures.test_harmless import HOSTILE
from tests.insight.pictures import near, texts

from unspool.insight.figures.saliency import draw_saliency, draw_saliency_text
from unspool.insight.figures.units import draw_ablation, draw_unit_course, draw_unit_text


def test_units_are_in_the_order_of_what_is_lost_without_them() -> None:
    measured = made_up.ablation(("layer 1",))
    lost = measured.layers[0].lost
    lost[3] = np.nan
    (curve,) = draw_ablation(measured).data
    near(curve.y, np.sort(lost[np.isfinite(lost)])[::-1])
    assert [lost[unit] for unit in curve.customdata] == sorted(lost[np.isfinite(lost)], reverse=True)
    assert 3 not in curve.customdata


def test_the_ribbon_of_a_unit() -> None:
    unit = made_up.unit()
    (heat,) = draw_unit_text(unit).data
    shown = np.array(heat.z, float).ravel()
    near(shown[np.isfinite(shown)], unit.output)
    assert [text for line in heat.text for text in line if text] == list(unit.tokens)
    assert draw_unit_text(made_up.unit(tokens=())).layout.annotations[0].text == "There is no text to show."


def test_output_gates_and_other_states_have_panels_of_their_own() -> None:
    unit = made_up.unit()
    figure = draw_unit_course(unit)
    assert [trace.name for trace in figure.data] == ["output", "f", "i", "c"]
    assert [trace.yaxis for trace in figure.data] == ["y", "y2", "y2", "y3"]
    near(figure.data[3].y, unit.values[2])
    alone = draw_unit_course(replace(unit, names=(), gates=(), values=np.zeros((0, 36))))
    assert len(alone.data) == 1


def test_saliency_by_step_and_over_the_text() -> None:
    saliency = made_up.saliency()
    one, other = draw_saliency(saliency).data
    near(one.y, saliency.product)
    near(other.y, saliency.removal)
    (heat,) = draw_saliency_text(saliency, ["a"] * 36).data
    shown = np.array(heat.z, float).ravel()[:36]
    near(shown, np.where(np.isnan(saliency.removal), saliency.product, saliency.removal))


def test_a_long_sequence_is_shown_where_it_matters() -> None:
    figure = draw_saliency(made_up.saliency(400))
    first, last = figure.layout.xaxis.range
    assert 250 < first <= 300
    assert last == 399.5
    assert tuple(draw_saliency(made_up.saliency()).layout.xaxis.range) == (-0.5, 35.5)


def test_hostile_texts_do_no_harm() -> None:
    unit = made_up.unit(HOSTILE, (HOSTILE,) * 30)
    figures = (draw_unit_text(unit), draw_unit_course(unit), draw_saliency_text(made_up.saliency(), [HOSTILE] * 36))
    for figure in figures:
        for text in texts(figure.to_plotly_json()["data"]):
            assert "<script" not in text
            assert "<b>" not in text
        assert "<script" not in figure.layout.title.text
