"""One word by role: occurrences, clusters, distances, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.figures.roles import draw_roles
from unspool.insight.measures.roles import find_word, measure_roles
from unspool.insight.states import States

TEXT = ["boy", "sees", "girl", ".", "girl", "sees", "boy", ".", "boy", "eats", ".", "girl", "eats", "boy", "."]
ROLES = ["subject", "object", "subject", "object"]


def states() -> States:
    """Of which the first component says whether the last "boy" was a subject."""
    values = np.random.default_rng(0).normal(size=(len(TEXT), 3)).astype(np.float32) * 0.01
    values[[0, 8], 0] += 1
    sequence = np.array([0] * 4 + [1] * 4 + [2] * 3 + [3] * 4)
    step = np.concatenate([np.arange(count) for count in (4, 4, 3, 4)])
    return States(values, sequence, step, np.array(TEXT))


def test_occurrences_are_sorted_by_role() -> None:
    found = measure_roles(states(), "boy", ROLES, shuffles=200)
    assert found.rows.tolist() == [0, 6, 8, 13]
    assert found.contexts == ("boy", "girl sees boy", "boy", "girl eats boy")
    assert found.clusters.tolist() == [0, 1, 0, 1]
    assert found.purity == 1 > found.chance
    values = states().values[found.rows].astype(float)
    pairs = {(a, b): np.linalg.norm(values[a] - values[b]) for a in range(4) for b in range(a)}
    assert found.same == pytest.approx(np.mean([pairs[2, 0], pairs[3, 1]]))
    assert found.other == pytest.approx(np.mean([pairs[1, 0], pairs[3, 0], pairs[2, 1], pairs[3, 2]]))


def test_the_picture_has_a_point_per_occurrence_in_the_color_of_its_role() -> None:
    figure = draw_roles(measure_roles(states(), "boy", ROLES, shuffles=10))
    assert [trace.name for trace in figure.data] == ["subject", "object"]
    assert [len(trace.x) for trace in figure.data] == [2, 2]
    assert len({trace.marker.color for trace in figure.data}) == 2
    assert "girl sees boy" in figure.data[1].text


def test_bad_input_is_refused() -> None:
    with pytest.raises(ArgumentError, match="does not occur"):
        find_word(states(), "dog")
    with pytest.raises(ShapeError, match="4 occurrences of 'boy'"):
        measure_roles(states(), "boy", ["subject"])
