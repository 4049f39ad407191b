"""SequenceClassifier: classes of digits, of commands, and of sentences that differ in nothing but order."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from benchmarks.results.commands import ASKED, halves, make_commands, make_orders
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from unspool import Cell, tanh
from unspool.data.sequences import divide
from unspool.errors import ArgumentError, DataError, DataWarning, UnspoolError
from unspool.estimators import SequenceClassifier

SMALL: dict[str, Any] = {"cell": "elman", "bidirectional": False, "pooling": "last", "lr": 0.01, "random_state": 0}


def digits(count: int = 400) -> tuple[NDArray[Any], NDArray[Any]]:
    """8 steps of 8, of writers who are mixed."""
    found = load_digits()
    rows = np.random.default_rng(0).permutation(len(found.target))[:count]
    return found.images[rows], found.target[rows]


def test_digits_read_row_by_row() -> None:
    X, y = digits(800)
    model = SequenceClassifier(hidden=32, epochs=12, lr=0.01, random_state=0).fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > 0.88
    assert model.n_features_in_ == 8
    assert log_loss(y[600:], model.predict_proba(X[600:])) < 0.6  # it warns unless each row sums to 1


def test_the_intent_of_a_command_with_a_title_never_heard() -> None:
    texts, intents, new_texts, new_intents = halves(*make_commands(seed=0))
    assert ASKED not in texts
    model = SequenceClassifier(hidden=32, epochs=20, lr=0.01, random_state=0).fit(texts, intents)
    assert model.predict([ASKED]).tolist() == ["music"]
    assert model.score(new_texts, new_intents) > 0.9
    assert model.classes_.tolist() == sorted({*intents})


def test_order_is_what_a_bag_of_vectors_cannot_see() -> None:
    texts, actors, new_texts, new_actors = halves(*make_orders(seed=0))
    assert not {*texts} & {*new_texts}
    bag = SequenceClassifier(hidden=16, backbone="bag", epochs=4, lr=0.01, random_state=0).fit(texts, actors)
    one, other = bag.predict_proba(["我爱你", "你爱我"])
    assert np.allclose(one, other, rtol=0, atol=1e-6)
    assert bag.score(new_texts, new_actors) <= 0.6
    recurrent = SequenceClassifier(hidden=16, epochs=8, lr=0.02, random_state=0).fit(texts, actors)
    assert recurrent.score(new_texts, new_actors) > 0.99


def test_the_best_model_is_chosen_on_validation_data_and_kept() -> None:
    X, y = digits(120)
    settings = {"eval_every": 1, "schedule": "constant"}
    model = SequenceClassifier(**SMALL | {"hidden": 8, "epochs": 6, "lr": 0.3}, settings=settings, validation=0.5)
    model.fit(X, y)
    accuracies = [metrics["accuracy"] for metrics in model.history_]
    assert max(accuracies) > accuracies[-1]  # such a rate goes up and down
    free = np.setdiff1d(np.arange(120), np.unique(y, return_index=True)[1])  # each class's first is learned from
    held_out = free[divide(len(free), 0.5, 0.0, model.config_.training.seed)[1]]
    assert model.score(X[held_out], y[held_out]) == max(accuracies)


def test_every_class_is_learned_from_however_rare_it_is() -> None:
    texts, labels = ["ab", "ba", "ab", "ba", "ab", "ba", "cc"], [2, 10, 2, 10, 2, 10, 1]
    for seed in range(5):
        model = SequenceClassifier(**SMALL | {"random_state": seed}, hidden=4, epochs=1, validation=0.5)
        assert model.fit(texts, labels).task_.labels == ["1", "10", "2"]
        assert model.classes_.tolist() == [1, 2, 10]


def test_probabilities_are_in_the_order_of_the_classes() -> None:
    """Ten comes after two, though "10" comes before "2"."""
    texts, labels = ["aa", "bb", "cc"] * 8, [1, 2, 10] * 8
    model = SequenceClassifier(**SMALL, hidden=8, epochs=20, validation=0.0).fit(texts, labels)
    assert model.predict_proba(["aa", "bb", "cc"]).argmax(1).tolist() == [0, 1, 2]
    assert model.predict(["cc", "bb"]).tolist() == [10, 2]


def test_a_class_that_was_never_seen_counts_as_wrong() -> None:
    model = SequenceClassifier(**SMALL, hidden=8, epochs=20, validation=0.0).fit(["aa", "bb", "cc"] * 8, [1, 2, 10] * 8)
    assert model.score(["aa", "bb"], [1, 2]) == 1.0
    with pytest.warns(DataWarning, match=r"y\[1\]: 2 of 4 samples have a class that does not.*'7' \(2\)"):
        assert model.score(["aa", "bb", "cc", "aa"], [1, 7, 10, 7]) == 0.5


def test_a_grid_of_sizes_is_searched() -> None:
    X, y = digits(200)
    grid = {"hidden": np.array([2, 16])}  # NumPy's integers are integers too
    search = GridSearchCV(SequenceClassifier(**SMALL, epochs=6), grid, cv=2).fit(X, y)
    assert search.best_params_ == {"hidden": 16}
    scores = search.cv_results_["mean_test_score"]
    assert scores[1] > scores[0]


def test_threads_learn_what_one_learns() -> None:
    X, y = digits(60)
    model = SequenceClassifier(**SMALL, hidden=8, epochs=2, dropout=0.3)
    alone = cross_val_score(model, X, y, cv=2)
    with joblib.parallel_backend("threading"):
        assert np.array_equal(cross_val_score(model, X, y, cv=2, n_jobs=2), alone)


@pytest.mark.long
def test_processes_learn_what_one_learns() -> None:
    X, y = digits(60)
    model = SequenceClassifier(**SMALL, hidden=8, epochs=2, dropout=0.3)
    assert np.array_equal(cross_val_score(model, X, y, cv=2, n_jobs=2), cross_val_score(model, X, y, cv=2))


def test_a_pipeline_with_a_transformer_of_lists() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    model = make_pipeline(lower, SequenceClassifier(**SMALL, hidden=8, epochs=30, validation=0.0))
    model.fit(["AB", "ba", "Ab", "BA"] * 4, ["x", "y"] * 8)
    assert model.predict(["aB", "Ba"]).tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden": 0}, r"`hidden` \(=0\) .*greater than or equal to 1"),
        ({"cell": "lstn"}, r"`cell` .*lstn.*Did you mean 'lstm'"),
        ({"pooling": "sum"}, r"`pooling` \(='sum'\)"),
        ({"validation": 1.5}, r"`validation` \(=1.5\)"),
        ({"validation": ["file.csv"]}, r"`validation` .*is not a fraction"),
        ({"tokenizer": "letters"}, r"`tokenizer` \(='letters'\)"),
        ({"settings": {"hidden": 8}}, "`settings` .*has 'hidden', which is a parameter. Give `hidden=…`"),
        ({"settings": {"seed": 8}}, "`settings` .*has 'seed', which has no effect on data in memory"),
        ({"settings": {"text_column": "a"}}, "`settings` .*has 'text_column', which has no effect on data in memory"),
        ({"settings": {"weight_deccay": 8}}, "`weight_deccay` .*Did you mean `weight_decay`"),
    ],
)
def test_parameters_are_checked_before_anything_is_read(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        SequenceClassifier(**parameters).fit(["a", "b"], [0, 1])


def test_data_that_cannot_be_learned_from_is_refused_by_name_and_place() -> None:
    model = SequenceClassifier(**SMALL, hidden=4, epochs=1)
    with pytest.raises(DataError, match=r"X\[1\]: the sequence is empty"):
        model.fit(["a", "", "b"], [0, 1, 1])
    with pytest.raises(DataError, match="all of `y` is one class, .*1.*two classes"):
        model.fit(["a", "b"], [1, 1])
    with pytest.raises(DataError, match=r"X\[2\]: the sequence has shape \(2, 3\), not \(steps, 1\)"):
        model.fit([np.ones(2), np.ones(3), np.ones((2, 3)), np.ones(1)], [0, 1, 0, 1])
    with pytest.raises(DataError, match=r"X\[0\]: step 1, feature 0 is nan. Fill it in"):
        model.fit([np.array([1, np.nan]), np.ones(3)], [0, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(["a", "b"], [1, 0, 1])
    fitted = model.fit(["a", "b"], [0, 1])
    with pytest.raises(UnspoolError, match="is numbers, and the model was fitted on texts"):
        fitted.predict([[1.0]])


def test_a_cell_of_one_s_own_is_pickled_as_equations() -> None:
    class Minimal(Cell):
        def step(self, x: Any, h: Any) -> Any:
            return tanh(self.linear("n", x, h))

    texts, labels = ["ab", "ba", "aab", "bba"] * 5, ["first", "second"] * 10
    fitted = SequenceClassifier(cell=Minimal, hidden=4, epochs=1, random_state=0).fit(texts, labels)
    again = pickle.loads(pickle.dumps(fitted.set_params(cell=None)))
    np.testing.assert_array_equal(again.predict_proba(texts), fitted.predict_proba(texts))
