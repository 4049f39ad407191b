"""unspool import: layers and models of torch, Keras and ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.exchange import from_keras, from_onnx, from_torch
from unspool.exchange.compare import compare_with_source
from unspool.exchange.imported import ImportedModel
from unspool.harmless import harmless
from unspool.runs.adoption import adopt, read_tokens

#: What a difference from the library that wrote a file may be: rounding in float32, over layers and steps.
TOLERANCE = 1e-3
#: How a file's name ends → what reads it.
READERS: dict[str, Callable[[Path], ImportedModel]] = {
    ".keras": from_keras,
    ".h5": from_keras,
    ".onnx": from_onnx,
    ".safetensors": from_torch,
    ".pt": from_torch,
    ".pth": from_torch,
    ".bin": from_torch,
}


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .safetensors, .pt, .keras, .weights.h5 or .onnx file.")
    ],
    out: Annotated[Path | None, typer.Option(help="The run folder for a whole language model or classifier.")] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="The model's tokens in order: a JSON list, or one per line. Needed by --out.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="The labels of a classifier in order: a JSON list, or one per line.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="How text becomes tokens: word or char. Default: char if all tokens are single characters.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run folder.")] = False,
) -> None:
    """Show the recurrent layers of another library's file, compare them with that library, and make them a run.

    **Examples**

    - `unspool import model.keras`
    - `unspool import lm.pt --vocabulary vocabulary.txt --out runs/lm`
    - `unspool import sentiment.keras --vocabulary words.txt --labels labels.txt --out runs/sentiment`
    """
    model = _read(file)
    difference, how = compare_with_source(model, file)
    if difference is not None and difference > TOLERANCE:
        problem = f"gives other numbers here than in {how}, by {difference:.1e}"
        raise ArgumentError.of("file", str(file), problem, "Nothing was written. Check that its weights are finite")
    path = None if out is None else _adopt(model, file, out, vocabulary, labels, tokenizer, overwrite)
    for line in model.report().split("\n"):
        console().print(harmless(line), soft_wrap=True, markup=False, highlight=False)
    if difference is None:
        console().print(f"not compared: {how}", soft_wrap=True, markup=False)
    else:
        console().print(f"largest difference from {how}: {difference:.1e}", soft_wrap=True, markup=False)
    if path is not None:
        console().print(f"written: {path}", soft_wrap=True, markup=False)
        use = "predict {} FILE" if labels is not None else "generate {} --prompt TEXT"
        console().print(f"next: unspool {use.format(path)}", soft_wrap=True, markup=False, highlight=False)


def _read(file: Path) -> ImportedModel:
    if file.suffix not in READERS:
        known = ", ".join(READERS)
        raise ArgumentError.of("file", str(file), "has no known ending", f"Give one of {known}")
    return READERS[file.suffix](file)


def _adopt(
    model: ImportedModel,
    file: Path,
    out: Path,
    vocabulary: Path | None,
    labels: Path | None,
    tokenizer: str | None,
    overwrite: bool,
) -> Path:
    if vocabulary is None:
        raise ArgumentError.of("out", str(out), "needs the model's tokens", "Give a file of them as --vocabulary")
    if tokenizer not in (None, "word", "char"):
        raise ArgumentError.of("tokenizer", tokenizer, "is not for imported models", "Give word or char")
    tokens, names = read_tokens(vocabulary), None if labels is None else read_tokens(labels)
    kind = tokenizer or guess_tokenizer(tokens)
    path = adopt(model, tokens, out, source=file, labels=names, tokenizer=kind, overwrite=overwrite)
    console().print(f"tokenizer: {kind}", highlight=False)
    return path


def guess_tokenizer(tokens: Sequence[str]) -> str:
    """How text becomes these tokens: char if all but special ones, such as <unk>, are single characters."""
    plain = [token for token in tokens if not (token.startswith("<") and token.endswith(">") and len(token) > 2)]
    return "char" if plain and all(len(token) == 1 for token in plain) else "word"
