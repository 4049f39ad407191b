"""What a search tries: from declarations, from what a user gives, and around what a run would have."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.errors import ArgumentError
from unspool.runs.config import read_config
from unspool.settings.catalogue import SETTINGS, TASK_SETTINGS
from unspool.settings.search import USUAL, Around, Choices, Span, fit_space, read_search


@pytest.mark.parametrize("task", TASK_SETTINGS)
def test_every_declared_value_is_valid_in_every_task_and_the_default_is_among_them(task: str) -> None:
    defaults: Any = TASK_SETTINGS[task].defaults
    for name, one in SETTINGS.items():
        if one.search is None or task not in one.tasks:
            continue
        space = fit_space(name, one.search, one.defaults[task], sequences=10_000)
        assert space.holds(one.defaults[task]), name
        for value in space.examples():
            if value is None or (name, value) in (("residual", True), ("skip", True), ("engine", "torch")):
                continue  # with other settings only
            read_config(defaults, {"data": {"files": ["a"]}, one.section: {name: value}}, task=task)


def test_every_task_has_the_usual_ones() -> None:
    assert all(task in SETTINGS[name].tasks and SETTINGS[name].search for name in USUAL for task in TASK_SETTINGS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lr", {"lr": None}),
        ("lr,hidden", {"lr": None, "hidden": None}),
        ("lr=1e-4..1e-2", {"lr": Span(1e-4, 1e-2, log=True)}),
        ("lr=0.002..0.01", {"lr": Span(0.002, 0.01)}),
        ("dropout=0..0.5", {"dropout": Span(0, 0.5)}),
        ("layers=1..4", {"layers": Span(1, 4, step=1)}),
        ("hidden=16..256", {"hidden": Span(16, 256, log=True, step=1)}),
        ("cell=lstm|gru, tied=true|false", {"cell": Choices(("lstm", "gru")), "tied": Choices((True, False))}),
        ("cell=lstm(projection=3,a=1)|gru,lr", {"cell": Choices(("lstm(projection=3,a=1)", "gru")), "lr": None}),
        (["lr", "hidden=64|128"], {"lr": None, "hidden": Choices((64, 128))}),
        ({"lr": (0.001, 0.1), "cell": ["gru"]}, {"lr": Span(0.001, 0.1, log=True), "cell": Choices(("gru",))}),
    ],
)
def test_what_a_user_gives_is_read(text: Any, found: Any) -> None:
    assert read_search(text) == found


@pytest.mark.parametrize(
    "text", ["", "lr,,hidden", "lr,lr", "lr=..", "lr=2..1", "lr=1..", "lr=a..b", {"lr": 3}, {"lr": []}]
)
def test_what_cannot_be_read_is_refused(text: Any) -> None:
    with pytest.raises(ArgumentError, match="`search` .*Give names, such as 'lr,hidden'"):
        read_search(text)


def test_widths_grow_with_the_data() -> None:
    around = Around(0.25, 2.0, whole=True)
    assert around.span(128, 1_000) == Span(32, 128, step=8)
    assert around.span(128, 10_000) == Span(32, 256, step=8)
    assert around.span(128, 100_000) == Span(32, 512, step=8)


@pytest.mark.parametrize("base", [1, 2, 3, 20, 100, 300])
def test_a_width_is_always_among_those_around_it(base: int) -> None:
    span = Around(0.25, 2.0, whole=True).span(base, 10_000)
    assert span.holds(base)
    assert 1 <= span.low <= base <= span.high <= 2 * base


def test_what_has_no_usual_values_asks_for_some() -> None:
    with pytest.raises(ArgumentError, match=r"`search` \(='hidden'\) has no values .*'hidden=1\.\.4'"):
        fit_space("hidden", SETTINGS["hidden"].search, (64, 32), 100)


def test_a_value_outside_widens_the_span() -> None:
    assert fit_space("dropout", Span(0.0, 0.7), 0.9, 100) == Span(0.0, 0.9)
    assert fit_space("embedding", Choices((32,)), None, 100) == Choices((None, 32))
