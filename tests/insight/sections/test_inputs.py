"""The section on inputs: what it says and draws of one feature and of several."""

from __future__ import annotations

import torch
from tests.insight.models import recorded

from unspool.insight.measures.inputs import measure_inputs
from unspool.insight.sections.inputs import tell
from unspool.nn import Stack


def test_a_single_feature_is_told_and_not_drawn() -> None:
    alone, beside = (
        tell(measure_inputs(recorded(Stack("gru", width, 4), torch.ones(9, 2, width)))) for width in (1, 2)
    )
    assert alone.findings == ("layer 1 reads a single feature, of the size 1.",)
    assert not alone.figures
    assert len(beside.figures) == 1
    assert "all together 1.41 per step" in beside.findings[0]
