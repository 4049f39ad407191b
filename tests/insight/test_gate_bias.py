"""The initial bias of gates: in closed form, and the same in plan and X-ray."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.insight.patients import PATIENTS
from tests.insight.test_plan import delayed, proposed, write

from unspool.insight.catalogue import CATALOGUE
from unspool.insight.gate_bias import propose_forget_bias
from unspool.insight.measurements import take_measurements
from unspool.insight.plan import plan
from unspool.insight.report.contract import Verdict
from unspool.insight.subjects.run import take_run
from unspool.insight.verdicts.memory import vanishing
from unspool.insight.verdicts.rules import Case
from unspool.runs.train import train


@pytest.mark.parametrize("memory", [4, 9, 50, 400, 100_000])
def test_the_time_constant_of_a_gate_is_the_root_of_the_memory(memory: int) -> None:
    bias = propose_forget_bias(memory)
    assert bias is not None
    open_gate = 1 / (1 + math.exp(-bias))
    assert -1 / math.log(open_gate) == pytest.approx(math.sqrt(memory), rel=0.06)


def test_where_there_is_nothing_to_remember_nothing_is_proposed() -> None:
    assert propose_forget_bias(3) is None
    assert propose_forget_bias(None) == 2.0


def test_gates_that_were_open_are_opened_wider() -> None:
    assert propose_forget_bias(50, given=0.5) == propose_forget_bias(50) == 1.9
    assert propose_forget_bias(50, given=1.9) == 2.9
    assert propose_forget_bias(None, given=3.0) == 4.0


def judge_vanishing(memory: int | None, forget_bias: float | None = None, engine: str = "kernel") -> Verdict:
    """What X-ray says of a network with vanishing gradients, trained on data that needs such a memory."""
    specimen = replace(
        PATIENTS["vanishing"]().specimen(), find_memory=lambda: memory, forget_bias=forget_bias, engine=engine
    )
    verdict = vanishing(Case(specimen, take_measurements(specimen, CATALOGUE, only=("flow", "forgetting"))))
    assert verdict is not None
    return verdict


def test_xray_proposes_what_plan_proposes(tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")  # no kernel is worth its compilation here
    text = write(tmp_path / "far.txt", delayed(1500, 12))
    options: dict[str, Any] = {"hidden": 4, "steps": 1, "batch_size": 4, "engine": "torch", "cell": "elman"}
    train(text, out=tmp_path / "run", quiet=True, **options)
    planned, specimen = plan(text), take_run(tmp_path / "run")
    assert specimen.memory == planned.memory
    assert specimen.memory >= 12
    verdict = judge_vanishing(specimen.memory)
    bias = proposed(planned)["forget_bias"]
    assert (verdict.settings["forget_bias"], verdict.settings["cell"]) == (bias, proposed(planned)["cell"])
    assert f"`forget_bias={bias}`" in verdict.remedy
    text.unlink()
    assert take_run(tmp_path / "run").memory is None


def test_xray_proposes_settings_that_a_run_takes_and_none_in_vain() -> None:
    assert judge_vanishing(50, engine="torch").settings == {"cell": "lstm", "engine": "kernel", "forget_bias": 1.9}
    assert judge_vanishing(12).settings["cell"] == "gru"  # plan's rule for the cell is X-ray's
    assert judge_vanishing(None).settings["cell"] == "lstm"
    assert judge_vanishing(50, forget_bias=2.4).settings["forget_bias"] == 3.4
    idle = judge_vanishing(2)
    assert (idle.severity, dict(idle.settings)) == ("note", {})
    assert "not found to need more than 2 step(s) of memory" in idle.evidence
