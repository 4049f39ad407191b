"""Single steps: contestants that agree, what is missing is said, and aims follow from rows."""

from __future__ import annotations

import builtins
import shutil
import sys
from typing import Any

import numpy as np
import pytest

from unspool.exchange.c.convert import write_c
from unspool.lab.bench import Point, Report, Settings, bench, exported, run, stream
from unspool.lab.bench.agreement import DisagreementError
from unspool.lab.bench.cases import Case
from unspool.lab.bench.contestants import modules
from unspool.lab.bench.contestants.steps import stack_of
from unspool.lab.bench.machine import MatrixProduct
from unspool.lab.bench.report import OURS, Row
from unspool.lab.bench.tables import quantity
from unspool.lab.bench.timing import Spread

SMALL = Settings(threads=1, rounds=1, against=("torch", "onnxruntime"), points=(Point(1, 1, 3, 4),))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    monkeypatch.setattr(bench, "MatrixProduct", lambda: MatrixProduct(16))


def ask(*names: str) -> Report:
    return run(names, SMALL)


def test_onnx_runtime_takes_the_same_steps() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    rows = {row.case: set(row.values) for row in ask("stream").rows if row.kind != stream.POSITION}
    assert rows == {
        "LSTM 3,4": {OURS, "onnxruntime", "torch"},
        "GRU 3,4": {OURS, "onnxruntime", "torch"},
        "LayerNorm LSTM 3,4": {OURS, "onnxruntime", "torch, eager"},
        "embedding 3, LSTM 4, head": {OURS, "onnxruntime"},
    }


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_said_and_the_others_are_measured(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {package!r}")
        return real(name, *rest, **more)

    for name in [name for name in sys.modules if name.startswith(("unspool.exchange.onnx", package))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    report = ask("stream")
    (remark,) = [remark for remark in report.remarks if "takes no part" in remark]
    assert remark == f"onnxruntime takes no part: {package} is not installed (No module named {package!r})"
    assert all("onnxruntime" not in row.values and OURS in row.values for row in report.rows)


def test_contestants_that_disagree_are_not_timed() -> None:
    makers = {OURS: lambda: lambda: np.ones(2), "torch": lambda: lambda: np.full(2, 1.001)}
    with pytest.raises(DisagreementError, match="between unspool and torch"):
        stream.contest_steps(stream.LAYER, "case", makers, SMALL, lambda _: None)


def test_aims_of_single_steps() -> None:
    def row(kind: str, case: str, **ratios: float) -> Row:
        return Row("stream", kind, case, {name: Spread.of([value]) for name, value in {OURS: 1.0, **ratios}.items()})

    rows = [
        row(stream.LAYER, "LSTM 128,128", onnxruntime=4.0, torch=16.0),
        row(stream.LAYER, "LSTM 256,256", onnxruntime=1.5, torch=14.0),
        row(stream.LANGUAGE, "model", onnxruntime=5.0),
        row(stream.POSITION, "model, at 10", **{"unspool, at 500": 1.2}),
    ]
    found = {finding.text: (finding.value, finding.met) for finding in stream.judge(rows)}
    assert found["a step up to 128 units, against ONNX Runtime: worst point"] == (4.0, True)
    assert found["a step of more units, against ONNX Runtime: worst point"] == (1.5, False)
    assert found["a step, against torch.nn: worst point"] == (14.0, False)
    assert found["a step of a language model, against ONNX Runtime: worst point"] == (5.0, True)
    assert found["a step, in parts of one at position 10"] == (1.2, False)


def test_without_a_compiler_the_sizes_remain_and_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "COMPILER", "no-such-compiler")
    report = ask("export")
    assert "the time of a step in C is not measured: there is no no-such-compiler on PATH" in report.remarks
    assert {row.kind for row in report.rows} == {exported.FILES}
    assert report.findings == []


@pytest.mark.skipif(shutil.which(exported.COMPILER) is None, reason="there is no gcc")
def test_a_compiler_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "OPTIONS", ("-no-such-option",))
    (remark,) = [remark for remark in ask("export").remarks if "in C" in remark]
    assert "gcc failed" in remark


def test_products_are_those_of_a_step() -> None:
    layer = modules.layer_of(modules.OURS, Case("lstm", Point(1, 1, 3, 4)))[0]
    stack = stack_of(layer)
    for int8, function in ((False, "model_add_product("), (True, "model_add_product_int8(")):
        written = write_c(stack, "model", int8=int8)
        code = exported.multiplying(written, stack)
        assert code.count(function) == 8 == written.code.count(function) - 1  # its definition


def test_sizes_are_those_of_the_files() -> None:
    layer = modules.layer_of(modules.OURS, Case("lstm", Point(1, 1, 3, 4)))[0]
    row = exported.sizes_of("title", stack_of(layer), False)
    numbers = 4 * (4 * 3 + 4 * 4 + 4)
    assert row.values["weights"].median == 12 + 4 * numbers  # mark, size and checksum before them
    assert quantity(row.values["C, weights inside"].median, row.unit).endswith(" B")
    assert quantity(123456.0, "B") == "123,456 B"
