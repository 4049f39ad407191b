"""Every question can be asked, at sizes that take no time, and its numbers hang together."""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from unspool.errors import UnknownNameError, UnspoolError
from unspool.lab.bench import (
    QUESTIONS,
    Point,
    Report,
    Settings,
    bench,
    elementwise,
    exported,
    fresh,
    fresh_process,
    grid,
    matrix,
    memory,
    run,
    stream,
    user,
    wavefront,
    whole_model,
)
from unspool.lab.bench.contestants.contestant import MissingError
from unspool.lab.bench.linear import judge as judge_linear
from unspool.lab.bench.machine import MatrixProduct
from unspool.lab.bench.page import page
from unspool.lab.bench.report import OURS, Row
from unspool.lab.bench.timing import Spread

TINY = Settings(threads=1, rounds=1, against=("torch",), points=(Point(2, 3, 4, 5),))

#: Question → the kinds of its rows and their contestants.
EXPECTED = {
    "grid": {"training": {OURS, "torch"}, "inference": {OURS, "torch"}},
    "overhead": {"training": {OURS, "torch"}, "inference": {OURS, "torch"}},
    "user": {
        "training": {OURS, "torch loop", "careful torch loop", "built-in"},
        "inference": {OURS, "torch loop", "careful torch loop", "built-in"},
        "cold compile": {OURS},
        "warm load": {OURS},
    },
    "ragged": {
        "training": {OURS, "torch, packed", "unspool, full batch", "torch, full batch"},
        "inference": {OURS, "torch, packed", "unspool, full batch", "torch, full batch"},
    },
    "elementwise": {
        "training": {OURS, elementwise.LOG_SPACE},
        "inference": {OURS, elementwise.LOG_SPACE},
        elementwise.PEAK: {OURS},
    },
    "matrix": {"training": {OURS, matrix.LOOP}, "inference": {OURS, matrix.LOOP}},
    "wavefront": {
        "training": {OURS, wavefront.ONE_BY_ONE},
        "inference": {OURS, wavefront.ONE_BY_ONE},
    },
    "model": {
        "training": {OURS, "torch", "torch, linear_cross_entropy"},
        "peak of memory in training": {OURS, "torch", "torch, linear_cross_entropy"},
    },
    "memory": {"peak of a training step": {OURS, "torch"}},
    "linear": {"training": {OURS, "torch"}},
    "trace": {"forward for training": {OURS, "unspool, traced"}},
    "stream": {
        stream.LAYER: {OURS, "torch", "torch, eager"},
        stream.LANGUAGE: {OURS},
        stream.POSITION: {OURS, "unspool, at 500"},
    },
    "export": {
        exported.FILES: {"C, weights inside", "C, weights separate", "weights", "header"},
        **({exported.STEP: {OURS, exported.PRODUCTS}} if shutil.which(exported.COMPILER) else {}),
    },
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernels, no large products, no other processes: whether the tool works, not what it finds."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    for module in (grid, bench):
        monkeypatch.setattr(module, "MatrixProduct", lambda: MatrixProduct(16))
    small = [replace(model, tokens=7, width=4, rows=2, steps=3) for model in whole_model.MODELS]
    monkeypatch.setattr(whole_model, "MODELS", small)
    for module in (user, memory, elementwise, whole_model):
        monkeypatch.setattr(module, "in_fresh_process", lambda *_, **__: {"seconds": 0.5, "bytes": 2**20})


def ask(name: str, settings: Settings = TINY) -> Report:
    return run([name], settings)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_answered(name: str) -> None:
    report = ask(name)
    kinds: dict[str, set[str]] = {}
    for row in report.rows:
        assert row.question == name
        kinds.setdefault(row.kind, set()).update(row.values)
        for spread in row.values.values():
            assert 0 < spread.low <= spread.median <= spread.high < math.inf
    shown = {kind: names - {"unspool, recompute"} for kind, names in kinds.items()}
    shown = {kind: names for kind, names in shown.items() if kind in EXPECTED[name]}
    assert shown == EXPECTED[name]
    assert all(found.aim is None for found in report.findings)  # aims are for the questions' own sizes
    assert Report.from_json(report.to_json()).rows == report.rows
    assert page(report).count('class="plotly-graph-div"') == len({row.kind for row in report.rows})


def test_questions_are_those_expected() -> None:
    assert QUESTIONS.keys() == EXPECTED.keys()


def test_findings_follow_from_rows() -> None:
    report = ask("grid", replace(TINY, points=(Point(2, 3, 4, 5), Point(1, 2, 4, 5))))
    ratios = [row.ratio("torch") for row in report.rows if row.kind == "training"]
    assert len(ratios) == 3 * 2
    found = {finding.text: finding for finding in report.findings}
    mean, worst = (found[f"training, against torch: {what}"] for what in ("geometric mean", "worst point"))
    assert mean.value == pytest.approx(math.prod(ratios) ** (1 / 6))
    assert worst.value == min(ratios)


def test_aims_stand_for_the_grid_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "GRID", TINY.points)
    settings = Settings(threads=1, rounds=1, against=("torch",), cells=("lstm",))
    aims = [finding.aim for finding in ask("grid", settings).findings]
    assert aims == [2.0, 1.1, 3.0, None, 1.6, 1.0, None, None]


