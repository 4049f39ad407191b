"""The report as text: what the page holds, that text from data stays text, comparison, timeline, terminal, notebook."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from markupsafe import escape
from plotly.graph_objects import Figure, Scatter3d, Scattergl
from rich.cells import cell_len
from tests.insight.made_up_reports import EQUATION, HOSTILE, make_hostile, make_report
from tests.insight.report.parsing import Parsed

from unspool.errors import ArgumentError, ArgumentTypeError, StorageError
from unspool.insight.report.advice import PYTHON, Retrain, Spelling, spell_python
from unspool.insight.report.comparison import render_comparison
from unspool.insight.report.contract import Section, Verdict
from unspool.insight.report.document import LARGEST
from unspool.insight.report.embedding import embed_figure
from unspool.insight.report.equation import is_mathml
from unspool.insight.report.page import render, write_report
from unspool.insight.report.plain import fit, to_json, to_plain
from unspool.insight.report.report import Report
from unspool.insight.report.terminal import summarize
from unspool.insight.report.timeline import render_timeline


@dataclass(frozen=True, eq=False)
class Measure:
    """A measure with one of each kind of field."""

    labels: tuple[str, ...]
    values: np.ndarray[Any, Any]
    poles: np.ndarray[Any, Any]
    best: float
    missing: None = None


def test_measures_become_json() -> None:
    measure = Measure(("a",), np.array([[1.5, np.nan], [np.inf, -np.inf]]), np.array([1 + 2j]), np.float64(0.1))
    plain = {
        "labels": ["a"],
        "values": [[1.5, None], ["inf", "-inf"]],
        "poles": {"real": [1.0], "imag": [2.0]},
        "best": 0.1,
        "missing": None,
    }
    assert to_plain(measure) == plain
    assert to_plain(plain) == plain == json.loads(to_json(plain))
    assert to_plain({3: (np.int64(2), np.bool_(True), 1j)}) == {"3": [2, True, {"real": 0.0, "imag": 1.0}]}
    assert to_plain([math.pi, 1e-300, 0.0, 12345678], digits=3) == [3.14, 1e-300, 0.0, 12345678]
    with pytest.raises(ArgumentTypeError, match="object"):
        to_plain({"x": object()})


def test_json_cannot_leave_its_script_element() -> None:
    text = to_json(HOSTILE)
    assert not set("<>&") & set(text)
    assert json.loads(text) == list(HOSTILE)


def test_the_longest_lists_are_left_out_where_numbers_are_too_many() -> None:
    numbers = {
        "a": {"long": [[0.123456789] * 50] * 50, "short": [1.0, 2.0]},
        "sets": [{"x": [0.5] * 900}, {"x": [1.0]}],
    }
    kept, left_out = fit(numbers, 10**6)
    assert left_out == []
    assert kept["a"]["long"][0][0] == 0.1234568
    kept, left_out = fit(numbers, 5000)
    assert left_out == ["a.long"]
    assert kept["a"]["short"] == [1.0, 2.0]
    assert kept["sets"][0]["x"] == [0.5] * 900
    assert len(to_json(kept)) < 5000
    assert fit(numbers, 500)[1] == ["a.long", "sets.0.x"]


def test_the_page_says_everything_in_order() -> None:
    report = make_report()
    page = Parsed(render(report))
    said = [
        report.title,
        *(text for verdict in report.verdicts for text in (verdict.title, verdict.evidence, verdict.remedy)),
        *(text for fact in report.facts for text in fact),
        *(
            text
            for section in report.sections
            for text in (section.title, section.question, *section.findings, *section.explanation.split("\n\n"))
        ),
        *report.missing,
    ]
    place = page.text.index("Verdicts", page.text.index("What could not be measured"))  # after the contents
    for text in said[1:]:
        place = page.text.index(text, place)
    for setting in ("forget_bias=2.0", "bptt=80"):
        command = f'unspool.train(config="runs/hamlet/config.toml", out="runs/hamlet-2", {setting})'
        assert page.text.count(command) == 1
    assert [attributes["class"] for tag, attributes in page.elements if tag == "li" and "class" in attributes] == [
        f"verdict {verdict.severity}" for verdict in report.verdicts
    ]
    for word in ("Fault", "Warning", "Note", "Good"):
        assert page.text.count(word) == 1
    assert "1 fault, 1 warning, 1 note, 1 good sign" in page.text


def test_backticks_mark_code_in_prose() -> None:
    verdict = Verdict("a", "note", "", "no code here", "Use `<b>=1` and `clip`.")
    section = Section("a", "", "", "A larger `forget_bias`.\n\nAn odd ` sign.", findings=("`a` b",))
    page = render(Report("a", verdicts=(verdict,), sections=(section,)))
    assert "<bdi>Use <code>&lt;b&gt;=1</code> and <code>clip</code>.</bdi>" in page
    assert "<bdi>A larger <code>forget_bias</code>.</bdi>" in page
    assert "<bdi><code>a</code> b</bdi>" in page
    assert "<bdi>no code here</bdi>" in page
    assert "odd" in Parsed(page).text


def test_every_link_of_the_page_has_a_target() -> None:
    for page in (Parsed(render(make_report())), Parsed(render_comparison(make_report(), make_report("macbeth")))):
        targets = {attributes.get("id") for _, attributes in page.elements}
        links = [attributes["href"] for tag, attributes in page.elements if tag == "a" and "href" in attributes]
        assert len(links) > 5
        assert all(link is not None and link[0] == "#" and link[1:] in targets for link in links)


def test_numbers_and_figures_are_in_the_page() -> None:
    report = make_report()
    page = Parsed(render(report))
    assert page.data("numbers") == report.numbers
    for section in report.sections:
        for place, figure in enumerate(section.figures):
            drawing = json.loads(figure.to_json())
            del drawing["layout"]["template"]
            assert page.data(f"data-{section.key}-{place}") == drawing
    labels = [str(attributes["aria-label"]) for tag, attributes in page.elements if attributes.get("role") == "img"]
    finding = "In layer 1, each step back keeps 60 % of the gradient."
    assert labels[:2] == [f"How far back does the loss reach? {finding} The horizon is 9 steps."] * 2


@pytest.mark.parametrize("name", ["report", "comparison", "timeline"])
def test_hostile_text_makes_no_element_and_the_policy_names_each_script(name: str) -> None:
    hostile = make_hostile()
    match name:
        case "report":
            page = render(hostile)
        case "comparison":
            page = render_comparison(hostile, hostile)
        case _:
            page = render_timeline([(text, hostile) for text in HOSTILE])
    parsed = Parsed(page)
    page.encode("utf-8")
    assert not {"img", "iframe", "object", "embed", "base", "form", "link"} & {tag for tag, _ in parsed.elements}
    assert not [key for _, attributes in parsed.elements for key in attributes if key.startswith("on") or key == "src"]
    assert HOSTILE[0] in parsed.text
    run = parsed.run()
    assert len(run) == (4 if name == "timeline" else 3)
    (policy,) = (str(each["content"]) for tag, each in parsed.elements if tag == "meta" and "http-equiv" in each)
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "http" not in policy
    assert "unsafe-eval" not in policy


@pytest.mark.parametrize(
    "source",
    [
        "L = w²",
        "<script>1</script>",
        f"{EQUATION}<script>1</script>",
        f"{EQUATION} text",
        '<math><mi onclick="1">x</mi></math>',
        '<math href="javascript:1"><mi>x</mi></math>',
        "<math><annotation-xml><p>x</p></annotation-xml></math>",
        "<math><mi>x</math>",
        "<math><style>*{color:red}</style></math>",
        "<math><mi>x</mi><!--><script>1</script>--></math>",
    ],
)
def test_only_mathml_is_taken_as_it_is(source: str) -> None:
    assert not is_mathml(source)
    page = render(Report("a", sections=(Section("a", "", "", "", source),)))
    assert f"<code><bdi>{escape(source)}</bdi></code>" in page
    assert source in Parsed(page).text


@pytest.mark.parametrize("source", [EQUATION, EQUATION * 2])
def test_mathml_is_shown(source: str) -> None:
    assert is_mathml(source)
    assert source in render(Report("a", sections=(Section("a", "", "", "", source),)))


@pytest.mark.parametrize("trace", [Scattergl(y=[1]), Scatter3d(x=[1], y=[1], z=[1])])
def test_pictures_that_need_made_up_code_are_refused(trace: Any) -> None:
    with pytest.raises(ArgumentError, match="cannot be drawn offline"):
        embed_figure(Figure(trace))


def test_parts_are_checked() -> None:
    with pytest.raises(ArgumentError, match="severity"):
        Verdict("a", "bad", "", "", "")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="link's target"):
        Section('a"b', "", "", "")
    with pytest.raises(ArgumentError, match="twice"):
        Report("", sections=(Section("a", "", "", ""), Section("a", "", "", "")))


def test_a_report_of_nothing_is_a_page() -> None:
    page = Parsed(render(Report("Nothing")))
    assert "No verdict could be reached." in page.text
    assert page.data("numbers") == {}
    assert "The model" not in page.text


def test_a_page_stays_small_and_says_what_it_left_out() -> None:
    rows = np.random.default_rng(0).normal(size=(1000, 400))
    report = Report("Large", numbers={"gates": {"units": rows, "bars": rows[:, :399], "mean": 0.5}})
    page = render(report)
    assert len(page.encode()) < LARGEST
    assert "The download has no gates.bars, gates.units: too large for one page." in page
    assert Parsed(page).data("numbers")["gates"]["mean"] == 0.5


def test_reports_are_written_whole(tmp_path: Path) -> None:
    report = make_hostile()
    path = write_report(report, tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == render(report)
    with pytest.raises(StorageError, match="cannot be written"):
        write_report(report, tmp_path / "nowhere" / "report.html")


def test_notebooks_show_the_page_in_a_frame_of_its_own() -> None:
    report = make_hostile()
    ((tag, attributes),) = Parsed(report._repr_html_()).elements
    assert tag == "iframe"
    assert attributes["srcdoc"] == render(report)
    assert attributes["sandbox"] == "allow-scripts allow-downloads"


SUMMARY = """\
hamlet
Two layers of LSTM with 128 units each, after 1,000 steps
  Model       2 × LSTM of 128
  Parameters  214,272
  Data        hamlet.txt, 180,000 characters
  Batch       16 sequences of 200 steps
  Taken       after step 1,000

