"""The documents: their code runs, their links lead somewhere, and what they name exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from tests.variants import PUBLISHED

import unspool
from unspool.cells import CATALOGUE
from unspool.cli.main import app
from unspool.cli.options import read_assignments, read_value
from unspool.errors import ArgumentError
from unspool.runs.config import read_config, to_sections
from unspool.settings.catalogue import SETTINGS, TASK_SETTINGS

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
EQUATIONS = ROOT / "docs" / "equations.md"

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
#: test_readme.py runs the README's code.
each_other_document = pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path.name != "README.md"], ids=lambda path: path.relative_to(ROOT).as_posix()
)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """The fenced blocks of a language, each with the number of the line before its first."""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if match[1] == language:
            yield text[: match.start()].count("\n") + 1, match[2]


def run(path: Path) -> dict[str, Any]:
    """Run a document's blocks of Python in their order, in one namespace."""
    namespace: dict[str, Any] = {"__name__": path.stem}
    for line, block in blocks(read(path), "python"):
        code = compile("\n" * line + block, str(path), "exec", dont_inherit=True)
        exec(code, namespace)  # the documents are ours
    return namespace


@each_other_document
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


def commands(text: str) -> Iterator[list[str]]:
    """The words of every `unspool …` command: lines of plain blocks without their comments, and inline code."""
    lines = [line for _, block in blocks(text, "") for line in block.splitlines()]
    for line in [*lines, *re.findall(r"`(unspool [^`\n]+)`", without_code(text))]:
        if line.startswith("unspool ") and "…" not in line:
            yield shlex.split(line, comments=True)[1:]


def check_command(words: list[str]) -> None:
    """Parse a command as the command line does, and check its settings for the task, or for any task that fits."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("unspool", list(words), resilient_parsing=True)
    name, command, rest = group.resolve_command(context, list(words))
    if not rest or rest[0] in ("--help", "--help-all"):  # the command is only mentioned
        return
    given = command.make_context(name, list(rest), parent=context).params
    own = {"files", "minutes"} if name == "sweep" else {"files"}  # what a command has beside the settings
    settings = {one: read_value(SETTINGS[one], given[one]) for one in SETTINGS if given.get(one) and one not in own}
    settings |= read_assignments(given.get("set_") or ())
    if isinstance(settings.get("cell"), str) and ".py:" in settings["cell"]:
        del settings["cell"]  # a reader's own file
    if settings:
        check_settings(settings, given.get("task"))


def check_settings(settings: dict[str, Any], task: str | None) -> None:
    """Whether the settings are those of a task."""
    mistakes = []
    for name in [task] if task else TASK_SETTINGS:
        files = {"data": {"files": ["FILE"]}}
        try:
            read_config(files, to_sections(settings, name), task=name)
        except ArgumentError as error:
            mistakes.append(error)
        else:
            return
    raise mistakes[0]


@each_document
def test_commands_are_those_of_the_command_line(path: Path) -> None:
    for words in commands(read(path)):
        try:
            check_command(words)
        except Exception as error:  # whichever, what the document says is wrong
            pytest.fail(f"unspool {shlex.join(words)}: {error}")


def test_there_are_commands_to_check() -> None:
    found = {words[0] for path in DOCUMENTS for words in commands(read(path))}
    assert {"train", "evaluate", "predict", "generate", "plan", "xray", "bench", "check"} <= found


@pytest.mark.parametrize(
    "command",
    [
        "train book.txt --rate 0.1",
        "train book.txt --tokenizer characters",
        "train book.txt --set windows=3",
        "train book.txt --horizon 12 --split lines",
        "train book.txt --task lm --horizon 12",
        "training book.txt",
        "generate --prompt The",
        "evaluate runs/a --split lines",
    ],
)
def test_wrong_commands_are_found(command: str) -> None:
    (words,) = commands(f"Type `unspool {command}`.")
    with pytest.raises(Exception):
        check_command(words)


def test_comments_and_mentions_are_no_mistakes() -> None:
    text = "```\nunspool train a.txt --lr 0.1    # the author's choice\npython b.py\n```\nUse `unspool generate`."
    text += "\n```python\na = 1\n```\nunspool reads\n```python\nb = 2\n```\n"
    found = list(commands(text))
    assert found == [["train", "a.txt", "--lr", "0.1"], ["generate"]]
    for words in found:
        check_command(words)


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
def test_nothing_is_left_to_fill_in(path: Path) -> None:
    assert "TODO" not in read(path)


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


ROOMS = sorted(path.stem for path in (ROOT / "src" / "unspool").iterdir() if not path.name.startswith("_"))


def find_name(name: str) -> object:
    """What a dotted name below unspool stands for, modules imported on the way; None if there is no such thing."""
    value: Any = unspool
    path = "unspool"
    for part in name.split("."):
        path += f".{part}"
        if not hasattr(value, part) and find_spec_of(path):
            import_module(path)
        value = getattr(value, part, None)
        if value is None:
            return None
    return value


def find_spec_of(path: str) -> bool:
    try:
        return find_spec(path) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False


@each_document
def test_names_of_unspool_that_are_written_exist(path: Path) -> None:
    """`nn.Stack`, `unspool.nn.init.chrono_(…)`, `cells.LSTM(projection=32)`: whatever starts in a room."""
    found = re.findall(rf"`(?:unspool\.)?((?:{'|'.join(ROOMS)})\.[\w.]+)[`(]", read(path))
    assert [name for name in found if not name.endswith(".py") and find_name(name) is None] == []


def test_names_are_found_where_they_are() -> None:
    assert find_name("nn.init.chrono_") is unspool.nn.init.chrono_
    assert find_name("tasks.baselines.ngram.NGram") is not None
    assert find_name("tasks.baselines.ngram.Ngram") is None
    assert find_name("nn.LSTM.no_such_method") is None
    assert find_name("no_such_room.name") is None


def rows(text: str) -> dict[str, list[str]]:
    """The table rows that open with an id such as A1, by the id."""
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return {cells[0].strip("| "): cells[1:] for cells in found if re.fullmatch(r"[AB]\d+", cells[0].strip("| "))}


def test_every_system_is_in_the_table_of_equations() -> None:
    table = rows(read(EQUATIONS))
    assert list(table) == [f"A{n}" for n in range(1, 13 + len(PUBLISHED))] + [f"B{n}" for n in range(1, 12)]
    for name, cells in table.items():
        assert len(cells) == 4, name
        assert re.search(r"`(cells|nn|exchange|models)\.\w+", cells[0]), f"{name} has no name in unspool"
        assert re.search(r"`tests/[\w/]+\.py`", cells[3]), f"{name} has no test"


def test_printed_equations_are_those_that_the_cells_print() -> None:
    printed = dict(re.findall(r"^### `([\w-]+)`\n\n```math\n(.*?)\n```$", read(EQUATIONS), re.DOTALL | re.MULTILINE))
    assert printed.keys() == CATALOGUE.keys()
    for name, text in printed.items():
        assert text == CATALOGUE[name]().latex(), name
