"""The documents: their code runs, their links lead somewhere, and what they name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import unspool
from unspool.cells import CATALOGUE

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
EQUATIONS = ROOT / "docs" / "equations.md"

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """The fenced blocks of a language, each with the number of the line before its first."""
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text[: match.start()].count("\n") + 1, match[1]


def run(path: Path) -> dict[str, Any]:
    """Run a document's blocks of Python in their order, in one namespace."""
    namespace: dict[str, Any] = {"__name__": path.stem}
    for line, block in blocks(read(path), "python"):
        code = compile("\n" * line + block, str(path), "exec", dont_inherit=True)
        exec(code, namespace)  # the documents are ours
    return namespace


@each_document
def test_code_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what they write
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run(path)


@pytest.mark.parametrize("name", ["tour", "choosing", "extending"])
def test_there_is_code_to_run(name: str) -> None:
    text = read(ROOT / "docs" / f"{name}.md")
    found = list(blocks(text, "python"))
    assert len(found) == text.count("```python") >= 3
    assert any("assert " in block for _, block in found)


def test_broken_code_fails_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.md"
    path.write_text("# Title\n\n```python\na = 1\n```\nWords.\n```python\nb = a\nassert b == 2\n```\n", "utf-8")
    with pytest.raises(AssertionError) as caught:
        run(path)
    assert caught.traceback[-1].lineno + 1 == 9
    assert Path(caught.traceback[-1].path) == path


def without_code(text: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives a document's headings."""
    headings = re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> list[str]:
    """The relative links of a document."""
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(read(path)))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def dead_links(path: Path) -> list[str]:
    """Those that lead nowhere."""
    dead = []
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(read(target))):
            dead.append(link)
    return dead


@each_document
def test_links_lead_somewhere(path: Path) -> None:
    assert dead_links(path) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(
        "# A `b` C\n[1](b.md) [2](a.md) [3](#a-b-c) [4](a.md#d) [5](https://example.org/x)\n```\nf[0](x)\n```\n",
        "utf-8",
    )
    assert dead_links(path) == ["b.md", "a.md#d"]


def test_every_document_can_be_reached_from_the_readme() -> None:
    linked = {(ROOT / link).resolve() for link in links(ROOT / "README.md")}
    assert {path.resolve() for path in DOCUMENTS if path.name != "README.md"} <= linked


@each_document
def test_files_that_are_named_exist(path: Path) -> None:
    named = re.findall(r"`((?:src|tests|tools|docs)/[\w/.-]+)`", read(path))
    assert [file for file in named if not (ROOT / file).exists()] == []


@each_document
def test_names_of_unspool_that_are_written_exist(path: Path) -> None:
    """`nn.Stack`, `unspool.nn.init.chrono_(…)`, `cells.LSTM(projection=32)`: whatever starts in a room."""
    missing = []
    for name in re.findall(r"`(?:unspool\.)?((?:cells|engine|errors|exchange|nn)\.[\w.]+)[`(]", read(path)):
        value: Any = unspool
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is None:
            missing.append(name)
    assert missing == []


def rows(text: str) -> dict[str, list[str]]:
    """The table rows that open with an id such as A1, by the id."""
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return {cells[0].strip("| "): cells[1:] for cells in found if re.fullmatch(r"[AB]\d+", cells[0].strip("| "))}


def test_every_system_is_in_the_table_of_equations() -> None:
    table = rows(read(EQUATIONS))
    assert list(table) == [f"A{n}" for n in range(1, 13)] + [f"B{n}" for n in range(1, 12)]
    for name, cells in table.items():
        assert len(cells) == 4, name
        assert re.search(r"`(cells|nn|exchange)\.\w+", cells[0]), f"{name} has no name in unspool"
        assert re.search(r"`tests/[\w/]+\.py`", cells[3]), f"{name} has no test"


def test_printed_equations_are_those_that_the_cells_print() -> None:
    printed = dict(re.findall(r"^### `([\w-]+)`\n\n```math\n(.*?)\n```$", read(EQUATIONS), re.DOTALL | re.MULTILINE))
    assert {"elman", "lstm", "gru", "gru-reset-after"} <= printed.keys() <= CATALOGUE.keys()
    for name, text in printed.items():
        assert text == CATALOGUE[name]().latex(), name
