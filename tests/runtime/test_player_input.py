"""What players and sessions are given by mistake: one clear error each, and nothing is changed by it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.small_folders import OPTIONS, OWN, write_data

import unspool
from unspool.errors import ArgumentError, ArgumentTypeError, DataError, UnspoolError
from unspool.runs.train import train
from unspool.runtime.run_player import RunPlayer
from unspool.tasks import lm as language_model


def spell(value: object) -> str:
    """A value as part of a test's name, which must be the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


WIDTH = 3
TASKS = ("classify", "regress", "multilabel", "tag", "joint", "seq2seq", "forecast")
STREAMED = ("lm", "classify", "numbers")
Players = Callable[[str], RunPlayer]

#: What is no list of examples, whatever these are.
NO_LISTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "number": lambda: 3,
    "bytes": lambda: b"a",
    "set": lambda: {"a"},
    "generator": lambda: (one for one in ["a"]),
    "array without axes": lambda: np.array("a"),
}
#: Two examples of each task, their targets, and targets that are nested in another way.
EXAMPLES: dict[str, tuple[Any, Any, list[Any]]] = {
    "classify": (["red hot", "cold"], ["x", "y"], [[["x"], ["y"]], [None, "x"], [{}, {}]]),
    "numbers": ([np.zeros((4, 3)), np.ones((2, 3))], ["x", "y"], [[["x"], ["y"]]]),
    "regress": (["red hot", "cold"], [1.0, 2.0], [[[[1.0]], [[2.0]]], [{}, {}], [None, 1.0]]),
    "multilabel": (["red hot", "cold"], [["red", "hot"], ["cold"]], [[1, 2], [[1], [2]], [[["red"]], ["cold"]]]),
    "tag": ([["red", "hot"], ["cold"]], [["O", "B-x"], ["B-x"]], [["O", "O"], [1, 2], [[["O"], "O"], ["O"]]]),
    "seq2seq": (["red hot", "cold"], ["toh der", "dloc"], [[["a"], ["b"]], [1, 2]]),
}


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Players:
    """Players of small runs, by task; "numbers" classifies sequences of three features."""
    found: dict[str, RunPlayer] = {}

    def make(task: str) -> RunPlayer:
        if task not in found:
            found[task] = make_player(tmp_path_factory.mktemp("play"), task)
        return found[task]

    return make


def make_player(folder: Path, task: str) -> RunPlayer:
    streamed: dict[str, Any] = (
        {"bidirectional": False} if task in ("classify", "regress", "multilabel", "numbers") else {}
    )
    streamed |= {"subwords": 0} if task == "classify" else {}  # an id does not tell a word's n-grams
    own = {**OWN.get(task, {"engine": "torch"}), **streamed}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_CACHE", str(folder / "cache"))
        patch.setenv("UNSPOOL_ENGINE", "off")
        patch.setattr(language_model, "SAMPLE", 5)
        if task == "numbers":
            data = write_numbers(folder / "data.csv")
            own |= {"id_column": "id", "time_column": "time", "label_column": "label"}
        else:
            data = write_data(folder, task)[0]
        kind = "classify" if task == "numbers" else task
        train(data, out=folder / "run", quiet=True, **{**OPTIONS, **own, "task": kind})
        return unspool.load(folder / "run")


