"""Language models: text in, the next token out; what a text file is trained to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import takewhile
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from unspool.data.batches import Windows
from unspool.data.corpus import Corpus, Division, prepare
from unspool.data.text import Source
from unspool.data.tokens import Ids
from unspool.data.vocabulary import KINDS, Vocabulary, find_kind, load_vocabulary
from unspool.errors import DataError
from unspool.learning.contract import Batches, Learner, Outcome, Task
from unspool.learning.forcing import free_run
from unspool.learning.read_out import linear_cross_entropy
from unspool.learning.settings import Count, Effect, Files, Portion, Section, Size
from unspool.nn import NGram
from unspool.nn.layer import map_leaves
from unspool.tasks.body import OF_LAYERS, BodySettings, StatelessBody, spread_weights
from unspool.tasks.generation import Sampling, generate
from unspool.tasks.layered import Layered, Reading, with_lower

#: Steps of a window when nothing is learned: long, so that the loop costs nothing, and short enough to stay in cache.
READING = 512
#: Tokens that an n-gram baseline counts at most: the last ones of the training text.
COUNTED = 2_000_000
SAMPLE = 300
#: Tokens after which a line is over in any case.
LINE = 120


class TextData(Section):
    """The text, and how it is divided into tokens and parts."""

    effects = (Effect(("split_seed",), "split", ("lines",)),)

    files: Annotated[Files, Field(min_length=1)]
    """text files, folders and patterns"""
    tokens: Literal[tuple(KINDS)] = "characters"  # type: ignore[valid-type]
    """what a token is"""
    vocabulary: Size | None = None
    """most frequent tokens that are kept; all if not said (4,096 for bpe)"""
    split: Literal["tail", "lines"] = "tail"
    """tail: the text's end is for validation; lines: each line goes to one part, by chance, and lines are shuffled"""
    validation: Portion = 0.1
    """share of the text, or files, to validate on"""
    test: Portion = 0.0
    """share of the text, or files, to test on at the end"""
    split_seed: Count = 0
    """of the chance by which lines are divided and shuffled"""

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        find_kind(self.tokens).check_size(self.vocabulary)
        return self


class LanguageModelSettings(BodySettings):
    """A language model: embedding, recurrent layers, read-out."""

    effects = (*BodySettings.effects, Effect(OF_LAYERS, "reader", ("recurrent",)))

    embedding: Size | None = None
    """width of a token's vector; as wide as a layer, but at most 64 for characters and bytes"""
    tie: bool = False
    """the read-out uses the embedding's matrix"""
    reader: Literal["recurrent", "mlp"] = "recurrent"
    """recurrent: layers with memory; mlp has none, and is there to compare"""


