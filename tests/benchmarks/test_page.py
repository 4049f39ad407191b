"""The page of a benchmark: findings with their aims, and text that stays text."""

from __future__ import annotations

from tests.benchmarks.example import report
from tests.insight.report.parsing import Parsed

from unspool.lab.bench.page import page

HOSTILE = "<script>window.pwned=1</script>\"'><img src=x onerror=1>\0\ud800"


def test_findings_say_whether_their_aim_is_met() -> None:
    parsed = Parsed(page(report()))
    states = [attributes["class"] for tag, attributes in parsed.elements if tag == "td" and "class" in attributes]
    assert states == ["number missed", "number", "number met", "number"]
    assert "geometric mean" in parsed.text
    assert report().about() in parsed.text


def test_hostile_text_makes_no_element() -> None:
    hostile = report()
    hostile.remarks.append(HOSTILE)
    text = page(hostile)
    text.encode("utf-8")
    parsed = Parsed(text)
    assert "<script>window.pwned=1</script>" in parsed.text
    assert "img" not in {tag for tag, _ in parsed.elements}
    assert not any("pwned" in script for _, script in parsed.scripts)
