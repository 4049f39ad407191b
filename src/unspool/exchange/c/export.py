"""Exports models as files: C and its header, WebAssembly, and a page that runs it; all of them or none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from unspool.exchange.c.convert import write_c
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.names import header_name
from unspool.exchange.c.page import make_page
from unspool.exchange.c.source import Written
from unspool.exchange.c.vocabulary import read_interface
from unspool.exchange.c.zig import compile_wasm
from unspool.exchange.files import check_distinct, check_free, write_files
from unspool.runtime.network import Network, Stack
from unspool.runtime.run import read_run

Model = Network | Stack | str | Path
#: From a network, the target and the interface to the bytes of each file.
Maker = Callable[[Network | Stack, Path, Interface | None], dict[Path, bytes]]


def export_c(
    model: Model,
    path: str | Path,
    *,
    interface: Interface | None = None,
    main: bool = False,
    int8: bool = False,
    separate: bool = False,
    overwrite: bool = False,
) -> list[Path]:
    """Write a model as one C99 file and its header; names in it start with the file's.

    Args:
        model: A run folder; or a network, or layers alone, as `unspool.runtime.network` has them.
        path: The C file. The header, and the weights if they are separate, go beside it.
        interface: Vocabulary, scales and labels of a network; those of a run are its own.
        main: Whether to add a program that reads standard input.
        int8: Whether to keep matrices in int8, with a scale per row.
        separate: Whether weights are a binary file, which `init` takes.
        overwrite: Whether files that exist are replaced.

    Returns:
        The files.

    Example:
        export_c("runs/weather", "weather.c", main=True)
    """
    make = partial(make_c, main=main, int8=int8, separate=separate)
    return _export(model, path, interface, overwrite, make)


def export_wasm(
    model: Model,
    path: str | Path,
    *,
    interface: Interface | None = None,
    int8: bool = False,
    overwrite: bool = False,
) -> list[Path]:
    """Write a model as a WebAssembly module; arguments are those of `export_c`.

    Example:
        export_wasm("runs/weather", "weather.wasm")
    """
    return _export(model, path, interface, overwrite, partial(make_wasm, int8=int8))


def export_page(
    model: Model,
    path: str | Path,
    *,
    interface: Interface | None = None,
    int8: bool = False,
    overwrite: bool = False,
) -> list[Path]:
    """Write an HTML page that runs a model offline; arguments are those of `export_c`.

    Example:
        export_page("runs/weather", "weather.html")
    """
    return _export(model, path, interface, overwrite, partial(make_html, int8=int8))


def _export(model: Model, path: str | Path, interface: Interface | None, overwrite: bool, make: Maker) -> list[Path]:
    """Write what `make` gives for a network, its target and its interface; those of a run folder are read."""
    target = Path(path)
    check_free([target], overwrite)
    if isinstance(model, str | Path):
        kept = read_run(model)
        network: Network | Stack = kept.network
        interface = read_interface(kept.network, kept.vocabulary) if interface is None else interface
    else:
        network = model
    made = make(network, target, interface)
    write_files(made, overwrite)
    return list(made)


def make_c(
    network: Network | Stack,
    path: Path,
    interface: Interface | None = None,
    *,
    main: bool = False,
    int8: bool = False,
    separate: bool = False,
) -> dict[Path, bytes]:
    """The files of `export_c`, not yet written."""
    header, weights = path.with_name(header_name(path)), path.with_suffix(".bin")
    check_distinct((path, header, *([weights] if separate else [])))
    written = write_c(
        network, path.stem, interface=interface, int8=int8, separate=separate, main=main, header=header.name
    )
    made = {path: written.code.encode(), header: written.header.encode()}
    return made if written.blob is None else made | {weights: written.blob}


def make_wasm(
    network: Network | Stack, path: Path, interface: Interface | None = None, *, int8: bool = False
) -> dict[Path, bytes]:
    """The file of `export_wasm`, not yet written."""
    return {path: compile_wasm(write_c(network, path.stem, interface=interface, int8=int8))}


def make_html(
    network: Network | Stack, path: Path, interface: Interface | None = None, *, int8: bool = False
) -> dict[Path, bytes]:
    """The file of `export_page`, not yet written."""
    known = interface or Interface()
    written: Written = write_c(network, path.stem, interface=known, int8=int8)
    return {path: make_page(network, written, compile_wasm(written), known, path.stem).encode()}
