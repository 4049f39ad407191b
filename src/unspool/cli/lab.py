"""unspool lab: the field's claims, each re-run on this machine."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.lab.catalogue import select
from unspool.lab.claims import DOCUMENTS, Claim
from unspool.language import LANGUAGES, Translator, choose_language

if TYPE_CHECKING:
    from unspool.lab.folder import Folder, Record
    from unspool.lab.running import Event

OUT = Path("runs", "lab")
RUN, OUTPUT = "What to run", "Output"


def lab(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHAPTER…] | check FILE | data NAME", help="Chapters by name or id; none lists them."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Run every chapter.", rich_help_panel=RUN)] = False,
    document: Annotated[
        str | None, typer.Option(help=f"Only claims of {', '.join(DOCUMENTS)}.", rich_help_panel=RUN)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes: all chapters in minutes.", rich_help_panel=RUN)
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of trained claims. Default: 5, quick 3.", rich_help_panel=RUN)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.", rich_help_panel=RUN)] = 0,
    again: Annotated[bool, typer.Option("--again", help="Run finished chapters again.", rich_help_panel=RUN)] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Chapters at a time. Default: one per core.", rich_help_panel=RUN)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help=f"The folder of results. Default: {OUT}.", rich_help_panel=OUTPUT)
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per chapter.", rich_help_panel=OUTPUT)
    ] = False,
    lang: Annotated[
        str | None,
        typer.Option(help=f"{' or '.join(LANGUAGES)}. Default: that of the locale.", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """Re-run what is said about recurrent networks, and see each claim hold, or fail, on this machine.

    Without a name the chapters are listed. Finished chapters are kept in the folder and not run again. A verdict is
    computed from numbers: *holds*, *does not hold*, or *not decided*, which more seeds may decide.

    `check FILE` takes a Python file with a function `rnn(x, W, U, b, h0)` of NumPy or torch: x is (batch, time, input),
    W (hidden, input), U (hidden, hidden), b (hidden,), h0 (batch, hidden), and it returns the states of all steps,
    (batch, time, hidden). The check says at which step and probably why it differs, and exits with 1 if it does.

    **Examples**

    - `unspool lab`: list the chapters
    - `unspool lab adding kalman`: run two of them
    - `unspool lab --all --quick`: everything, in minutes; writes runs/lab/index.html
    - `unspool lab --document S1 --seeds 10`: decide what was not decided
    - `unspool lab --all --json | jq -r '[.id, .verdict] | @tsv'`
    - `unspool lab check my_rnn.py`: compare your own RNN with the reference, and learn where it differs
    - `unspool lab data adding --out adding.npz`: write generated data to a file
    """
    translate = Translator(choose_language(lang))
    if names and names[0] in ("check", "data"):
        _run_tool(names, out, seed, translate)
    elif not names and not all_ and document is None:
        list_chapters(select(), quick, json, translate)
    else:
        claims = choose(names or [], all_, document)
        run(claims, quick, seeds, seed, again, jobs, out or OUT, json, translate)


def choose(names: list[str], all_: bool, document: str | None) -> list[Claim]:
    """The chapters to run; options that exclude each other are refused."""
    if names and all_:
        raise ArgumentError.of("all", True, f"runs every chapter, beside {', '.join(names)}", "Leave one out")
    claims = select(names, document)
    if not claims:
        raise ArgumentError.of("document", document, f"has none of {', '.join(names)}", "Leave one out")
    return claims


def _run_tool(names: list[str], out: Path | None, seed: int, translate: Translator) -> None:
    tool, rest = names[0], names[1:]
    if tool == "check":
        from unspool.cli.lab_check import check

        check(rest, translate)
    else:
        from unspool.cli.lab_data import write_data

        write_data(rest, out, seed)


def list_chapters(claims: list[Claim], quick: bool, json: bool, translate: Translator) -> None:
    """Print what there is to run."""
    if json:
        for claim in claims:
            entry = {"id": claim.id, "name": claim.name, "question": claim.question, "claim": claim.claim}
            print(json_.dumps({**entry, "kind": claim.kind, "heading": claim.heading}, ensure_ascii=False))
        return
    from unspool.cli.lab_list import chapter_table

    console().print(chapter_table(claims, quick, translate))


def run(
    claims: list[Claim],
    quick: bool,
    seeds: int | None,
    seed: int,
    again: bool,
    jobs: int | None,
    out: Path,
    json: bool,
    translate: Translator,
) -> None:
    """Run chapters, print their verdicts, and write the page."""
    from unspool.cli.lab_view import JsonView, LiveView
    from unspool.lab.chapter import Study
    from unspool.lab.folder import Folder
    from unspool.lab.running import run_chapters
    from unspool.storage.files import make_folder

    if out.exists() and not out.is_dir():
        raise ArgumentError.of("out", str(out), "is a file", "Give a folder")
    make_folder(out / "chapters")
    folder = Folder(out)
    try:
        with JsonView() if json else LiveView(claims, translate) as view:
            events = run_chapters(claims, Study(quick, seeds, seed), folder, view.tell, again, jobs)
    except KeyboardInterrupt:
        write_page(folder, translate)
        kept = translate("Finished chapters are kept. The same command runs the others.")
        console(error=True).print(kept)
        raise
    finish(events, folder, json, translate)


def finish(events: list[Event], folder: Folder, json: bool, translate: Translator) -> None:
    """Write the page of all finished chapters; exit with 1 if a chapter could not be run."""
    write_page(folder, translate)
    if not json:
        from unspool.cli.lab_view import summary

        console().print(summary(events, folder, translate))
    if any(event.kind == "failed" for event in events):
        raise typer.Exit(1)


def write_page(folder: Folder, translate: Translator) -> None:
    """Write the page of all finished chapters, if there are any."""
    from unspool.lab.claims import CLAIMS
    from unspool.lab.page import render_page
    from unspool.storage.files import write_file

    records = folder.read_all(CLAIMS)
    if records:
        write_file(folder.page, render_page(records, translate.language, command).encode("utf-8"))


def command(record: Record) -> str:
    """The command that measures a chapter again."""
    quick = " --quick" if record.quick else ""
    return f"unspool lab {record.name}{quick} --seeds {record.count} --seed {record.first} --again"
