"""Recipes: settings that are known to work together, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from unspool.errors import UnknownNameError

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
        # Zaremba, Sutskever, Vinyals (2014), "small": about 121 and 116 on Penn Treebank's validation and test
        "zaremba-small": {
            "data": {"tokenizer": "word"},
            "model": {"cell": "lstm", "hidden": 200, "layers": 2, "init": 0.1},
            "training": {
                **{"epochs": 13.0, "batch_size": 20, "bptt": 20, "optimizer": "sgd", "lr": 1.0, "clip": 5.0},
                **{"schedule": "epoch", "lr_decay": 0.5, "lr_decay_after": 4},
            },
        },
    }
)


def find_recipe(name: str) -> dict[str, Any]:
    """The settings of a recipe."""
    if name not in RECIPES:
        raise UnknownNameError.among("recipe", name, RECIPES)
    return RECIPES[name]
