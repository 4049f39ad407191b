"""Every setting is declared once: help, config checks, reference and estimators show the same declaration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import call
from tools.write_settings import PAGE, START, insert

from unspool.cli.options import describe
from unspool.cli.spelling import as_options, option, spell
from unspool.errors import ArgumentError
from unspool.runs.train import plan
from unspool.settings.catalogue import SECTIONS, SETTINGS, TASK_SETTINGS
from unspool.settings.names import NAMES, SYNONYMS
from unspool.settings.section import Section

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "unspool"
#: An option's spelling, and not a rule of dashes, a double minus or a CSS variable.
OPTION = re.compile(r"(?<![-\w(])(?<!-Wl,)--[a-z][a-z-]+\b")  # those of a linker are not ours


def test_every_setting_is_in_the_full_help_under_its_group(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 700)
    assert call("train", "--help-all") == 0
    panels = re.split(r"╭─ (\w+) ─", capsys.readouterr().out)
    texts = dict(zip(panels[1::2], panels[2::2], strict=True))
    for one in SETTINGS.values():
        if one.name == "files":  # the argument
            continue
        line = next(line for line in texts[one.group].splitlines() if re.search(rf"│ {option(one.name)}\s", line))
        assert describe(one).replace("\\[", "[") in re.sub(r" +", " ", line)


def test_the_short_help_has_the_common_settings_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 200)
    assert call("train", "--help") == 0
    text = capsys.readouterr().out
    shown = {one.name for one in SETTINGS.values() if re.search(rf"│ {option(one.name)}\s", text)}
    assert shown == {one.name for one in SETTINGS.values() if one.common}
    assert len(shown) < len(SETTINGS) / 2


def test_every_setting_is_in_the_reference() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(START)[2]
    for one in SETTINGS.values():
        row = next((line for line in text.splitlines() if line.startswith(f"| `{one.name}` |")), None)
        assert row is not None, one.name
        assert one.help in row


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_checked_in_a_config(name: str) -> None:
    """A value of no possible type is refused by the setting's own name, for every task that has it."""
    given: dict[str, Any] = {} if name == "files" else {name: object()}
    for task in SETTINGS[name].tasks:
        with pytest.raises(ArgumentError, match=f"`{name}`"):
            plan("data" if name != "files" else [], task=task, **given)


@pytest.mark.parametrize("task", TASK_SETTINGS)
def test_no_two_sections_have_a_setting_of_the_same_name(task: str) -> None:
    sections = TASK_SETTINGS[task].sections
    names = [name for section in SECTIONS for name in sections[section].model_fields]
    assert len(names) == len(set(names))


def test_a_setting_has_one_declaration() -> None:
    """Tasks that share a setting share its help, its group, and all else that is declared of it."""

    def subclasses(of: type[Section]) -> list[type[Section]]:
        return [one for found in of.__subclasses__() for one in (found, *subclasses(found))]

    for section in subclasses(Section):
        if not section.__module__.startswith("unspool.settings"):
            continue
        for name, field in section.model_fields.items():
            facts: Any = field.json_schema_extra
            one = SETTINGS[name]
            declared = {"group": one.group, "common": one.common, "resume": one.resume, "search": one.declared}
            assert facts == declared, name
            assert field.description == one.help, name


def test_no_module_below_the_command_line_spells_an_option() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if "cli" not in path.relative_to(SOURCE).parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OPTION.search(line)
    ]
    assert found == []


def test_the_names_of_settings_are_known_without_their_definitions() -> None:
    assert SETTINGS.keys() == NAMES


def test_suggestions_are_of_settings_or_options() -> None:
    others = {"lr_find", "no_bidirectional", "overwrite"}
    assert set(SYNONYMS.values()) <= SETTINGS.keys() | others
    assert not SYNONYMS.keys() & SETTINGS.keys()


# ── spelling ──


def test_settings_as_options() -> None:
    settings = {"lr": 0.1, "tied": True, "bidirectional": False, "target": ["a", "b"], "bptt": "all"}
    words = ["--lr", "0.1", "--tied", "--no-bidirectional", "--target", "a", "--target", "b", "--bptt", "all"]
    assert as_options(settings) == words


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("`lr` (=-1) should be", "--lr (=-1) should be"),
        ("Give `clip=1`, or `bidirectional=False`.", "Give --clip 1, or --no-bidirectional."),
        ("Use `engine='kernel'`.", "Use --engine kernel."),
        ("`unspool train` and `x` and `W_r`", "`unspool train` and `x` and `W_r`"),
        ("with `overwrite=True`", "with --overwrite"),
        ("`files` is missing", "FILE is missing"),
        ("`FILE` (=None) is missing", "FILE (=None) is missing"),
        ('Use `cell="lstm"`', "Use --cell lstm"),
        ("`target=['a b', 'c']`", "--target 'a b' --target c"),
    ],
)
def test_messages_are_spelled_for_the_command_line(text: str, spelled: str) -> None:
    assert spell(text) == spelled


def test_the_table_of_the_reference_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert insert(text) == text
