"""Settings that fit the data: what the user gives stays, the rest is chosen, recorded and kept by a resumed run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.labelled_texts import ordered_texts, write_table

import unspool
from unspool.learning.events import Event, Started
from unspool.runs.cells import read_run_config
from unspool.runs.fitting import fit_to_data, prepare_task
from unspool.runs.train import plan
from unspool.settings.defaults import choose_defaults


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "order.csv", ordered_texts(60))


def test_what_is_given_stays_and_the_rest_is_chosen(table: Path) -> None:
    settings, task = prepare_task(plan(table, dropout=0.0, hidden=9))
    facts = task.facts()
    assert facts is not None
    chosen = choose_defaults("classify", facts)
    assert settings.model.dropout == 0.0 != chosen["dropout"]
    assert settings.model.hidden == 9
    assert settings.model.pooling == chosen["pooling"]
    assert settings.training.epochs == chosen["epochs"]
    assert settings.training.lr == chosen["lr"]
    assert f"{facts.examples} examples" in settings.chosen
    assert f"pooling {chosen['pooling']}" in settings.chosen
    assert "dropout" not in settings.chosen.replace("word_dropout", "")


@pytest.mark.parametrize("end", [{"steps": 3}, {"minutes": 0.5}])
def test_an_end_that_is_given_is_the_only_one(table: Path, end: dict[str, Any]) -> None:
    training = prepare_task(plan(table, **end))[0].training
    assert training.epochs is None
    assert {name: getattr(training, name) for name in end} == end


def test_a_config_file_is_given_too(table: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[model]\npooling = "mean"\n')
    assert prepare_task(plan(table, config=tmp_path / "mine.toml"))[0].model.pooling == "mean"


def test_only_what_has_an_effect_is_chosen(table: Path, tmp_path: Path) -> None:
    run = unspool.train(table, out=tmp_path / "run", backbone="bag", steps=2, quiet=True)
    settings = read_run_config(run.path)
    assert (settings.model.pooling, settings.model.input_window) == ("attention", 0)  # as declared
    assert settings.model.label_smoothing > 0
    again = plan(config=run.path / "config.toml", hidden=16)
    assert again.model == settings.model.model_copy(update={"hidden": 16})


def test_epochs_follow_from_the_examples_of_an_update(tmp_path: Path) -> None:
    table = write_table(tmp_path / "large.csv", ordered_texts(6_000))

    def epochs(**given: Any) -> float:
        found = prepare_task(plan(table, **given))[0].training.epochs
        assert found is not None
        return found

    half = pytest.approx(epochs() / 2, abs=0.5)
    assert epochs(batch_size=16) == epochs(batch_size=8, grad_accum=2) == half


def test_other_learning_rules_keep_plain_layers(table: Path) -> None:
    given = plan(table, learning_rule="predictive-coding", bidirectional=False)
    settings, _ = prepare_task(given)
    assert settings == given
    assert not settings.chosen


def test_a_run_says_and_records_what_was_chosen(table: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    run = unspool.train(table, out=tmp_path / "run", hidden=4, steps=2, tell=events.append)
    started = next(event for event in events if isinstance(event, Started))
    assert "pooling max" in started.plan["defaults"]
    config = tomllib.loads((run.path / "config.toml").read_text())
    assert config["model"]["pooling"] == "max"
    assert config["training"]["lr"] == choose_defaults("classify", run.task.facts())["lr"]  # type: ignore[arg-type]
    kept = read_run_config(run.path)
    assert fit_to_data(kept, run.task) is kept  # of a run, everything is given
    resumed = unspool.train(table, out=run.path, hidden=4, steps=4, resume=True, quiet=True)
    assert resumed.finished.step == 4
    assert read_run_config(run.path).model == kept.model
