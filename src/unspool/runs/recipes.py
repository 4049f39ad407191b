"""Recipes: settings that are known to work together, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from unspool.errors import UnknownNameError


def _zaremba(model: dict[str, Any], **training: Any) -> dict[str, Any]:
    """A model of Zaremba, Sutskever and Vinyals, "Recurrent neural network regularization" (2014).

    The paper's loss is summed over the steps of a window and averaged over the batch: `lr` and `clip` are for that.
    """
    shared = {"batch_size": 20, "loss_reduction": "sum-over-time", "optimizer": "sgd", "lr": 1.0, "schedule": "epoch"}
    return {
        "data": {"tokenizer": "word"},
        "model": {"cell": "lstm", "layers": 2, **model},
        "training": {**shared, **training},
    }


RECIPES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        # a few minutes on two cores for a megabyte of text
        "char-small": {
            "data": {"tokenizer": "char"},
            "model": {"cell": "lstm", "hidden": 256, "layers": 1},
            "training": {"epochs": 10.0, "batch_size": 32, "bptt": 64, "lr": 4e-3, "schedule": "linear"},
        },
        # an hour on two cores
        "char-medium": {
            "data": {"tokenizer": "char"},
            "model": {"cell": "lstm", "hidden": 512, "layers": 2, "dropout": 0.2},
            "training": {
                "epochs": 20.0,
                "batch_size": 32,
                "bptt": 100,
                "lr": 3e-3,
                "schedule": "cosine",
                "warmup": 100,
            },
        },
        # published perplexities on Penn Treebank, validation and test: 120.7 and 114.5, 86.2 and 82.7, 82.2 and 78.4
        "zaremba-small": _zaremba(
            {"hidden": 200, "init": 0.1}, bptt=20, epochs=13.0, clip=5.0, lr_decay=0.5, lr_decay_after=4
        ),
        "zaremba-medium": _zaremba(
            {"hidden": 650, "init": 0.05, "dropout": 0.5},
            **{"bptt": 35, "epochs": 39.0, "clip": 5.0, "lr_decay": 1 / 1.2, "lr_decay_after": 6},
        ),
        "zaremba-large": _zaremba(
            {"hidden": 1500, "init": 0.04, "dropout": 0.65},
            **{"bptt": 35, "epochs": 55.0, "clip": 10.0, "lr_decay": 1 / 1.15, "lr_decay_after": 14},
        ),
        # Merity, Keskar, Socher, "Regularizing and optimizing LSTM language models" (2017), in a size for a CPU
        "awd-lstm-small": {
            "data": {"tokenizer": "word"},
            "model": {
                **{"cell": "lstm", "layers": 2, "hidden": 400, "tied": True},
                **{"dropout": 0.4, "variational_dropout": True, "weight_dropout": 0.5, "embedding_dropout": 0.1},
            },
            "training": {
                **{"epochs": 100.0, "batch_size": 20, "bptt": 70, "optimizer": "sgd", "lr": 30.0, "clip": 0.25},
                **{"weight_decay": 1.2e-6, "activation_penalty": 2.0, "temporal_penalty": 1.0},
                **{"schedule": "constant", "average": "swa", "swa_start": "plateau"},
            },
        },
    }
)


def find_recipe(name: str) -> dict[str, Any]:
    """The settings of a recipe."""
    if name not in RECIPES:
        raise UnknownNameError.among("recipe", name, RECIPES)
    return RECIPES[name]