def test_libraries_train_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in whole_model.MODELS:
        updates = whole_model.make_updates(model, Settings(threads=1, rounds=1), lambda _: None)
        whole_model.check_agreement(model, updates)
        with pytest.raises(UnspoolError, match="update 1 of torch had the loss"):
            whole_model.check_agreement(model, {OURS: lambda: 1.0, "torch": lambda: 1.01})
    absent = MissingError("jax or optax is not installed")
    monkeypatch.setattr(whole_model, "jax_optax", raising(absent))
    assert "! jax or optax is not installed" in told(whole_model.MODELS[0])


def raising(error: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def told(model: Any) -> list[str]:
    said: list[str] = []
    whole_model.make_updates(model, Settings(threads=1, rounds=1), said.append)
    return said


def test_threads_are_as_chosen_and_put_back() -> None:
    before = torch.get_num_threads()
    seen = []
    run(
        ["trace"],
        Settings(threads=before + 1, rounds=1, points=TINY.points),
        lambda _: seen.append(torch.get_num_threads()),
    )
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_who_is_missing_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any) -> Any:
        raise MissingError("jax is not installed")

    monkeypatch.setattr(grid, "MAKERS", {**grid.MAKERS, "jax": absent})
    report = ask("overhead", Settings(threads=1, rounds=1, against=("torch", "jax"), points=TINY.points))
    assert report.remarks.count("jax takes no part: jax is not installed") == 1
    assert all(set(row.values) == {OURS, "torch"} for row in report.rows)


def test_running_without_kernels_is_said() -> None:
    assert "UNSPOOL_ENGINE=off: unspool runs eagerly, without kernels" in ask("trace").remarks


def test_a_cell_that_falls_back_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: Any) -> Iterator[Row]:
        warnings.warn("LSTM runs eagerly: c++ failed:\nline 3: error", RuntimeWarning, stacklevel=1)
        warnings.warn("something is deprecated", UserWarning, stacklevel=1)
        yield from ()

    monkeypatch.setitem(QUESTIONS, "trace", bench.Question("text", measure, lambda _: []))
    remarks = ask("trace").remarks
    assert "LSTM runs eagerly: c++ failed:" in remarks
    assert not any("deprecated" in remark for remark in remarks)


@pytest.mark.parametrize(("share", "said"), [(0.95, False), (0.5, True)])
def test_a_busy_machine_is_said(share: float, said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatrixProduct, "share", lambda *_: share)
    remarks = ask("trace").remarks
    assert any("others used the cores: a matrix product had 50% of them" in remark for remark in remarks) is said


def test_the_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    product = MatrixProduct(16)
    assert product.share(2) == 1.0
    product.wall, product.processor = 2.0, 3.0
    monkeypatch.setattr("unspool.lab.bench.machine.cores", lambda: 4)
    assert product.share(2) == 0.75
    assert product.share(8) == 3.0 / 8.0
    product(5)
    assert product.wall > 2.0


def test_an_unknown_question_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'grid'"):
        run(["overhead", "gird"], TINY, lambda _: pytest.fail("something was measured"))


def test_cost_over_time_is_judged() -> None:
    rows = [
        Row("linear", "training", f"LSTM 8,{T},32,64", {OURS: Spread.of([0.01 + 2e-4 * T])})
        for T in (100, 1000, 20_000)
    ]
    exponent, step, off = judge_linear(rows)
    assert exponent.value == pytest.approx(np.polyfit(np.log([100, 1000, 20_000]), np.log([0.03, 0.21, 4.01]), 1)[0])
    assert step.value == pytest.approx(2e-4)
    assert off.value == pytest.approx(0, abs=1e-6)


def test_the_peak_of_memory_is_seen() -> None:
    before = fresh.reset_peak()
    block = np.ones(2**26, np.uint8)
    del block
    assert fresh.peak() - before == pytest.approx(2**26, rel=0.1)


def test_a_process_of_its_own() -> None:
    found = fresh_process.in_fresh_process("memory", "torch", "8,1000,16,32", threads=1)
    tape = 8 * 1000 * 32 * 4  # one value of every unit, row and step; an LSTM keeps several
    assert tape < found["bytes"] < 100 * tape


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(UnspoolError, match=r"(?s)measuring memory torch 1,2 in a new process failed.*four sizes"):
        fresh_process.in_fresh_process("memory", "torch", "1,2", threads=1)
