"""Sections that look further in, on a real run and on models: what they find and when they are left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.insight.report.parsing import Parsed
from tests.runs.tiny_run import TinyRun
from torch import nn

from unspool.insight.examination import examine
from unspool.insight.report.report import Report
from unspool.insight.report.timeline import render_timeline
from unspool.insight.sections.similarity import tell_moments
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.module import take_model
from unspool.insight.subjects.run import take_run

KEYS = ("surprise", "units", "saliency", "similarity", "paths", "streams")


@pytest.fixture(scope="module")
def specimen(tiny_run: TinyRun) -> Specimen:
    return take_run(tiny_run.path)


def look(model: nn.Module) -> Report:
    return examine(take_model(model, torch.randn(12, 2, 3)), only=KEYS)


def test_surprise_stands_at_the_token_that_was_predicted(specimen: Specimen) -> None:
    assert specimen.tokens is not None
    assert specimen.surprise is not None
    found = examine(specimen, only=("surprise",)).numbers["surprise"]
    first = [step[0] for step in specimen.tokens]
    assert found["tokens"][: len(first) - 1] == first[1:]
    np.testing.assert_allclose(found["nats"][: len(first) - 1], specimen.surprise[:-1, 0])
    assert found["mean"] == pytest.approx(float(specimen.surprise.mean()))


def test_the_last_prediction_of_a_language_model_is_explained(specimen: Specimen) -> None:
    assert specimen.surprise is not None
    found = examine(specimen, only=("saliency",)).numbers["saliency"]
    assert found["saliency"]["output"] == pytest.approx(float(specimen.surprise[-1, 0]), rel=1e-5)
    assert len(found["tokens"]) == len(found["saliency"]["product"]) == len(specimen.surprise)


def test_units_of_a_language_model(specimen: Specimen) -> None:
    report = examine(specimen, only=("units",))
    (section,) = report.sections
    numbers = report.numbers["units"]
    assert len(numbers["needed"]) == 3
    assert numbers["ablation"]["ablated"] > 0
    assert "without it the loss changes" in section.findings[-1]
    assert "highest after" in section.findings[-1]
    assert len(section.figures) == 1 + 2 * 3


def test_a_single_layer_has_no_ways_between_layers() -> None:
    torch.manual_seed(0)
    for model in (nn.GRU(3, 4), nn.GRU(3, 4, bidirectional=True)):
        report = look(model)
        assert report.find_section("streams") is None
        assert "streams" in report.numbers
    assert look(nn.GRU(3, 4, 2)).find_section("streams") is not None


def test_what_needs_layers_or_states() -> None:
    torch.manual_seed(0)
    single, stacked = look(nn.GRU(3, 4)), look(nn.LSTM(3, 4, 2))
    assert single.find_section("similarity") is None
    assert single.find_section("paths") is None
    assert {"units", "saliency", "similarity", "paths"} <= {section.key for section in stacked.sections}
    units = stacked.find_section("units")
    assert units is not None
    assert units.findings[0].startswith("layer 2, unit 2: without it the loss changes from")


def test_two_directions_of_one_layer_are_not_called_alike() -> None:
    torch.manual_seed(0)
    section = look(nn.GRU(3, 4, 2, bidirectional=True)).find_section("similarity")
    assert section is not None
    assert [finding.split(":")[0] for finding in section.findings] == [
        "input and layer 1 →",
        "layer 1 ← and layer 2 →",
    ]


def test_moments_of_training_are_compared() -> None:
    random = np.random.default_rng(0)
    base = random.normal(size=(30, 4))
    states = {f"step {step}": base + (30 - step) * 0.1 * random.normal(size=(30, 4)) for step in range(30)}
    states["step 3"][0, 0] = np.nan
    (section,) = tell_moments(states)
    (figure,) = section.figures
    assert len(figure.data[0].x) == 24
    assert "step 3" not in figure.data[0].x
    assert section.findings[0].startswith("step 27 and step 29: CKA ")  # the last two of 24
    assert tell_moments({"step 1": base}) == ()
    page = Parsed(render_timeline([("a", Report("r")), ("b", Report("r"))], [], still=[section], language="zh"))
    assert "状态如何稳定下来" in page.text
    assert len(page.data("data-moments-0")["data"]) == 2
