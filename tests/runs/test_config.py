"""Settings from recipes, files and options: which of them hold, and every mistake at once."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

from unspool.cells import CATALOGUE
from unspool.data.vocabulary import Characters, Words
from unspool.errors import ArgumentError, DataError, UnknownNameError
from unspool.models.language_model import make_model
from unspool.runs.config import read_config, read_toml, to_sections
from unspool.runs.recipes import RECIPES
from unspool.runs.train import plan
from unspool.tasks.catalogue import TASKS, find_task
from unspool.tasks.lm import LanguageModelling

FILES = {"data": {"files": ["book.txt"]}}


def refusal(*documents: dict[str, Any]) -> list[str]:
    """The lines of what is said about documents that have mistakes."""
    with pytest.raises(ArgumentError) as caught:
        read_config(FILES, *documents)
    return str(caught.value).splitlines()


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


# ── mistakes ──


def test_five_mistakes_are_five_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'data.tokenizer = "letters"\n[model]\ncell = "lstn"\nhidden = -4\n[training]\nbtt = 3\nlr = "fast"\n',
    )
    with pytest.raises(ArgumentError) as caught:
        plan("book.txt", config=path)
    assert str(caught.value).splitlines() == [
        "5 mistakes in the settings:",
        "  `tokenizer` (='letters') should be 'char', 'byte', 'word', 'jieba', 'bpe' or 'smiles'.",
        f"  `cell` (='lstn') is not known. Did you mean 'lstm'? Known: {', '.join(sorted(CATALOGUE))}.",
        "  `hidden` (=-4) should be greater than or equal to 1.",
        "  `lr` (='fast') is not a number.",
        "  `btt` (=3) is not known. Did you mean `bptt`?",
    ]


@pytest.mark.parametrize(
    ("task", "name"), [("tag", "time_delay"), ("joint", "time_delay"), ("seq2seq", "beam_size"), ("lm", "layers")]
)
@pytest.mark.parametrize("value", [1001, 10**9, 10**30])
def test_what_costs_time_and_memory_has_a_limit(task: str, name: str, value: int) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` .={value}. should be less than or equal to 1000"):
        read_config(FILES, {"model": {name: value}}, task=task)
    assert getattr(read_config(FILES, {"model": {name: 1000}}, task=task).model, name) == 1000


def test_a_file_whose_outline_is_wrong_has_its_other_mistakes_listed_too(tmp_path: Path) -> None:
    """And nothing is said of the files: those an option may still say."""
    path = write(tmp_path, 'task = "ln"\ntraining = 3\n[modle]\n[data]\nsplit = "middle"\n[model]\nlayers = 0\n')
    with pytest.raises(ArgumentError) as caught:
        plan("book.txt", config=path)
    assert str(caught.value).splitlines() == [
        "5 mistakes in the settings:",
        "  training (=3) is not a section. Write [training].",
        "  modle is not known. Did you mean model?",
        f"  `task` (='ln') is not known. Did you mean 'lm'? Known: {', '.join(sorted(TASKS))}.",
        "  `split` (='middle') should be 'tail' or 'lines'.",
        "  `layers` (=0) should be greater than or equal to 1.",
    ]


def test_one_mistake_is_one_line_that_says_name_and_value_once() -> None:
    (line,) = refusal({"model": {"cell": "lstn"}})
    assert line.startswith("`cell` (='lstn') is not known. Did you mean 'lstm'?")


@pytest.mark.parametrize(
    ("section", "setting", "value", "said"),
    [
        ("model", "hidden", 0, "greater than or equal to 1"),
        ("model", "hidden", 1.5, "is not a whole number"),
        ("model", "zoneout", 1.0, "less than 1"),
        ("training", "batch_size", -1, "greater than or equal to 1"),
        ("training", "lr", 0.0, "greater than 0"),
        ("training", "lr", float("nan"), "finite"),
        ("training", "bptt", -8, "greater than or equal to 1, or should be 'all'"),
        ("training", "betas", [0.9], "(=[0.9]) has too few entries"),
        ("data", "validation", 1.0, "above 0 and below 1, or a list of files"),
        ("data", "validation", [], "above 0 and below 1, or a list of files"),
        ("data", "test", [3], "from 0 to below 1, or a list of files"),
        ("data", "files", [], "at least 1 item"),
    ],
)
def test_values_out_of_range(section: str, setting: str, value: Any, said: str) -> None:
    (line,) = refusal({section: {setting: value}})
    assert line.startswith(f"`{setting}` (=")
    assert said in line


def test_settings_that_do_not_go_together_are_found_beside_others_that_are_wrong_by_themselves() -> None:
    lines = refusal(
        {
            "training": {"epochs": 1.0, "steps": 3, "batch_size": 0},
            "model": {"engine": "torch", "cell": "gru", "layers": 0},
        }
    )
    assert lines == [
        "4 mistakes in the settings:",
        "  `layers` (=0) should be greater than or equal to 1.",
        "  `engine` (='torch') has no cell 'gru'. Use one of elman, elman-relu, lstm, gru-reset-after, or "
        "`engine='kernel'`.",
        "  `batch_size` (=0) should be greater than or equal to 1.",
        "  give only one of `epochs`, `steps`.",
    ]


def test_data_without_files_is_said() -> None:
    with pytest.raises(ArgumentError, match="`files` is missing. Give it"):
        read_config({})


def test_unknown_options_are_all_named() -> None:
    with pytest.raises(ArgumentError) as caught:
        to_sections({"zoneot": 0.1, "hidden": 3, "qqq": 1}, "lm")
    first, second, third = str(caught.value).splitlines()
    assert first == "2 mistakes in the settings:"
    assert second == "  `zoneot` (=0.1) is not known. Did you mean `zoneout`?"
    assert third.startswith("  `qqq` (=1) is not known. Known: activation_penalty, ")


@pytest.mark.parametrize("text", ["[model", "a = b", "\ud800"])
def test_what_is_not_toml_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(DataError, match=r"mine\.toml cannot be read: .* Give TOML"):
        read_toml(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_toml(tmp_path / "mine.toml")


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'zaremba-small'"):
        plan("book.txt", recipe="zaremba")
    with pytest.raises(UnknownNameError, match="Did you mean 'lm'"):
        plan("book.txt", task="lmm")
    assert find_task("lm") is TASKS["lm"] is LanguageModelling


# ── what holds ──


def test_options_win_over_the_config_and_that_over_the_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, "[model]\nhidden = 64\nlayers = 3\n[training]\nlr = 0.5\n")
    found = plan("book.txt", recipe="zaremba-small", config=path, hidden=32)
    assert (found.model.hidden, found.model.layers, found.model.init) == (32, 3, 0.1)
    assert (found.training.lr, found.training.clip, found.data.tokenizer) == (0.5, 5.0, "word")
    assert found.data.files == ("book.txt",)


@pytest.mark.parametrize("last", ["epochs", "steps", "minutes"])
@pytest.mark.parametrize("before", ["epochs", "steps", "minutes"])
def test_of_the_ends_of_training_the_last_said_holds(before: str, last: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"[training]\n{before} = 3\n")
    options: dict[str, Any] = {last: 5}
    found = plan("book.txt", recipe="zaremba-small", config=path, **options).training
    ends = {name: getattr(found, name) for name in ("epochs", "steps", "minutes")}
    assert ends == {name: 5 if name == last else None for name in ends}


def test_without_a_word_it_is_ten_epochs() -> None:
    found = plan("book.txt").training
    assert (found.epochs, found.steps, found.minutes) == (10.0, None, None)


def test_two_ends_said_at_once_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give only one of `epochs`, `minutes`"):
        plan("book.txt", epochs=1, minutes=1)


def test_what_is_dumped_is_read_back_the_same() -> None:
    config = plan(["/a.txt", "/b.txt"], validation=["/c.txt"], bptt="all", zoneout=0.1, betas=[0.8, 0.9], steps=3)
    document = tomllib.loads(tomli_w.dumps(config.dump()))
    assert read_config(document) == config
    assert json.loads(json.dumps(document)) == document


def test_names_of_files_are_dumped_such_that_they_hold_anywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = plan("a.txt", validation=["b/*.txt"]).dump()["data"]
    assert found["files"] == [str(tmp_path / "a.txt")]
    assert found["validation"] == [str(tmp_path / "b/*.txt")]


def test_a_run_s_own_config_serves_as_a_config_file(tmp_path: Path) -> None:
    config = plan("/a.txt", hidden=17, steps=3)
    path = write(tmp_path, tomli_w.dumps({"format": 1, **config.dump()}))
    assert plan(config=path) == config


# ── recipes ──


@pytest.mark.parametrize(
    ("recipe", "hidden", "init", "dropout", "bptt", "epochs", "clip", "decay", "after"),
    [
        ("zaremba-small", 200, 0.1, 0, 20, 13, 5, 2, 4),
        ("zaremba-medium", 650, 0.05, 0.5, 35, 39, 5, 1.2, 6),
        ("zaremba-large", 1500, 0.04, 0.65, 35, 55, 10, 1.15, 14),
    ],
)
def test_the_models_of_zaremba_et_al_have_the_settings_of_the_paper(
    recipe: str,
    hidden: int,
    init: float,
    dropout: float,
    bptt: int,
    epochs: float,
    clip: float,
    decay: float,
    after: int,
) -> None:
    """Two layers, batch 20, SGD at 1.0 on a loss that is summed over the steps."""
    found = plan("ptb.txt", recipe=recipe)
    model, training = found.model, found.training
    assert found.data.tokenizer == "word"
    assert (model.cell, model.layers, model.hidden, model.init) == ("lstm", 2, hidden, init)
    assert (model.dropout, model.variational_dropout, model.tied, model.embedding) == (dropout, False, False, None)
    assert (model.recurrent_dropout, model.weight_dropout, model.zoneout, model.embedding_dropout) == (0, 0, 0, 0)
    assert (training.batch_size, training.bptt, training.epochs, training.clip) == (20, bptt, epochs, clip)
    assert (training.optimizer, training.lr, training.momentum, training.weight_decay) == ("sgd", 1.0, 0.0, 0.0)
    assert (training.schedule, training.lr_decay, training.lr_decay_after) == ("epoch", 1 / decay, after)
    assert (training.average, training.grad_accum, training.warmup) == (None, 1, 0)
    assert training.loss_reduction == "sum-over-time"


@pytest.mark.parametrize(
    ("recipe", "words", "width", "init"), [("small", 10_000, 200, 0.1), ("medium", 900, 650, 0.05)]
)
def test_the_models_of_zaremba_et_al_have_the_parameters_of_the_paper(
    recipe: str, words: int, width: int, init: float
) -> None:
    """Embedding and head as wide as the layers, which have 4 gates; biases once, where torch.nn has them twice."""
    torch.manual_seed(0)
    vocabulary = Words(["<unk>", *map(str, range(words - 1))])
    model = make_model(vocabulary, plan("ptb.txt", recipe=f"zaremba-{recipe}").model)
    layers = 2 * 4 * (width * width + width * width + width)
    assert sum(parameter.numel() for parameter in model.parameters()) == 2 * words * width + words + layers
    for parameter in model.parameters():
        spread = init / (3 * parameter.numel()) ** 0.5  # of the mean of numbers that are uniform within ± init
        assert 0.9 * init < parameter.detach().abs().max() <= init
        assert abs(float(parameter.detach().mean())) < 6 * spread


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_without_mistakes_and_say_all_that_they_mean(recipe: str) -> None:
    found = plan("book.txt", recipe=recipe).dump()
    for section, settings in RECIPES[recipe].items():
        assert {name: found[section][name] for name in settings} == settings


def test_a_recipe_s_seed_gives_the_same_weights_again() -> None:
    settings = plan("book.txt", recipe="char-small", hidden=8).model
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(make_model(Characters(["<unk>", "a", "b"]), settings))
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "meant"), [("rate", "lr"), ("batch", "batch_size"), ("window", "bptt"), ("num_layers", "layers")]
)
def test_names_from_elsewhere_are_suggested(name: str, meant: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` .* is not known. Did you mean `{meant}`"):
        plan("book.txt", **dict[str, Any]({name: 3}))


def test_a_setting_outside_its_section_is_told_where_it_belongs(tmp_path: Path) -> None:
    path = write(tmp_path, 'hidden = 32\nbatch_size = 4\ndata = "book.txt"\n')
    with pytest.raises(ArgumentError) as caught:
        plan("book.txt", config=path)
    assert str(caught.value).splitlines()[1:] == [
        "  hidden belongs in the section [model].",
        "  batch_size belongs in the section [training].",
        "  data (='book.txt') is not a section. Write [data].",
    ]
