"""Defaults by data: they are settings of their task, and follow its size and kind."""

from __future__ import annotations

import pytest

from unspool.settings.catalogue import TASK_SETTINGS
from unspool.settings.defaults import FEWEST_EPOCHS, MOST_EPOCHS, UPDATES_OF_WORDS, DataFacts, choose_defaults

WORDS = DataFacts(5_000, 10, 6, "words")


@pytest.mark.parametrize("unit", ["words", "characters", "bytes", "tokens", "steps"])
@pytest.mark.parametrize("task", [*TASK_SETTINGS])
@pytest.mark.parametrize("examples", [1, 500, 1_000_000])
def test_every_choice_is_a_valid_setting(task: str, unit: str, examples: int) -> None:
    sections = TASK_SETTINGS[task]
    for name, value in choose_defaults(task, DataFacts(examples, 10, 6, unit)).items():
        section = sections.section_of(name)
        assert section is not None
        assert section != "data"  # data has been read when defaults are chosen
        sections.sections[section].model_validate({name: value})


def test_small_data_is_read_more_often() -> None:
    epochs = [choose_defaults("classify", WORDS._replace(examples=n))["epochs"] for n in (10, 2_000, 8_000, 10**6)]
    assert epochs[0] == MOST_EPOCHS > epochs[1] > epochs[2] > epochs[3] == FEWEST_EPOCHS
    assert epochs[1] * 2_000 / 32 == pytest.approx(UPDATES_OF_WORDS, rel=0.05)


@pytest.mark.parametrize("examples", [16, 32, 128])
def test_larger_batches_take_more_passes_for_as_many_updates(examples: int) -> None:
    epochs = choose_defaults("classify", WORDS, examples)["epochs"]
    assert epochs * WORDS.examples / examples == pytest.approx(UPDATES_OF_WORDS, rel=0.07)


def test_words_are_spelled_and_characters_are_not() -> None:
    assert choose_defaults("classify", WORDS)["subwords"] > 0
    assert "subwords" not in choose_defaults("classify", WORDS._replace(unit="characters"))


def test_numbers_keep_the_declared_defaults() -> None:
    assert not choose_defaults("classify", WORDS._replace(unit="steps"))
