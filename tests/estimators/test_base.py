"""What all estimators have in common: a state without code, seeds, words on the way, and a hint where nobody is."""

from __future__ import annotations

import io
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone

from unspool.estimators import SequenceClassifier

TEXTS, LABELS = ["ab", "ba", "aab", "bba"] * 6, ["x", "y"] * 12
MODEL = SequenceClassifier(hidden=8, epochs=3, dropout=0.2, random_state=3)


def test_a_pickled_model_says_the_same_and_holds_no_code(tmp_path: Path) -> None:
    model = clone(MODEL).fit(TEXTS, LABELS)
    joblib.dump(model, tmp_path / "model.joblib")
    before = torch.get_rng_state()
    again = joblib.load(tmp_path / "model.joblib")
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))
    assert again.history_ == model.history_
    written = pickletools.genops(io.BytesIO(pickle.dumps(model, protocol=2)))
    modules = {str(value).split()[0].split(".")[0] for code, value, _ in written if code.name == "GLOBAL"}
    assert modules <= {"unspool", "numpy", "_codecs", "copy_reg"}


def test_the_same_seed_gives_the_same_model_and_touches_no_other_chance() -> None:
    before = torch.get_rng_state()
    first, second = (clone(MODEL).fit(TEXTS, LABELS).predict_proba(TEXTS) for _ in range(2))
    other = clone(MODEL).set_params(random_state=4).fit(TEXTS, LABELS).predict_proba(TEXTS)
    chance = clone(MODEL).set_params(random_state=np.random.RandomState(7)).fit(TEXTS, LABELS).predict_proba(TEXTS)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, chance)


def test_verbose_tells_each_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    model = clone(MODEL).fit(TEXTS, LABELS)
    assert capsys.readouterr().out == ""
    model.set_params(verbose=True).fit(TEXTS, LABELS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.history_)
    assert "accuracy" in lines[0]
    assert lines[0].endswith("best so far")


def test_a_further_setting_is_used_and_an_end_in_steps_takes_the_place_of_epochs() -> None:
    model = clone(MODEL).set_params(epochs=None, settings={"steps": 5, "optimizer": "sgd"}).fit(TEXTS, LABELS)
    assert (model.config_.training.steps, model.config_.training.epochs) == (5, None)
    assert model.config_.training.optimizer == "sgd"


WITHOUT = """
import sys
import unspool
assert "sklearn" not in sys.modules
sys.modules["sklearn"] = None
import unspool.estimators
"""


def test_scikit_learn_is_asked_for_only_where_it_is_needed() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "unspool.errors.MissingPackageError: unspool.estimators needs sklearn: pip install 'unspool[sklearn]'"
    )
