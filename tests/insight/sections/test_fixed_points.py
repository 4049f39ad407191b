"""What the report says about fixed points: how the search ended, continua, cycles; also in Chinese."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from tests.insight import made_up_measures as made_up

from unspool.insight.measures.fixed_points import FixedPoints
from unspool.insight.points.continua import Continuum
from unspool.insight.points.fates import Fates
from unspool.insight.points.recall import estimate_recall
from unspool.insight.points.system import BOTH_DIRECTIONS, SOMETHING_ELSE
from unspool.insight.sections.fixed_points import tell
from unspool.language import Translator, words


def one_set(**changes: Any) -> FixedPoints:
    found = made_up.fixed_points(("layer 1",), held=(words("mean input"),))
    (one,) = found.sets
    return FixedPoints((dataclasses.replace(one, **changes),), found.portraits)


def empty_set(fates: Fates) -> FixedPoints:
    none = np.zeros((0, 16))
    recall = estimate_recall(np.zeros(0, np.int64))
    return one_set(
        kind=(),
        points=none,
        plane=none[:, :2],
        eigenvalues=none + 0j,
        time_constants=none,
        continua=(),
        curves=(),
        far=0,
        recall=recall,
        fates=fates,
    )


def test_a_search_says_what_it_found_and_how() -> None:
    said = tell(one_set()).findings
    assert said[0].startswith("layer 1, mean input: 2 stable, 1 saddle, 1 slow point(s).")
    assert said[1] == "layer 1, mean input: 40 start(s) arrived at a line attractor, and not at single points."
    assert "3 of 46 paths end in a cycle of about 7 steps, and not in a point." in said[2]
    assert "2 of 46 paths still move after 400 steps" in said[3]
    assert "1 of 46 paths run away" in said[4]
    assert said[5] == ("The search made 128 starts and 65,000 evaluations; by estimate it found all points.")
    assert said[6] == "2 start(s) of the solver arrived where no state comes; these points are left out."


def test_searches_with_several_inputs_are_told_together() -> None:
    found = made_up.fixed_points(("layer 1",), held=(words("mean input"), words("zero input")))
    first, second = found.sets
    said = tell(FixedPoints((first, dataclasses.replace(second, stopped="budget")), found.portraits)).findings
    (search,) = [text for text in said if "evaluations" in text]
    assert search == (
        "The search made 256 starts and 130,000 evaluations, and stopped at its limit for zero input; "
        "by estimate it found all points."
    )
    (far,) = [text for text in said if "left out" in text]
    assert far.startswith("4 start(s)")


def test_points_of_unknown_stability_are_counted() -> None:
    (one,) = one_set().sets
    eigenvalues = one.eigenvalues.copy()
    eigenvalues[0] = np.nan
    told = tell(one_set(kind=("unknown", *one.kind[1:]), eigenvalues=eigenvalues))
    assert "1 point(s) where the Jacobian is not finite: whether they are stable is not known." in told.findings[0]
    assert len(told.draw()) == 3
    assert "1 个点的雅可比矩阵不是有限值" in Translator("zh")(told.findings[0])


def test_a_search_that_was_stopped_says_so() -> None:
    said = tell(one_set(stopped="budget")).findings
    assert any("65,000 evaluations, and stopped at its limit for mean input;" in text for text in said)


def test_a_search_that_found_nothing_says_so() -> None:
    said = tell(empty_set(Fates(400, 0, 33, 0, 0, 9.0))).findings
    assert "no fixed or slow point was found." in said[0]
    assert "33 of 33 paths end in a cycle of about 9 steps" in said[1]
    assert said[2].endswith("what it missed cannot be estimated.")
    assert len(said) == 3


@pytest.mark.parametrize("dt", [1.0, 0.1])
def test_the_slowest_mode_is_that_of_stable_points(dt: float) -> None:
    tau = np.full((5, 16), 0.5)
    tau[1, 0], tau[2, 0] = 12.5, 99.0  # a stable point, a saddle
    (said,) = [text for text in tell(one_set(time_constants=tau, dt=dt)).findings if "slowest" in text]
    assert f"12.5 {'step(s)' if dt == 1 else 'units of time'}." in said


def test_everything_is_translated() -> None:
    translate = Translator("zh")
    kinds = [(1, False), (1, True), (2, False), (3, False)]
    path, zeros = np.zeros((3, 16)), np.zeros(3)
    lines = [
        Continuum(path, zeros, size, closed, fixed, attracting)
        for size, closed in kinds
        for fixed in (True, False)
        for attracting in (True, False)
    ]
    variants = [
        one_set(continua=tuple(lines), curves=(np.zeros((3, 2)),) * len(lines)),
        one_set(stopped="budget"),
        empty_set(Fates(3, 1, 1, 1, 1, math.nan)),
        one_set(dt=0.1, time_constants=np.ones((5, 16))),
        made_up.fixed_points(("layer 1",), held=(words("mean input"), words("zero input"))),
        one_set(kind=("stable", "saddle", "unstable", "slow", "unknown")[: len(one_set().sets[0].kind)]),
    ]
    for reason in (BOTH_DIRECTIONS, SOMETHING_ELSE):
        found = one_set()
        portrait = dataclasses.replace(found.portraits[0], alone=reason)
        variants.append(FixedPoints(found.sets, (portrait,)))
    for variant in variants:
        section = tell(variant).translated(translate)
        assert all(any("\u4e00" <= sign <= "\u9fff" for sign in text) for text in section.findings)
        assert section.figures
    assert {text for text in translate.missing if any(map(str.isalpha, text)) and text != "½‖F(s) − s‖²"} == set()
