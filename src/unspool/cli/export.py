"""unspool export: a trained model as C, as WebAssembly, as a page, or as ONNX."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.exchange.c.convert import has_tokenizer
from unspool.exchange.c.export import make_c, make_html, make_wasm
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.sizes import weigh
from unspool.exchange.c.vocabulary import read_interface
from unspool.exchange.files import check_distinct, check_free, write_files
from unspool.runtime.network import Translator
from unspool.runtime.run import Kept, read_run

#: Bytes of weights as C text from which a hint says how to have less.
LARGE = 32_000_000


class Place(StrEnum):
    """Where weights go."""

    inside = "inside"
    separate = "separate"


class Request(NamedTuple):
    """One target that was asked for: its file, and what makes its files from a run."""

    path: Path
    make: Callable[[Kept], dict[Path, bytes]]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    c: Annotated[Path | None, typer.Option("--c", help="One C99 file, and its header beside it.")] = None,
    main: Annotated[
        bool, typer.Option("--main", help="Add a program to the C file that reads standard input.")
    ] = False,
    weights: Annotated[
        Place, typer.Option(help="Weights inside the C file, or as a binary file beside it.")
    ] = Place.inside,
    int8: Annotated[bool, typer.Option("--int8", help="Matrices in int8, with a scale per row.")] = False,
    wasm: Annotated[Path | None, typer.Option("--wasm", help="A WebAssembly module.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="A page that runs the model offline.")] = None,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", help="An ONNX file, checked with ONNX Runtime; its vocabulary beside it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
) -> None:
    """Write a trained model in a form that needs neither unspool nor Python.

    **Examples**

    - `unspool export runs/book --c book.c --main`, then `cc -O3 book.c -lm -o book && ./book 300`
    - `unspool export runs/weather --c weather.c --int8 --weights separate`
    - `unspool export runs/book --wasm book.wasm --html book.html`
    - `unspool export runs/book --onnx book.onnx`
    """
    notes: list[str] = []
    asked = [
        *_ask_c(c, main, weights, int8, compiled=bool(wasm or html)),
        *([Request(wasm, lambda kept: make_wasm(kept.network, wasm, _interface(kept), int8=int8))] if wasm else []),
        *([Request(html, lambda kept: make_html(kept.network, html, _interface(kept), int8=int8))] if html else []),
        *([Request(onnx, lambda kept: _make_onnx(kept, onnx, notes))] if onnx else []),
    ]
    if not asked:
        raise ArgumentError("there is nothing to export. Give a target: --c, --wasm, --html or --onnx.")
    check_distinct(request.path for request in asked)
    check_free([request.path for request in asked], overwrite)
    kept = read_run(run)
    for hint in _hints(kept, c is not None and weights is Place.inside, bool(wasm or html), int8):
        console().print(hint, highlight=False, soft_wrap=True)
    parts = [request.make(kept) for request in asked]
    notes += _differences(kept) if c or wasm or html else []
    check_distinct(path for part in parts for path in part)  # one dictionary of all would hide what is twice in them
    made = {path: content for part in parts for path, content in part.items()}
    write_files(made, overwrite)
    for path, content in made.items():
        console().print(f"{path}  {len(content):,} bytes", highlight=False, soft_wrap=True)
    for note in notes:
        console().print(note, highlight=False, soft_wrap=True)


def _hints(kept: Kept, text: bool, compiled: bool, int8: bool) -> list[str]:
    """What makes a large export smaller; said before it is made, which takes long as well."""
    now, small = weigh(kept.network, int8), weigh(kept.network, int8=True)
    if now.text <= LARGE or not (text or compiled):
        return []
    ways = [] if int8 else [f"--int8 makes that {_megabytes(small.text if text else small.binary)}"]
    if text:
        beside = _megabytes(now.binary) + ("" if int8 else f", or {_megabytes(small.binary)} with --int8")
        ways += [f"--weights separate keeps them in a file of {beside}, beside a small C file"]
    size = f"{_megabytes(now.text)} of C" if text else _megabytes(now.binary)
    remedy = f" {'; '.join(ways)}." if ways else ""
    return [f"The weights take about {size}, which is slow to compile.{remedy}"]


def _differences(kept: Kept) -> list[str]:
    """What the exported code does otherwise than the run, and what to use instead."""
    found, interface = [], _interface(kept)
    if interface.vocabulary is not None and not has_tokenizer(kept.network, interface):
        kinds = {one.kind for one in (interface.vocabulary, interface.target) if one is not None}
        found.append(
            f"The tokenizer ({', '.join(sorted(kinds))}) is not exported: the model reads and writes token ids. "
            "Encode and decode with the run's vocabulary.json, or train with --tokenizer byte, char or word."
        )
    if isinstance(kept.network, Translator) and kept.network.beam_size > 1:
        found.append(
            f"The exported code takes the most likely token at each step, not a beam of {kept.network.beam_size}. For "
            "beams, use unspool predict or unspool.load, which needs no torch."
        )
    return found


def _megabytes(size: int) -> str:
    return f"{max(1, round(size / 1e6)):,} MB"


def _ask_c(path: Path | None, main: bool, weights: Place, int8: bool, compiled: bool) -> list[Request]:
    if path is None:
        if int8 and not compiled:
            raise ArgumentError("--int8 is about C, WebAssembly and pages. Give one of these, or leave it out.")
        if main or weights is Place.separate:
            raise ArgumentError("--main and --weights are about the C file. Give --c, or leave them out.")
        return []
    separate = weights is Place.separate
    if main and separate:
        raise ArgumentError("--main needs the weights inside the C file. Leave out --main or --weights separate.")
    return [
        Request(
            path,
            lambda kept: make_c(kept.network, path, _interface(kept), main=main, int8=int8, separate=separate),
        )
    ]


def _make_onnx(kept: Kept, path: Path, notes: list[str]) -> dict[Path, bytes]:
    from unspool.exchange.onnx.write import make_network  # the other targets need no onnx

    made = make_network(kept.network, path, kept.vocabulary)
    notes.append(made.export.summary())
    return made.contents


def _interface(kept: Kept) -> Interface:
    return read_interface(kept.network, kept.vocabulary)
