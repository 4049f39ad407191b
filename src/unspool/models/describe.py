"""Models as data: what `network.json` in a run folder says, for whatever plays or exports the model without torch.

`unspool.runtime.network` says what each part computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from unspool.errors import ArgumentError
from unspool.models.backbone import TorchBackbone
from unspool.models.encoder import Encoder
from unspool.models.forecaster import Forecaster, Future, Past
from unspool.models.joint import JointTagger
from unspool.models.language_model import LanguageModel
from unspool.models.multilabel import MultiLabelClassifier
from unspool.models.pooled import Classifier, PooledModel
from unspool.models.tagger import Tagger
from unspool.models.token_embedding import TokenEmbedding
from unspool.models.translator import Translator
from unspool.nn import AttentionPooling, LastState, MaxPooling, MeanPooling
from unspool.nn.description import Document, Names
from unspool.nn.description import describe_layer as describe_layer

#: The version of `network.json`: that of `unspool.runtime.network`.
FORMAT = 1
POOLINGS = {AttentionPooling: "attention", MeanPooling: "mean", MaxPooling: "max", LastState: "last"}


def has_network(learner: nn.Module) -> bool:
    """Whether a model is recurrent layers with something around them; baselines without memory are not.

    Example:
        >>> has_network(Classifier(PooledSettings(backbone="bag"), inputs, 3))
        False
    """
    if isinstance(learner, LanguageModel):
        return learner.stack is not None or isinstance(learner.backbone, TorchBackbone)
    if isinstance(learner, PooledModel | Tagger | Forecaster):
        return isinstance(learner.encoder, Encoder | Past)
    return isinstance(learner, Translator)


def describe(learner: nn.Module, task: str = "") -> Document:
    """Describe a model in evaluation as data.

    Args:
        learner: A model of `unspool.models`.
        task: The name of its task.

    Returns:
        A document fit for JSON, which names the tensors of the model's `state_dict`; `unspool.runtime.read` reads it.

    Raises:
        ArgumentError: The model is a baseline without recurrent layers, or a module of another kind.

    Example:
        document = describe(learner, "lm")
        network = read_network(document, {name: one.numpy() for name, one in learner.state_dict().items()})
    """
    describers: dict[type[nn.Module], Callable[[Any, Names], Document]] = {
        LanguageModel: _language,
        PooledModel: _pooled,
        Tagger: _tagger,
        Forecaster: _forecaster,
        Translator: _translator,
    }
    found = next((kind for kind in describers if isinstance(learner, kind)), None)
    if found is None or not has_network(learner):
        problem = "has no recurrent layers that could be written down as data"
        raise ArgumentError.of("learner", type(learner).__name__, problem, "Give a model with `backbone='recurrent'`")
    return {"format": FORMAT, "task": task, **describers[found](learner, Names(learner))}


def _language(model: LanguageModel, names: Names) -> Document:
    projection = None if model.projection is None else _linear(model.projection, names)
    return {
        "kind": "language",
        "embedding": _embedding(model.embedding, names),
        "stack": _backbone(model.backbone, names),
        "projection": projection,
        "head": {"weight": names.of(model.head), "bias": names.of(model.head_bias)},
    }


def _pooled(model: PooledModel, names: Names) -> Document:
    several = [model, *model.companions] if isinstance(model, Classifier) else [model]
    outputs = {Classifier: "softmax", MultiLabelClassifier: "sigmoid"}
    output = next((name for kind, name in outputs.items() if isinstance(model, kind)), "none")
    return {"kind": "pooled", "members": [_member(one, names) for one in several], "output": output}


def _member(model: Any, names: Names) -> Document:
    embedding = model.encoder.embedding
    return {
        "embedding": None if embedding is None else _embedding(embedding, names),
        "stack": _backbone(model.encoder.backbone, names),
        "window": model.window,
        "merger": None if model.mergers is None else _linear(model.mergers[-1], names),
        "pooling": _pooling(model.poolings[-1], names),
        "head": _linear(model.heads[-1], names),
    }


def _tagger(model: Tagger, names: Names) -> Document:
    words = model.words
    spelled = words.letters is not None
    crf, label = model.crf, None
    if isinstance(model, JointTagger):
        label = {"pooling": _pooling(model.poolings[-1], names), "head": _linear(model.label_heads[-1], names)}
    return {
        "kind": "tagger",
        "words": _embedding(words.embedding, names),
        "letters": _embedding(words.letters, names) if words.letters is not None else None,
        "speller": _backbone(words.speller, names) if spelled else None,
        "stack": _backbone(_recurrent_encoder(model).backbone, names),
        "head": _linear(model.heads[-1], names),
        "crf": None
        if crf is None
        else {name: names.of(getattr(crf, name)) for name in ("start", "transitions", "end")},
        "label": label,
    }


def _recurrent_encoder(model: Tagger) -> Encoder:
    assert isinstance(model.encoder, Encoder)  # `has_network` said so
    return model.encoder


def _forecaster(model: Forecaster, names: Names) -> Document:
    past, future = model.encoder, model.decoders[-1]
    assert isinstance(past, Past)
    assert isinstance(future, Future)
    return {
        "kind": "forecaster",
        "targets": model.targets,
        "quantiles": list(model.quantiles),
        "season": model.season,
        "stack": _backbone(past.backbone, names),
        "pooling": _pooling(past.poolings[-1], names),
        "decoder": _backbone(future.backbone, names),
        "head": _linear(model.heads[-1], names),
    }


def _translator(model: Translator, names: Names) -> Document:
    network = model.network
    return {
        "kind": "translator",
        "source": _embedding(network.source_embedding, names),
        "target": _embedding(network.target_embedding, names),
        "encoder": _backbone(network.encoder_side.backbone, names),
        "decoder": _backbone(network.decoder_side.backbone, names),
        "keys": None if network.keys is None else _linear(network.keys, names),
        "mix": None if network.mix is None else _linear(network.mix, names),
        "head": _linear(network.head, names),
        "beam_size": model.beam_size,
        "longest": model.longest,
    }


def _backbone(backbone: nn.Module, names: Names) -> Document:
    return describe_layer(backbone.layers if isinstance(backbone, TorchBackbone) else backbone, names)


def _embedding(embedding: nn.Embedding, names: Names) -> Document:
    ngrams = embedding.ngrams if isinstance(embedding, TokenEmbedding) else None
    return {"weight": names.of(embedding.weight), "ngrams": None if ngrams is None else names.of(ngrams.weight)}


def _linear(linear: Any, names: Names) -> Document:
    return {"weight": names.of(linear.weight), "bias": None if linear.bias is None else names.of(linear.bias)}


def _pooling(pooling: Any, names: Names) -> Document:
    attends = isinstance(pooling, AttentionPooling)
    return {
        "kind": POOLINGS[type(pooling)],
        "bidirectional": isinstance(pooling, LastState) and bool(pooling.bidirectional),
        "inner": _linear(pooling.attention.inner, names) if attends else None,
        "outer": _linear(pooling.attention.outer, names) if attends else None,
    }
