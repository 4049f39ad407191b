"""unspool train: what it refuses, which settings hold, what it plans, and what programs read of it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.calling import call, refused
from tests.runs.tiny_run import TEXT, TinyRun, content

from unspool.runs.config import Config
from unspool.runs.names import free_name
from unspool.runs.train import plan
from unspool.storage.run import FORMAT

pytestmark = pytest.mark.usefixtures("own_cache")

SMALL = ["--engine", "torch", "--hidden", "8", "--batch-size", "4", "--bptt", "8", "--steps", "6", "--eval-every", "3"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in, with a text and many files that are none."""
    files = {
        "book.txt": TEXT.encode(),
        "empty.txt": b"",
        "binary.txt": b"PNG" + bytes(100),
        "line.txt": b"just one line, and not even an end",
        "five.toml": b'data.tokenizer = "x"\n[model]\ncell = "lstn"\nhidden = -1\n[training]\nbatch_size = 0\nlrr = 1',
        "broken.toml": b"[model",
    }
    for name, raw in files.items():
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "nothing").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unspool.tasks.lm.SAMPLE", 20)
    return tmp_path


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a command would train, in place of training it."""
    found: list[Config] = []

    def pretend(source: Any, tell: Any, out: Any, resume: Any, overwrite: Any, watch: Any, **options: Any) -> Any:
        found.append(plan(source, **options))
        return SimpleNamespace(finished=SimpleNamespace(reason="done"))

    monkeypatch.setattr("unspool.cli.train.run_training", pretend)

    def settings_of(*arguments: object) -> Config:
        assert call("train", "book.txt", *arguments) == 0
        return found.pop()

    return settings_of


# ── bad input ──


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["empty.txt"], "empty.txt has 0 character(s). Give text"),
        (["binary.txt"], "binary.txt is not text: byte 3 is zero. Text is read in UTF-8, UTF-16, GB18030 and Windows"),
        (["line.txt"], "30 tokens are too few for --batch-size 32. Give more text, or a smaller"),
        (
            ["line.txt", "--batch-size", "2"],
            "--bptt (=64) is longer than the text: 30 characters in a batch of 2 are 14 steps",
        ),
        (["line.txt", "--tokenizer", "word"], "8 token(s) to train on and 0 to validate on are too few"),
        (["bok.txt"], "there is no file bok.txt. "),
        (["nothing"], "the folder nothing has no *.txt file and no other data in it"),
        (["*.text"], "there is no file *.text"),
        ([], "FILE (=None) is missing. Give text"),
        (["book.txt", "--cell", "lstn"], "--cell (='lstn') is not known. Did you mean 'lstm'?"),
        (["book.txt", "--task", "ln"], "--task (='ln') is not known. Did you mean 'lm'?"),
        (["book.txt", "--recipe", "char-smal"], "Did you mean 'char-small'?"),
        (["book.txt", "--tokenizer", "letters"], "--tokenizer (='letters') should be 'char', 'byte'"),
        (["book.txt", "--set", "zoneot=0.1"], "`zoneot` (=0.1) is not known. Did you mean --zoneout?"),
        (["book.txt", "--set", "zoneout"], "--set (='zoneout') has no =. Give NAME=VALUE"),
        (["book.txt", "--set", "=3"], "--set (='=3') has no name before its =. Give NAME=VALUE"),
        (["book.txt", "--set", "out=here"], "--set (='out=here') is not a setting"),
        (["book.txt", "--hiden", "3"], "No such option: --hiden. Did you mean --hidden?"),
        (["book.txt", "--rate", "3"], "No such option: --rate. Did you mean --lr?"),
        (["book.txt", "--batch", "3"], "No such option: --batch. Did you mean --batch-size?"),
        (["book.txt", "--one-way"], "No such option: --one-way. Did you mean --no-bidirectional?"),
        (["book.txt", "--hidden", "many"], "--hidden (='many') is not a whole number"),
        (["book.txt", "--hidden", "-3"], "--hidden (=-3) should be greater than or equal to 1"),
        (["book.txt", "--batch-size", "0"], "--batch-size (=0) should be greater than or equal to 1"),
        (["book.txt", "--lr", "-1"], "--lr (=-1) should be greater than 0"),
        (["book.txt", "--vocab-size", "-5"], "--vocab-size (=-5)"),
        (["book.txt", "--bptt", "-8"], "--bptt (=-8) should be greater than or equal to 1"),
        (["book.txt", "--bptt", "²"], "--bptt (='²') is not a whole number"),
        (["book.txt", "--bptt=--8"], "--bptt (='--8') is not a whole number"),
        (["book.txt", "--bptt", "5000"], "--bptt (=5000) is longer than the text: 5,994 characters in a batch of 32"),
        (["book.txt", "--batch-size", "9000"], "5,994 tokens are too few for --batch-size 9000"),
        (["book.txt", "--vocab-size", "1"], "--vocab-size (=1) is too small: char needs 2 at least. Give more"),
        (
            ["book.txt", "--vocab-size", "9", "--tokenizer", "bpe"],
            "--vocab-size (=9) is too small: bpe needs 256 at least",
        ),
        (["book.txt", "--vocab-size", "9", "--tokenizer", "byte"], "--vocab-size (=9) is not 256, the number of bytes"),
        (
            ["book.txt", "--validation", "1.5"],
            "--validation (=1.5) is neither a fraction of the data nor a list of files. Give a number above 0 and",
        ),
        (["book.txt", "--validation", "0"], "--validation (=0) is neither a fraction of the data nor"),
        (["book.txt", "--test", "-0.1"], "--test (=-0.1) is neither a fraction of the data nor a list"),
        (["book.txt", "--validation", "0.5", "--test", "0.5"], "leave nothing to train on"),
        (["book.txt", "--validation", "nowhere.txt"], "there is no file nowhere.txt"),
        (["book.txt", "--validation", "book.txt"], "all of the text's files are in --validation"),
        (["book.txt", "--steps", "3", "--epochs", "1"], "give only one of --epochs, --steps"),
        (["book.txt", "--engine", "torch", "--cell", "gru"], "--engine (='torch') has no cell 'gru'. Use one of"),
        (["book.txt", "--config", "none.toml"], "none.toml cannot be read"),
        (["book.txt", "--config", "broken.toml"], "broken.toml cannot be read"),
        (["book.txt", "--config", "book.txt"], "book.txt cannot be read"),
        (["book.txt", "--out", "empty.txt"], "--out (='empty.txt') is a file. Give a folder"),
        (["book.txt", "--cell", "gru,lstm"], "is several names in one. Give one per layer: --cell gru --cell lstm"),
        (["book.txt", "--nproc", "0"], "--nproc"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    arguments: list[str], said: str, folder: Path, capsys: Capture
) -> None:
    before = content(folder)
    text = refused(capsys, "train", *arguments)
    assert said in text
    for option in ("--dry-run", "--lr-find"):
        assert said in refused(capsys, "train", *arguments, option)
    assert content(folder) == before
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(("command", "word"), [("evaluate", "--batch"), ("generate", "--force"), ("plan", "--rate")])
def test_no_option_is_suggested_that_the_command_does_not_have(command: str, word: str, capsys: Capture) -> None:
    text = refused(capsys, command, "book.txt", word, "3").partition(f"No such option: {word}")[2]
    assert text and not re.search("--batch-size|--overwrite|--lr", text)  # noqa: PT018 - one thought


def test_five_mistakes_of_a_config_are_listed(folder: Path, capsys: Capture) -> None:
    text = refused(capsys, "train", "book.txt", "--config", "five.toml", "--out", "run")
    assert "5 mistakes in the settings:" in text
    for name in ("--tokenizer", "--cell", "--hidden", "--batch-size", "`lrr`"):
        assert f"\n  {name}" in text
    assert not (folder / "run").exists()


def test_a_folder_that_exists_is_refused(tiny_run: TinyRun, folder: Path, capsys: Capture) -> None:
    shutil.copytree(tiny_run.path, "run")
    before = content(folder)
    said = refused(capsys, "train", "book.txt", "--out", "run", *SMALL)
    assert "--out (='run') exists. Give another, resume it with --resume, or replace it with --overwrite." in said
    assert "exists" in refused(capsys, "train", "book.txt", "--out", "run", "--dry-run", *SMALL)
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("years", encoding="utf-8")
    said = refused(capsys, "train", "book.txt", "--out", "mine", "--overwrite", *SMALL)
    assert "--out (='mine') exists and is not the folder of a run" in said
    assert content(folder) == before | {"mine/thesis.txt": b"years"}


def test_force_begins_anew_and_leaves_other_files_alone(tiny_run: TinyRun, folder: Path) -> None:
    shutil.copytree(tiny_run.path, "run")
    (folder / "run" / "notes.txt").write_text("mine", encoding="utf-8")
    assert call("train", "book.txt", "--out", "run", "--overwrite", "--quiet", *SMALL) == 0
    assert "hidden = 8" in (folder / "run" / "config.toml").read_text(encoding="utf-8")
    kept = {path.name for path in (folder / "run" / "checkpoints").iterdir()}
    assert kept == {"step-000000003.safetensors", "step-000000006.safetensors"}
    assert (folder / "run" / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("command", ["train --resume", "generate", "evaluate"])
@pytest.mark.parametrize("kind", ["missing", "a folder", "a file", "newer", "not a config", "five mistakes"])
def test_what_is_not_a_run_is_refused(
    command: str, kind: str, tiny_run: TinyRun, folder: Path, capsys: Capture
) -> None:
    shutil.copytree(tiny_run.path, "run")
    config = folder / "run" / "config.toml"
    text = config.read_text(encoding="utf-8")
    path, said = "run", ""
    if kind == "missing":
        path, said = "runs/none", "there is no run runs/none. Give the folder of a run."
    elif kind == "a folder":
        path, said = "nothing", "nothing is not the folder of a run: it has no config.toml."
        said = said if "resume" not in command else "the folder nothing has no *.txt file and no other data in it"
    elif kind == "a file":
        path, said = "empty.txt", "there is no run empty.txt." if "resume" not in command else "empty.txt has 0"
    elif kind == "newer":
        config.write_text(text.replace(f"format = {FORMAT}", "format = 99"), encoding="utf-8")
        said = f"run was written by a newer unspool (format 99; this one reads {FORMAT}). Update unspool."
    elif kind == "not a config":
        config.write_text("[model", encoding="utf-8")
        said = "config.toml cannot be read"
    else:
        text = text.replace('cell = "lstm"', 'cell = "lstn"').replace("hidden = 12", "hidden = 0\nzonout = 1")
        text = text.replace("batch_size = 4", "batch_size = -4").replace('tokenizer = "char"', 'tokenizer = "runes"')
        config.write_text(text, encoding="utf-8")
        said = "5 mistakes in the settings"
    before = content(folder)
    name, *options = command.split()
    assert said in refused(capsys, name, path, *options)
    assert content(folder) == before


@pytest.mark.parametrize("size", [0, 9, 2000, -1])
def test_truncated_checkpoints_are_refused(size: int, tiny_run: TinyRun, folder: Path, capsys: Capture) -> None:
    shutil.copytree(tiny_run.path, "run")
    paths = sorted((folder / "run" / "checkpoints").iterdir())
    for path in paths:
        path.write_bytes(path.read_bytes()[:size])
    before = content(folder)
    said = refused(capsys, "train", "run", "--resume")
    assert f"none of the {len(paths)} checkpoint(s) of run can be read: " in said
    assert "Start again with --overwrite." in said
    assert content(folder) == before


def test_a_run_that_goes_on_takes_no_settings(tiny_run: TinyRun, folder: Path, capsys: Capture) -> None:
    shutil.copytree(tiny_run.path, "run")
    assert "--hidden is 12 in the run and 3 here" in refused(capsys, "train", "run", "--resume", "--hidden", "3")
    assert "FILE (=None) is missing. Give the run folder" in refused(capsys, "train", "--resume")
    assert "more than one run" in refused(capsys, "train", "run", "run", "--resume")


def test_data_that_is_gone_or_other_ends_a_resumption(tiny_run: TinyRun, folder: Path, capsys: Capture) -> None:
    assert call("train", "book.txt", "--out", "run", "--quiet", *SMALL) == 0
    (folder / "book.txt").write_text(TEXT + "more", encoding="utf-8")
    assert "the data has changed since the run was started" in refused(capsys, "train", "run", "--resume")
    (folder / "book.txt").unlink()
    assert f"there is no file {folder / 'book.txt'}" in refused(capsys, "train", "run", "--resume")


def test_an_error_of_the_machine_is_1_and_not_a_trace(capsys: Capture) -> None:
    assert call("generate", "x" * 300) == 1
    assert "error: [Errno 36] File name too long" in capsys.readouterr().err


@pytest.mark.parametrize(("variables", "coloured"), [(["FORCE_COLOR"], True), (["FORCE_COLOR", "NO_COLOR"], False)])
def test_colours(variables: list[str], coloured: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name in variables:
        monkeypatch.setenv(name, "1")
    assert ("\x1b[31m" in refused(capsys, "train", "empty.txt")) == coloured


# ── settings ──


def test_options_win_over_the_config_and_that_over_the_recipe(settings: Any, folder: Path) -> None:
    (folder / "mine.toml").write_text("[model]\nhidden = 64\nlayers = 3\n[training]\nminutes = 2\n", encoding="utf-8")
    found = settings("--recipe", "zaremba-small", "--config", "mine.toml", "--hidden", "32")
    assert (found.model.hidden, found.model.layers, found.training.clip) == (32, 3, 5.0)
    assert (found.training.epochs, found.training.minutes) == (None, 2.0)
    found = settings("--recipe", "zaremba-small", "--config", "mine.toml", "--steps", "7")
    assert (found.training.steps, found.training.minutes, found.training.epochs) == (7, None, None)


@pytest.mark.parametrize(
    ("said", "section", "name", "value"),
    [
        ("zoneout=0.1", "model", "zoneout", 0.1),
        ("tied=true", "model", "tied", True),
        ("betas=[0.5, 0.6]", "training", "betas", (0.5, 0.6)),
        ("teacher_forcing='linear'", "training", "teacher_forcing", "linear"),
        (
            "teacher_forcing=linear",
            "training",
            "teacher_forcing",
            "linear",
        ),  # a word may go without quotes, which shells take away
        (" save_total_limit = 5 ", "training", "save_total_limit", 5),
        ("eval_limit=1_000", "training", "eval_limit", 1000),
        ("init=1e-2", "model", "init", 0.01),
    ],
)
def test_set_takes_values_as_toml_has_them(said: str, section: str, name: str, value: Any, settings: Any) -> None:
    assert getattr(getattr(settings("--set", said), section), name) == value


def test_every_option_reaches_its_setting(settings: Any, folder: Path) -> None:
    words = """--tokenizer byte --vocab-size 256 --split lines --validation 0.2 --test a.txt --test b.txt --cell gru
        --hidden 3 --layers 4 --embedding 5 --tied --dropout 0.1 --init orthogonal --forget-bias 2
        --engine kernel --epochs 6 --batch-size 7 --bptt all
        --optimizer sgd --lr 0.8 --schedule cosine --warmup 9 --clip 10 --average swa --patience 11
        --eval-every 12 --seed 13"""
    found = settings(*words.split()).dump()
    assert found["data"]["files"] == [str(folder / "book.txt")]
    expected: dict[str, dict[str, Any]] = {
        "data": {"tokenizer": "byte", "vocab_size": 256, "split": "lines", "validation": 0.2},
        "model": {
            **{"cell": "gru", "hidden": 3, "layers": 4, "embedding": 5, "tied": True, "dropout": 0.1},
            **{"init": "orthogonal", "forget_bias": 2.0},
        },
        "training": {
            **{"epochs": 6.0, "batch_size": 7, "bptt": "all", "optimizer": "sgd", "lr": 0.8, "schedule": "cosine"},
            **{"warmup": 9, "clip": 10.0, "average": "swa", "patience": 11, "eval_every": 12, "seed": 13},
        },
    }
    for section, values in expected.items():
        assert {name: found[section][name] for name in values} == values


@pytest.mark.parametrize(
    ("stem", "expected"), [("book", "runs/book-2"), ("*", "runs/run"), ("", "runs/run"), ("..", "runs/run")]
)
def test_names_of_runs(stem: str, expected: str, folder: Path) -> None:
    (folder / "runs" / "book").mkdir(parents=True)
    assert free_name(stem) == Path(expected)


# ── rehearsals ──


def test_a_dry_run_says_what_would_be_and_writes_nothing(folder: Path, capsys: Capture) -> None:
    before = content(folder)
    assert call("train", "book.txt", "--dry-run", "--out", "run", *SMALL) == 0
    lines = dict(re.findall(r"^(\w+) +(.+)$", capsys.readouterr().out, re.MULTILINE))
    size = len(set(TEXT)) + 1
    parameters = size * 8 + 4 * (8 * 8 + 8 * 8 + 2 * 8) + size * 8 + size
    assert lines["parameters"] == f"{parameters:,}"
    assert lines["data"] == "5,994 for training, 666 for validation (characters)"
    assert lines["model"] == "1 × 8 lstm (torch.nn)"
    assert lines["training"] == "adamw at 0.003 (linear), batch size 4 × 8 steps, 6 updates"
    assert re.fullmatch(r"about \d+ MB for training", lines["memory"])
    assert re.fullmatch(r"about \d+\.\d min for 6 updates, without evaluations", lines["time"])
    assert re.fullmatch(r"[\d,]+ characters/s, measured", lines["speed"])
    assert content(folder) == before


def test_a_rate_is_suggested_and_nothing_written(folder: Path, capsys: Capture) -> None:
    before = content(folder)
    assert call("train", "book.txt", "--lr-find", *SMALL) == 0
    *tried, last = capsys.readouterr().out.splitlines()
    rates = [float(line.split()[0]) for line in tried]
    assert rates == sorted(rates)
    found = re.fullmatch(r"Suggested: --lr (\S+)", last)
    assert found is not None
    assert 1e-4 < float(found[1]) < 1
    assert content(folder) == before


# ── what is said ──


def test_json_lines(folder: Path, capsys: Capture) -> None:
    assert call("train", "book.txt", "--out", "run", "--json", *SMALL) == 0
    said = capsys.readouterr()
    events = [json.loads(line) for line in said.out.splitlines()]
    assert said.err == ""
    assert events[0]["event"] == "started"
    assert events[-1]["event"] == "finished"
    assert [event["step"] for event in events if event["event"] == "evaluated"] == [3, 6]
    assert events[0]["parameters"] > 0
    assert events[-1]["step"] == 6
    assert events[-1]["run"] == "run"
    assert events[-1]["validation"]["loss"] > 0
    assert {"uniform", "unigram", "5-gram"} == set(events[-1]["baselines"])


def test_quiet_says_nothing_and_a_pipe_gets_plain_lines(folder: Path, capsys: Capture) -> None:
    assert call("train", "book.txt", "--out", "run", "--quiet", *SMALL) == 0
    assert capsys.readouterr() == ("", "")
    assert call("train", "book.txt", *SMALL) == 0
    said = capsys.readouterr().out
    assert (folder / "runs" / "book" / "MODEL_CARD.md").is_file()
    assert "\x1b" not in said
    assert said.startswith("started runs/book · lm · ")
    assert "unspool generate runs/book" in said
    assert "unspool train --config runs/book/config.toml" in said


def test_a_run_that_is_interrupted_leaves_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = SimpleNamespace(finished=SimpleNamespace(reason="interrupted"))
    monkeypatch.setattr("unspool.cli.train.run_training", lambda *_, **__: interrupted)
    assert call("train", "book.txt", "--quiet") == 130


@pytest.mark.parametrize("command", ["train", "evaluate", "generate", "demo"])
def test_help_has_examples_and_fits_80_columns(command: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    assert call(command, "--help") == 0
    text = capsys.readouterr().out
    assert len(re.findall(rf"• .*unspool {command}", text)) >= 2
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…│" not in text.replace(" ", "")


@pytest.mark.parametrize("name", ["tell", "watch", "out", "resume"])
def test_what_is_no_setting_cannot_be_set(name: str, folder: Path, capsys: Capture) -> None:
    assert "is not a setting" in refused(capsys, "train", folder / "book.txt", "--set", f"{name}=1")
