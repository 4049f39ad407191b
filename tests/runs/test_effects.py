"""Settings that nothing reads are refused where someone says them, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from unspool.errors import ArgumentError
from unspool.runs.effects import find_ineffective
from unspool.runs.train import plan, train
from unspool.settings.catalogue import TASK_SETTINGS, TaskSettings

BAG: dict[str, Any] = {"backbone": "bag"}
NUMBERS: dict[str, Any] = {"id_column": "id"}


def idle(task: str, **options: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        plan("data", task=task, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("task", "options", "setting", "where", "remedy"),
    [
        (
            "classify",
            {"teacher_forcing": "never"},
            "teacher_forcing",
            "`task` is classify",
            "give `task` lm or seq2seq",
        ),
        (
            "seq2seq",
            {"baselines": True},
            "baselines",
            "`task` is seq2seq",
            "lm, classify, multilabel, regress, tag, joint or forecast",
        ),
        ("classify", {**BAG, "layers": 2}, "layers", "`backbone` is bag", "give `backbone` recurrent"),
        ("classify", {**BAG, "cell": "lstm"}, "cell", "`backbone` is bag", "give `backbone` recurrent"),
        ("regress", {**BAG, "zoneout": 0.1}, "zoneout", "`backbone` is bag", "give `backbone` recurrent"),
        ("regress", {"backbone": "cnn", "bidirectional": False}, "bidirectional", "`backbone` is cnn", "recurrent"),
        (
            "forecast",
            {"backbone": "fcn", "activation_penalty": 1},
            "activation_penalty",
            "`backbone` is fcn",
            "recurrent",
        ),
        ("tag", {"backbone": "mlp", "layers": 2}, "layers", "`backbone` is mlp", "give `backbone` recurrent"),
        ("lm", {"backbone": "mlp", "engine": "torch"}, "engine", "`backbone` is mlp", "give `backbone` recurrent"),
        ("lm", {"residual": True}, "residual", "`layers` is 1", "change `layers`"),
        ("lm", {"variational_dropout": True}, "variational_dropout", "`dropout` is 0.0", "change `dropout`"),
        ("lm", {"forget_bias": 1.0, "init": 0.1}, "forget_bias", "`init` is 0.1", "`init`"),
        ("lm", {"split_seed": 3}, "split_seed", "`split` is tail", "give `split` lines"),
        ("classify", {"tokenizer": "char", "subwords": 9}, "subwords", "`tokenizer` is char", "auto, word or jieba"),
        ("regress", {"tokenizer": "bpe", "word_dropout": 0.1}, "word_dropout", "`tokenizer` is bpe", "`tokenizer`"),
        ("classify", {"time_column": "t"}, "time_column", "`id_column` is not given", "give `id_column`"),
        ("regress", {"features": ["u"]}, "features", "`id_column` is not given", "give `id_column`"),
        ("classify", {**NUMBERS, "tokenizer": "word"}, "tokenizer", "`id_column` is id", "change `id_column`"),
        ("classify", {**NUMBERS, "embedding": 8}, "embedding", "`id_column` is id", "change `id_column`"),
        ("lm", {"lr_decay": 0.5}, "lr_decay", "`schedule` is linear", "give `schedule` epoch or plateau"),
        (
            "lm",
            {"schedule": "constant", "min_lr_ratio": 0.1},
            "min_lr_ratio",
            "`schedule` is constant",
            "linear or cosine",
        ),
        ("lm", {"ema_decay": 0.99}, "ema_decay", "`average` is not given", "give `average` ema"),
        ("lm", {"average": "ema", "swa_start": 0.1}, "swa_start", "is ema", "swa"),
        ("classify", {"loss_reduction": "sum-over-time"}, "loss_reduction", "is classify", "lm"),
        ("lm", {"optimizer": "sgd", "betas": [0.9, 0.9]}, "betas", "`optimizer` is sgd", "adamw or adam"),
        ("lm", {"momentum": 0.9}, "momentum", "`optimizer` is adamw", "give `optimizer` sgd"),
        (
            "lm",
            {"teacher_forcing_end": 0.5},
            "teacher_forcing_end",
            "`teacher_forcing` is always",
            "change `teacher_forcing`",
        ),
    ],
)
def test_what_is_said_in_vain(task: str, options: dict[str, Any], setting: str, where: str, remedy: str) -> None:
    found = idle(task, **options)
    assert found.startswith(f"`{setting}` (={options[setting]!r}) has no effect where ")
    assert where in found
    assert f"Leave it out, or {remedy}" in found or remedy in found.partition("Leave it out, or ")[2]


def test_all_of_it_is_said_at_once() -> None:
    first, *rest = idle(
        "classify", backbone="bag", layers=2, zoneout=0.1, lr_decay=0.9, teacher_forcing_end=0.3
    ).splitlines()
    assert first == "4 mistakes in the settings:"
    assert [line.split("`")[1] for line in rest] == ["layers", "zoneout", "lr_decay", "teacher_forcing_end"]


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("lm", {"teacher_forcing": "linear", "teacher_forcing_end": 0.3}),
        ("lm", {"layers": 2, "residual": True}),
        ("lm", {"forget_bias": 1.0}),
        ("lm", {"schedule": "epoch", "lr_decay": 0.9, "lr_decay_after": 2}),
        ("lm", {"optimizer": "sgd", "momentum": 0.9}),
        ("lm", {"residual": False, "momentum": 0.0, "variational_dropout": False}),  # off, as asked
        ("classify", {**BAG, "hidden": 9, "embedding": 5, "dropout": 0.0}),
        ("regress", BAG),  # whose defaults have layers and dropout
        ("classify", {**NUMBERS, "time_column": "t", "features": ["u"]}),
        ("forecast", {"time_column": "t", "bidirectional": False, "ema_decay": 0.9}),
        ("forecast", {"backbone": "cnn", "dropout": 0.1}),
        ("tag", {"backbone": "mlp", "cell": "gru", "dropout": 0.1}),
    ],
)
def test_what_something_reads(task: str, options: dict[str, Any]) -> None:
    assert plan("data", task=task, **options).task.name == task


def test_an_option_may_choose_otherwise_than_a_recipe() -> None:
    """The recipe says a decay for its own schedule."""
    assert plan("data", recipe="zaremba-small", schedule="linear").training.lr_decay == 0.5


def test_a_file_is_judged_but_for_what_is_so_anyway(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    whole = plan("data", task="regress", backbone="bag").dump()
    file.write_text(tomli_w.dumps(whole), encoding="utf-8")
    assert plan("data", config=file).dump() == whole
    file.write_text('task = "regress"\n[model]\nbackbone = "bag"\nlayers = 3\n', encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"`layers` \(=3\) has no effect where `backbone` is bag"):
        plan("data", config=file)


@pytest.mark.parametrize("task", TASK_SETTINGS.values(), ids=list(TASK_SETTINGS))
def test_rules_name_settings_that_there_are(task: TaskSettings) -> None:
    known = {name for section in task.sections.values() for name in section.model_fields} | {"task"}
    for section in task.sections.values():
        for effect in section.effects:
            assert {*effect.settings, effect.other} <= known
    assert find_ineffective([{}], task) == []


def test_to_go_on_and_to_begin_anew_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="`overwrite` .* replaces a run, and `resume` continues one"):
        train(out=tmp_path / "run", resume=True, overwrite=True)


# ── settings of other tasks ──


@pytest.mark.parametrize(
    ("task", "setting", "value", "owners"),
    [
        ("classify", "lookback", 4, "forecast"),
        ("lm", "crf", True, "tag, joint"),
        ("lm", "pooling", "last", "classify, multilabel, regress, joint"),
        ("seq2seq", "season", 3, "forecast"),
    ],
)
def test_a_setting_of_another_task_is_called_so(
    task: str, setting: str, value: Any, owners: str, tmp_path: Path
) -> None:
    said = f"is not a setting of {task}, but of {owners}."
    assert idle(task, **{setting: value}) == f"`{setting}` (={value!r}) {said}"
    section = str(TASK_SETTINGS[owners.split(", ")[0]].section_of(setting))
    file = tmp_path / "mine.toml"
    file.write_text(tomli_w.dumps({section: {setting: value}}), encoding="utf-8")
    assert idle(task, config=file) == f"`{setting}` (={value!r}) {said}"


def test_both_of_a_pair_wrong_in_the_same_way_is_said_once() -> None:
    assert idle("lm", betas=[1.5, 2.0]) == "`betas` (=[1.5, 2.0]) should be less than 1."


# ── guesses ──


def test_an_error_about_data_tells_the_guess(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("text,label\n" + "a,x\n" * 9, encoding="utf-8")
    with pytest.raises(ArgumentError) as caught:
        train(file, out=tmp_path / "run")
    assert str(caught.value).endswith(
        "It was taken for classify because `label` of t.csv holds labels; give `task` to choose."
    )
    with pytest.raises(ArgumentError) as caught:
        train(file, out=tmp_path / "run", task="classify")
    assert "taken for" not in str(caught.value)


def test_a_missing_file_is_no_guess(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        train(tmp_path / "none.txt", out=tmp_path / "run")
    assert "there is no file" in str(caught.value)
    assert "taken for" not in str(caught.value)
