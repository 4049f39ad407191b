"""Small torch models of every kind with random weights and batches for them, listed once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from tests.variants import USERS, Minimal, PeepholeLSTM, ThreeStates, Toolbox
from torch import Tensor, nn

from unspool.data.inputs import TextInputs
from unspool.data.scale import Scale
from unspool.data.vocabulary import Words
from unspool.models.example_model import UNSEEN, Batch
from unspool.models.forecaster import Forecaster, Window
from unspool.models.joint import JointTagger, JointTargets
from unspool.models.language_model import LanguageModel
from unspool.models.multilabel import MultiLabelClassifier
from unspool.models.pooled import Classifier, Regressor
from unspool.models.tagger import Tagger, WordBatch
from unspool.models.token_embedding import SpelledWords
from unspool.models.translator import Translator
from unspool.nn.leaves import map_leaves
from unspool.settings.model import (
    ForecasterSettings,
    JointSettings,
    LanguageModelSettings,
    PooledSettings,
    Seq2SeqSettings,
    TaggerSettings,
)

TOKENS, LENGTHS = 9, (4, 6, 0, 1)
STEPS, ROWS = 6, len(LENGTHS)


class Made(NamedTuple):
    """A model, a batch for it, and what the task knows."""

    model: Any
    batch: Any
    extras: dict[str, Any]


Make = Callable[[], Made]


def language(**settings: Any) -> Made:
    """A language model."""
    ids = torch.randint(0, TOKENS, (STEPS + 1, ROWS))
    return Made(LanguageModel(TOKENS, LanguageModelSettings(**settings)), (ids[:-1], ids[1:]), {})


def classify(**settings: Any) -> Made:
    """A classifier of numbers, some of whose labels were never seen."""
    numbers = SimpleNamespace(tokens=None, features=3, unit="steps")
    inputs = torch.randn(STEPS, ROWS, 3)
    model = Classifier(PooledSettings(**settings), numbers, 4)  # type: ignore[arg-type]
    return Made(model, Batch(inputs, torch.tensor(LENGTHS), torch.tensor([1, UNSEEN, 3, 0]), ROWS), {})


def classify_words(**settings: Any) -> Made:
    """A classifier of words that have n-grams, one word without any."""
    vocabulary = Words.fit(["a bc def a\n"])
    model = Classifier(PooledSettings(subwords=7, **settings), TextInputs(vocabulary), 4)
    forms = torch.randint(0, 3, (STEPS, ROWS))
    spelling = forms.numpy(), np.array([12, 5, 99, 4]), np.array([0, 1, 1])
    words = SpelledWords(torch.randint(0, len(vocabulary), (STEPS, ROWS)), lambda: spelling)
    return Made(model, Batch(words, torch.tensor(LENGTHS), torch.tensor([1, 2, 3, 0]), ROWS), {})


def multilabel(**settings: Any) -> Made:
    """A classifier of tokens with sets of labels."""
    texts = SimpleNamespace(tokens=TOKENS, features=0, unit="tokens")
    model = MultiLabelClassifier(PooledSettings(**settings), texts, 3)  # type: ignore[arg-type]
    targets = torch.randint(0, 2, (ROWS, 3)).float()
    return Made(model, Batch(torch.randint(0, TOKENS, (STEPS, ROWS)), torch.tensor(LENGTHS), targets, ROWS), {})


def regress(**settings: Any) -> Made:
    """A regression of two numbers."""
    numbers = SimpleNamespace(tokens=None, features=3, unit="steps")
    scale = Scale(np.array([1.0, -2.0]), np.array([3.0, 0.5]))
    model = Regressor(PooledSettings(**settings), numbers, scale)  # type: ignore[arg-type]
    batch = Batch(torch.randn(STEPS, ROWS, 3), torch.tensor(LENGTHS), torch.randn(ROWS, 2), ROWS)
    return Made(model, batch, {"undo": scale.undo})


def _words() -> WordBatch:
    forms, letters = torch.randint(0, 3, (STEPS, ROWS)), torch.randint(0, 5, (4, 3))
    return WordBatch(torch.randint(0, TOKENS, (STEPS, ROWS)), forms, letters, torch.tensor([4, 1, 2]))


def _allowed(tags: int) -> Any:
    allowed = np.ones((tags + 2, tags + 2), bool)
    allowed[0, 1] = allowed[tags, 2] = allowed[1, tags + 1] = False
    return allowed


def tag(**settings: Any) -> Made:
    """A tagger."""
    model = Tagger(TaggerSettings(**{"char_hidden": 2, **settings}), TOKENS, 5, 3, _allowed(3))
    targets = torch.full((STEPS, ROWS), 2)
    targets[0] = 0
    targets[1, 0] = UNSEEN
    return Made(model, Batch(_words(), torch.tensor(LENGTHS), targets, ROWS), {"allowed": _allowed(3)})


def joint(**settings: Any) -> Made:
    """A tagger that labels sentences too."""
    model = JointTagger(JointSettings(**{"char_hidden": 2, **settings}), TOKENS, 5, 3, _allowed(3), 4)
    tags = torch.full((STEPS, ROWS), 2)
    tags[0] = 0
    batch = Batch(_words(), torch.tensor(LENGTHS), JointTargets(tags, torch.tensor([1, UNSEEN, 3, 0])), ROWS)
    return Made(model, batch, {"allowed": _allowed(3)})


def forecast(**settings: Any) -> Made:
    """A forecaster of two targets with covariates of past and future."""
    quantiles = (0.1, 0.5, 0.8, 0.9)
    model = Forecaster(ForecasterSettings(**settings), quantiles, 4, targets=2, width=3, future=2)
    for parameter in model.heads.parameters():  # which start at zero
        nn.init.normal_(parameter)
    window = Window(torch.randn(STEPS, ROWS, 3), torch.randn(5, ROWS, 2), torch.rand(ROWS, 2) + 0.5)
    return Made(model, Batch(window, torch.full((ROWS,), STEPS), torch.randn(5, ROWS, 2), ROWS), {})


def translate(**settings: Any) -> Made:
    """A translator; every source has a token."""
    model = Translator(Seq2SeqSettings(**settings), TOKENS, TOKENS + 1, longest=7)
    source = torch.randint(3, TOKENS, (STEPS, ROWS))
    targets = torch.tensor([[4, 3, 5, 6], [2, 9, 2, 3], [0, 2, 0, 2]])
    return Made(model, Batch(source, torch.tensor((4, 6, 2, 1)), targets, 10), {})


MAKERS: tuple[Callable[..., Made], ...] = (
    language,
    classify,
    classify_words,
    multilabel,
    regress,
    tag,
    joint,
    forecast,
    translate,
)
TWO = {"layers": 2, "hidden": 4}
#: Options that every kind has.
COMMON: tuple[dict[str, Any], ...] = (
    {"hidden": 3},
    {**TWO, "cell": "gru", "residual": True},
    {"cell": ["lstm", "gru-reset-after"], "hidden": [4, 3], "skip": True, "zoneout": 0.3},
    {**TWO, "cell": ThreeStates, "recurrent_dropout": 0.2},
    {"hidden": 4, "cell": PeepholeLSTM, "deep_supervision": 0.0},
    {**TWO, "cell": "lstm", "engine": "torch"},
    {**TWO, "cell": "gru-reset-after", "engine": "torch"},
    {"hidden": 4, "cell": "elman-relu", "engine": "torch"},
)
#: What some have besides.
OWN: dict[str, tuple[dict[str, Any], ...]] = {
    "language": (
        {**TWO, "tied": True, "embedding": 4},
        {**TWO, "tied": True, "embedding": 3},
        {**TWO, "deep_supervision": 0.5, "dropout": 0.3},
        {**TWO, "cell": Toolbox},
    ),
    "classify": (
        {"hidden": 4, "members": 3, "pooling": "last"},
        {**TWO, "input_window": 2, "pooling": "max"},
        {**TWO, "pooling": "mean", "bidirectional": False, "dropout": "auto"},
        {**TWO, "deep_supervision": 0.5, "input_window": 1},
    ),
    "multilabel": ({"hidden": 4, "cell": Minimal, "pooling": "last", "bidirectional": False},),
    "tag": (
        {"hidden": 4, "crf": False, "char_hidden": 0},
        {"hidden": 4, "bidirectional": False, "time_delay": 2},
        {**TWO, "crf": False, "bidirectional": False, "time_delay": 8},
    ),
    "joint": ({"hidden": 4, "pooling": "last", "crf": False}, {"hidden": 4, "pooling": "mean"}),
    "forecast": (
        {"hidden": 4, "bidirectional": True, "relative_to": "last"},
        {**TWO, "relative_to": "none", "deep_supervision": 0.5},
    ),
    "translate": (
        {"hidden": 4, "attention": False, "bidirectional": False},
        {"hidden": 4, "attention": False, "beam_size": 3},
        {**TWO, "beam_size": 4, "cell": "gru"},
    ),
}
CASES: dict[str, Make] = {}
for _make in MAKERS:
    for _number, _settings in enumerate((*COMMON, *OWN.get(_make.__name__, ()))):

        def _made(make: Callable[..., Made] = _make, settings: dict[str, Any] = _settings) -> Made:
            torch.manual_seed(0)
            made = make(**settings)
            with torch.no_grad():  # biases and initial scores away from zero, where mistakes would not show
                for parameter in made.model.parameters():
                    parameter += 0.3 * torch.randn_like(parameter)
            made.model.eval()
            if settings.get("engine") == "torch" and isinstance(made.batch, Batch):  # which takes no empty sequence
                made = made._replace(batch=made.batch._replace(lengths=made.batch.lengths.clamp_min(1)))
            return made

        CASES[f"{_make.__name__}-{_number}"] = _made

assert set(USERS) >= {Minimal, PeepholeLSTM, ThreeStates, Toolbox}


def tensors_of(model: nn.Module) -> dict[str, Any]:
    """The weights as a file has them."""
    return {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}


def as_numpy(batch: Any) -> Any:
    """A batch of NumPy arrays in the same containers."""
    return map_leaves(lambda tensor: tensor.numpy() if isinstance(tensor, Tensor) else tensor, batch)
