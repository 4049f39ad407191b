"""The benchmark of planted faults in small: verdicts are right, results are kept, and the table hides nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import xray_accuracy
from benchmarks.xray_accuracy import BEGIN, END, TARGET, Result, document, read_kept, run, score, small, write
from benchmarks.xray_faults import Network, Setup, weights_of
from benchmarks.xray_networks import DEVELOPMENT, FAULTS, HEALTHY, HELD_OUT, all_networks


def test_enough_networks_of_enough_kinds() -> None:
    networks = list(all_networks())
    assert len({one.name for one in networks}) == len(networks) >= 200
    assert len(FAULTS) >= 12
    for part in (DEVELOPMENT, HELD_OUT):
        for trained in (False, True):
            assert {one.kind for one in networks if one.part == part and one.trained == trained} == {*FAULTS, HEALTHY}


def test_held_out_architectures_are_not_those_of_development() -> None:
    kinds = {
        part: {one.setup.describe() for one in all_networks() if one.part == part} for part in (DEVELOPMENT, HELD_OUT)
    }
    assert not kinds[DEVELOPMENT] & kinds[HELD_OUT]


@pytest.mark.long
def test_the_small_form_is_judged_rightly_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = tmp_path / "kept.jsonl"
    results = run(small(), keep, updates=20)
    assert len(results) == len(FAULTS) + 2
    assert sum(one.right for one in results) >= len(results) - 1
    with keep.open("a", encoding="utf-8") as file:
        file.write('{"name": "cut off in the mid')
    monkeypatch.setattr(xray_accuracy, "examine", lambda *_: pytest.fail("it was kept"))
    assert run(small(), keep) == results
    assert list(read_kept(keep).values()) == results


def result(kind: str, right: bool, fault: bool, before: float | None = None, after: float | None = None) -> Result:
    return Result(f"{kind}: made up", kind, HELD_OUT, before is not None, right, ("chaotic",), fault, before, after)


def test_the_figures() -> None:
    """Two faults found of three, of four named; one of two healthy; one remedy of two helped, and NaN never does."""
    results = [
        result("chaos", True, True, 1.0, 0.5),
        result("chaos", True, True, 1.0, math.inf),
        result("chaos", False, True),
        result(HEALTHY, False, True),
        result(HEALTHY, True, False),
    ]
    found = score(results)
    assert (found.precision, found.recall, found.healthy, found.helped) == (2 / 4, 2 / 3, 1 / 2, 1 / 2)
    text = document(results)
    assert "| chaos | – | 2 of 3 | 1 of 2 |" in text
    assert "| trained | 2 | 100% | 100% | – | 50% |" in text
    assert "- chaos: made up: said `chaotic` (held out)" in text
    assert "Judged wrongly, 2 of 5:" in text


def test_networks_that_learned_in_spite_of_a_fault_are_counted_with_the_others_and_apart() -> None:
    results = [
        result("chaos", False, False, 0.01),
        result("chaos", True, True, 0.5),
        result(HEALTHY, True, False, 0.01),
    ]
    text = document(results)
    assert "| trained | 3 | 100% | 50% | 100% | – |" in text
    assert "| trained, without those that learned their task in spite of a fault | 2 | 100% | 100% | 100% | – |" in text
    assert "(held out, learned its task)" in text


def test_the_table_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    results = [result("chaos", True, True)]
    write(results, page)
    text = page.read_text(encoding="utf-8")
    assert text == f"before\n{BEGIN}\n\n{document(results)}\n{END}\nafter\n"
    assert BEGIN in TARGET.read_text(encoding="utf-8")


def test_a_remedy_changes_only_what_it_names() -> None:
    ill = next(one.setup for one in all_networks() if one.kind == "truncated training")
    cured = ill.follow("truncated", {"bptt": 30})
    assert (cured.bptt, cured.plant) == (30, ill.plant)
    assert ill.follow("chaotic", {"init": "orthogonal", "weight_decay": 0.01}).plant is None
    assert replace(ill, sizes=(5.0, 5.0, 5.0)).follow("scaled", {}).standardized


def test_weights_of_torch_layers_are_views() -> None:
    model = Network(Setup("torch-lstm", 2))
    weights_of(model.layers)[1]["b_f"].data.fill_(3.0)
    parameters = dict(model.layers.named_parameters())
    assert parameters["bias_ih_l1"][24:48].eq(3).all()
    assert parameters["bias_hh_l1"].eq(0).all()