✖ Fault: Gradients die within 9 steps
  Of the gradient's norm, 1 % is left after 9 steps in layer 1; the data's dependence reaches back
  60.
  → Let the forget gate begin open, so that the state is kept for longer.
    unspool.train(config="runs/hamlet/config.toml", out="runs/hamlet-2", forget_bias=2.0)

▲ Warning: The training window is too short
  A window of 20 steps loses 14 % of the gradient.
  → Train with a window of 80 steps.
    unspool.train(config="runs/hamlet/config.toml", out="runs/hamlet-2", bptt=80)

● Note: A third of the units does nothing
  41 of 128 stay constant.
  → Try 96 units.

✔ Good: No state explodes
  The largest Lyapunov exponent is −0.12 per step.

Not measured:
  – Surprise per token: the run's data are not here.
"""


def test_the_terminal_summary() -> None:
    assert summarize(make_report()) == str(make_report()) == SUMMARY
    assert "No verdict could be reached." in summarize(Report("Nothing"))


def test_advice_is_spelled_in_the_language_of_the_reader(tmp_path: Path) -> None:
    def write(retrain: Retrain, settings: Mapping[str, Any]) -> str:
        return f"{retrain.config} → {retrain.out} with {dict(settings)}"

    spelling = Spelling(write, lambda text: text.replace("gate", "PORT"))
    report = make_report()
    words = "runs/hamlet/config.toml → runs/hamlet-2 with {'forget_bias': 2.0}"
    pages = (
        report.save(tmp_path / "x.html", spelling).read_text(encoding="utf-8"),
        render(report, spelling),
        render_comparison(report, Report("Nothing"), spelling),
        render_timeline([("a", report)], spelling=spelling),
    )
    for page in pages:
        assert words in Parsed(page).text
        assert "unspool.train(" not in Parsed(page).text
        assert "PORT" in Parsed(page).text
    assert words in " ".join(summarize(report, spelling).split())


def test_advice_needs_a_run_and_settings() -> None:
    report = make_report()
    assert "unspool.train(" not in summarize(replace(report, retrain=None))
    assert report.spell(report.verdicts[2], PYTHON) is None


def test_settings_are_spelled_as_python_that_runs() -> None:
    retrain = Retrain('runs/a "b"\\c/config.toml', "runs/ü")
    settings = {"cell": "lstm", "clip": 1.0, "tied": True, "layers": 2, "target": ["a", "b"], "test": None}
    given: dict[str, Any] = {}
    names = {"unspool": SimpleNamespace(train=lambda **options: given.update(options))}
    eval(spell_python(retrain, settings), names)
    assert given == {"config": retrain.config, "out": retrain.out, **settings}


def test_the_summary_cannot_steer_a_terminal() -> None:
    text = summarize(make_hostile())
    text.encode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]", text)
    assert "⟨U+001B⟩[31m" in text
    assert max(cell_len(line) for line in text.splitlines()) <= 100
    assert max(cell_len(line) for line in summarize(Report("宽" * 500, facts=(("宽" * 50, "宽"),))).splitlines()) <= 100
