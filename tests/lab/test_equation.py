"""Equations as people type them become MathML that a page accepts."""

from __future__ import annotations

import pytest

from unspool.insight.report.equation import is_mathml
from unspool.lab import CLAIMS, find_chapter
from unspool.lab.equation import to_mathml


def test_indices_are_attached() -> None:
    assert "<msub><mrow><mi>h</mi></mrow><mrow><mrow><mi>t</mi>" in to_mathml("h_{t−1} = x").replace("<mo>−</mo>", "")
    assert "<msup>" in to_mathml("s^t")
    assert "<msubsup>" in to_mathml("h_t^{(ℓ)}")


def test_braces_may_be_nested_or_left_open() -> None:
    assert is_mathml(to_mathml("x_{a_{b}} + 1"))
    assert is_mathml(to_mathml("x_{a"))
    assert is_mathml(to_mathml("_x <b> & c"))


def test_words_stand_apart() -> None:
    assert "<mspace" in to_mathml("x_t at rest")
    assert "<mspace" not in to_mathml("a + b")


def test_lines_are_separate() -> None:
    assert to_mathml("a = b\nc = d").count("<math") == 2


@pytest.mark.parametrize("name", CLAIMS)
def test_equations_of_chapters_can_be_shown(name: str) -> None:
    assert is_mathml(to_mathml(find_chapter(name).equation))
