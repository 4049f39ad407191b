"""What is given for a run, before it is checked: documents of sections from a recipe, a config file and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unspool.data.text import Source
from unspool.runs.cells import load_own_cells, refuse_cell_files, with_cells
from unspool.runs.config import read_toml
from unspool.runs.guess import Guess, guess_task
from unspool.runs.recipes import find_recipe
from unspool.settings.model import count_layers
from unspool.settings.training import ENDS


def list_files(source: Source | None) -> list[str]:
    """Names of files, whether one was given or several."""
    if source is None:
        return []
    return [str(source)] if isinstance(source, str | Path) else [str(one) for one in source]


def keep_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given: None stands for one that is not."""
    return {name: value for name, value in options.items() if value is not None}


def read_documents(recipe: str | None, config: str | Path | None) -> list[Mapping[str, Any]]:
    """Those of a recipe and a config file, so far as they are given, in this order."""
    documents: list[Mapping[str, Any]] = [find_recipe(recipe)] if recipe is not None else []
    if config is None:
        return documents
    document = with_cells(read_toml(Path(config)), load_own_cells(Path(config).parent))
    refuse_cell_files(document, config)
    return [*documents, document]


def find_task(documents: Sequence[Mapping[str, Any]]) -> Any:
    """The task that the last document to name one names."""
    return next((document["task"] for document in reversed(documents) if "task" in document), None)


def guess_from(
    source: Source | None, documents: Sequence[Mapping[str, Any]], given: Mapping[str, Any], recipe: str | None
) -> Guess:
    """The task that the data, or else the recipe, is for, and why."""
    if recipe is not None:
        return Guess("lm", f"the recipe {recipe} is for it")
    files = source or next((one["data"]["files"] for one in documents if "files" in one.get("data", ())), None)
    return guess_task(files, given)


def with_one_end(documents: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the ends of training that different documents give, such as 10 epochs and 5 minutes, the last counts."""
    found = list(documents)
    giving = [place for place, document in enumerate(found) if {*ENDS} & set(document.get("training", ()))]
    for place in giving[:-1]:
        training = {key: value for key, value in found[place]["training"].items() if key not in ENDS}
        found[place] = {**found[place], "training": training}
    return found


def with_counted_layers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document in which lists with one entry per layer also say how many layers there are."""
    model = document.get("model")
    return {**document, "model": count_layers(model)} if isinstance(model, Mapping) else document
