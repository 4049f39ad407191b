"""The whole of an X-ray: any model, and what is said where there is little to see."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs.tiny_run import TinyRun
from torch import Tensor, nn

import unspool
from unspool.cells import Cell, Symbol, sigmoid, tanh
from unspool.errors import ArgumentError, ArgumentTypeError, DataError

HOSTILE = ["<script>window.pwned=1</script>", "\"quoted' & <b>bold</b>", "😀🤖", "\u202eright\u202c שלום", "x" * 10_000]


class Own(Cell):
    """A user's cell."""

    keeps = {"k": +1}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        k = sigmoid(self.linear("k", x, h))
        return k * h + (1 - k) * tanh(self.linear("n", x, h))


class Tagger(nn.Module):
    """A model as people write them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True, dropout=0.5)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.head(self.lstm(self.embedding(ids))[0])
        return scores


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from numbers(one, f"{path}.{name}")
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from numbers(one, f"{path}[{place}]")
    else:
        yield path, value


def test_a_model_of_torch_and_its_accelerated_twin_look_the_same() -> None:
    torch.manual_seed(0)
    theirs = Tagger()
    ours = copy.deepcopy(theirs)
    unspool.accelerate(ours)
    ids = torch.randint(0, 11, (3, 14))
    one, other = (unspool.xray(model, ids, loss=lambda scores: scores.sin().mean()) for model in (theirs, ours))
    found, twin = dict(numbers(dict(one.numbers))), dict(numbers(dict(other.numbers)))
    assert found.keys() == twin.keys()
    assert len(found) > 1000
    for name, value in found.items():
        if isinstance(value, float) and isinstance(twin[name], float):
            assert twin[name] == pytest.approx(value, rel=1e-5, abs=1e-5), name
        else:
            assert twin[name] == value, name
    assert [verdict.key for verdict in one.verdicts] == [verdict.key for verdict in other.verdicts]


def test_the_model_is_left_as_it_was() -> None:
    model = Tagger()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    unspool.xray(model, torch.randint(0, 11, (2, 9), generator=torch.Generator().manual_seed(0)))
    assert type(model.lstm) is nn.LSTM
    assert model.training
    assert model.lstm.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize(
    "model",
    [
        unspool.nn.Stack(Own, 5, [6, 7], bidirectional=[True, False]),
        unspool.nn.Stack("lstm", 5, 5, 3, residual=[False, True, True]),
        unspool.nn.Stack("gru", 5, 6, 3, skip=True),
        unspool.nn.Recurrent("elman-relu", 5, 6),
        torch.nn.GRU(5, 6, num_layers=2),
    ],
    ids=["own cell", "residual", "skip", "relu", "torch's gru"],
)
def test_all_there_is_to_see_is_seen(model: nn.Module) -> None:
    report = unspool.xray(model, torch.randn(24, 3, 5, generator=torch.Generator().manual_seed(0)))
    assert report.missing == ()
    keys = {section.key for section in report.sections}
    assert {"flow", "truncation", "shares", "jacobians", "lyapunov", "fixed_points", "frequency"} < keys
    assert all(section.figures for section in report.sections)
    json.dumps(report.numbers)


@pytest.mark.parametrize("shape", [(1, 3, 5), (2, 1, 5), (20, 1, 5), (1, 1, 5)])
def test_one_step_and_a_batch_of_one(shape: tuple[int, int, int]) -> None:
    report = unspool.xray(torch.nn.LSTM(5, 4, num_layers=2), torch.randn(shape))
    assert report.verdicts
    assert "&lt;html" in report._repr_html_()


def test_weights_that_are_no_numbers(tmp_path: Path) -> None:
    model = torch.nn.LSTM(3, 4)
    with torch.no_grad():
        model.get_parameter("weight_hh_l0")[0, 0] = float("nan")
    report = unspool.xray(model, torch.randn(5, 2, 3))
    assert [verdict.key for verdict in report.verdicts] == ["not-finite"]
    assert "weight_hh_l0" in str(report)
    assert report.missing
    assert "weight_hh_l0" in report.save(tmp_path / "x.html").read_text(encoding="utf-8")


def test_inputs_that_are_no_numbers() -> None:
    with pytest.raises(DataError, match="not finite"):
        unspool.xray(torch.nn.LSTM(3, 4), torch.full((5, 2, 3), float("nan")))


def test_a_run_without_its_data_looks_at_its_own_text(tiny_run: TinyRun, tmp_path: Path) -> None:
    config = (tiny_run.path / "config.toml").read_text(encoding="utf-8")
    shutil.copytree(tiny_run.path, tmp_path / "run")
    (tmp_path / "run" / "config.toml").write_text(
        re.sub(r"files = \[.*?\]", 'files = ["gone.txt"]', config, flags=re.S)
    )
    report = unspool.xray(tmp_path / "run")
    assert any("gone.txt" in reason for reason in report.missing)
    assert "that the model generated" in dict(report.facts)["data"]


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    text = tmp_path / "hostile.txt"
    text.write_text("\n".join(HOSTILE * 40), encoding="utf-8")
    unspool.train(text, out=tmp_path / "run", tokenizer="word", hidden=6, steps=3, batch_size=4, bptt=8)
    page = unspool.xray(tmp_path / "run").save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<script>window.pwned" not in page
    assert "<b>bold" not in page
    assert "\u202e" not in page
    assert len(page) < 8e6


@pytest.mark.parametrize(
    ("model", "batch", "error", "words"),
    [
        (torch.nn.Linear(3, 2), torch.randn(4, 3), ArgumentError, "no recurrent layer"),
        (torch.nn.LSTM(3, 4), None, ArgumentError, "missing"),
        ("nowhere/run", None, DataError, "nowhere"),
        (3, torch.randn(2, 3), ArgumentTypeError, "Module"),
    ],
    ids=["no recurrence", "no batch", "no run", "no model"],
)
def test_what_cannot_be_looked_into(model: Any, batch: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        unspool.xray(model, batch)


def test_a_loss_must_be_a_number_of_the_layers() -> None:
    with pytest.raises(ArgumentError, match="depends on the recurrent layers"):
        unspool.xray(torch.nn.LSTM(3, 4), torch.randn(5, 2, 3), loss=lambda output: torch.tensor(1.0))
    with pytest.raises(ArgumentError, match="depends on the recurrent layers"):
        unspool.xray(torch.nn.LSTM(3, 4), torch.randn(5, 2, 3), loss=lambda output: output[0])


def test_some_measures_alone_and_how_long_the_rest_takes() -> None:
    said: list[str] = []
    model, batch = nn.GRU(3, 4), torch.randn(20, 2, 3)
    report = unspool.xray(model, batch, only=["flow", "gates"], progress=said.append)
    assert {"flow", "gates"} == set(report.numbers) - {"missing"}
    assert report.numbers["flow"] == unspool.xray(model, batch).numbers["flow"]
    assert said[0] == "flow (1 of 2)"
    assert re.fullmatch(r"gates \(2 of 2, about \d+ s left\)", said[1])
    assert said[2:] == ["report"]


@pytest.mark.parametrize("only", ["flow", [], ["flow", "flows"]])
def test_measures_that_there_are_not(only: Any) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)`only`.*Choose from flow, "):
        unspool.xray(nn.GRU(3, 4), torch.randn(5, 2, 3), only=only)
