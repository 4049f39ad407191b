"""Tasks where torch, pydantic and polars are not installed: every module is imported, and every task is restored from
what a run keeps, encodes examples, predicts and evaluates, with the same numbers as where they are."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.tasks.stand_ins import use

from unspool.data.corpus import Corpus
from unspool.data.memory import count_steps, read_examples
from unspool.data.vocabulary import find_tokenizer
from unspool.errors import ArgumentError, ShapeError
from unspool.settings.catalogue import TASK_SETTINGS
from unspool.tasks.catalogue import TASKS
from unspool.tasks.plain_settings import PlainSettings, with_changes
from unspool.tasks.tag import Sentences

ROOT = Path(__file__).parents[2]
TEXTS = ["play some jazz", "stop", "play blues now", "stop it now"]
WORDS = [text.split() for text in TEXTS]
TAGS = [["O", "O", "B-genre"], ["O"], ["O", "B-genre", "O"], ["O", "O", "O"]]
LABELS = ["play", "stop", "play", "stop"]
WAVE: NDArray[np.float64] = np.sin(np.arange(80) / 3) + np.arange(80.0) % 4
#: Task → examples and targets.
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "lm": ("stop the jazz", None),
    "classify": (["play now", "stop"], ["play", "stop"]),
    "multilabel": (["play now", "stop"], [["a", "b"], []]),
    "regress": ([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], [1.5, 2.5]),
    "tag": ([["play", "jazz"], "stop now please"], [["O", "B-genre"], ["O", "O", "O"]]),
    "joint": ([["play", "jazz"], ["stop"]], [[["O", "B-genre"], "play"], [["O"], "stop"]]),
    "seq2seq": (["jazz", "it"], ["JAZZ", "IT"]),
    "forecast": (WAVE[:60].tolist(), True),
}


def make_task(name: str) -> Any:
    """A task with small training data in memory."""
    given: dict[str, Any] = {"files": ("memory",), **({"target": ("value",)} if name == "forecast" else {})}
    data = TASK_SETTINGS[name].sections["data"].model_validate(given)
    task: Any = TASKS[name]
    if name == "lm":
        vocabulary = find_tokenizer("char").fit(["".join(TEXTS)], None)
        nothing = np.zeros(0, np.int64)
        return task(Corpus(vocabulary, nothing, nothing, nothing, ""))
    if name == "forecast":
        return task.of([count_steps("wave", WAVE)], data)
    return task.of({"training": (one := make_raw(name)), "validation": one}, data)


def make_raw(name: str) -> Any:
    """Training data of a task over sequences."""
    if name == "tag":
        return Sentences.of(WORDS, TAGS)
    if name == "joint":
        found = Sentences.of(WORDS, TAGS)
        return Sentences(replace(one, label=label) for one, label in zip(found, LABELS, strict=True))
    targets: dict[str, list[tuple[Any, ...]]] = {
        "classify": [(label,) for label in LABELS],
        "multilabel": [("a|b",), ("b",), ("",), ("a",)],
        "regress": [(1.0,), (2.0,), (4.0,), (3.0,)],
        "seq2seq": [(text.upper(),) for text in TEXTS],
    }
    numbers = [np.arange(2.0 * (row + 2)).reshape(-1, 2) ** 1.5 for row in range(4)]
    raw = read_examples(numbers if name == "regress" else TEXTS)
    return replace(raw, targets=targets[name])


BLOCKED = """
import importlib, json, pathlib, sys

for name in ("torch", "pydantic", "polars"):
    sys.modules[name] = None
source = pathlib.Path(sys.argv[1])
for room in ("tasks", "decoding", "data"):
    for path in sorted((source / "unspool" / room).rglob("*.py")):
        importlib.import_module(".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"))

from tests.tasks.stand_ins import use
from unspool.tasks.catalogue import find_task
from unspool.tasks.plain_settings import PlainSettings

found = {}
for name, kept in json.load(sys.stdin).items():
    task = find_task(name).restore(kept["document"], PlainSettings.of(kept["data"]))
    assert task.dump() == kept["document"], name
    found[name] = use(task, kept["examples"], kept["targets"])
print(json.dumps(found))
"""

READING = """
import sys

sys.modules["polars"] = None
from unspool.data.tables import read_table
from unspool.errors import MissingPackageError

try:
    read_table(sys.argv[1])
except MissingPackageError as error:
    print(error)
"""


def test_every_task_works_without_torch_pydantic_and_polars() -> None:
    tasks = {name: make_task(name) for name in TASKS}
    assert tasks.keys() == EXAMPLES.keys()
    kept = {
        name: {
            "document": task.dump(),
            "data": {} if name == "lm" else task.data.model_dump(mode="json", exclude_none=True),
            "examples": EXAMPLES[name][0],
            "targets": EXAMPLES[name][1],
        }
        for name, task in tasks.items()
    }
    command = [sys.executable, "-c", BLOCKED, str(ROOT / "src")]
    done = subprocess.run(command, input=json.dumps(kept), capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name, task in tasks.items():
        assert found[name] == json.loads(json.dumps(use(task, *EXAMPLES[name]))), name
        assert found[name]["metrics"], name
        assert found[name].get("rows") or found[name]["sample"], name


def test_a_table_asks_for_the_package_that_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,b\n")
    command = [sys.executable, "-c", READING, str(tmp_path / "a.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"reading {tmp_path / 'a.csv'} needs polars: pip install 'unspool[train]'\n"


def test_settings_can_be_any_object_with_the_attributes() -> None:
    task = make_task("forecast")
    data = SimpleNamespace(**{**dict(task.data), "horizon": None})
    restored = type(task).restore(task.dump(), data)
    assert isinstance(restored.data, SimpleNamespace)
    assert (restored.data.horizon, data.horizon) == (task.terms.horizon, None)
    assert use(restored, WAVE[:60], True) == use(task, WAVE[:60], True)


def test_what_a_config_leaves_out_is_none() -> None:
    data = PlainSettings.of({"files": ["a", "b"], "lowercase": False})
    assert (data.files, data.lowercase, data.text_column) == (("a", "b"), False, None)
    assert vars(with_changes(data, {"text_column": "text"})) == {**vars(data), "text_column": "text"}
    assert not hasattr(data, "__len__")


def test_examples_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="`targets` .=1. are not as many as the 2 examples"):
        make_task("classify").part_of(["a", "b"], ["play"])
    with pytest.raises(ShapeError, match="`targets` .=1. are not as many as the 2 examples"):
        make_task("seq2seq").part_of(["stop", "it"], ["STOP"])
    two = TASKS["forecast"].of(  # type: ignore[attr-defined]
        [count_steps("a", WAVE), count_steps("b", -WAVE)], make_task("forecast").data
    )
    with pytest.raises(
        ArgumentError, match="does not say which series it is. Give a dict of arrays, by the names a, b"
    ):
        two.part_of(WAVE)
    assert len(two.part_of({"b": WAVE, "a": WAVE}).pairs) == 2
    with pytest.raises(ArgumentError, match="'c'.*is not known"):
        two.part_of({"c": WAVE})
