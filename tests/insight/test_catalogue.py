"""The catalogue: one record per measure is all that the report needs; and no figure is drawn before it is shown."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from tests.insight.report.parsing import Parsed
from tests.insight.report.test_scalars import read_table

from unspool.errors import ArgumentError
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.examination import examine
from unspool.insight.measure import Measure
from unspool.insight.measures.token_states import TokenStates
from unspool.insight.report.comparison import render_comparison
from unspool.insight.report.contract import Section
from unspool.insight.report.page import render
from unspool.insight.report.scalars import Glossary, Scalar
from unspool.insight.report.timeline import render_timeline
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.module import take_model
from unspool.nn import Stack


@dataclass(frozen=True, eq=False)
class Sizes:
    """A made-up measure: the mean size of each layer's output."""

    labels: tuple[str, ...]
    mean: np.ndarray[Any, np.dtype[np.float64]]
    power: int


def measure_sizes(specimen: Specimen) -> Sizes:
    layers = specimen.recording.layers
    mean = np.array([float(layer.output.abs().mean()) for layer in layers])
    return Sizes(tuple(layer.label for layer in layers), mean, 1)


def tell_sizes(found: Sizes) -> Section:
    findings = tuple(f"{label}: {mean:.3g}." for label, mean in zip(found.labels, found.mean, strict=True))
    figure = go.Figure(go.Bar(x=list(found.labels), y=found.mean))
    return Section("state_sizes", "Sizes of states", "How large is it?", "", "", lambda: (figure,), findings)


#: All that it takes to add a measure, besides a line in the catalogue.
SIZES = Measure(
    key="state_sizes",
    measure=measure_sizes,
    tell=tell_sizes,
    scalars=(Scalar("mean", "mean size of the output", rank=4), Scalar("power", words=None)),
)
MEASURES = (*CATALOGUE[:1], SIZES)


def specimen(layers: int = 2) -> Specimen:
    torch.manual_seed(layers)
    x = torch.randn(12, 3, 4, generator=torch.Generator().manual_seed(0))
    return take_model(Stack("gru", 4, 5, layers), x)


def test_a_measure_in_the_list_is_in_numbers_report_and_scalars() -> None:
    report = examine(specimen(), measures=MEASURES)
    one, other = (float(layer.output.abs().mean()) for layer in specimen().recording.layers)
    assert report.numbers["state_sizes"] == {"labels": ["layer 1", "layer 2"], "mean": [one, other], "power": 1}
    assert [section.key for section in report.sections] == ["flow", "state_sizes"]

    page = Parsed(render(report))
    assert "Sizes of states" in page.text
    assert f"layer 2: {other:.3g}." in page.text
    assert page.data("data-state_sizes-0")["data"][0]["x"] == ["layer 1", "layer 2"]
    assert page.data("numbers")["state_sizes"]["power"] == 1

    table = read_table(render_comparison(report, examine(specimen(1), measures=MEASURES)))
    names = [name for name in table if "mean size" in name]
    assert names == ["mean size of the output, layer 1", "mean size of the output, layer 2"]  # a key number: also alone
    assert table[names[1]][1:] == ["–", "–"]
    assert not any("power" in name for name in table)
    moments = [("a", report), ("b", examine(specimen(3), measures=MEASURES))]
    line = Parsed(render_timeline(moments, ["state_sizes"], ["state sizes · mean · layer 1"])).data("data-line-0")
    assert line["layout"]["title"]["text"] == "mean size of the output,<br>layer 1"


def test_a_measure_that_does_not_apply_or_fails_takes_nothing_with_it() -> None:
    def fail(specimen: Specimen) -> Sizes:
        raise ArgumentError("there is nothing to measure.")

    never = Measure("never", fail, tell_sizes, applies=lambda specimen: False)
    failing = Measure("always_failing", fail, tell_sizes)
    silent = Measure("silent", measure_sizes, tell_sizes, shows=lambda found: False)
    heard: list[str] = []
    report = examine(specimen(), heard.append, measures=(never, failing, silent, SIZES))
    assert report.missing == ("always failing: there is nothing to measure.",)
    assert set(report.numbers) == {"silent", "state_sizes", "missing"}
    assert [section.key for section in report.sections] == ["state_sizes"]
    assert [one.split(" (")[0] for one in heard] == ["always failing", "silent", "state sizes", "report"]


def test_only_some_measures_can_be_taken() -> None:
    assert set(examine(specimen(), only=("gates",)).numbers) == {"gates", "missing"}


def test_records_agree_with_their_sections_and_numbers() -> None:
    tokens = [["a", "b", "c"] for _ in range(12)]
    known = specimen()
    full = Specimen(known.recording, "all", tokens=tokens, surprise=np.ones((12, 3)), bptt=4)
    assert len({measure.key for measure in CATALOGUE}) == len(CATALOGUE)
    kinds = set()
    for measure in CATALOGUE:
        assert measure.applies(full)
        found = measure.measure(full)
        assert is_dataclass(found)
        kinds.add(type(found))
        if measure.shows(found):
            section = measure.tell(found)
            assert section.key == measure.key
            assert section.figures
        names = {field.name for field in fields(found)}
        assert {scalar.name for scalar in measure.scalars} <= names
    assert len(kinds) == len(CATALOGUE)  # rules ask for numbers by their type


@pytest.mark.parametrize("key", ["surprise", "unit_activity", "token_states"])
def test_what_needs_tokens_applies_to_models_with_tokens(key: str) -> None:
    measure = next(measure for measure in CATALOGUE if measure.key == key)
    assert not measure.applies(specimen())


WITHOUT_PLOTLY = """
import sys
sys.modules["plotly"] = None  # an import of it is an error
import torch, unspool.insight.timeline
from unspool.insight.xray import xray
report = xray(torch.nn.GRU(3, 4), torch.randn(12, 2, 3))
assert "Gradients" in str(report) or "Nothing" in str(report)
assert report.numbers["flow"]
print(len(report.sections))
"""


def test_numbers_and_verdicts_need_no_plotly() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PLOTLY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 8


def test_every_single_number_of_a_report_has_words_or_is_an_input() -> None:
    torch.manual_seed(0)
    report = examine(take_model(Stack("lstm", 3, [6, 5]), torch.randn(24, 4, 3)))
    found = Glossary(report.scalars)
    names = found.find(report.numbers)
    assert {"flow · horizon · layer 1", "input sizes · norm · layer 1"} <= set(names)
    assert [name for name in names if found.parts(name)[0] == name] == []
    fields_of = {f"token states · {field.name}" for field in fields(TokenStates) if field.type == "float"}
    known = Glossary(scalar for measure in CATALOGUE for scalar in measure.named_scalars())
    assert [name for name in fields_of if known.parts(name)[0] == name] == []
