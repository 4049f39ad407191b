"""Language modelling: text in, the next token out."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.data.batches import Windows
from unspool.data.corpus import PARTS, Corpus, Division, prepare
from unspool.data.sources import find_folder_parts, held_out, list_paths
from unspool.data.text import Source
from unspool.data.tokens import Ids
from unspool.data.vocabulary import Vocabulary, load_vocabulary
from unspool.decoding.generation import Predictor, generate
from unspool.decoding.sampling import Sampling, check_ids
from unspool.errors import ArgumentError, ArgumentTypeError, DataError
from unspool.tasks.baselines.ngram import NGram
from unspool.tasks.contract import Batches, Claim, Extent, Material, Proposal, Task, TextModel, TrainingSequences
from unspool.tasks.tokens import decode_steps

if TYPE_CHECKING:
    from unspool.data.glance import Glance
    from unspool.settings.data import TextData
    from unspool.settings.training import Training

#: Steps of a window in evaluation: many, so that the loop costs nothing, and few enough to stay in cache.
READING = 512
#: Tokens that an n-gram baseline counts at most: the last ones of the training text.
COUNTED = 2_000_000
#: Characters that the name of a file has at most.
PATH = 4096
#: Tokens of a sample.
SAMPLE = 300
#: Tokens of the validation text among which a word is found that is proposed as a prompt.
PROMPT = 64
#: Tokens after which a line ends in any case.
LINE = 120
#: The fewest and the most steps of truncated BPTT that are proposed, and of which they are a multiple. The fewest are
#: the default: single tokens tell less of each other than many tell together.
FEWEST, MOST, MULTIPLE = 64, 512, 8
#: X-ray reads a text over this many times `bptt`, so that what lies beyond it shows.
SPANS = 3


class TextWindows(Batches):
    """Windows of a text."""

    def __init__(self, tokens: Ids, batch_size: int, steps: int | None, rank: int = 0, ranks: int = 1) -> None:
        self._windows = Windows(tokens, batch_size, steps or max(1, (len(tokens) - 1) // batch_size))
        self._own = slice(batch_size * rank // ranks, batch_size * (rank + 1) // ranks)

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        inputs, targets = (np.ascontiguousarray(part[:, self._own]) for part in self._windows.window(number))
        return inputs, targets


class LanguageModelling(Task):
    """Learning to predict the next token of a text.

    Example:
        task = LanguageModelling.prepare(TextData(files=("book.txt",)), seed=0)
        model = make_learner(task, LanguageModelSettings(hidden=128))
        task.evaluate(model, "validation")["perplexity"]
    """

    name = "lm"
    generates = True
    loss_unit = "nats"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._baselines: dict[str, dict[str, dict[str, float]]] = {}  # by part

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        if glance.is_table or glance.arrays is not None:
            return None
        return Claim(0, f"{glance.name} is text without columns")

    @classmethod
    def prepare(cls, data: TextData, seed: int) -> Self:  # noqa: ARG003 - the split has its own seed
        parts = find_folder_parts(data.files)
        validation, test = (
            list_paths(parts[name]) if name in parts and isinstance(given, int | float) else given
            for name, given in (("validation", data.validation), ("test", data.test))
        )
        division = Division(data.split, validation, test, data.split_seed)
        corpus = prepare(parts.get("training", data.files), division, data.tokenizer, data.vocab_size)
        if len(corpus.training) < 2 or len(corpus.validation) < 2:
            sizes = f"{len(corpus.training)} token(s) to train on and {len(corpus.validation)} to validate on"
            raise DataError(f"{', '.join(data.files)}: {sizes} are too few. Give more text, or another `validation`.")
        return cls(corpus)

    @property
    def vocabulary(self) -> Vocabulary:
        """Tokens and their ids."""
        return self.corpus.vocabulary

    def embedded_tokens(self) -> Mapping[str, int]:
        return self.vocabulary.listed()

    @property
    def unit(self) -> str:
        return self.vocabulary.unit

    @property
    def digest(self) -> str:
        return self.corpus.digest

    def describe(self) -> Mapping[str, str]:
        parts = {part: len(getattr(self.corpus, part)) for part in PARTS}
        return {
            "data": ", ".join(f"{count:,} for {part}" for part, count in parts.items() if count) + f" ({self.unit})",
            "vocabulary": f"{len(self.vocabulary):,} {self.unit}",
        }

    def batches(self, batch_size: int, bptt: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:  # noqa: ARG002
        found = TextWindows(self.corpus.training, batch_size, bptt, rank, ranks)
        length = (len(self.corpus.training) - 1) // batch_size
        if bptt is not None and bptt > length:
            raise DataError(
                f"`bptt` (={bptt}) is longer than the text: {len(self.corpus.training):,} {self.unit} in a batch of "
                f"{batch_size} are {length} steps. Give `bptt={max(1, length // 2)}` or less, or a smaller "
                "`batch_size`."
            )
        return found

    # ── the model ──

    def evaluate(self, learner: Any, part: str, batch_size: int = 1, limit: int | None = None) -> dict[str, float]:
        tokens = getattr(self.corpus, part)[: None if limit is None else limit + 1]
        if len(tokens) < 2:
            return {}
        batch_size = max(1, min(batch_size, (len(tokens) - 1) // READING))
        return loss_metrics(self.measure(learner, tokens, batch_size))

    def evaluate_files(self, learner: Any, source: Source) -> dict[str, float]:
        """Loss, perplexity and bits of a text that is read once; and the fraction of `unknown` tokens, if any.

        A token that does not occur in training counts as the unknown one, which is easier to predict than what it is.
        """
        return self._evaluate(learner, self._read(source), str(source))

    def _evaluate(self, learner: TextModel, ids: Ids, source: str) -> dict[str, float]:
        if len(ids) < 2:
            raise DataError(f"{source} has {len(ids)} token(s). Give text of two at least.")
        unknown = sum(np.count_nonzero(ids == token) for token in textless_ids(self.vocabulary)) / len(ids)
        return loss_metrics(self.measure(learner, ids)) | ({"unknown": unknown} if unknown else {})

    @staticmethod
    def measure(learner: TextModel, tokens: Ids, batch_size: int = 1) -> float:
        """Mean cross-entropy of a text that is read once, in `batch_size` parallel parts, with the state carried on."""
        total, count, state = 0.0, 0, learner.initial_state(batch_size)
        windows = TextWindows(tokens, batch_size, READING)
        for number in range(len(windows)):
            window = windows[number]
            loss, state = learner.measure(window, state)
            total, count = total + loss * window[1].size, count + window[1].size
        return total / count

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        tokens = getattr(self.corpus, part)[:COUNTED]
        if part not in self._baselines and len(tokens) > 1:
            self._baselines[part] = {name: loss_metrics(loss) for name, loss in self._count(tokens).items()}
        return self._baselines.get(part, {})

    def _count(self, tokens: Ids) -> dict[str, float]:
        """The losses of baselines that count tokens."""
        size = len(self.vocabulary)
        training = self.corpus.training[-COUNTED:]
        found = {"uniform": math.log(size)}
        for name, order in (("unigram", 1), ("5-gram", 5)):
            model = NGram(order, size).fit(np.asarray(training))
            # the first token is context alone, as it is for the network
            found[name] = float(-model.log_probability(np.asarray(tokens))[1:].mean())
        return found

    def sample(self, learner: Any, seed: int) -> str:
        generator = np.random.default_rng(seed)
        sampling = Sampling(temperature=0.8, banned=textless_ids(self.vocabulary))
        ids = generate(learner, first_prompt(learner, self.vocabulary), SAMPLE, sampling, generator)
        return self.vocabulary.decode(list(ids))

    def prompt(self) -> str:
        words = self.vocabulary.decode(self.corpus.validation[:PROMPT].tolist()).split()
        known = [word for word in words if word.isprintable() and word[0].isalpha()]
        return known[1] if len(known) > 2 else "".join(known[:1])  # the first and the last may be cut

    # ── what plan and X-ray ask ──

    def sequences(self) -> TrainingSequences:
        mark = self.vocabulary.ids("\n")
        line_end = mark[0] if len(mark) == 1 and self.vocabulary.decode(mark) == "\n" else None
        return TrainingSequences(self.unit, [[np.asarray(self.corpus.training)]], line_end=line_end)

    def propose(self, memory: int, training: Training) -> list[Proposal]:
        """`bptt` of twice the memory, as far as the text allows, and a `batch_size` for which the text is enough."""
        targets, batch_size = len(self.corpus.training) - 1, training.batch_size
        given = "batch_size" in training.model_fields_set
        wanted = int(np.clip(MULTIPLE * math.ceil(2 * memory / MULTIPLE), FEWEST, MOST))
        bptt = min(wanted, max(1, targets // (batch_size if given else 1)))
        reason = _explain_bptt(wanted, memory)
        if bptt < wanted:
            reason = f"All that the text allows; {wanted} would be better."
        found = [Proposal("bptt", bptt, reason, enough=memory > 0 and bptt == wanted == FEWEST)]
        if not given and targets // batch_size < bptt:
            fewer = max(1, targets // bptt)
            reason = f"The text in a batch of {batch_size} would be shorter than {bptt} steps."
            found.append(Proposal("batch_size", fewer, reason))
        return found

    def material(self, learner: Any, extent: Extent, source: Source | None = None) -> Material:  # noqa: ARG002
        if source is None:
            return self._material(self.corpus.validation, extent, "validation data")
        return self._material(self._read(source), extent, str(source))

    def own_material(self, learner: Any, extent: Extent) -> Material:
        sampling = Sampling(temperature=1.0, banned=textless_ids(self.vocabulary))
        prompt, count = first_prompt(learner, self.vocabulary), extent.batch_size * extent.steps + 1
        ids = np.array(list(generate(learner, prompt, count, sampling, np.random.default_rng(0))))
        return self._material(ids, extent, "text that the model generated")

    def _material(self, ids: Ids, extent: Extent, source: str) -> Material:
        if len(ids) < 3:
            raise DataError(f"{source} has {len(ids)} token(s). Give text of three at least.")
        wanted = extent.steps
        if extent.bptt is not None:
            wanted = max(wanted, min(SPANS * extent.bptt, 2 * extent.steps))
        steps = min(wanted, len(ids) - 1)
        batch_size = max(1, min(extent.batch_size, (len(ids) - 1) // steps))
        batch = TextWindows(ids, batch_size, steps)[0]
        return Material(batch, batch_size, decode_steps(batch[0], self.vocabulary), source)

    def evaluate_examples(self, learner: Any, examples: str, targets: Any = None) -> dict[str, float]:  # noqa: ARG002
        """As `evaluate_files`, of one text."""
        text = check_text("examples", examples)
        if "\n" not in text and os.path.isfile(text[:PATH]):
            problem = "is the name of a file, and its letters would be evaluated"
            raise ArgumentError.of("examples", text[:PATH], problem, "Give the text that the file holds")
        ids = self.vocabulary.ids(text)
        return self._evaluate(learner, np.array(ids, np.int64), "the text")

    def _read(self, source: Source) -> Ids:
        """The tokens of files, in the vocabulary of the model; of a folder that comes divided, of its test part."""
        source = held_out(source) if find_folder_parts(source) else source
        return prepare(source, Division(validation=0.0), vocabulary=self.vocabulary).training

    # ── what a player of its network asks ──

    def encode_steps(self, given: str | Sequence[int]) -> Ids:
        """The ids (time, 1) of a text, or ids as they are."""
        ids = self.vocabulary.ids(given) if isinstance(given, str) else self._check_ids(given)
        return np.array(ids, np.int64)[:, None]

    def _check_ids(self, given: Any) -> list[int]:
        """Ids of the vocabulary, as a list."""
        listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, bytes)
        if not listed or not getattr(given, "ndim", 1):
            raise ArgumentTypeError.of("given", given, "is neither a text nor a list of ids", "Give a text")
        ids, count = check_ids("ids", given), len(self.vocabulary)
        for place, number in enumerate(ids):
            if number >= count:
                problem = f"is not a token from 0 to {count - 1}"
                raise ArgumentError.of(f"ids[{place}]", number, problem, "Encode text with the model's own vocabulary")
        return ids

    # ── what a run keeps ──

    def dump(self) -> dict[str, Any]:
        return self.vocabulary.dump()

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: TextData) -> Self:  # noqa: ARG003 - a vocabulary is enough
        nothing = np.zeros(0, np.int64)
        return cls(Corpus(load_vocabulary(document), nothing, nothing, nothing, ""))


def _explain_bptt(wanted: int, memory: int) -> str:
    """Why gradients flow back so many steps."""
    if wanted == MOST and memory > MOST // 2:
        return f"Less than twice the memory of {memory:,}, as time and memory of a training step grow with it."
    if wanted == FEWEST:
        enough = f"and enough: twice the memory of {memory} is {2 * memory}" if memory else "as no memory was found"
        return f"The default, {enough}."
    return f"Twice the memory of {memory:,}: then at least half of all steps have their whole past within reach."


def first_prompt(model: Predictor, vocabulary: Vocabulary) -> list[int]:
    """Ids to start from where there is no prompt: a line that the model generates, and its end.

    In its initial state a model has read nothing; that a line starts it knows only after the end of another. Where
    there are no lines, the most frequent token.
    """
    ends = vocabulary.ids("\n")
    if len(ends) != 1 or vocabulary.decode(ends) != "\n":
        return [min(1, len(vocabulary) - 1)]
    sampling = Sampling(temperature=0.8, banned=textless_ids(vocabulary))
    generated = generate(model, ends, LINE, sampling, np.random.default_rng(0))
    return [*ends, *takewhile(lambda token: token != ends[0], generated), *ends]


def check_text(name: str, given: Any) -> str:
    """One text; anything else is refused."""
    if not isinstance(given, str):
        raise ArgumentTypeError.of(name, given, f"is of type {type(given).__name__}, not a text", "Give a string")
    return given


def loss_metrics(loss: float) -> dict[str, float]:
    """A mean cross-entropy with its perplexity, and in bits per token.

    Example:
        loss_metrics(math.log(2))  # {"loss": 0.693, "perplexity": 2.0, "bits": 1.0}
    """
    perplexity = math.exp(loss) if loss < 700 else math.inf
    return {"loss": loss, "perplexity": perplexity, "bits": loss / math.log(2)}


def textless_ids(vocabulary: Vocabulary) -> tuple[int, ...]:
    """Ids that stand for no text: the unknown token."""
    return (0,) if vocabulary.kind not in ("byte", "bpe") and len(vocabulary) > 1 else ()
