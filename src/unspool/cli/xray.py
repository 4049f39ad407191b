"""unspool xray: what a network remembers and where its gradients die, as a page and in a few lines."""

from __future__ import annotations

import importlib.util
import json as json_
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspool.cli.spelling import OPTIONS
from unspool.cli.terminal import console
from unspool.errors import ArgumentError, DataError, UnspoolError
from unspool.language import LANGUAGES, Message, Translator, choose_language
from unspool.storage.files import write_file

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unspool.insight.report.contract import Section
    from unspool.insight.report.report import Report

NAME = "xray.html"
TORCH, OUTPUT = "A torch model", "Output"
#: Called with the name of what is being measured.
Progress = Callable[[str], None]


def xray(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN] [RUN_B]", help="The folder of a run; two are compared."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Look at the model over this file instead of its validation data.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Measure only these, such as flow,gates: quicker.")
    ] = None,
    torch_: Annotated[
        str | None,
        typer.Option("--torch", metavar="FILE.py:NAME", help="A function that builds a model.", rich_help_panel=TORCH),
    ] = None,
    input_: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE.npy", help="What the model reads.", rich_help_panel=TORCH),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE.safetensors", help="Its weights.", rich_help_panel=TORCH),
    ] = None,
    bptt: Annotated[
        int | None,
        typer.Option(min=1, help="Steps that gradients go back in training.", rich_help_panel=TORCH),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The page. Default: RUN/xray.html.", rich_help_panel=OUTPUT)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers.", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.", rich_help_panel=OUTPUT)] = False,
    lang: Annotated[
        str | None,
        typer.Option(help=f"{' or '.join(LANGUAGES)}. Default: that of the locale.", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """Look inside a recurrent network: how far back its gradients reach, what it remembers, what is wrong, what to do.

    The page is one file that opens without a network. `--torch` runs the Python file that it names. Weights are read
    from safetensors only, which cannot hold code.

    **Examples**

    - `unspool xray runs/book`: writes runs/book/xray.html
    - `unspool xray runs/book --data other.txt --out other.html`
    - `unspool xray runs/book runs/book-2 --out compared.html`: two runs side by side
    - `unspool xray --torch model.py:build --input batch.npy --weights model.safetensors`
    - `unspool xray runs/book --only flow,gates`: some measures, in less time
    - `unspool xray runs/book --json | jq .flow.horizon`
    """
    runs = runs or []
    language = choose_language(lang)
    _check_runs(runs, torch_)
    measures = None if only is None else [name.strip() for name in only.split(",") if name.strip()]
    with _progress(json or quiet, language) as progress:
        if torch_ is not None:
            _refuse(data=data)
            reports = [_examine_torch(torch_, input_, weights, bptt, measures, progress)]
        else:
            _refuse(input=input_, weights=weights, bptt=bptt)
            reports = _examine_runs(runs, data, measures, progress)
    path = out or (runs[0] / NAME if len(runs) == 1 else Path(NAME))
    shared = _compare(runs, data, measures) if len(runs) == 2 else ()
    write_file(path, page(reports, language, shared).encode())
    if json:
        _print_numbers(reports)
    elif not quiet:
        _print(reports, path, language)


def _check_runs(runs: list[Path], torch_: str | None) -> None:
    if (torch_ is None) == (not runs) or len(runs) > 2:
        raise ArgumentError.of("RUN", [str(run) for run in runs], "is not one run or two", "Give one, or --torch")


def _print_numbers(reports: list[Report]) -> None:
    numbers = [report.numbers for report in reports]
    print(json_.dumps(numbers[0] if len(numbers) == 1 else numbers, ensure_ascii=False))


def _examine_runs(runs: list[Path], data: str | None, only: Sequence[str] | None, progress: Progress) -> list[Report]:
    from unspool.insight.xray import xray as examine

    return [examine(run, data=data, only=only, progress=progress) for run in runs]


def _examine_torch(
    named: str,
    batch: Path | None,
    weights: Path | None,
    bptt: int | None,
    only: Sequence[str] | None,
    progress: Progress,
) -> Report:
    from unspool.insight.xray import xray as examine

    model, given = build(named, batch, weights)
    try:
        return examine(model, given, bptt=bptt, only=only, progress=progress)
    except UnspoolError:
        raise
    except Exception as error:  # a user's model, whose forward may raise anything
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
        remedy = "The model is called with this one array. Fix it, or call unspool.xray(model, batch) in Python."
        raise DataError(f"{named} failed on {batch}: {problem}. {remedy}") from error


def _print(reports: list[Report], path: Path, language: str) -> None:
    from unspool.insight.report.terminal import summarize

    for report in reports:
        console().print(summarize(report, OPTIONS, language), markup=False, highlight=False, soft_wrap=True)
    said = Translator(language)(Message("Report: {path}", path=path))
    console().print(said, markup=False, highlight=False, soft_wrap=True)


def _compare(runs: Sequence[Path], data: str | None, only: Sequence[str] | None) -> tuple[Section, ...]:
    """What is said of both runs together."""
    from unspool.insight.compare import tell_runs

    return (tell_runs(runs[0], runs[1], data),) if only is None or "similarity" in only else ()


def page(reports: list[Report], language: str, shared: Sequence[Section] = ()) -> str:
    """The page of one report, or of two side by side, with what is said of both together."""
    from unspool.insight.report.comparison import render_comparison
    from unspool.insight.report.page import render

    if len(reports) == 1:
        return render(reports[0], OPTIONS, language)
    return render_comparison(reports[0], reports[1], OPTIONS, language, shared)


def build(named: str, batch: Path | None, weights: Path | None) -> tuple[nn.Module, Tensor]:
    """The model that FILE.py:NAME builds, with its weights, and its batch."""
    import torch

    name, colon, function = named.rpartition(":")
    if not colon or not name.endswith(".py") or not function.isidentifier():
        raise ArgumentError.of(
            "torch", named, "is not FILE.py:NAME", "Name a function without arguments: model.py:build"
        )
    if batch is None:
        raise ArgumentError.of("input", None, "is missing", "Give what the model reads: --input batch.npy")
    model = _call(Path(name), function)
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError.of("torch", named, f"gave a {type(model).__name__}, not a module", "Return the model")
    if weights is not None:
        _load(model, weights)
    return model, _read_batch(batch, model)


def _call(path: Path, function: str) -> Any:
    if not path.is_file():
        raise ArgumentError.of("torch", str(path), "does not exist", "Give a Python file")
    loader, module = _prepare(path)
    sys.path.insert(0, str(path.resolve().parent))  # as Python does for a script, which may import its neighbors
    sys.modules[path.stem] = module
    try:
        loader.exec_module(module)
        made = getattr(module, function, None)
        if made is None:
            raise ArgumentError.of("torch", f"{path}:{function}", "is not defined there", "Name a function of the file")
        return made() if not hasattr(made, "forward") or isinstance(made, type) else made
    except ArgumentError:
        raise
    except (Exception, SystemExit) as error:
        raise DataError(f"{path}:{function} failed: {type(error).__name__}: {error}. Fix it and try again.") from error
    finally:
        sys.path.pop(0)


def _prepare(path: Path) -> tuple[Loader, ModuleType]:
    """A module of a file, that has not run yet, and what runs it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    return spec.loader, importlib.util.module_from_spec(spec)


def _load(model: nn.Module, path: Path) -> None:
    from unspool.learning.files import forms_of, read_plain_tensors
    from unspool.storage.tensors import find_mismatch

    if path.suffix != ".safetensors":
        remedy = "Save them with safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"
        raise ArgumentError.of("weights", str(path), "is not a .safetensors file; others may hold code", remedy)
    own = model.state_dict()
    found = read_plain_tensors(path)
    tensors = {name: one.to(own[name].dtype) if name in own else one for name, one in found.items()}
    if misfit := find_mismatch(forms_of(own), forms_of(tensors)):
        raise DataError(f"{path} does not fit the model: {misfit}. Give the weights that belong to it.")
    model.load_state_dict(tensors)


def _read_batch(path: Path, model: nn.Module) -> Tensor:
    """Floats in the model's precision; integers as ids if the model has an embedding, else as floats."""
    import numpy as np
    import torch

    found = _load_array(path)
    if found.dtype.kind != "f" and any(isinstance(module, torch.nn.Embedding) for module in model.modules()):
        return torch.from_numpy(found.astype(np.int64))
    like = next((value for value in model.parameters() if value.is_floating_point()), torch.empty(0))
    return torch.from_numpy(found.astype(np.float64)).to(like.dtype)


def _load_array(path: Path) -> Any:
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}. Save an array of numbers with numpy.save.") from error
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiub":
        raise DataError(f"{path} is not a plain array of numbers. Save one with numpy.save.")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise DataError(f"{path} contains NaN or infinity. Replace them.")
    return found


@contextmanager
def _progress(silent: bool, language: str) -> Iterator[Progress]:
    """A line on the terminal that says what is being measured, if there is a terminal."""
    out = console(error=True)
    if silent or not out.is_terminal:
        yield lambda _: None
        return
    translate = Translator(language)
    with out.status(translate("X-ray")) as status:
        yield lambda name: status.update(translate(Message("X-ray: {measure}", measure=name)))


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ArgumentError.of(name, str(value), "does not apply here", "Leave it out: see unspool xray --help")
