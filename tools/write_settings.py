"""Write the table of settings into docs/reference.md, from their declarations: python tools/write_settings.py"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from unspool.settings.catalogue import SETTINGS, TASK_SETTINGS, Setting
from unspool.settings.section import Group

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
START, END = "<!-- settings: written by tools/write_settings.py -->", "<!-- end of settings -->"


def main() -> None:
    """Replace what stands between the two marks."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(insert(text), encoding="utf-8")


def insert(text: str) -> str:
    """The page with its table of settings made anew."""
    table = "\n".join(tables())
    return re.sub(f"{START}.*{END}", lambda _: f"{START}\n{table}\n{END}", text, flags=re.DOTALL)


def tables() -> Iterator[str]:
    """A table per group: name, section, default, tasks, help."""
    for group in get_args(Group):
        settings = [one for one in SETTINGS.values() if one.group == group]
        yield f"\n### {group}\n"
        yield "| setting | section | default | tasks | |"
        yield "|---|---|---|---|---|"
        for one in settings:
            yield f"| `{one.name}` | {one.section} | {defaults(one)} | {tasks(one)} | {one.help}{resumable(one)} |"
    yield ""


def defaults(one: Setting) -> str:
    """The default, or those of each task where they differ."""
    found: dict[str, list[str]] = {}
    for task, value in one.defaults.items():
        found.setdefault(written(value), []).append(task)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{value or 'none'} ({', '.join(names)})" for value, names in found.items())


def written(value: Any) -> str:
    """A default as TOML has it; empty where there is none."""
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value)}`" if isinstance(value, tuple) else f"`{value}`"


def tasks(one: Setting) -> str:
    """The tasks that have the setting."""
    return "all" if set(one.tasks) == set(TASK_SETTINGS) else ", ".join(one.tasks)


def resumable(one: Setting) -> str:
    """A word on settings that may change."""
    return "; may change on resume" if one.resume else ""


if __name__ == "__main__":
    main()
