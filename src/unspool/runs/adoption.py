"""Runs of models that were trained elsewhere: imported layers that are a whole model become a run folder."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.data.vocabulary import UNKNOWN, load_vocabulary
from unspool.errors import ArgumentError, DataError
from unspool.exchange.imported import ImportedModel, Part
from unspool.learning.run_folder import RunFolder, check_free
from unspool.models.catalogue import make_learner
from unspool.nn import Bidirectional, Stack
from unspool.nn.description import describe_layer
from unspool.runs.config import Config, read_config
from unspool.runs.network import keep_network
from unspool.runtime.network import Recurrence
from unspool.runtime.read import read_stack
from unspool.storage.documents import read_text

#: The bias of a token that the model never saw: it is as good as impossible.
NEVER = -30.0
REMEDY = "Give the tokens in the order of the model's rows, as a JSON list or one per line"


def read_tokens(path: str | Path) -> list[str]:
    """The tokens of a vocabulary file: a JSON list, a JSON object of tokens with their ids, or one token per line.

    Raises:
        DataError: It is none of these, or a token is there twice.
    """
    try:
        text = read_text(Path(path))
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path} cannot be read: {said}. {REMEDY}.") from error
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = text.removesuffix("\n").split("\n")
    if isinstance(found, dict):
        found = found.get("tokens", _by_id(found))
    if not isinstance(found, list) or not found or not all(isinstance(token, str) for token in found):
        raise DataError(f"{path} has no list of tokens. {REMEDY}.")
    if len(set(found)) < len(found):
        raise DataError(f"{path} has a token twice. {REMEDY}.")
    return found


def _by_id(found: dict[str, Any]) -> list[str] | None:
    order = {place: token for token, place in found.items() if isinstance(place, int) and not isinstance(place, bool)}
    return [order[place] for place in range(len(found))] if set(order) == set(range(len(found))) else None


def adopt(
    model: ImportedModel,
    tokens: list[str],
    out: str | Path,
    *,
    source: str | Path,
    labels: list[str] | None = None,
    tokenizer: str = "word",
    overwrite: bool = False,
) -> Path:
    """Make a run folder of an imported model: embedding, recurrent layers, and a linear head.

    Without labels it is a language model, whose layers run ahead in time and whose head gives the tokens. With labels
    it is a classifier, whose head reads the last state of the top layer, of both directions if there are two.

    Args:
        model: What was imported.
        tokens: The text of every row of the embedding, in its order. One of them may be "<unk>"; otherwise a row for
            unknown tokens is added, the mean of all others, which is never predicted.
        out: The folder.
        source: The file that the model is from, which the config names in place of data.
        labels: What the rows of a classifier's head stand for.
        tokenizer: "word" or "char": how text becomes these tokens.
        overwrite: Whether the folder of another run is replaced.

    Returns:
        The folder. `unspool generate`, `predict`, `evaluate` and `xray` take it.

    Raises:
        ArgumentError: The layers are not such a model of these tokens and labels, or the folder exists.

    Example:
        adopt(from_torch("lm.pt"), read_tokens("vocabulary.txt"), "runs/lm", source="lm.pt")
    """
    whole = _take_apart(model, tokens, labels)
    order = [place for place, token in enumerate(tokens) if token != UNKNOWN]
    vocabulary = load_vocabulary({"kind": tokenizer, "tokens": [UNKNOWN, *(tokens[place] for place in order)]})
    config = _config(whole, {"tokenizer": tokenizer, "files": [str(source)]}, labels is not None)
    document = vocabulary.dump()
    if labels is not None:
        columns = {"text_column": None, "label_column": None}
        document = {"inputs": "text", "lowercase": False, "vocabulary": document, "labels": labels, "columns": columns}
    learner: Any = make_learner(config.task.restore(document, config.data), config.model)
    if labels is None:
        _fill_language_model(learner, whole, order)
    else:
        _fill_classifier(learner, whole, order)
    return _write(config, document, learner, Path(out), overwrite)


class _Whole(NamedTuple):
    """A whole model."""

    embedding: nn.Embedding
    layers: list[tuple[Recurrence, ...]]  # the directions of each
    head: nn.Linear


def _take_apart(model: ImportedModel, tokens: list[str], labels: list[str] | None) -> _Whole:
    embedding, head, middle = model.parts[0].module, model.parts[-1].module, model.parts[1:-1]
    chain = model.is_chain and bool(middle) and all(part.recurrent for part in middle)
    if not (chain and isinstance(embedding, nn.Embedding) and isinstance(head, nn.Linear)):
        problem = "are not an embedding, recurrent layers and a linear map"
        raise ArgumentError.of("layers", [part.name for part in model.parts], problem, "Use the layers themselves")
    layers = [one for part in middle for one in _directions(part)]
    for name, given, size in (("tokens", tokens, embedding.num_embeddings), ("labels", labels, head.out_features)):
        if given is not None and len(given) != size:
            raise ArgumentError.of(name, len(given), f"are not the {size} of the model", REMEDY)
    _check_directions(layers, labels is not None)
    if labels is None and (head.out_features != embedding.num_embeddings or not middle[-1].sequence):
        problem = f"is not one of the {embedding.num_embeddings} tokens at every step, so this is no language model"
        raise ArgumentError.of("head", head.out_features, problem, "Give the labels of a classifier")
    return _Whole(embedding, layers, head)


def _directions(part: Part) -> list[tuple[Recurrence, ...]]:
    """The directions of every layer of a part."""
    tensors = {name: tensor.detach().numpy() for name, tensor in part.module.state_dict().items()}
    return [layer.directions for layer in read_stack(describe_layer(part.module), tensors).layers]


def _check_directions(layers: list[tuple[Recurrence, ...]], classifies: bool) -> None:
    """Layers run ahead in time; those of a classifier may all run in both directions."""
    counts = {len(directions) for directions in layers}
    if len(counts) > 1 or layers[0][0].reverse or (counts == {2} and not classifies):
        problem = "run in directions that a run's layers cannot have together"
        raise ArgumentError.of("layers", len(layers), problem, "Use the layers themselves")


CELLS = {"LSTM": "lstm", "GRU": "gru", "ResetAfterGRU": "gru-reset-after"}


def _cell_name(recurrence: Recurrence) -> str:
    """The name of a cell in settings."""
    title = recurrence.equations.title
    if title in CELLS:
        return CELLS[title]
    relu = any(node.operation == "relu" for node in recurrence.equations.nodes)
    return "elman-relu" if relu else "elman"


def _config(whole: _Whole, data: dict[str, Any], classifies: bool) -> Config:
    first = [directions[0] for directions in whole.layers]
    model = {
        "embedding": whole.embedding.embedding_dim,
        "hidden": [one.hidden_size for one in first],
        "cell": [_cell_name(one) for one in first],
        "layers": len(first),
    }
    if classifies:
        return read_config(
            {"data": data, "model": {**model, "bidirectional": len(whole.layers[0]) == 2, "pooling": "last"}},
            task="classify",
        )
    tied = whole.head.weight is whole.embedding.weight
    return read_config({"data": data, "model": {**model, "tied": tied}}, task="lm")


def _fill_language_model(learner: Any, whole: _Whole, order: list[int]) -> None:
    """Copy the weights; rows are those of the vocabulary, the unknown token first."""
    with torch.no_grad():
        learner.embedding.weight.copy_(_rows(whole.embedding.weight, order, mean=True))
        if learner.head is not learner.embedding.weight:
            learner.head.copy_(_rows(whole.head.weight, order, mean=False))
        learner.head_bias.copy_(_biases(whole.head, order, whole.embedding.num_embeddings))
    _fill_layers(learner.backbone, whole.layers)


def _fill_classifier(learner: Any, whole: _Whole, order: list[int]) -> None:
    head = learner.heads[-1]
    with torch.no_grad():
        learner.encoder.embedding.weight.copy_(_rows(whole.embedding.weight, order, mean=True))
        head.weight.copy_(whole.head.weight)
        head.bias.zero_() if whole.head.bias is None else head.bias.copy_(whole.head.bias)
    _fill_layers(learner.encoder.backbone, whole.layers)


def _fill_layers(stack: Any, layers: list[tuple[Recurrence, ...]]) -> None:
    assert isinstance(stack, Stack)
    for layer, directions in zip(stack.layers, layers, strict=True):
        sides = (layer.ahead, layer.back) if isinstance(layer, Bidirectional) else (layer,)
        for side, one in zip(sides, directions, strict=True):
            values = {name: torch.from_numpy(array.copy()) for name, array in one.parameters.items()}
            zeros = {name: torch.zeros_like(value) for name, value in side.state_dict().items() if name not in values}
            side.load_state_dict(values | zeros)  # settings know no layers without biases


def _rows(weight: Tensor, order: list[int], mean: bool) -> Tensor:
    left = sorted(set(range(len(weight))) - set(order))
    first = weight[left[:1]] if left else weight.mean(0, keepdim=True) if mean else torch.zeros_like(weight[:1])
    return torch.cat((first, weight[order]))


def _biases(head: nn.Linear, order: list[int], size: int) -> Tensor:
    bias = torch.zeros(size) if head.bias is None else head.bias
    left = sorted(set(range(size)) - set(order))
    return torch.cat((bias[left[:1]] if left else torch.full((1,), NEVER), bias[order]))


def _write(config: Config, document: dict[str, Any], learner: Any, path: Path, overwrite: bool) -> Path:
    with closing(RunFolder(path)) as folder:
        check_free(path, overwrite)
        folder.begin(config.dump(), overwrite)
        folder.write_task(document)
        keep_network(folder, learner, config.task.name)
        folder.write_best(learner.state_dict(), {"step": 0, "validation": {}})
    return path
