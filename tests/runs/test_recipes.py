"""A recipe that is named after a paper makes the updates of that paper: weight by weight, against plain torch."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.oracles import awd_lstm, zaremba
from torch import Tensor

from unspool.learning import optimizers
from unspool.learning.loop import Loop
from unspool.runs.fitting import prepare_task
from unspool.runs.recipes import RECIPES
from unspool.runs.train import make_loop, plan
from unspool.tasks.lm import LanguageModelling

WORDS, WIDTH = 60, 24


def write_text(folder: Path, words: int) -> Path:
    """Words that depend on the word before, in lines of ten."""
    chance, word, lines = random.Random(0), 0, list[str]()
    for _ in range(words // 10):
        line = []
        for _ in range(9):  # and the end of the line
            word = (2 * word + chance.randrange(5)) % WORDS
            line.append(f"w{word}")
        lines.append(" ".join(line) + "\n")
    path = folder / "text.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def start(recipe: str, text: Path, **options: Any) -> tuple[Loop, Tensor]:
    """A run before its first update, in float64, and the tokens that it trains on."""
    loop = make_loop(*prepare_task(plan(text, recipe=recipe, **options)))
    for parameter in loop.learner.double().parameters():  # larger than the recipe's, so that few updates change each
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    loop._begin_epoch(0)
    assert isinstance(loop.task, LanguageModelling)
    return loop, torch.from_numpy(loop.task.corpus.training.astype("int64"))


def compare(loop: Loop, model: zaremba.Model, first: Mapping[str, Tensor]) -> None:
    """Both have the same weights, of which each has changed."""
    expected = dict(model.named_weights())
    for name, weight in loop.learner.named_parameters(remove_duplicate=False):
        assert (weight - first[name]).abs().max() > 1e-3
        torch.testing.assert_close(weight, expected.pop(name), rtol=0, atol=1e-9)
    assert not expected


# Each text ends within a window, and gives a recipe 50 updates or more until the learning rate has decayed twice.
@pytest.mark.parametrize(
    ("recipe", "words"), [("zaremba-small", 4200), ("zaremba-medium", 5000), ("zaremba-large", 2700)]
)
def test_a_recipe_makes_the_updates_of_its_paper(
    recipe: str, words: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through epochs, decays, clipped gradients and a shorter last window; both draw the same dropout."""
    monkeypatch.setattr(optimizers, "LARGE", WORDS)  # sparse gradients, as with the vocabulary of the paper
    loop, tokens = start(recipe, write_text(tmp_path, words), hidden=WIDTH)
    paper = zaremba.RECIPES[recipe]
    first = {name: weight.detach().clone() for name, weight in loop.learner.named_parameters()}
    model = zaremba.Model(len(first["head"]), WIDTH, paper).double().take(first)
    epochs = paper.flat_epochs + 2
    torch.manual_seed(1)
    *_, updates = islice(zaremba.train(model, tokens, paper), epochs)
    torch.manual_seed(1)
    for _ in range(updates):
        loop._update(0.0)
    assert loop.learner.get_submodule("embedding").sparse
    assert updates >= 50
    assert (len(tokens) - 1) // paper.batch_size % paper.steps
    assert (loop.position.epoch, loop.position.batch) == (epochs, 0)
    assert 0 < loop.position.clipped < updates
    compare(loop, model, first)


def test_awd_lstm_makes_the_updates_of_a_plain_script(tmp_path: Path) -> None:
    """Locked dropout, weight dropout, embedding dropout, AR, TAR, weight decay and clipping, through three epochs."""
    loop, tokens = start("awd-lstm-small", write_text(tmp_path, 6000), hidden=WIDTH)
    first = {name: weight.detach().clone() for name, weight in loop.learner.named_parameters(remove_duplicate=False)}
    model = awd_lstm.Model(len(first["head"]), WIDTH).double().take(first)
    torch.manual_seed(1)
    *_, updates = islice(awd_lstm.train(model, tokens), 3)
    torch.manual_seed(1)
    for _ in range(updates):
        loop._update(0.0)
    assert (loop.position.epoch, loop.position.batch) == (3, 0)
    compare(loop, model, first)


def test_every_recipe_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", text.partition("### Recipes")[2].partition("###")[0], re.MULTILINE) == [
        *RECIPES
    ]
