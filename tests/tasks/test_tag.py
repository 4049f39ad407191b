"""Tagging: which words are known, what is told of predictions, a run that is restored, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tasks.small_tags import TAGS, WORDS, data, sentences, small_learner, small_task

from unspool.data.tagged import Sentence
from unspool.errors import ArgumentTypeError, DataError, DataWarning, ShapeError
from unspool.models.tagger import TagPrediction
from unspool.runs.train import train
from unspool.settings.data import TaggedData
from unspool.settings.model import TaggerSettings
from unspool.storage.documents import seal
from unspool.tasks.tag import Lexicon, Sentences, Tagging, permitted


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


# ── words ──


def test_what_occurs_once_is_unknown() -> None:
    lexicon = Lexicon.fit(sentences(["Rome rome to to", "to Zug"]), lowercase=False)
    assert lexicon.words == ("to",)
    assert lexicon.characters == ("e", "m", "o", "t")
    ids, letters = lexicon.encode(["to", "Rome", "toe"])
    assert ids.tolist() == [1, 0, 0]
    assert [one.tolist() for one in letters] == [[4, 3], [0, 3, 2, 1], [4, 3, 1]]


def test_small_letters_are_for_words_and_not_for_characters() -> None:
    lexicon = Lexicon.fit(sentences(["Rome rome", "to R R"]), lowercase=True)
    assert lexicon.words == ("r", "rome")
    ids, letters = lexicon.encode(["ROME", "r", "R"])
    assert ids.tolist() == [2, 1, 1]
    assert lexicon.characters == ("R", "e", "m", "o")
    assert [one.tolist() for one in letters] == [[1, 0, 0, 0], [0], [1]]


def test_of_a_long_word_both_ends_are_read() -> None:
    lexicon = Lexicon(words=(), characters=("a", "b", "c"), lowercase=False)
    _, letters = lexicon.encode(["a" * 30 + "b" * 1000 + "c" * 30])
    assert letters[0].tolist() == [1] * 20 + [3] * 20


# ── what is told ──


def test_figures_of_spans() -> None:
    task = small_task(["a b c d e", "f g"], ["B-x I-x O B-y O", "O B-x"])
    number = {tag: place for place, tag in enumerate(task.tags)}
    said = ["B-x I-x O O O", "B-y B-x"]  # 3 spans are there, 3 are said, 2 of them rightly; 5 tags of 7
    predictions = [
        TagPrediction(np.array([number[tag] for tag in one.split()]), np.ones(len(one.split()))) for one in said
    ]
    found = task.metrics(task.parts["validation"], np.arange(2), predictions)
    assert found == pytest.approx({"span F1": 2 / 3, "precision": 2 / 3, "recall": 2 / 3, "accuracy": 5 / 7})
    assert (task.chosen_by, task.more_is_better, task.scheme) == ("span F1", True, "bio")
    one = task.metrics(task.parts["validation"], np.array([1]), predictions[1:])
    assert one == pytest.approx({"span F1": 2 / 3, "precision": 1 / 2, "recall": 1.0, "accuracy": 1 / 2})


def test_plain_tags_have_an_accuracy_and_no_spans() -> None:
    task = small_task(["the dog ran", "dogs run"], ["DET NOUN VERB", "NOUN VERB"])
    part = task.parts["validation"]
    predictions = [TagPrediction(np.array([0, 1, 1]), np.ones(3)), TagPrediction(np.array([1, 2]), np.ones(2))]
    assert task.metrics(part, np.arange(2), predictions) == {"accuracy": 4 / 5}
    assert (task.chosen_by, task.scheme) == ("accuracy", "io")
    assert task.show(part, 0, predictions[0]) == "✗ the/DET dog/NOUN ran/NOUN, not the/DET dog/NOUN ran/VERB"
    assert permitted(task.tags, task.scheme)[:3, :3].all()
    with_outside = small_task(["the dog ran", "O dogs"], ["O PER O", "O PER"])
    assert (with_outside.chosen_by, with_outside.scheme) == ("span F1", "io")


def test_spans_are_shown_and_recorded() -> None:
    task = small_task()
    part = task.parts["validation"]
    right = TagPrediction(np.array([2, 0, 2, 0, 1]), np.array([0.5, 0.25, 1.0, 0.125, 0.75]))
    assert task.tags == ["B-x", "I-x", "O"]
    assert task.show(part, 1, right) == "✓ from [x: Rome] to [x: new delhi]"
    wrong = right._replace(tags=np.array([2, 0, 2, 2, 0]))
    assert task.show(part, 1, wrong) == "✗ from [x: Rome] to new [x: delhi], not from [x: Rome] to [x: new delhi]"
    assert task.record(part, 1, right) == {
        "words": ["from", "Rome", "to", "new", "delhi"],
        "tags": ["O", "B-x", "O", "B-x", "I-x"],
        "probabilities": [0.5, 0.25, 1.0, 0.125, 0.75],
    }


def test_tags_without_kinds_and_long_lines() -> None:
    task = small_task(["a b c", "d " + "e " * 99], ["B E S", "S " + "S " * 99])
    part = task.parts["validation"]
    assert task.scheme == "bioes"
    said = TagPrediction(np.array([task.tags.index(tag) for tag in "BES"]), np.ones(3))
    assert task.show(part, 0, said) == "✓ [a b] [c]"
    assert len(task.show(part, 1, TagPrediction(np.full(100, task.tags.index("S")), np.ones(100)))) == 162


def test_a_single_word_can_be_tagged_even_if_training_has_none() -> None:
    task = small_task(["a b", "c d"], ["B E", "B E"])
    assert task.tags == ["B", "E", "O"]
    (found,) = task.predict(small_learner(task), task.part(sentences(["a"])))
    assert found["tags"] == ["O"]
    assert found["probabilities"] == [1.0]


# ── a run ──

CITIES = ["rome", "oslo", "new york", "new delhi", "Bonn", "lima"]


def journeys(count: int) -> str:
    """Cities after "from" are origins and after "to" goals, which the word alone does not tell."""
    chance = np.random.default_rng(0)
    blocks = []
    for _ in range(count):
        lines = []
        for kind in chance.permutation(["from", "to"]):
            lines.append(f"{kind}\tO")
            city = CITIES[chance.integers(6)].split()
            lines += [f"{word}\t{'I' if place else 'B'}-{kind}" for place, word in enumerate(city)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


RUN: dict[str, Any] = {
    **{
        "task": "tag",
        "engine": "torch",
        "hidden": 8,
        "embedding": 8,
        "char_hidden": 4,
        "dropout": 0.0,
        "batch_size": 8,
    },
    **{"epochs": None, "steps": 60, "lr": 0.03, "test": 0.2, "eval_every": 30},
}


def test_a_run_learns_what_comes_before_and_is_restored(tmp_path: Path) -> None:
    file = write(tmp_path / "journeys.conll", journeys(60))
    trained = train(file, out=tmp_path / "run", **RUN)
    assert trained.finished.test["span F1"] == trained.finished.test["accuracy"] == 1.0
    assert trained.finished.chosen_by == "span F1"
    rival = train(file, out=tmp_path / "rival", **RUN, backbone="mlp")
    assert rival.finished.test["span F1"] < 0.8

    document = json.loads((tmp_path / "run" / "vocabulary.json").read_text(encoding="utf-8"))
    task = Tagging.restore(document, data())
    learner = task.make_learner(TaggerSettings(**{k: v for k, v in RUN.items() if k in TaggerSettings.model_fields}))
    learner.load_state_dict(trained.learner.state_dict())
    asked = write(tmp_path / "asked.txt", "to\nnew\nyork\nfrom\nBonn\n\nfrom\nnew\ndelhi\n")
    found = list(task.predict(learner, task.read(asked, targets=False)))
    assert [one["tags"] for one in found] == [["O", "B-to", "I-to", "O", "B-from"], ["O", "B-from", "I-from"]]
    assert found[0]["words"] == ["to", "new", "york", "from", "Bonn"]
    assert all(0.5 < p <= 1.0 for one in found for p in one["probabilities"])
    assert seal(task.dump()) == document
    assert task.evaluate_files(learner, file)["span F1"] == 1.0


def test_the_data_in_words() -> None:
    assert small_task().describe() == {
        "data": "5 for training, 5 for validation (sentences of 1 to 5 words)",
        "words": "5 that occur more than once",
        "tags": "3 (bio): B-x, I-x, O",
    }


# ── what is refused ──


def prepare(files: str, **options: Any) -> Tagging:
    return Tagging.prepare(TaggedData(files=(files,), **options), 0)


GOOD = "a O\nb B-x\nc I-x\n\nd O\ne B-x\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, r"bad\.conll has no words"),
        ("\n \n\n", {}, r"bad\.conll has no words\. Give a file with a word and its tag on each line"),
        (
            "a O\nb Q-x\nc B-x\n" + "\nd B-x\n" * 9,
            {"scheme": "bio"},
            "line 2: 'Q-x' is no tag of the scheme bio.*Give",
        ),
        ("a O\nb O\n\nc O\n\nd O\n", {}, r"all 2 training sentences have the tag 'O'.*Give sentences with two tags"),
        ("a O\nb\n", {}, r"bad\.conll, line 2: 'b' has no tag\. Write the tag after the word"),
        (
            GOOD * 3 + "\n" + "w O\n" * 9,
            {"max_length": 8},
            r"bad\.conll, line 20: the sequence has 9 steps, more than `max_length`",
        ),
    ],
)
def test_bad_files(text: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        prepare(write(tmp_path / "bad.conll", text), **options)


def test_open_spans_are_read_as_conlleval_reads_them(tmp_path: Path) -> None:
    training = write(tmp_path / "bad.conll", "a O\nb I-x\nc I-x\n\nd B-x\ne I-y\n\n" * 4)
    with pytest.warns(DataWarning, match=r"scheme bio.*8 problems:\n.*bad\.conll, line 2: 'I-x' after 'O'"):
        task = prepare(training, validation=(training,))
    part = task.parts["training"]
    assert [one.tags for one in part.sentences[:2]] == [("O", "B-x", "I-x"), ("B-x", "B-y")]
    assert task.tags == ["B-x", "B-y", "I-x", "O"]
    assert math.isfinite(task.evaluate(small_learner(task), "validation")["loss"])  # the CRF permits all of them


@pytest.mark.parametrize("crf", [True, False])
def test_a_tag_that_training_has_not_counts_as_wrong(crf: bool, tmp_path: Path) -> None:
    good = write(tmp_path / "good.conll", GOOD * 4)
    other = write(tmp_path / "other.conll", "a O\n\nb O\nc B-y\n")
    known = write(tmp_path / "known.conll", "a O\n")
    message = r"other\.conll, line 4: 1 of 3 words have a tag that does not occur in the training data: 'B-y' \(1\)"
    with pytest.warns(DataWarning, match=message):
        task = prepare(good, test=(other,))
    learner = small_learner(task, crf=crf)
    found, expected = task.evaluate(learner, "test"), task.evaluate_files(learner, known)
    assert found["loss"] == pytest.approx(expected["loss"])  # of sentences without unseen tags
    assert (found["words"], found["unseen tags"]) == (3, 1)
    predictions = task.infer(learner, task.parts["test"], np.arange(2))[1]
    tags = [tag for one in predictions for tag in task.name_tags(one.tags)]
    assert found["accuracy"] == pytest.approx(sum(map(str.__eq__, tags, ["O", "O", "B-y"])) / 3)
    assert found["recall"] == 0  # the only span is of a kind that cannot be predicted
    assert ", not b [y: c]" in task.show(task.parts["test"], 1, predictions[1])


def test_files_to_predict_may_have_any_tags_or_none(tmp_path: Path) -> None:
    task = small_task()
    part = task.read(write(tmp_path / "some.conll", "to B-y\nrome I-z\n\nx O\n"), targets=False)
    assert part.tags is None
    loss, predictions = task.infer(small_learner(task), part, np.arange(2))
    assert math.isnan(loss)
    assert [len(one.tags) for one in predictions] == [2, 1]


@pytest.mark.parametrize(
    ("words", "tags", "error", "message"),
    [
        ([["a", "b"], []], [["O", "B-x"], []], DataError, "sentence 1, word 0: the sequence is empty. Leave it out"),
        ([["a", "b"], ["c"]], [["O", "B-x"], []], DataError, "sentence 1, word 0: a sentence of 1 words has 0 tags"),
        ([["a", "b"]], [["O", "B-x"], ["O"]], ShapeError, "`tags` .=2. lists do not match the 1 sentences"),
        (["a b"], [["O", "B-x"]], ArgumentTypeError, r"`words\[0\]` .='a b'. is not a list of words. Give a list"),
        ([["a", ""]], [["O", "B-x"]], ArgumentTypeError, r"`words\[0\]`.*strings that are not empty"),
        ([["a", "b"]], [7], ArgumentTypeError, r"`tags\[0\]` .=7. is not a list"),
        ([], [], DataError, "all 0 training sentences have no tags"),
    ],
)
def test_bad_sentences_in_memory(words: Any, tags: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tagging.of({"training": Sentences.of(words, tags)}, data())


def test_sentences_in_memory_are_divided_as_those_of_files() -> None:
    several = sentences(WORDS, TAGS)
    assert several.take(np.array([2, 0])) == [several[2], several[0]]
    assert several[2] == Sentence(("from", "york"), ("O", "B-x"), 2, None)
    assert several.take(np.array([2])).place(0) == "sentence 2, word 0"


@pytest.mark.parametrize("change", [{"words": None}, {"scheme": "iob"}, {"tags": []}, {"characters": 3}])
def test_a_vocabulary_that_cannot_be_read(change: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="vocabulary.json does not say how to read sentences.*Train again"):
        Tagging.restore({**small_task().dump(), **change}, data())
    missing = {name: value for name, value in small_task().dump().items() if name not in change}
    with pytest.raises(DataError, match="vocabulary.json does not say how"):
        Tagging.restore(missing, data())


@pytest.mark.parametrize(
    ("tags", "mended"), [("B-x L-x O U-x", ["U-x", "O"]), ("B-x E-x O S-x", ["S-x", "O"])], ids=["BILOU", "BIOES"]
)
def test_tags_are_mended_with_the_letters_of_the_training_data(tags: str, mended: list[str]) -> None:
    task = small_task(["a b c d"] * 2, [tags] * 2)
    with pytest.warns(DataWarning, match="leaves its span open") as caught:
        part = task.part(sentences(["a b"], ["B-x O"]))
    assert len(caught) == 1  # there is no unseen tag
    assert part.tags is not None
    assert task.name_tags(part.tags[0]) == mended
