"""The rooms of the package and which of them each may import: `tests/test_imports.py` enforces this list, and
`tools/write_rooms.py` writes it into CONTRIBUTING.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "unspool"


@dataclass(frozen=True)
class Room:
    """A module or package directly below `unspool`.

    Args:
        name: Its name.
        holds: What it holds, in Markdown.
        imports: The rooms that it may import.
        through: Whether it may also import what those may.
    """

    name: str
    holds: str
    imports: tuple[str, ...] = ()
    through: bool = True


#: From the bottom up: a room may only name rooms above it in this list.
ROOMS = (
    Room("errors", "the exception tree, and which extra brings which package"),
    Room("harmless", "text of unknown origin without control characters"),
    Room("lazy", "names of a package that are imported when they are first used"),
    Room("language", "texts in the reader's language, and their catalogues", ("errors",)),
    Room("cache", "the user's cache folder"),
    Room("cluster", "connects to a Dask cluster, here or at an address, without torch", ("errors", "unspool")),
    Room("cells", "what one step does: equations in plain Python, without torch and NumPy", ("errors",)),
    Room("storage", "files of a run: complete or not there, whole or refused, without torch", ("cells",)),
    Room("engine", "from equations to machine code and to numbers, without torch", ("cells", "cache")),
    Room("decoding", "from what a model computes to tokens and text: sampling and search, without torch", ("cells",)),
    Room("nn", "torch modules; one place decides how a recurrence runs", ("engine", "decoding")),
    Room("data", "from files to batches, without torch", ("errors", "cache")),
    Room("settings", "the one definition of every setting, without torch", ("cells", "data")),
    Room(
        "tasks",
        "what is learned: one task per file; data, metrics and baselines, without torch",
        ("decoding", "settings"),
    ),
    Room("runtime", "plays a run folder as a stream, without torch", ("engine", "tasks", "storage")),
    Room("partitions", "predictions for many files, here or on a cluster, without torch", ("runtime", "cluster")),
    Room("exchange", "other libraries' models, both ways; C, WebAssembly, ONNX", ("nn", "runtime", "lazy", "unspool")),
    Room("export", "`unspool.export`: layers in forms that run without unspool", ("exchange",)),
    Room(
        "learning",
        "how it is learned: truncated BPTT, losses, penalties, optimizers, the loop",
        ("nn", "tasks", "storage", "lazy"),
    ),
    Room("models", "torch models for the tasks: embedding, backbone, head", ("learning",)),
    Room("runs", "from settings to a finished run: config, recipes, train, load", ("models", "exchange", "harmless")),
    Room("estimators", "the tasks in scikit-learn's manner, on data in memory", ("runs",)),
    Room("insight", "X-ray: measures, figures, verdicts, report; and `plan`", ("runs", "language")),
    Room(
        "lab",
        "the field's claims, each re-run, one per file in `lab/chapters/`; `lab/bench/` is what `unspool bench` runs",
        ("insight", "exchange", "unspool"),
    ),
    Room("sweeps", "many runs on the same data, here or on a cluster, and the best of them", ("insight", "cluster")),
    Room("server", "HTTP and WebSocket around the runtime", ("errors", "runtime"), through=False),
    Room(
        "cli",
        "the command line, one command per file",
        ("unspool", "export", "exchange", "estimators", "lab", "server", "runtime", "cluster", "partitions", "sweeps"),
    ),
    Room("__main__", "`python -m unspool`", ("cli",), through=False),
)

#: Rooms that import nothing but the standard library, and rooms that run without torch.
STANDARD_LIBRARY_ONLY = ("errors", "harmless", "lazy", "language", "cells")
WITHOUT_TORCH = (
    *("storage", "cache", "cluster", "engine", "decoding", "data", "settings", "tasks"),
    *("runtime", "partitions", "server"),
)


def below() -> Mapping[str, tuple[str, ...]]:
    """Room → every room that it may import besides itself."""
    found: dict[str, tuple[str, ...]] = {"unspool": ()}
    for room in ROOMS:
        further = [name for named in room.imports for name in found[named]] if room.through else []
        found[room.name] = tuple(dict.fromkeys((*room.imports, *further)))
    return found


def table(source: Path = SOURCE) -> str:
    """The rooms that there are, as a table in Markdown."""
    lines = ["| room | holds | may import |", "|---|---|---|"]
    for room in ROOMS:
        place = next((name for name in (f"{room.name}.py", f"{room.name}/") if (source / name).exists()), None)
        if place is not None:
            lines.append(f"| `src/unspool/{place}` | {room.holds} | {_imports(room)} |")
    lines.append(
        "| `src/unspool_command.py` | the entry point of the command line: a Ctrl-C ends it without a trace, "
        "even while torch is being imported | cli |"
    )
    return "\n".join(lines) + "\n"


def _imports(room: Room) -> str:
    if room.name == "cli":
        return "everything"
    named = ", ".join(room.imports) or "nothing"
    more = room.through and any(set(below()[name]).difference(room.imports) for name in room.imports)
    return f"{named} and what is below" if more else named
