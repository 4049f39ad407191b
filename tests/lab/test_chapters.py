"""Every chapter: judged on numbers that must make the claim hold, fail or stay open; shown; public names only.

`tests/lab/cases/<chapter>.py` has the numbers. `HOLDS` is None for a chapter whose own measurement is cheap enough to
be made here. `UNDECIDED` is None for a claim that no number can leave open.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from types import ModuleType
from typing import Any

import pytest

import unspool
from unspool.insight.report.plain import to_plain
from unspool.lab import CLAIMS, Found, Study, find_chapter

#: Chapters about errors in the documents: their claims must not hold.
ERRORS = {"harmonic", "indices"}


def written(name: str) -> bool:
    return importlib.util.find_spec(f"unspool.lab.chapters.{name.replace('-', '_')}") is not None


NAMES = [name for name in CLAIMS if written(name)]


def cases(name: str) -> ModuleType:
    return importlib.import_module(f"tests.lab.cases.{name.replace('-', '_')}")


def as_json(found: Any) -> Found:
    """Numbers as a chapter gets them back from a file."""
    plain: Found = json.loads(json.dumps(to_plain(found)))
    return plain


def holding(name: str) -> Found:
    found = cases(name).HOLDS
    return as_json(found if found is not None else find_chapter(name).measure(Study(quick=True)))


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_follows_from_the_numbers(name: str) -> None:
    chapter, case = find_chapter(name), cases(name)
    assert chapter.claim == CLAIMS[name].id
    expected = "does not hold" if name in ERRORS else "holds"
    assert chapter.judge(holding(name)).outcome == expected
    if case.FAILS is not None:
        assert chapter.judge(as_json(case.FAILS)).outcome == ("holds" if name in ERRORS else "does not hold")
    if case.UNDECIDED is not None:
        assert chapter.judge(as_json(case.UNDECIDED)).outcome == "not decided"
    assert case.FAILS is not None
    assert case.UNDECIDED is not None or CLAIMS[name].kind in ("exact", "measured")


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_shown(name: str) -> None:
    found = holding(name)
    shown = find_chapter(name).show(found)
    assert shown.figures
    for table in shown.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.heading)}


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_uses_public_names_only(name: str) -> None:
    module = importlib.import_module(f"unspool.lab.chapters.{name.replace('-', '_')}")
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "unspool":
            check_public(node.module, [alias.name for alias in node.names])
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_") or node.attr.startswith("__"), node.attr


def check_public(module: str, names: list[str]) -> None:
    """The module is a public room, or a room's public module, and lists these names; texts with values are messages."""
    if (module, names) == ("unspool.language", ["Message"]):
        return
    room, _, inner = module.removeprefix("unspool").lstrip(".").partition(".")
    assert not room or room in unspool.__all__, module
    assert inner in ("", "data", "init"), module
    offered = importlib.import_module(module)
    public = getattr(offered, "__all__", None) or [one for one in vars(offered) if not one.startswith("_")]
    assert set(names) <= set(public), (module, names)
