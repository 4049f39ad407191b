"""Made-up measures of what looks further in: single units, saliency, similarity, paths."""

from __future__ import annotations

import numpy as np
from tests.insight.made_up_measures import LABELS, WORDS

from unspool.insight.measures.ablation import Ablation, LayerAblation
from unspool.insight.measures.paths import Path, Paths
from unspool.insight.measures.saliency import Saliency
from unspool.insight.measures.similarity import Similarity
from unspool.insight.measures.units import Unit


def ablation(labels: tuple[str, ...] = LABELS, units: int = 12) -> Ablation:
    random = np.random.default_rng(11)
    layers = tuple(LayerAblation(label, random.exponential(0.02, units), np.arange(units)) for label in labels)
    return Ablation(1.5, "zero", layers, units * len(labels), units * len(labels))


def similarity(labels: tuple[str, ...] = LABELS) -> Similarity:
    values = np.eye(len(labels)) * 0.5 + 0.5
    return Similarity(labels, labels, values, values - 0.1, 100)


def paths(labels: tuple[str, ...] = LABELS, steps: int = 30) -> Paths:
    points = np.cumsum(np.random.default_rng(12).normal(size=(2, steps, 2)), 1)
    return Paths(tuple(Path(label, state, np.array([0.6, 0.3]), points) for label in labels for state in "hc"))


def unit(label: str = "layer 1", tokens: tuple[str, ...] = WORDS * 3) -> Unit:
    steps = len(tokens) or 30
    output = np.sin(np.arange(steps) / 3)
    values = np.array([np.abs(output), 1 - np.abs(output), 3 * output])
    return Unit(
        label, 7, tokens, output, ("f", "i", "c"), ("f", "i"), values, ("the",), ("cat",), 0.4, -1, 0, float("nan")
    )


def saliency(steps: int = 36) -> Saliency:
    product = np.exp(-np.arange(steps)[::-1] / 4)
    removal = np.where(np.arange(steps) < 5, np.nan, 0.8 * product)
    return Saliency(2.0, 0, "zero", product, np.abs(product), removal)
