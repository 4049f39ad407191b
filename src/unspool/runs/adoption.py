"""Runs of models that were trained elsewhere: imported layers that are a whole language model become a run folder."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unspool.data.vocabulary import UNKNOWN, Vocabulary, load_vocabulary
from unspool.errors import ArgumentError, DataError
from unspool.exchange.imported import ImportedModel, Part
from unspool.learning.run_folder import RunFolder, check_free
from unspool.nn import Stack
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
    tokenizer: str = "word",
    overwrite: bool = False,
) -> Path:
    """Make a run folder of an imported language model: embedding, recurrent layers ahead in time, linear head.

    Args:
        model: What was imported.
        tokens: The text of every row of the embedding, in its order. One of them may be "<unk>"; otherwise a row for
            unknown tokens is added, the mean of all others, which is never predicted.
        out: The folder.
        source: The file that the model is from, which the config names in place of data.
        tokenizer: "word" or "char": how text becomes these tokens.
        overwrite: Whether the folder of another run is replaced.

    Returns:
        The folder. `unspool generate`, `evaluate` and `xray` take it.

    Raises:
        ArgumentError: The layers are not a language model of these tokens, or the folder exists.

    Example:
        adopt(from_torch("lm.pt"), read_tokens("vocabulary.txt"), "runs/lm", source="lm.pt")
    """
    embedding, layers, head = _language_model(model)
    size = embedding.num_embeddings
    if len(tokens) != size:
        raise ArgumentError.of("tokens", len(tokens), f"are not those of the embedding, which has {size} rows", REMEDY)
    order = _order(tokens)
    vocabulary = load_vocabulary({"kind": tokenizer, "tokens": [UNKNOWN, *(tokens[place] for place in order)]})
    config = _config(embedding, layers, head, {"tokenizer": tokenizer, "files": [str(source)]})
    learner: Any = config.task.restore(vocabulary.dump(), config.data).make_learner(config.model)
    _fill(learner, embedding, layers, head, order)
    return _write(config, vocabulary, learner, Path(out), overwrite)


def _order(tokens: list[str]) -> list[int]:
    """The rows of tokens other than the unknown one, which comes before them."""
    return [place for place, token in enumerate(tokens) if token != UNKNOWN]


def _language_model(model: ImportedModel) -> tuple[nn.Embedding, list[Recurrence], nn.Linear]:
    modules = [part.module for part in model.parts]
    middle = model.parts[1:-1]
    embedding, head = modules[0], modules[-1]
    fits = model.is_chain and bool(middle) and all(part.recurrent and part.sequence for part in middle)
    if not (fits and isinstance(embedding, nn.Embedding) and isinstance(head, nn.Linear)) or (
        head.out_features != embedding.num_embeddings
    ):
        problem = "are not an embedding, recurrent layers and a linear map to the same tokens"
        raise ArgumentError.of("layers", [part.name for part in model.parts], problem, "Use the layers themselves")
    return embedding, [one for part in middle for one in _recurrences(part)], head


def _recurrences(part: Part) -> list[Recurrence]:
    """The layers of a part, each ahead in time."""
    tensors = {name: tensor.detach().numpy() for name, tensor in part.module.state_dict().items()}
    stack = read_stack(describe_layer(part.module), tensors)
    for layer in stack.layers:
        if len(layer.directions) > 1 or layer.directions[0].reverse:
            problem = "reads backward in time, and a language model cannot"
            raise ArgumentError.of("layers", part.name, problem, "Use the layers themselves")
    return [layer.directions[0] for layer in stack.layers]


CELLS = {"LSTM": "lstm", "GRU": "gru", "ResetAfterGRU": "gru-reset-after"}


def _cell_name(recurrence: Recurrence) -> str:
    """The name of a cell in settings."""
    title = recurrence.equations.title
    if title in CELLS:
        return CELLS[title]
    relu = any(node.operation == "relu" for node in recurrence.equations.nodes)
    return "elman-relu" if relu else "elman"


def _config(embedding: nn.Embedding, layers: list[Recurrence], head: nn.Linear, data: dict[str, Any]) -> Config:
    model = {
        "embedding": embedding.embedding_dim,
        "hidden": [one.hidden_size for one in layers],
        "cell": [_cell_name(one) for one in layers],
        "layers": len(layers),
        "tied": head.weight is embedding.weight,
    }
    return read_config({"data": data, "model": model}, task="lm")


def _fill(learner: Any, embedding: nn.Embedding, layers: list[Recurrence], head: nn.Linear, order: list[int]) -> None:
    """Copy the weights; rows are those of the vocabulary, the unknown token first."""
    stack = learner.backbone
    assert isinstance(stack, Stack)
    with torch.no_grad():
        learner.embedding.weight.copy_(_rows(embedding.weight, order, mean=True))
        if learner.head is not learner.embedding.weight:
            learner.head.copy_(_rows(head.weight, order, mean=False))
        learner.head_bias.copy_(_biases(head, order, embedding.num_embeddings))
    for layer, one in zip(stack.layers, layers, strict=True):
        values = {name: torch.from_numpy(array.copy()) for name, array in one.parameters.items()}
        missing = {name: torch.zeros_like(value) for name, value in layer.state_dict().items() if name not in values}
        layer.load_state_dict(values | missing)  # settings know no layers without biases


def _rows(weight: Tensor, order: list[int], mean: bool) -> Tensor:
    left = sorted(set(range(len(weight))) - set(order))
    first = weight[left[:1]] if left else weight.mean(0, keepdim=True) if mean else torch.zeros_like(weight[:1])
    return torch.cat((first, weight[order]))


def _biases(head: nn.Linear, order: list[int], size: int) -> Tensor:
    bias = torch.zeros(size) if head.bias is None else head.bias
    left = sorted(set(range(size)) - set(order))
    return torch.cat((bias[left[:1]] if left else torch.full((1,), NEVER), bias[order]))


def _write(config: Config, vocabulary: Vocabulary, learner: Any, path: Path, overwrite: bool) -> Path:
    with closing(RunFolder(path)) as folder:
        check_free(path, overwrite)
        folder.begin(config.dump(), overwrite)
        folder.write_task(vocabulary.dump())
        keep_network(folder, learner, config.task.name)
        folder.write_best(learner.state_dict(), {"step": 0, "validation": {}})
    return path
