"""Facts of a checkpoint: those of a run pass, and every one of the wrong type or beyond its bounds is named."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from unspool.errors import ArgumentError, DataError
from unspool.learning.checkpoint_facts import check_facts, check_same
from unspool.learning.position import Position

PATH = Path("step-000000007.safetensors")
POSITION = asdict(Position(7, training=[math.nan, 0.5], validation=[1.0, 0.5], evaluated=[0, 7], best=0.5, best_step=7))
FACTS: dict[str, Any] = {
    **{"format": 1, "logs": {"metrics.jsonl": 10}, "position": POSITION, "optimizer": {}, "data": "a", "ranks": 1}
}


def test_the_facts_of_a_run_pass() -> None:
    check_facts(PATH, FACTS)
    check_facts(Path("step-000000000.safetensors"), {**FACTS, "position": asdict(Position())})


@pytest.mark.parametrize("value", ["7", None, True, -1, 1.5, math.nan, math.inf, 10**23, [], {}])
@pytest.mark.parametrize("name", ["step", "epoch", "batch", "clipped", "units", "best_step"])
def test_a_count_is_a_whole_number_within_bounds(name: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"cannot be read: `position.{name}` should be"):
        check_facts(PATH, {**FACTS, "position": {**POSITION, name: value}})


@pytest.mark.parametrize("value", ["0.5", None, True, math.nan, math.inf, [], {}])
@pytest.mark.parametrize("name", ["seconds", "loss"])
def test_a_number_is_finite(name: str, value: Any) -> None:
    with pytest.raises(DataError, match=f"`position.{name}` should be"):
        check_facts(PATH, {**FACTS, "position": {**POSITION, name: value}})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"position": None}, "`position` should be"),
        ({"position": {**POSITION, "unknown": 3}}, "`position.unknown`"),
        ({"position": {**POSITION, "validation": [0.5]}}, "`position` does not have as many losses as evaluations"),
        ({"position": {**POSITION, "evaluated": [0, 8]}}, "`position` counts what comes after its step"),
        ({"position": {**POSITION, "validation": [math.inf, 0.5]}}, "`position.validation.0` should be a finite"),
        ({"logs": {"metrics.jsonl": -1}}, "`logs.metrics.jsonl` should be greater"),
        ({"logs": [3]}, "`logs` should be"),
        ({"data": 3}, "`data` should be"),
        ({"ranks": "1"}, "`ranks` should be"),
        ({"optimizer": "adam"}, "`optimizer` should be"),
    ],
)
def test_a_fact_of_the_wrong_type_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        check_facts(PATH, {**FACTS, **changed})
    assert said in str(caught.value)


def test_a_checkpoint_of_another_step_than_its_name_says_is_refused() -> None:
    with pytest.raises(DataError, match="it is of step 7"):
        check_facts(Path("step-000000009.safetensors"), FACTS)


def test_other_data_and_another_number_of_processes_are_refused() -> None:
    check_same(FACTS, "a", 1)
    with pytest.raises(DataError, match="the data has changed"):
        check_same(FACTS, "b", 1)
    with pytest.raises(ArgumentError, match="`nproc` .=2. differs from the run's 1"):
        check_same(FACTS, "a", 2)