def write_numbers(path: Path) -> Path:
    random = np.random.default_rng(0)
    rows = ["id,time,a,b,c,label"]
    for number in range(24):
        for step in range(4):
            values = ",".join(f"{value:.3f}" for value in random.normal(size=WIDTH) + number % 2)
            rows.append(f"{number},{step},{values},{'xy'[number % 2]}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


# ── sessions ──


@pytest.mark.parametrize("value", [1e39, 1e300, float("inf"), 10**400], ids=["1e39", "1e300", "inf", "10**400"])
def test_numbers_that_the_model_cannot_hold_are_refused_and_change_nothing(play: Players, value: float) -> None:
    player = play("numbers")
    session, other = player.start(), player.start()
    session.step([0.5] * WIDTH)
    before = session.save()
    wrong = [0.0, value, 0.0]
    for call in (
        lambda: session.step(wrong),
        lambda: session.feed([[0.0] * WIDTH, wrong]),
        lambda: player.step_many([session, other], [[0.0] * WIDTH, wrong]),
        lambda: player.predict([[wrong, wrong]]),
    ):
        with pytest.raises(ArgumentError):
            call()
    assert session.save() == before
    assert np.isfinite(session.step([1e30] * WIDTH)).all()


@pytest.mark.parametrize(
    "wrong", [["1", "2", "3"], [1j, 0, 0], np.array([1j] * 3), {}, [10**400] * 3], ids=lambda one: repr(one)[:20]
)
def test_what_are_no_numbers_is_no_step_of_them(play: Players, wrong: Any) -> None:
    session = play("numbers").start()
    with pytest.raises(ArgumentTypeError, match="is not a list of numbers"):
        session.step(wrong)
    assert session.position == 0


def test_text_goes_on_from_what_the_session_has_read_last(play: Players) -> None:
    player = play("lm")
    session = player.start()
    session.feed("the ")
    text = session.generate(3, seed=0, temperature=0)
    next(text)
    session.feed("fox ")
    session.step(2)
    expected = session.fork()
    next(text)
    next(expected.generate(1, temperature=0))
    assert session.save() == expected.save()


def test_two_texts_of_one_session_read_what_the_other_wrote(play: Players) -> None:
    session = play("lm").start()
    session.feed("the ")
    alone = session.fork()
    first, second = (session.generate(4, seed=0, temperature=0) for _ in range(2))
    pieces = [next(text) for _ in range(4) for text in (first, second)]
    assert "".join(pieces) == "".join(alone.generate(8, seed=0, temperature=0))


@pytest.mark.parametrize("task", ["lm", "classify"])
@pytest.mark.parametrize(
    "wrong",
    [None, "a", b"a", [3], 1j, 1.5, True, np.True_, np.array([3]), np.array([3, 4]), -1, 10**30, np.uint64(2**63)],
    ids=spell,
)
def test_a_step_is_one_token(play: Players, task: str, wrong: Any) -> None:
    player = play(task)
    session, other = player.start(), player.start()
    session.step(3)
    before, untouched = session.save(), other.save()
    with pytest.raises(ArgumentError, match="is not a token from 0 to|is text"):
        session.step(wrong)
    with pytest.raises(ArgumentError, match="is not a token from 0 to|is text"):
        player.step_many([other, session], [3, wrong])
    assert session.save() == before
    assert other.save() == untouched


@pytest.mark.parametrize("task", ["lm", "classify"])
def test_whole_numbers_of_numpy_are_tokens(play: Players, task: str) -> None:
    player = play(task)
    one, other, third = (player.start() for _ in range(3))
    one.step(3)
    other.step(np.int64(3))
    player.step_many([third], [np.uint8(3)])
    assert one.save() == other.save() == third.save()


@pytest.mark.parametrize("task", STREAMED)
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        3,
        float("nan"),
        np.array(1),
        b"ab",
        {},
        [10**30],
        np.array([2**63], np.uint64),
        [True],
        [[1], [1, 2]],
        [None],
    ],
    ids=spell,
)
def test_what_cannot_be_fed(play: Players, task: str, wrong: Any) -> None:
    session = play(task).start()
    before = session.save()
    with pytest.raises(ArgumentError):
        session.feed(wrong)
    assert session.save() == before


@pytest.mark.parametrize("task", STREAMED)
def test_nothing_to_read_changes_nothing(play: Players, task: str) -> None:
    session = play(task).start()
    before = session.save()
    assert session.feed("") is None
    if task != "classify":
        assert session.feed([]) is None
    assert session.save() == before


def test_a_classifier_is_fed_a_text_and_not_its_words(play: Players) -> None:
    player = play("classify")
    session = player.start()
    with pytest.raises(ArgumentTypeError, match="Give one text"):
        session.feed(["red", "hot"])
    found = session.feed("red hot")
    assert found is not None
    expected = player.predict(["red hot"])[0]
    np.testing.assert_allclose(found, [expected[f"p({label})"] for label in "xyz"], rtol=1e-5)


