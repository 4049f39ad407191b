"""A few tagged sentences, and a small task and model of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from unspool.models.catalogue import make_learner
from unspool.models.tagger import Tagger
from unspool.settings.data import TaggedData
from unspool.settings.model import TaggerSettings
from unspool.tasks.tag import Sentences, Tagging

WORDS = ["fly to new york", "from Rome to new delhi", "from york", "to rome now", "fly"]
TAGS = ["O O B-x I-x", "O B-x O B-x I-x", "O B-x", "O B-x O", "O"]
#: Small, and by torch.nn's own layers.
SMALL: dict[str, Any] = {"hidden": 4, "embedding": 3, "char_hidden": 2, "engine": "torch"}


def data(**options: Any) -> TaggedData:
    return TaggedData(files=("none",), **options)


def sentences(words: Sequence[str], tags: Sequence[str] | None = None) -> Sentences:
    return Sentences.of([one.split() for one in words], None if tags is None else [one.split() for one in tags])


def small_task(words: Sequence[str] = WORDS, tags: Sequence[str] = TAGS, **options: Any) -> Tagging:
    several = sentences(words, tags)
    return Tagging.of({"training": several, "validation": several}, data(**options))


def small_learner(task: Tagging, **options: Any) -> Tagger:
    torch.manual_seed(3)
    learner = make_learner(task, TaggerSettings(**{**SMALL, **options})).double()
    if learner.crf is not None:
        for parameter in learner.crf.parameters():
            nn.init.normal_(parameter)
    return learner.eval()
