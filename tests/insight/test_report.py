"""The report as text: what the page holds, that text from data stays text, comparison, film, terminal, notebook."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plotly.graph_objects import Figure, Heatmap, Scatter, Scatter3d, Scattergl
from rich.cells import cell_len
from tests.insight.made_up_reports import EQUATION, HOSTILE, make_hostile, make_report

from unspool.errors import ArgumentError, ArgumentTypeError, StorageError, UnknownNameError
from unspool.insight.report import (
    Report,
    Section,
    Verdict,
    render,
    render_comparison,
    render_film,
    summarise,
    to_plain,
    write_report,
)
from unspool.insight.report.markup import embed_figure, show_equation
from unspool.insight.report.page import LARGEST
from unspool.insight.report.plain import fit, to_json


class Parsed(HTMLParser):
    """A page taken apart: its elements with their attributes, its text, and what its scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.inside: tuple[str, dict[str, str | None]] = ("", {})
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside = (tag, dict(attributes))
        self.elements.append(self.inside)
        if tag == "script":
            self.scripts.append((self.inside[1], ""))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ("", {})

    def handle_data(self, data: str) -> None:
        if self.inside[0] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.inside[0] != "style":
            self.text += data

    def data(self, name: str) -> Any:
        (found,) = (text for attributes, text in self.scripts if attributes.get("id") == name)
        return json.loads(found)


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
    for verdict in report.verdicts:
        assert verdict.command is None or verdict.command in page.text
    assert [attributes["class"] for tag, attributes in page.elements if tag == "li" and "class" in attributes] == [
        f"verdict {verdict.severity}" for verdict in report.verdicts
    ]
    for word in ("Fault", "Warning", "Note", "Good"):
        assert page.text.count(word) == 1
    assert "1 fault, 1 warning, 1 note, 1 good sign" in page.text


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


@pytest.mark.parametrize("name", ["report", "comparison", "film"])
def test_hostile_text_makes_no_element_and_the_policy_names_each_script(name: str) -> None:
    hostile = make_hostile()
    match name:
        case "report":
            page = render(hostile)
        case "comparison":
            page = render_comparison(hostile, hostile)
        case _:
            page = render_film([(text, hostile) for text in HOSTILE])
    parsed = Parsed(page)
    page.encode("utf-8")
    assert not {"img", "iframe", "object", "embed", "base", "form", "link"} & {tag for tag, _ in parsed.elements}
    assert not [key for _, attributes in parsed.elements for key in attributes if key.startswith("on") or key == "src"]
    assert HOSTILE[0] in parsed.text
    run = [text for attributes, text in parsed.scripts if "type" not in attributes]
    assert len(run) == (3 if name == "film" else 2)
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
    ],
)
def test_only_mathml_is_taken_as_it_is(source: str) -> None:
    assert show_equation(source).startswith("<code>")
    assert html.escape(source) in show_equation(source)


def test_mathml_is_shown() -> None:
    assert show_equation(EQUATION) == EQUATION
    assert show_equation(EQUATION * 2) == EQUATION * 2


@pytest.mark.parametrize("trace", [Scattergl(y=[1]), Scatter3d(x=[1], y=[1], z=[1])])
def test_pictures_that_need_made_up_code_are_refused(trace: Any) -> None:
    with pytest.raises(ArgumentError, match="cannot be drawn offline"):
        embed_figure("data", Figure(trace))


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
    assert "The run" not in page.text


def test_a_page_stays_small_and_says_what_it_left_out() -> None:
    report = Report(
        "Large", numbers={"gates": {"units": np.random.default_rng(0).normal(size=(1000, 400)), "mean": 0.5}}
    )
    page = render(report)
    assert len(page.encode()) < LARGEST
    assert "The download has no gates.units: too large for one page." in page
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
  Batch       16 rows of 200 steps
  Taken       after step 1,000

✖ Fault: Gradients die within 9 steps
  Of the gradient's norm, 1 % is left after 9 steps in layer 1; the data's dependence reaches back
  60.
  → Let the forget gate begin open, so that the state is kept for longer.
    $ unspool train hamlet.txt --forget-bias 2

▲ Warning: The training window is too short
  A window of 20 steps loses 14 % of the gradient.
  → Train with a window of 80 steps.
    $ unspool train hamlet.txt --bptt 80

● Note: A third of the units does nothing
  41 of 128 stay constant.
  → Try 96 units.

✔ Good: No state explodes
  The largest Lyapunov exponent is −0.12 per step.

Not measured:
  – Surprise per token: the run's data are not here.
"""


def test_the_terminal_summary() -> None:
    assert summarise(make_report()) == str(make_report()) == SUMMARY
    assert "No verdict could be reached." in summarise(Report("Nothing"))


def test_the_summary_cannot_steer_a_terminal() -> None:
    text = summarise(make_hostile())
    text.encode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]", text)
    assert "⟨U+001B⟩[31m" in text
    assert max(cell_len(line) for line in text.splitlines()) <= 100
    assert max(cell_len(line) for line in summarise(Report("宽" * 500, facts=(("宽" * 50, "宽"),))).splitlines()) <= 100


def test_a_film_keeps_at_most_sixty_moments_with_the_first_and_the_last() -> None:
    sections = tuple(Section(key, key, "?", "", figures=(Figure(Scatter(y=[1, 2])),)) for key in ("flow", "other"))
    frames = [
        (f"step {step}", Report("Long", sections=sections, numbers={"loss": 1 / (1 + step)})) for step in range(150)
    ]
    page = Parsed(render_film(frames, ["flow"]))
    names = page.data("film")["frames"]
    assert len(names) == 60
    assert (names[0], names[-1]) == ("step 0", "step 149")
    ids = {str(attributes.get("id")) for attributes, _ in page.scripts}
    assert {name for name in ids if name.startswith("data-flow")} == {f"data-flow-0-{moment}" for moment in range(60)}
    assert not {name for name in ids if name.startswith("data-other")}
    line = page.data("data-line-0")
    assert line["layout"]["title"]["text"] == "loss"
    assert line["layout"]["xaxis"]["ticktext"] == ["step 0", names[30], "step 149"]
    assert line["data"][0]["x"] == names
    assert line["data"][0]["y"] == [1 / (1 + int(name.removeprefix("step "))) for name in names]


def test_the_axes_of_a_film_stand_still() -> None:
    page = Parsed(render_film([("a", make_report(factor=0.5)), ("b", make_report(factor=0.9))], ["flow"]))
    for moment in (0, 1):
        low, high = page.data(f"data-flow-0-{moment}")["layout"]["yaxis"]["range"]
        least = math.log10(0.5 * 0.5**39)
        assert low == pytest.approx(least * 1.04)
        assert high == pytest.approx(-least * 0.04)


def test_a_film_that_is_too_large_drops_moments() -> None:
    values = np.random.default_rng(0).normal(size=(300, 300))
    heavy = Section("map", "Map", "What?", "", figures=(Figure(Heatmap(z=values)),))
    page = render_film([(str(step), Report("Heavy", sections=(heavy,))) for step in range(12)])
    names = Parsed(page).data("film")["frames"]
    assert len(page.encode()) < LARGEST
    assert (names[0], names[-1]) == ("0", "11")
    assert 1 < len(names) < 12


def test_a_film_refuses_what_it_cannot_show() -> None:
    with pytest.raises(ArgumentError, match="empty"):
        render_film([])
    with pytest.raises(UnknownNameError, match="flow"):
        render_film([("a", make_report())], ["flaw"])
    with pytest.raises(UnknownNameError, match="loss"):
        render_film([("a", make_report())], scalars=["los"])