class LanguageModel(Layered, Learner):
    """P(next token | all before): embedding → recurrent layers → read-out. The state goes on from call to call."""

    def __init__(self, vocabulary_size: int, settings: LanguageModelSettings) -> None:
        super().__init__()
        width = settings.embedding or settings.hidden
        self.embedding = nn.Embedding(vocabulary_size, width)
        if settings.tie:  # as a read-out, torch's numbers would be far too large
            nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(width))
        self.make_layers(settings, width)
        if settings.reader == "mlp":
            self.body = StatelessBody(settings, width)
        self.projection = nn.Linear(settings.hidden, width) if settings.tie and settings.hidden != width else None
        self.read_out = (
            self.embedding.weight if settings.tie else nn.Parameter(torch.empty(vocabulary_size, settings.hidden))
        )
        self.read_out_bias = nn.Parameter(torch.zeros(vocabulary_size))
        if not settings.tie:
            bound = 1 / math.sqrt(settings.hidden)
            nn.init.uniform_(self.read_out, -bound, bound)
        self.supervision = list(settings.supervised.values())
        self.lower_read_outs = nn.ModuleList(nn.Linear(settings.hidden, vocabulary_size) for _ in self.supervision)
        spread_weights(self, settings)

    def forward(self, batch: tuple[Tensor, Tensor], carried: Any, truth: float = 1.0) -> Outcome:
        """The mean cross-entropy of `(ids, targets)`, each (time, rows), in nats."""
        ids, targets = batch
        if truth < 1:
            return self._run_free(ids, targets, carried, truth)
        found = self.listen(ids, carried)
        output = found.sequences[-1]
        loss = linear_cross_entropy(self.features(output), self.read_out, self.read_out_bias, targets)
        return Outcome(loss, targets.numel(), found.state, output, extra=self._extra(found, targets))

    def carry(self, rows: int) -> Any:
        """A state of zeros."""
        with torch.no_grad():
            _, state = self.body(self.embedding.weight.new_zeros(1, rows, self.embedding.embedding_dim))
        return map_leaves(torch.zeros_like, state)

    def listen(self, ids: Tensor, state: Any) -> Reading:
        """What the recurrent layers make of tokens."""
        return self.read(self.drop_input(self.embedding(ids)), state)

    def features(self, output: Tensor) -> Tensor:
        """What the read-out reads, from what the top layer gave."""
        features = self.drop(output)
        return features if self.projection is None else self.projection(features)

    def predict(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits of what follows the last of `ids` (time, rows), and the state."""
        found = self.listen(ids, state)
        features = self.features(found.sequences[-1])
        return functional.linear(features[-1], self.read_out, self.read_out_bias), found.state

    def _run_free(self, ids: Tensor, targets: Tensor, carried: Any, truth: float) -> Outcome:
        readings: list[Reading] = []  # one a step

        def predict(now: Tensor, state: Any) -> tuple[Tensor, Any]:
            readings.append(self.listen(now.unsqueeze(0), state))
            features = self.features(readings[-1].sequences[-1])
            return functional.linear(features[0], self.read_out, self.read_out_bias), readings[-1].state

        logits, carried = free_run(predict, ids, carried, truth)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        sequences = [torch.cat(level) for level in zip(*(one.sequences for one in readings), strict=True)]
        penalties = [one.extra for one in readings if one.extra is not None]
        found = Reading(sequences, carried, torch.stack(penalties).mean() if penalties else None)
        return Outcome(loss, targets.numel(), carried, sequences[-1], extra=self._extra(found, targets))

    def _extra(self, found: Reading, targets: Tensor) -> Tensor | None:
        """What training adds to the loss; nothing else pays for read-outs of lower layers."""
        if not self.training:
            return None
        heads = [head for head in self.lower_read_outs if isinstance(head, nn.Linear)]
        losses = [
            linear_cross_entropy(self.drop(sequence), head.weight, head.bias, targets)
            for head, sequence in zip(heads, found.sequences[:-1], strict=True)
        ]
        return with_lower(found.extra, self.supervision, losses)


class TextWindows(Batches):
    """Windows of a text as tensors."""

    def __init__(self, tokens: Ids, rows: int, steps: int | None, rank: int = 0, ranks: int = 1) -> None:
        self._windows = Windows(tokens, rows, steps or max(1, (len(tokens) - 1) // rows))
        self._mine = slice(rows * rank // ranks, rows * (rank + 1) // ranks)

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self._windows.window(number)
        return tuple(torch.from_numpy(np.ascontiguousarray(part[:, self._mine])) for part in (inputs, targets))  # type: ignore[return-value]


class LanguageModelling(Task):
    """Learning to say what comes next in a text."""

    name = "lm"
    Data = TextData
    Model = LanguageModelSettings
    defaults = {"training": {"epochs": 10.0}}

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._baselines: dict[str, dict[str, float]] = {}

    @classmethod
    def prepare(cls, data: TextData, seed: int) -> Self:  # noqa: ARG003 - text is not drawn from
        division = Division(data.split, data.validation, data.test, data.split_seed)
        corpus = prepare(data.files, division, data.tokens, data.vocabulary)
        if len(corpus.training) < 2 or len(corpus.validation) < 2:
            sizes = f"{len(corpus.training)} token(s) to train on and {len(corpus.validation)} to validate on"
            raise DataError(f"{', '.join(data.files)}: {sizes} are too few. Give more text, or another `validation`.")
        return cls(corpus)

    def make_learner(self, settings: LanguageModelSettings) -> LanguageModel:
        return make_model(self.vocabulary, settings)

    @property
    def vocabulary(self) -> Vocabulary:
        """Tokens and their ids."""
        return self.corpus.vocabulary

    @property
    def unit(self) -> str:
        return self.vocabulary.kind if self.vocabulary.kind in ("characters", "bytes", "words") else "tokens"

    @property
    def digest(self) -> str:
        return self.corpus.digest

    def describe(self) -> Mapping[str, str]:
        parts = {part: len(getattr(self.corpus, part)) for part in ("training", "validation", "test")}
        return {
            "data": ", ".join(f"{count:,} for {part}" for part, count in parts.items() if count) + f" ({self.unit})",
            "vocabulary": f"{len(self.vocabulary):,} {self.unit}",
        }

    def batches(self, rows: int, window: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:  # noqa: ARG002
        found = TextWindows(self.corpus.training, rows, window, rank, ranks)
        length = (len(self.corpus.training) - 1) // rows
        if window is not None and window > length:
            raise DataError(
                f"`window` (={window}) is longer than the text: {len(self.corpus.training):,} {self.unit} in {rows} "
                f"rows are {length} steps. Give --window {max(1, length // 2)} or less, or a smaller --batch."
            )
        return found

    @torch.no_grad()
    def evaluate(self, learner: Any, part: str, rows: int = 1, limit: int | None = None) -> dict[str, float]:
        tokens = getattr(self.corpus, part)[: None if limit is None else limit + 1]
        if len(tokens) < 2:
            return {}
        rows = max(1, min(rows, (len(tokens) - 1) // READING))
        return figures(self.measure(learner, tokens, rows))

    @staticmethod
    @torch.no_grad()
    def measure(learner: LanguageModel, tokens: Ids, rows: int = 1) -> float:
        """Mean cross-entropy of a text that is read once through, in `rows` parts; the state goes on."""
        was = learner.training
        learner.eval()
        total, count, state = 0.0, 0, learner.carry(rows)
        windows = TextWindows(tokens, rows, READING)
        for number in range(len(windows)):
            found = learner(windows[number], state)
            total, count, state = total + float(found.loss) * found.units, count + found.units, found.carried
        learner.train(was)
        return total / count

    def baselines(self) -> dict[str, dict[str, float]]:
        self._baselines = self._baselines or {name: figures(loss) for name, loss in self._count().items()}
        return self._baselines

    def _count(self) -> dict[str, float]:
        size = len(self.vocabulary)
        training, validation = self.corpus.training[-COUNTED:], self.corpus.validation[:COUNTED]
        found = {"uniform": math.log(size)}
        for name, order in (("unigram", 1), ("5-gram", 5)):
            model = NGram(order, size).fit(np.asarray(training))
            # the validation text's first token is context alone, as it is for the network
            found[name] = float(-model.log_probability(np.asarray(validation))[1:].mean())
        return found

    def sample(self, learner: Any, seed: int) -> str:
        was = learner.training
        learner.eval()
        try:
            generator = torch.Generator().manual_seed(seed)
            sampling = Sampling(temperature=0.8, banned=unsayable(self.vocabulary))
            ids = generate(learner, opening(learner, self.vocabulary), SAMPLE, sampling, generator)
            return self.vocabulary.decode(list(ids))
        finally:
            learner.train(was)

    def dump(self) -> dict[str, Any]:
        return self.vocabulary.dump()

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: TextData) -> Self:  # noqa: ARG003 - a vocabulary is enough
        nothing = np.zeros(0, np.int64)
        return cls(Corpus(load_vocabulary(document), nothing, nothing, nothing, ""))

    def evaluate_files(self, learner: Any, source: Source) -> dict[str, float]:
        """Loss, perplexity and bits of a text that is read once through; and the share of `unknown` tokens, if any.

        A token that was never read in training counts as the unknown one, which is easier to foresee than what it is.
        """
        ids = prepare(source, Division(validation=0.0), vocabulary=self.vocabulary).training
        if len(ids) < 2:
            raise DataError(f"{source} has {len(ids)} token(s). Give text of two at least.")
        unknown = sum(np.count_nonzero(ids == token) for token in unsayable(self.vocabulary)) / len(ids)
        return figures(self.measure(learner, ids)) | ({"unknown": unknown} if unknown else {})


def make_model(vocabulary: Vocabulary, settings: LanguageModelSettings) -> LanguageModel:
    """A fresh model of a vocabulary."""
    if settings.embedding is None and vocabulary.kind in ("characters", "bytes"):
        settings = settings.model_copy(update={"embedding": min(settings.hidden, 64)})
    return LanguageModel(len(vocabulary), settings)


@torch.no_grad()
def opening(model: LanguageModel, vocabulary: Vocabulary) -> list[int]:
    """Ids to start from where nothing is said: a line that the model says to itself, and its end.

    In its first state a model has read nothing; that a line begins it knows only when it has seen one end. Where there
    are no lines, the most frequent token.
    """
    ends = vocabulary.ids("\n")
    silent = unsayable(vocabulary)
    if len(ends) != 1 or vocabulary.decode(ends) != "\n":
        return [min(1, len(vocabulary) - 1)]
    sampling, generator = Sampling(temperature=0.8, banned=silent), torch.Generator().manual_seed(0)
    line = takewhile(lambda token: token != ends[0], generate(model, ends, LINE, sampling, generator))
    return [*ends, *line, *ends]


def figures(loss: float) -> dict[str, float]:
    """A mean cross-entropy as people read it: perplexity, and bits a token."""
    perplexity = math.exp(loss) if loss < 700 else math.inf
    return {"loss": loss, "perplexity": perplexity, "bits": loss / math.log(2)}


def unsayable(vocabulary: Vocabulary) -> tuple[int, ...]:
    """Ids that stand for no text: the unknown token."""
    return (0,) if vocabulary.kind not in ("bytes", "bpe") and len(vocabulary) > 1 else ()
