"""From what a run folder keeps besides the network to an Interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unspool.data import saved
from unspool.data.inputs import TextInputs, load_inputs
from unspool.data.scale import Scale
from unspool.data.scale_table import load_tables
from unspool.data.schemes import transitions
from unspool.data.vocabulary import UNKNOWN, Characters, Words, load_vocabulary
from unspool.errors import DataError
from unspool.exchange.c.interface import Interface
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Tagger, Translator


def read_interface(network: Network, document: Mapping[str, Any]) -> Interface:
    """Read the interface of a network.

    Args:
        network: The model.
        document: What vocabulary.json says.

    Returns:
        Vocabularies, scales and labels.

    Raises:
        DataError: The document is not that of such a network.

    Example:
        kept = read_run("runs/book")
        interface = read_interface(kept.network, kept.vocabulary)
    """
    try:
        match network:
            case Language():
                return Interface(load_vocabulary(dict(document)))
            case Pooled():
                return _read_pooled(document)
            case Tagger():
                return _read_tagger(document)
            case Forecaster():
                return _read_forecaster(document)
            case Translator():
                return _read_translator(document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"vocabulary.json does not fit the network: {error!r}. Take the run's own.") from error


def _read_pooled(document: Mapping[str, Any]) -> Interface:
    inputs, targets = load_inputs(document), document.get("targets")
    outputs = None if targets is None else Scale.load(targets)
    names = saved.read_names(document, "labels") if targets is None else saved.read_names(targets, "names")
    if isinstance(inputs, TextInputs):
        return Interface(inputs.vocabulary, inputs.lowercase, outputs=outputs, labels=tuple(names))
    return Interface(inputs=inputs.scale, outputs=outputs, labels=tuple(names))


def _read_tagger(document: Mapping[str, Any]) -> Interface:
    tags = saved.read_names(document, "tags")
    count = len(tags)
    allowed = np.zeros((count + 2, count + 2), np.bool_)
    found = transitions(tags, document["scheme"])
    allowed[count, :count], allowed[:count, :count], allowed[:count, count + 1] = found
    words, letters = ([UNKNOWN, *saved.read_names(document, name)] for name in ("words", "characters"))
    lowercase = saved.read_flag(document, "lowercase")
    return Interface(Words(words), lowercase, Characters(letters), labels=tuple(tags), allowed=allowed)


def _read_forecaster(document: Mapping[str, Any]) -> Interface:
    """Of several series each has its own scale, so that the caller standardizes."""
    targets = tuple(saved.read_names(document, "targets"))
    scales, units = load_tables(document, len(targets))
    horizon, lookback = (saved.read_count(document, name) for name in ("horizon", "lookback"))
    if len(scales) != 1:
        return Interface(horizon=horizon, lookback=lookback, labels=targets)
    (name,) = scales
    scale = scales[name]
    unit = units[name] / scale.deviation[: len(targets)]
    return Interface(inputs=scale, unit=unit, horizon=horizon, lookback=lookback, labels=targets)


def _read_translator(document: Mapping[str, Any]) -> Interface:
    source, target = (load_inputs(document[name]) for name in ("source", "target"))
    if not isinstance(source, TextInputs) or not isinstance(target, TextInputs):
        raise DataError("vocabulary.json has no texts for a translator. Take the run's own.")
    return Interface(source.vocabulary, source.lowercase, target=target.vocabulary)
