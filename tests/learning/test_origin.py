"""Weights know what they were made with: other settings, cells or vocabularies are refused, and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspool.errors import DataError
from unspool.learning.origin import Origin

PATH = Path("model.safetensors")
CONFIG: dict[str, Any] = {
    "task": "classify",
    "data": {"files": ["a.csv"], "validation": ["b.csv"], "lowercase": True},
    "model": {"hidden": 8, "pooling": "mean"},
    "training": {"steps": 10, "lr": 0.1, "betas": (0.9, 0.99), "device": "cpu"},
}


def changed(section: str, **settings: Any) -> dict[str, Any]:
    return {**CONFIG, section: {**CONFIG[section], **settings}}


def facts(origin: Origin) -> dict[str, Any]:
    return {"origin": origin.facts()}


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        changed("data", files=["elsewhere/a.csv"], validation=["elsewhere/b.csv"]),
        changed("training", steps=99, device="cuda", save_total_limit=1, betas=[0.9, 0.99]),
        changed("training", minutes=3.0, patience=4),
        changed("training", grad_accum=1),  # a default, which an older unspool did not write
    ],
)
def test_what_does_not_change_the_model_may_be_edited(config: dict[str, Any]) -> None:
    Origin(config).check(facts(Origin(CONFIG)), PATH)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (changed("model", pooling="max"), "`pooling` is 'max' in config.toml and 'mean' in model.safetensors"),
        (changed("model", hidden=1_000_000), "`hidden` is 1000000 in config.toml and 8 in model.safetensors"),
        (changed("training", lr=0.2), "`lr` is 0.2 in config.toml and 0.1 in"),
        (changed("training", grad_accum=2), "`grad_accum` is 2 in config.toml and 1 in"),
        (changed("data", validation=0.5), "`validation` is 0.5 in config.toml and 'files' in"),
        ({**CONFIG, "task": "tag"}, "`task` is 'tag' in config.toml and 'classify' in"),
    ],
)
def test_another_setting_is_refused_with_both_values(config: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        Origin(config).check(facts(Origin(CONFIG)), PATH)
    assert said in str(caught.value)


def test_another_vocabulary_and_other_cells_are_refused() -> None:
    kept = facts(Origin(CONFIG, "equations", {"labels": ["a", "b"]}))
    Origin(CONFIG, "equations", {"labels": ["a", "b"]}).check(kept, PATH)
    Origin(CONFIG, "equations", None).check(kept, PATH)  # it is not known, and will be written again
    with pytest.raises(DataError, match="vocabulary.json is not the one that model.safetensors was made with"):
        Origin(CONFIG, "equations", {"labels": ["b", "a"]}).check(kept, PATH)
    with pytest.raises(DataError, match="cell.json is not the one that model.safetensors was made with"):
        Origin(CONFIG, "other equations", {"labels": ["a", "b"]}).check(kept, PATH)


@pytest.mark.parametrize("origin", ["x", 3, [], {}, {"settings": None}, {"settings": []}])
def test_an_origin_of_the_wrong_type_is_refused(origin: Any) -> None:
    with pytest.raises(DataError, match="does not say which settings it was made with"):
        Origin(CONFIG).check({"origin": origin}, PATH)
