"""Settings as options: every setting by its own name, quoted for a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from unspool.cli.spelling import as_options, spell_command
from unspool.errors import ArgumentError
from unspool.insight.report.advice import Retrain


def test_settings_become_options() -> None:
    settings = {
        "clip": 1.0,
        "forget_bias": 2.0,
        "tied": True,
        "bidirectional": False,
        "target": ["a", "b c"],
        "layers": 2,
    }
    assert as_options(settings) == [
        *("--clip", "1.0", "--forget-bias", "2.0", "--tied", "--no-bidirectional"),
        *("--target", "a", "--target", "b c", "--layers", "2"),
    ]
    assert as_options({"data": Path("a/b"), "target": ()}) == ["--data", "a/b"]
    assert as_options({}) == []


@pytest.mark.parametrize("value", [None, {"a": 1}, [None], object()])
def test_what_an_option_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match=r"`clip`.*cannot be written as an option"):
        as_options({"clip": value})


def test_a_command_can_be_pasted_into_a_shell() -> None:
    command = spell_command(Retrain.of("runs/my book; rm -rf"), {"cell": "lstm", "clip": 1.0})
    assert shlex.split(command) == [
        *("unspool", "train", "--config", "runs/my book; rm -rf/config.toml", "--out", "runs/my book; rm -rf-2"),
        *("--cell", "lstm", "--clip", "1.0"),
    ]
