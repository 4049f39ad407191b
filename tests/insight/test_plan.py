"""plan: what is proposed for data whose memory is known, for every task; training takes every proposal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unspool.cells import LSTM
from unspool.errors import ArgumentError, DataError
from unspool.insight import probe
from unspool.insight.measures.depth import optimal_depth
from unspool.insight.plan import Plan, plan
from unspool.runs.train import plan as read_settings


@pytest.fixture(autouse=True)
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that has learned nothing: what it could see is tested elsewhere."""
    monkeypatch.setattr(probe, "STEPS", 3)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def trained_terms(path: Path, **options: Any) -> Any:
    """What training takes where nothing else is given."""
    config = read_settings(path, **options)
    return config.task.prepare(config.data, 0).terms  # type: ignore[attr-defined]


def proposed(found: Plan) -> dict[str, Any]:
    return {one.setting: one.value for one in found.proposals}


def delayed(steps: int, lag: int) -> str:
    """Letters of which each is most likely what stood `lag` before."""
    chance = np.random.default_rng(0)
    ids = chance.integers(0, 4, steps)
    for step in range(lag, steps):
        if chance.random() < 0.7:
            ids[step] = ids[step - lag]
    return "".join("abcd"[one] for one in ids)


def series(steps: int, seed: int = 0) -> str:
    wave = np.tile(np.random.default_rng(1).normal(size=30), steps // 30 + 1)[:steps]
    values = wave + 0.2 * np.random.default_rng(seed).normal(size=steps)
    return "time,value\n" + "".join(f"{step},{value:.4f}\n" for step, value in enumerate(values))


def test_noise_needs_no_memory_and_baselines(tmp_path: Path) -> None:
    letters = "".join("abcd"[one] for one in np.random.default_rng(0).integers(0, 4, 6000))
    found = plan(write(tmp_path / "noise.txt", letters))
    assert (found.task, found.memory, found.unit, found.sequences, found.steps) == ("lm", 0, "characters", 1, 5400)
    assert proposed(found) == {"cell": "gru", "layers": 1, "bptt": 64, "baselines": True}
    assert "gain more than chance" in found.reason


def test_a_long_memory_needs_an_lstm_and_bptt_over_twice_as_many_steps(tmp_path: Path) -> None:
    found = plan(write(tmp_path / "far.txt", delayed(8000, 50)), limit=90)
    assert found.memory == 50
    chosen = proposed(found)
    assert chosen["cell"] == "lstm"
    assert chosen["bptt"] == 104
    tau = -1 / math.log(1 / (1 + math.exp(-chosen["forget_bias"])))
    assert tau == pytest.approx(math.sqrt(50), rel=0.05)
    best = optimal_depth(2 / (1 + math.log10(50)), 1 - 0.3 * (1000 / 7200) ** 0.2)
    assert chosen["layers"] == max(1, round(best) - 1)
    assert f"N* = {best:.1f}" in next(one.reason for one in found.proposals if one.setting == "layers")
    assert found.settings == chosen
    assert list(chosen) == ["cell", "layers", "forget_bias", "bptt"]
    assert found.source == (f"{tmp_path}/far.txt",)


def test_a_short_text_gets_smaller_batches(tmp_path: Path) -> None:
    path = write(tmp_path / "short.txt", delayed(1000, 3))
    assert proposed(plan(path))["batch_size"] == 899 // 64
    chosen = proposed(plan(path, batch_size=30))
    assert "batch_size" not in chosen
    assert chosen["bptt"] == 899 // 30
    tiny = proposed(plan(write(tmp_path / "tiny.txt", "abcabcabca" * 2)))
    assert (tiny["bptt"], tiny["batch_size"]) == (17, 1)


def test_what_is_given_is_not_proposed_but_kept_in_the_settings(tmp_path: Path) -> None:
    path = write(tmp_path / "a b.txt", delayed(4000, 6))
    found = plan(path, task="lm", cell="elman", tokenizer="byte", layers=3, residual=True, zoneout=0.1)
    assert {"cell", "layers", "forget_bias"}.isdisjoint(proposed(found))  # elman has no gates
    given = {"cell": "elman", "tokenizer": "byte", "layers": 3, "residual": True, "zoneout": 0.1}
    assert found.settings == {"task": "lm", **given, **proposed(found)}
    assert found.guessed == ""
    last = str(found).splitlines()[-1]
    assert last.startswith(f"unspool.train({str(path)!r}, task='lm', cell='elman', tokenizer='byte', layers=3, ")
    assert "--" not in str(found)
    assert repr(found).startswith(f"Plan(task='lm', memory={found.memory}, settings={{'task': 'lm', 'cell': 'elman'")
    assert "forget_bias" not in proposed(plan(path, engine="torch", cell="lstm"))


def labelled() -> str:
    chance = np.random.default_rng(0)
    words = ["red", "green", "blue", "hot", "cold"]
    rows = [" ".join(words[one] for one in chance.integers(0, 5, 8)) + f",{'xy'[n % 2]}" for n in range(80)]
    return "text,label\n" + "\n".join(rows) + "\n"


TASKS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "classify": ("a.csv", labelled(), "words", {}),
    "regress": (
        "a.csv",
        "smiles,value\n" + "".join(f"{'C' * (n % 5 + 2)}O,{n / 3}\n" for n in range(60)),
        "tokens",
        {},
    ),
    "tag": ("a.conll", "the O\ncat B-x\nsat O\non O\n\n" * 30, "words", {}),
    "seq2seq": ("a.tsv", "".join(f"{n:04d}\t{n * 7 % 10000:04d}\n" for n in range(90)), "characters", {}),
    "forecast": ("a.csv", series(600), "steps", {"horizon": 5}),
}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_guessed_read_and_advised(task: str, tmp_path: Path) -> None:
    name, text, unit, options = TASKS[task]
    path = write(tmp_path / name, text)
    found = plan(path, **options)
    assert (found.task, found.unit) == (task, unit)
    assert found.guessed
    assert "bptt" not in proposed(found)
    accepted = read_settings(path, **options, **proposed(found))
    assert accepted.model.cell == proposed(found)["cell"]
    assert accepted.task.prepare(accepted.data, 0) is not None