@pytest.mark.parametrize("wrong", [None, [1, 2], 3, "ab", iter([1, 2])], ids=spell)
def test_sessions_that_are_none(play: Players, wrong: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`sessions`"):
        play("lm").step_many(wrong, [1, 2])


@pytest.mark.parametrize("wrong", [None, 3, np.array(3), "ab", iter([1, 2])], ids=spell)
def test_inputs_that_are_no_list(play: Players, wrong: Any) -> None:
    player = play("lm")
    with pytest.raises(ArgumentTypeError, match="`inputs`"):
        player.step_many([player.start(), player.start()], wrong)


def test_sessions_of_another_player_are_refused(play: Players) -> None:
    player = play("lm")
    twin = unspool.load(player.run)
    with pytest.raises(ArgumentError, match="of another player"):
        player.step_many([twin.start()], [1])


# ── text ──


@pytest.mark.parametrize("wrong", [None, b"the", 3, ["the"]], ids=spell)
def test_a_language_model_reads_one_text(play: Players, wrong: Any) -> None:
    player = play("lm")
    with pytest.raises(ArgumentTypeError, match="not a text"):
        player.evaluate(wrong)
    with pytest.raises(ArgumentTypeError, match="not a text"):
        player.generate(wrong, 5)


def test_options_of_text_are_the_same_for_sessions_and_players(play: Players) -> None:
    player = play("lm")
    session = player.start()
    session.feed("the ")
    both: list[Callable[..., Any]] = [
        lambda *count, **options: session.fork().generate(*count, **options),
        lambda *count, **options: player.generate("the ", *count, **options),
    ]
    for generate in both:
        assert list(generate(0)) == []
        expected = list(generate(6, seed=3))
        assert list(generate(np.int64(6), seed=np.uint8(3), stop=None)) == expected
        for count in (True, -1, 1.5, None, "3"):
            with pytest.raises(ArgumentError, match="`count`"):
                generate(count)
        for seed in (True, -1, 1.5, "3", 2**63):
            with pytest.raises(ArgumentError, match="`seed`"):
                generate(3, seed=seed)
        for stop in (3, b"a", [3], True):
            with pytest.raises(ArgumentTypeError, match="`stop`"):
                generate(3, stop=stop)


# ── whole examples ──


@pytest.mark.parametrize("wrong", [*NO_LISTS, "dict", "text"])
@pytest.mark.parametrize("task", [*EXAMPLES, "joint", "forecast"])
def test_examples_are_a_list(play: Players, task: str, wrong: str) -> None:
    given = NO_LISTS[wrong]() if wrong in NO_LISTS else {"dict": {}, "text": "red hot"}[wrong]
    error = ArgumentError if (task, wrong) == ("forecast", "dict") else ArgumentTypeError
    with pytest.raises(error, match=r"`examples`.*Give (a list of|an array)"):
        play(task).predict(given)


@pytest.mark.parametrize("task", [*EXAMPLES, "joint"])
def test_targets_are_needed_to_evaluate(play: Players, task: str) -> None:
    examples = EXAMPLES["tag" if task == "joint" else task][0]
    with pytest.raises(ArgumentError, match=r"`targets` \(=None\) are missing. Give one per example"):
        play(task).evaluate(examples)


@pytest.mark.parametrize("task", EXAMPLES)
def test_targets_of_another_form_are_refused(play: Players, task: str) -> None:
    examples, targets, wrong = EXAMPLES[task]
    player = play(task)
    for given in [*(make() for name, make in NO_LISTS.items() if name != "None"), "xy", {}, *wrong]:
        with pytest.raises(ArgumentTypeError):
            player.evaluate(examples, given)
    with pytest.raises(ArgumentError, match="Give one"):
        player.evaluate(examples, targets[:1])
    found = player.evaluate(examples, targets)
    assert found
    assert {type(value) for value in found.values()} == {float}


def test_targets_of_a_joint_model_are_pairs(play: Players) -> None:
    player = play("joint")
    words, tag, label = ["to", "rome"], player.task.tags[0], player.task.labels[0]  # type: ignore[attr-defined]
    pair = ([tag, tag], label)
    for wrong in (3, "ab", [3], [tag], [[tag, tag]], [(label, pair)], [pair[:1]], [(label, label)]):
        with pytest.raises(ArgumentTypeError):
            player.evaluate([words], wrong)
    assert {type(value) for value in player.evaluate([words], [pair]).values()} == {float}


@pytest.mark.parametrize("value", [1e39, -1e300])
def test_series_that_the_model_cannot_hold_are_refused(play: Players, value: float) -> None:
    series = np.arange(60.0)
    series[50] = value
    for call in (play("forecast").predict, play("forecast").evaluate):
        with pytest.raises(DataError, match="at step 50, too far from all training data"):
            call(series)


def test_targets_without_content_are_refused(play: Players) -> None:
    with pytest.raises(ArgumentError, match="Give each word a tag"):
        play("tag").evaluate([["red"]], [[]])
    with pytest.raises(ArgumentTypeError, match="a list of tags and a label"):
        play("joint").evaluate([["red"]], [(["O"], "")])
    with pytest.raises(DataError, match="not a finite number"):
        play("regress").evaluate(["red", "hot"], [10**400, 1.0])


def test_forecasts_and_texts_are_evaluated_without_targets(play: Players) -> None:
    for task, examples in (("forecast", np.arange(60.0) % 4), ("lm", "the fox")):
        found = play(task).evaluate(examples)
        assert found
        assert {type(value) for value in found.values()} == {float}
        assert np.isfinite(list(found.values())).all()


@pytest.mark.parametrize(
    "examples", [[3], [None], [3, [1, 2]], [[1, 2], [3, "a"]], ["a", 3], [3, "a"], [], [{}]], ids=spell
)
@pytest.mark.parametrize("task", TASKS)
def test_lists_of_what_are_no_examples(play: Players, task: str, examples: Any) -> None:
    with pytest.raises(UnspoolError):
        play(task).predict(examples)


# ── what was saved ──


def test_bytes_with_gaps_are_refused(play: Players) -> None:
    player = play("lm")
    saved = player.start().save()
    with pytest.raises(DataError, match="not a saved session"):
        player.restore(memoryview(saved)[::2])  # type: ignore[arg-type]
    assert player.restore(memoryview(saved)).save() == saved  # type: ignore[arg-type]


def test_a_position_that_cannot_be_counted_on_is_refused(play: Players) -> None:
    player = play("lm")
    session = player.start()
    session.position = 2**63 - 1
    with pytest.raises(DataError, match="position"):
        player.restore(session.save())
    session.position = 2**62
    again = player.restore(session.save())
    again.step(1)
    assert again.position == 2**62 + 1
    assert again.save()
