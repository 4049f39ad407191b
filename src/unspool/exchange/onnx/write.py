"""Networks and layers written as ONNX files, checked before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from unspool import __version__
from unspool.errors import ArgumentError
from unspool.exchange.files import check_distinct, check_free, write_files
from unspool.exchange.onnx.check import Bounds, Expect, check_structure, measure_difference
from unspool.exchange.onnx.expected import expect_layers, expect_network
from unspool.exchange.onnx.graph import OPSET, GraphBuilder
from unspool.exchange.onnx.models import emit_layers, emit_network
from unspool.exchange.onnx.names import state_names
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Stack, Tagger, Translator
from unspool.runtime.run import read_run

#: What a difference from the player may be: rounding in float32, also over many steps.
TOLERANCE = 1e-4
RECURRENT = ("RNN", "GRU", "LSTM", "Scan")
#: Of numbers that go in or come out.
SCALING = "outside: numbers are standardized by the scales in the JSON beside this file"
#: The largest file that the format, protobuf, can hold.
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class OnnxExport:
    """What was written.

    Attributes:
        files: The models, and the JSON beside them if there is one.
        opset: The version of ONNX's operators.
        operators: Which recurrent operators the models consist of: RNN, GRU, LSTM, or Scan for all other cells.
        difference: The largest between ONNX Runtime and the player, relative for values beyond 1; None where
            onnxruntime is not installed.
    """

    files: tuple[Path, ...]
    opset: int
    operators: tuple[str, ...]
    difference: float | None

    def summary(self) -> str:
        """The opset, the operators and the difference, in words."""
        checked = "not run: pip install 'unspool[onnx]' brings onnxruntime"
        if self.difference is not None:
            checked = f"ONNX Runtime differs by at most {self.difference:.1e}"
        return f"opset {self.opset}, {', '.join(self.operators)}; {checked}"

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.files))}: {self.summary()}"


@dataclass(frozen=True)
class MadeOnnx:
    """Files that are not yet written, and what is said of them."""

    contents: dict[Path, bytes]
    export: OnnxExport

    def write(self, overwrite: bool = False) -> OnnxExport:
        """Write the files: all of them or none."""
        write_files(self.contents, overwrite)
        return self.export


def write_layers(
    stack: Stack,
    path: str | Path,
    *,
    batch_first: bool = False,
    lengths: bool = True,
    states: bool = True,
    overwrite: bool = False,
) -> OnnxExport:
    """Write recurrent layers as an ONNX file.

    Args:
        stack: The layers.
        path: The file.
        batch_first: Whether `x` and `output` are (batch, time, width) in place of (time, batch, width).
        lengths: Whether there is an input `lengths` (batch,): sequences may be shorter than `x`.
        states: Whether initial states are inputs, `initial_layer0_h` and so on; otherwise they are the layers' own.
        overwrite: Whether a file that exists is replaced.

    Returns:
        What was written.

    Raises:
        ArgumentError: The file exists already.
        StorageError: It cannot be written.

    Example:
        write_layers(read_stack(describe_layer(module), tensors), "layers.onnx").difference
    """
    graph = emit_layers(stack, batch_first=batch_first, lengths=lengths, states=states)
    facts = {"task": "layers", "cell": _cells(stack), **_learned(stack)}
    expect = partial(expect_layers, stack, batch_first=batch_first)
    check_free([Path(path)], overwrite)
    return _make({Path(path): (graph, expect)}, facts, {}, None).write(overwrite)


def write_network(
    network: Network,
    path: str | Path,
    *,
    document: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> OnnxExport:
    """Write a whole model as an ONNX file; of a translator, two: `model.encoder.onnx` and `model.decoder.onnx`.

    Args:
        network: The model.
        path: The file.
        document: What the task keeps beside the weights (vocabularies, labels, scales), written as JSON beside it.
        overwrite: Whether files that exist are replaced.

    Returns:
        What was written.

    Raises:
        ArgumentError: A file exists already.
        StorageError: One cannot be written.

    Example:
        write_network(network, "model.onnx", document=vocabulary)
    """
    check_free([Path(path)], overwrite)
    return make_network(network, Path(path), document).write(overwrite)


def make_network(network: Network, path: Path, document: Mapping[str, Any] | None = None) -> MadeOnnx:
    """The files that `write_network` writes, checked; arguments are its."""
    graphs = emit_network(network)
    expect = partial(expect_network, network)
    targets = {_place(path, name): (graph, expect) for name, graph in graphs.items()}
    return _make(targets, _facts(network), _bounds(network), _beside(network, document))


def write_run(run: str | Path, path: str | Path, *, overwrite: bool = False) -> OnnxExport:
    """Write the model of a run folder as an ONNX file, and beside it, as JSON, its vocabulary, labels and scales.

    Args:
        run: The folder.
        path: The file; of a translator, two: see `write_network`.
        overwrite: Whether files that exist are replaced.

    Returns:
        What was written.

    Raises:
        DataError: It is not the folder of a run, or its model has no recurrent layers.
        ArgumentError: A file exists already.
        StorageError: One cannot be written.

    Example:
        print(write_run("runs/book", "book.onnx"))
    """
    kept = read_run(run)
    return write_network(kept.network, path, document=kept.vocabulary, overwrite=overwrite)


def _place(path: Path, name: str) -> Path:
    return path if name == "model" else path.with_name(f"{path.stem}.{name}{path.suffix}")


def _make(
    targets: Mapping[Path, tuple[GraphBuilder, Expect]],
    facts: Mapping[str, str],
    bounds: Bounds,
    beside: Mapping[str, Any] | None,
) -> MadeOnnx:
    documents = {} if beside is None else {_json_place(next(iter(targets))): beside}
    check_distinct((*targets, *documents))
    contents: dict[Path, bytes] = {}
    differences: list[float | None] = []
    operators: set[str] = set()
    for path, (graph, expect) in targets.items():
        model = graph.model(path.stem, {"version": __version__, **facts})
        differences.append(_check(model, expect, bounds))
        operators.update(node.op_type for node in model.graph.node)
        contents[path] = model.SerializeToString(deterministic=True)
    for path, document in documents.items():
        contents[path] = json.dumps(document, ensure_ascii=False, indent=1).encode()
    known = [one for one in differences if one is not None]
    used = tuple(name for name in RECURRENT if name in operators)
    return MadeOnnx(contents, OnnxExport(tuple(contents), OPSET, used, max(known) if known else None))


def _json_place(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(path.suffix).removesuffix(".encoder") + ".json")


def _check(model: onnx.ModelProto, expect: Expect, bounds: Bounds) -> float | None:
    if (size := model.ByteSize()) > LARGEST:
        problem = f"takes {size:,} bytes, and a file of ONNX holds {LARGEST:,}"
        raise ArgumentError.of("model", model.graph.name, problem, "Export a smaller one")
    check_structure(model)
    difference = measure_difference(model, expect, bounds)
    if difference is not None and difference > TOLERANCE:
        problem = f"gives other numbers in ONNX Runtime, by {difference:.1e}"
        raise ArgumentError.of(
            "model", model.graph.name, problem, "Nothing was written. Check that its weights are finite"
        )
    return difference


def _cells(*stacks: Stack) -> str:
    """The titles of all cells, from the lowest layer up."""
    titles = [one.equations.title for stack in stacks for layer in stack.layers for one in layer.directions]
    return ", ".join(dict.fromkeys(titles))


def _learned(stack: Stack) -> dict[str, str]:
    """Initial states that were learned, as JSON by the names of the inputs that they are for; others are zero."""
    found = {}
    for layer, of_layer in zip(stack.layers, state_names(stack), strict=True):
        for one, names in zip(layer.directions, of_layer, strict=True):
            for name, value in zip(names, one.initial or (), strict=False):
                found[f"initial_{name}"] = json.dumps([float(number) for number in value])
    return found


def _facts(network: Network) -> dict[str, str]:
    facts = {"task": network.task, "cell": _cells(*_stacks(network))}
    match network:
        case Language():
            return {**facts, **_learned(network.stack)}
        case Tagger():
            tags = "argmax of `probabilities`"
            if network.crf is not None:
                tags = "outside: the best path by `emissions` and the chain's start, transitions and end, in the JSON"
            return {**facts, "decoding": tags}
        case Translator():
            decoding = f"outside: from token 1 to token 2, at most {network.longest} steps, beam {network.beam_size}"
            return {**facts, "decoding": decoding}
        case Forecaster():
            return {**facts, "quantiles": json.dumps(network.quantiles), "scaling": SCALING}
        case Pooled() if network.output == "none" or network.members[0].embedding is None:
            return {**facts, "scaling": SCALING}
    return facts


def _stacks(network: Network) -> list[Stack]:
    match network:
        case Pooled():
            return [member.stack for member in network.members]
        case Translator():
            return [network.encoder, network.decoder]
    return [network.stack]


def _beside(network: Network, document: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What is written as JSON: the task's document, and of a tagger its chain."""
    if isinstance(network, Tagger) and network.crf is not None:
        chain = network.crf
        arrays = {"start": chain.start, "transitions": chain.transitions, "end": chain.end}
        return {**(document or {}), "crf": {name: array.tolist() for name, array in arrays.items()}}
    return document


def _bounds(network: Network) -> dict[str, int]:
    """How many tokens there are, for the check."""
    match network:
        case Language():
            return {"tokens": len(network.embedding.weight)}
        case Pooled():
            first = network.members[0].embedding
            ngrams = None if first is None else first.ngrams
            return {"tokens": 1 if first is None else len(first.weight), "ngrams": 1 if ngrams is None else len(ngrams)}
        case Tagger():
            letters = network.letters
            return {"tokens": len(network.words.weight), "characters": 1 if letters is None else len(letters.weight)}
        case Translator():
            return {"tokens": min(len(network.source.weight), len(network.target.weight))}
    return {}