def test_numbers_in_long_form(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    rows = [(n, t, v, "ab"[n % 2]) for n in range(40) for t, v in enumerate(chance.normal(size=30).cumsum())]
    path = write(tmp_path / "long.csv", "id,t,v,label\n" + "".join(f"{n},{t},{v:.5f},{c}\n" for n, t, v, c in rows))
    found = plan(path, task="classify", id_column="id", time_column="t", label_column="label")
    assert found.dependence.measure == "autocorrelation"
    assert (found.sequences, found.steps) == (36, 36 * 30)
    assert found.dependence.memory >= 3
    assert found.memory == 30
    expected = {"task": "classify", "id_column": "id", "time_column": "t", "label_column": "label"}
    assert {name: found.settings[name] for name in expected} == expected


def test_a_forecast_looks_back_as_far_as_the_season(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", series(900))
    found = plan(path, horizon=5)
    assert found.dependence.repeats
    assert found.memory == 30
    assert proposed(found)["lookback"] == 60 == trained_terms(path, horizon=5).lookback
    assert found.settings["horizon"] == 5
    assert "repeats itself" in found.reason


def test_a_chain_asks_for_a_short_look_back_though_its_correlation_is_long(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    values = [0.0]
    for noise in chance.normal(size=1999):
        values.append(0.99 * values[-1] + float(noise))
    path = write(tmp_path / "chain.csv", "time,y\n" + "".join(f"{t},{y:.4f}\n" for t, y in enumerate(values)))
    found = plan(path)
    assert found.dependence.memory > 12  # by the autocorrelation alone
    assert found.memory == 1  # given its last value, a chain owes nothing to those before it
    assert (proposed(found)["horizon"], proposed(found)["lookback"]) == (12, 12)
    assert trained_terms(path).season == 1


def test_a_look_back_is_twice_the_memory_and_one_that_is_given_limits_it(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=900)
    for step in range(20, 900):
        values[step] += 0.8 * values[step - 20]
    path = write(tmp_path / "far.csv", "time,y\n" + "".join(f"{t},{y:.4f}\n" for t, y in enumerate(values)))
    found = plan(path, season=1)
    assert (found.memory, proposed(found)["lookback"]) == (20, 40)
    assert next(one.reason for one in found.proposals if one.setting == "lookback") == "Twice the memory of 20."
    found = plan(path, lookback=15)
    assert found.memory == 15
    assert "A prediction reads 15 steps, and needs no longer memory." in found.reason
    assert "lookback" not in proposed(found)


def test_a_wave_of_twelve_steps_has_a_season_of_twelve(tmp_path: Path) -> None:
    values = np.sin(2 * np.pi * np.arange(600) / 12) + 0.2 * np.random.default_rng(0).normal(size=600)
    table = "time,value\n" + "".join(f"{step},{value:.4f}\n" for step, value in enumerate(values))
    found = plan(write(tmp_path / "s.csv", table), horizon=5)
    assert found.memory == 12
    assert found.reason.startswith("The data repeats itself without fading after 12 steps")


def pairs(longest: int) -> str:
    chance = np.random.default_rng(0)
    lengths = [longest, *chance.integers(3, longest, 199)]
    texts = ["".join("abcdefgh"[one] for one in chance.integers(0, 8, length)) for length in lengths]
    return "".join(f"{text}\t{text[::-1]}\n" for text in texts)


@pytest.mark.parametrize(("longest", "cell"), [(10, "gru"), (30, "lstm")])
def test_a_decoder_must_hold_the_longest_source(longest: int, cell: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", pairs(longest))
    read = read_settings(path)
    sources: Any = read.task.prepare(read.data, read.training.seed)
    exact = int(sources.parts["training"].sources.lengths.max())
    found = plan(path)
    assert found.dependence.memory == 0
    assert found.memory == exact
    assert "what a source tells of its target is not measured" in found.reason
    assert f"at least the longest source, {exact} characters" in found.reason
    assert proposed(found)["cell"] == cell
    assert "forget_bias" in proposed(found)


def test_what_is_said_of_a_whole_text_may_depend_on_all_of_it(tmp_path: Path) -> None:
    found = plan(write(tmp_path / "a.csv", labelled()))
    assert (found.dependence.memory, found.memory) == (0, 8)
    assert "That is within a sequence: what a sequence tells of its label is not measured" in found.reason
    assert "at least the longest sequence, 8 words" in found.reason
    assert proposed(found)["baselines"] is True  # the order of words is by chance
    found = plan(write(tmp_path / "b.csv", TASKS["regress"][1]))
    assert found.memory == 7
    assert "what a sequence tells of its number is not measured" in found.reason
    assert "7 tokens" in found.reason
    assert "All steps are the same" not in found.reason


def test_no_memory_is_not_spoken_of_as_steps(tmp_path: Path) -> None:
    letters = "".join("abcd"[one] for one in np.random.default_rng(0).integers(0, 4, 6000))
    reasons = {one.setting: one.reason for one in plan(write(tmp_path / "noise.txt", letters)).proposals}
    assert reasons["cell"].startswith("No memory was found that needs more than a GRU")
    assert reasons["bptt"] == "The default, as no memory was found."
    noise = np.random.default_rng(0).normal(size=400)
    table = "time,value\n" + "".join(f"{step},{value:.4f}\n" for step, value in enumerate(noise))
    found = plan(write(tmp_path / "noise.csv", table), horizon=5)
    assert found.memory == 0
    assert not any("0 steps" in one.reason.replace("0 steps of data", "") for one in found.proposals)


def test_a_memory_that_may_be_longer_does_not_close_gates(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    words = ["".join("abcdefghijklmnop"[one] for one in chance.integers(0, 16, 5)) for _ in range(150)]
    found = plan(write(tmp_path / "words.txt", " ".join(words[one] for one in chance.zipf(1.3, 1500) % 150)))
    assert found.context.at_least
    assert str(found).splitlines()[2].startswith(f"memory: at least {found.memory} character")
    assert found.memory < 20
    assert (proposed(found)["cell"], proposed(found)["forget_bias"]) == ("lstm", 2.0)
    assert "may be longer than the" in next(one.reason for one in found.proposals if one.setting == "bptt")


def test_a_proposal_is_known_as_enough_by_its_flag_and_not_by_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.tasks.lm._explain_bptt", lambda *_: "In other words.")
    chance = np.random.default_rng(0)
    words = ["".join("abcdefghijklmnop"[one] for one in chance.integers(0, 16, 5)) for _ in range(150)]
    found = plan(write(tmp_path / "words.txt", " ".join(words[one] for one in chance.zipf(1.3, 1500) % 150)))
    assert "may be longer than the" in next(one.reason for one in found.proposals if one.setting == "bptt")
    known = plan(write(tmp_path / "near.txt", "ab" * 2000))
    assert next(one.reason for one in known.proposals if one.setting == "bptt") == "In other words."


def test_one_is_singular(tmp_path: Path) -> None:
    found = plan(write(tmp_path / "near.txt", "ab" * 2000))
    assert found.memory == 1
    assert found.reason.startswith("From the last 1 character the next is predicted")
    assert next(one.reason for one in found.proposals if one.setting == "cell").startswith(
        "Over 1 step the gate of a GRU"
    )


def test_a_constant_is_said_to_be_one(tmp_path: Path) -> None:
    found = plan(write(tmp_path / "a.txt", "a" * 3000))
    assert found.memory == 0
    assert found.reason.startswith("All steps are the same: ")
    line = "time,value\n" + "".join(f"{step},{3 * step}\n" for step in range(300))
    assert "or on a straight line" in plan(write(tmp_path / "a.csv", line), horizon=5).reason


def test_the_plan_of_several_files_calls_train_with_all_of_them(tmp_path: Path) -> None:
    files = [str(write(tmp_path / f"{name}.txt", delayed(600, 2))) for name in "ab"]
    found = plan(files, hidden=8)
    assert found.source == tuple(files)
    assert found.steps == math.floor(0.9 * 1201)  # with the line end between the files
    assert str(found).splitlines()[-1].startswith(f"unspool.train({files!r}, hidden=8, cell=")
    assert f"hidden=8, cell={found.settings['cell']!r}, layers={found.settings['layers']}" in str(found)
    for one in found.proposals:
        assert f"{one.setting}={one.value!r}: {one.reason}" in str(found).splitlines()


def test_bad_data_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        plan(tmp_path / "nothing.txt")
    with pytest.raises(ArgumentError, match="limit"):
        plan(write(tmp_path / "a.txt", delayed(300, 2)), limit=0)
    with pytest.raises(ArgumentError, match="not known"):
        plan(tmp_path / "a.txt", hiden=3)


@pytest.mark.parametrize(
    "options",
    [{"cell": ["lstm", "gru"]}, {"hidden": [32, 16, 8]}, {"cell": "deep-transition(depth=3)"}, {"cell": LSTM}],
)
def test_cells_and_sizes_that_are_given_are_kept(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("the quick brown fox jumps over the lazy dog\n" * 60, encoding="utf-8")
    found = plan(path, **options)
    assert {name: found.settings[name] for name in options} == options
    assert ("layers" in found.settings) == (not isinstance(next(iter(options.values())), list))
