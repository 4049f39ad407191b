"""An X-ray in another language: every text of its pages and of its summary is in the catalogue."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.insight import patients
from tests.insight.made_up_reports import make_report
from tests.insight.pictures import OF_LAYERS
from tests.runs.tiny_run import TinyRun

import unspool.insight
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.examination import examine, report_broken
from unspool.insight.figures.wording import translate_figure
from unspool.insight.labels import name_layer, read_label
from unspool.insight.measures.similarity import compare_states
from unspool.insight.report import comparison, page, terminal, timeline
from unspool.insight.report.report import Report
from unspool.insight.sections.similarity import tell_apart, tell_pair
from unspool.insight.xray import xray
from unspool.language import Message, Translator, read_catalogue, words
from unspool.nn import Stack
from unspool.runs import follow_up

#: What has no words: formulas, and places for numbers and names.
WORDLESS = {
    "‖G − G<sub>k</sub>‖ / ‖G‖",
    "<extra>%{fullData.name}</extra>",
    "%{customdata}<extra></extra>",
    "%{x:.3~p}",
    "5-gram",
}


class Heard(Translator):
    """A translator whose missing texts are known afterwards, whoever made it."""

    everything: set[str] = set()

    def __call__(self, text: str) -> str:
        said = super().__call__(text)
        self.everything |= self.missing
        return said


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Texts that the pages and the summary asked for and the catalogue does not have."""
    monkeypatch.setattr(Heard, "everything", set())
    for module in (page, comparison, terminal, timeline):
        monkeypatch.setattr(module, "Translator", Heard)
    return Heard.everything


@pytest.fixture(scope="module")
def reports() -> tuple[Report, Report]:
    """Two small models: stacked layers with gates on both sides, and two directions."""
    torch.manual_seed(0)
    x = torch.randn(24, 2, 3)
    return xray(Stack("lstm", 3, 6, 2), x, bptt=4), xray(Stack("gru", 3, 6, 2, bidirectional=True), x)


def test_pages_and_summaries_are_translated(reports: tuple[Report, Report], missing: set[str]) -> None:
    for report in reports:
        text = page.render(report, language="zh")
        assert '<html lang="zh">' in text
        assert "梯度在哪里消失" in text
        assert "第 1 层" in text
        terminal.summarize(report, language="zh")
    shared = tell_pair(compare_states({"layer 1": torch.randn(9, 3)})), replace(tell_apart(), key="apart")
    assert "两次训练有多相似" in comparison.render_comparison(*reports, language="zh", shared=shared)
    frames = [(Message("step {step:,}", step=number), report) for number, report in enumerate(reports)]
    assert "第 1 步" in timeline.render_timeline(frames, language="zh")
    assert missing <= WORDLESS


def test_a_language_model_is_translated(tiny_run: TinyRun, missing: set[str], tmp_path: Path) -> None:
    report = xray(tiny_run.path)
    report.save(tmp_path / "zh.html", language="zh")
    assert "每个词元的惊异度" in (tmp_path / "zh.html").read_text(encoding="utf-8")
    assert missing <= WORDLESS


@pytest.mark.parametrize(
    "name",
    [
        *("vanishing", "exploding", "chaotic", "dead", "double_gated", "truncated", "scaled", "small_inputs"),
        *("unequal_inputs", "stuck_shut", "stuck_open", "saturated_cell", "saturated_units", "forgetful", "latch"),
    ],
)
def test_verdicts_are_translated(name: str, missing: set[str]) -> None:
    patient = getattr(patients, name)()
    report = examine(patient.specimen(), only=[measure.key for measure in CATALOGUE if measure.timeline])
    assert [one.key for one in report.verdicts] != ["healthy"]
    terminal.summarize(report, language="zh")
    assert missing == set()


def test_a_broken_model_is_translated(missing: set[str]) -> None:
    report = report_broken(Message("X-ray of {name}", name="GRU"), [f"w{number}" for number in range(6)])
    assert "w3 以及另外 2 个" in terminal.summarize(report, language="zh")
    assert missing == set()


@pytest.mark.parametrize("name", OF_LAYERS)
def test_figures_are_translated(name: str) -> None:
    draw, measure = OF_LAYERS[name]
    translate = Translator("zh")
    translate_figure(draw(measure((name_layer(1), name_layer(2)))), translate)
    assert translate.missing <= WORDLESS


MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(unspool.insight.__path__, "unspool.insight.")
    if not found.ispkg
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_fixed_texts_are_in_the_catalogue(module: ModuleType) -> None:
    known = read_catalogue("zh")
    assert {text for text in fixed_texts(module) if text not in known} == set()


def test_the_advice_of_runs_is_in_the_catalogue() -> None:
    tree = ast.parse(inspect.getsource(follow_up.follow_up))
    advice = {text for text, _ in follow_up.CURES.values()}
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    advice |= {text for text in constants if isinstance(text, str) and re.fullmatch(r"[^\n]+: [^\n]+\.", text)}
    assert len(advice) == 8
    assert advice <= set(read_catalogue("zh"))


def fixed_texts(module: ModuleType) -> Iterator[str]:
    """Texts in the source that are given to a message, and those that are a verdict's title or remedy."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            continue
        if node.func.id in ("Message", "words", "translate") and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)
        if node.func.id == "Verdict":
            yield from (str(one.value) for one in node.args[2:5] if isinstance(one, ast.Constant))


def test_english_stays_as_it_is(reports: tuple[Report, Report]) -> None:
    report = reports[0]
    assert report.translated(Translator("en")) is report
    assert "Where gradients die" in page.render(report)


def test_what_comes_from_data_is_not_translated() -> None:
    report = replace(make_report("loss"), facts=(("model", "data"),))
    shown = report.translated(Translator("zh"))
    assert shown.title == "loss"
    assert shown.facts == (("模型", "data"),)


def test_figures_of_the_original_stay_english(reports: tuple[Report, Report]) -> None:
    section = reports[0].sections[0]
    english = section.figures[0].layout.title.text
    translated = reports[0].translated(Translator("zh")).sections[0]
    assert translated.figures[0].layout.title.text != english
    assert section.figures[0].layout.title.text == english


@pytest.mark.parametrize("text", ["layer 1", "encoder layer 2 ←", "layer 12 →"])
def test_names_of_layers_are_read_again(text: str) -> None:
    found = read_label(text)
    assert found == text
    assert isinstance(found, Message)
    assert "层" in Translator("zh")(found)
    assert read_label("a · b") == "a · b"


def test_names_of_layers() -> None:
    assert Translator("zh")(name_layer(2, "encoder", " ←")) == "encoder 第 2 层 ←"


def test_chinese_lines_are_broken_between_characters() -> None:
    text = terminal.summarize(Report(words("X-ray"), facts=(("model", "长" * 70 + "。"),)), language="zh")
    lines = text.splitlines()
    assert max(len(line) for line in lines[1:]) > 40
    assert not any(line.strip().startswith("。") for line in lines)
