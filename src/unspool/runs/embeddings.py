"""Models from a config, with pretrained word vectors: their size, their coverage, and whether training changes them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from unspool.data.vectors import Vectors, read_vectors, read_width
from unspool.errors import ArgumentError
from unspool.learning.contract import Learner
from unspool.models.catalogue import make_learner
from unspool.runs.config import Config
from unspool.tasks.contract import Task

#: A coverage below this fraction of the tokens looks like a mistake.
FEW = 0.2


def with_vector_size(config: Config) -> Config:
    """The config with the embedding as wide as the pretrained vectors, so that a run can be loaded without them."""
    path = getattr(config.model, "pretrained_embeddings", None)
    if path is None:
        return config
    width = read_width(path)
    if config.model.embedding not in (None, width):
        problem = f"is not the size of the vectors in {path}, {width}"
        raise ArgumentError.of(
            "embedding", config.model.embedding, problem, f"Leave it out, or give `embedding={width}`"
        )
    return replace(config, model=config.model.model_copy(update={"embedding": width}))


def make_model(task: Task, config: Config, new: bool = True) -> tuple[Learner, dict[str, str]]:
    """The model of a config, with pretrained vectors if it asks for them.

    Args:
        task: The task, with the tokens of its training data.
        config: The settings.
        new: Whether the weights stay as they are drawn; otherwise they come from a checkpoint.

    Returns:
        The model, and notes on it for people.
    """
    learner = make_learner(task, config.model)
    notes = {}
    if new and getattr(config.model, "pretrained_embeddings", None):
        notes["embeddings"] = _load_embeddings(learner, task, config)
    if getattr(config.model, "freeze_embeddings", False):
        for table in _find_tables(learner):
            table.weight.requires_grad_(False)
    return learner, notes


def _find_tables(learner: Learner) -> list[nn.Embedding]:
    """The embeddings of tokens: that of the model, and those of the members that it may have."""
    members = (part for part in learner.modules() if isinstance(part, Learner))
    return [table for member in members if (table := member.token_embedding()) is not None]


def _load_embeddings(learner: Learner, task: Task, config: Config) -> str:
    """Start a new model's embedding from pretrained vectors.

    Tokens without a vector keep their random one, scaled to the spread of the vectors.

    Returns:
        The coverage, for people.
    """
    path = config.model.pretrained_embeddings
    tokens = task.embedded_tokens()
    tables = _find_tables(learner)
    if not tables or not tokens:
        problem = f"is for embeddings of whole tokens, and this {task.name} model has none"
        raise ArgumentError.of("pretrained_embeddings", path, problem, "Use a char, word, jieba or smiles `tokenizer`")
    vectors = read_vectors(path, tokens, lowercase=True)
    if not vectors.tokens:
        problem = f"has no vector for any of the {len(tokens):,} tokens"
        raise ArgumentError.of("pretrained_embeddings", path, problem, "Give vectors of this language and tokenizer")
    for table in tables:
        with torch.no_grad():
            found = torch.from_numpy(vectors.matrix).to(table.weight)
            table.weight.mul_(found.std() / table.weight.std())
            table.weight[[tokens[token] for token in vectors.tokens]] = found
    return _describe(vectors, len(tokens), bool(config.model.freeze_embeddings))


def _describe(vectors: Vectors, count: int, frozen: bool) -> str:
    covered = f"{len(vectors.tokens):,} of {count:,} tokens ({len(vectors.tokens) / count:.1%}) have a vector"
    few = ["few: word vectors need `tokenizer='word'`, and text of their language"] * (
        len(vectors.tokens) < FEW * count
    )
    return "; ".join([covered, *few, "frozen" if frozen else "tuned", *vectors.notes])
