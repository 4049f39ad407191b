"""SequenceTagger: tags of words."""

from __future__ import annotations

import pickle
from typing import Any

import polars
import pytest
from sklearn.exceptions import NotFittedError

from unspool.errors import ArgumentTypeError, DataError, DataWarning, ShapeError
from unspool.estimators import SequenceTagger

SINGERS, VERBS = ("周杰伦", "王菲", "李健"), ("播放", "听", "来首")
X = [[verb, singer, "的", "歌"] for verb in VERBS for singer in SINGERS] * 4 + [["关", "灯"]] * 12
Y = [["O", "B-singer", "O", "O"]] * 36 + [["O", "O"]] * 12
SMALL: dict[str, Any] = {"hidden": 8, "char_hidden": 4, "dropout": 0.0, "epochs": 12, "lr": 0.03, "random_state": 0}


def test_words_get_the_tags_that_they_had() -> None:
    model = SequenceTagger(**SMALL).fit(X, Y)
    assert model.predict([["听", "王菲", "的", "歌"], ["关", "灯"]]) == [["O", "B-singer", "O", "O"], ["O", "O"]]
    assert model.score(X, Y) == 1.0
    assert model.classes_.tolist() == ["B-singer", "O"]
    assert pickle.loads(pickle.dumps(model)).predict(X[:9]) == model.predict(X[:9])
    assert model.predict(polars.Series(X[:2])) == model.predict(X[:2])


def test_a_tag_that_was_never_seen_counts_as_wrong() -> None:
    model = SequenceTagger(**SMALL).fit(X, Y)
    with pytest.warns(DataWarning, match=r"sentence 1, word 1: 1 of 6 words have a tag that does not.*'B-band'"):
        assert model.score([X[0], ["关", "灯"]], [Y[0], ["O", "B-band"]]) == pytest.approx(2 / 3)  # F1: P 1, R 1/2


def test_plain_tags_are_scored_by_the_fraction_that_is_right() -> None:
    tags = [["verb" if word in (*VERBS, "关") else "other" for word in sentence] for sentence in X]
    model = SequenceTagger(**SMALL).fit(X, tags)
    predicted = [tag for sentence in model.predict(X) for tag in sentence]
    right = [tag for sentence in tags for tag in sentence]
    assert model.score(X, tags) == sum(map(str.__eq__, predicted, right)) / len(right) > 0.95


@pytest.mark.parametrize(
    ("words", "tags", "error", "message"),
    [
        ([["a"], "bc"], [["O"], ["O"]], ArgumentTypeError, r"`X\[1\]` \(='bc'\) is not a list of strings.*Split"),
        ([["a"], []], [["O"], []], ArgumentTypeError, r"`X\[1\]` \(=\[\]\).*leave empty ones out"),
        ([["a"], ["b", 3]], [["O"], ["O", "O"]], ArgumentTypeError, r"`X\[1\]`"),
        ([["a"], None], [["O"], ["O"]], ArgumentTypeError, r"`X\[1\]` \(=None\)"),
        ("ab", [["O"], ["O"]], ArgumentTypeError, "`X` .*is not a list of sentences"),
        ([], [], ShapeError, r"`X` .*has 0 sample"),
        ([["a"], ["b"]], [["O"]], ShapeError, "`y` .*not as many as the 2"),
        ([["a"], ["b", "c"]], [["O"], ["O"]], ShapeError, r"`y\[1\]` .*is not a tag for each of 2 words"),
        ([["a"], ["b"]], [["O"], ["O"]], DataError, "have the tag 'O': there is nothing to tell apart"),
        ([["a"], ["b"]], None, ValueError, "requires y to be passed"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(words: Any, tags: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SequenceTagger(**SMALL).fit(words, tags)


def test_it_must_be_fitted_first() -> None:
    with pytest.raises(NotFittedError):
        SequenceTagger().predict(X)
