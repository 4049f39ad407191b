"""Tagging: a tag for every word of a sentence, and the spans that tags mark, such as names and slots."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from unspool.data import saved
from unspool.data.inputs import check_lengths
from unspool.data.memory import check_list
from unspool.data.problems import warn_unseen
from unspool.data.schemes import OUTSIDE, Scheme, Span, find_letters, guess_scheme, spans, transitions
from unspool.data.sentences import read_sentences
from unspool.data.sequences import Indices, Sequences
from unspool.data.tagged import Sentence, mend_sentences, split_columns
from unspool.data.text import LINES, Source, read_lines
from unspool.errors import ArgumentError, ArgumentTypeError, DataError, ShapeError
from unspool.tasks.batch import UNSEEN, Batch, TagPrediction, WordBatch
from unspool.tasks.contract import Claim, TrainingSequences, Usage
from unspool.tasks.examples import check_validation, digest_files, read_divided
from unspool.tasks.label_lists import list_some
from unspool.tasks.lexicon import Lexicon
from unspool.tasks.metrics import accuracy, span_f1
from unspool.tasks.tokens import Tokens
from unspool.tasks.tolerant import TolerantTask

if TYPE_CHECKING:
    from unspool.data.glance import Glance
    from unspool.settings.data import TaggedData

#: Suffixes of files with one word and its tag per line.
SUFFIXES = (".conll", ".conll03", ".bio", ".iob", ".iob2", ".bioes")
#: Characters of a sentence with its tags that a line of a sample shows.
SHOWN = 160


class Sentences(list[Sentence]):
    """Sentences that can be split, and know their origin."""

    @classmethod
    def of(cls, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]] | None = None) -> Self:
        """From lists in memory.

        Args:
            words: The words of each sentence.
            tags: Their tags; None where they are not known.
        """
        if tags is not None and len(tags) != len(words):
            problem = f"lists do not match the {len(words)} sentences"
            raise ShapeError.of("tags", len(tags), problem, "Give one list per sentence")
        known = [()] * len(words) if tags is None else _string_lists("tags", tags)
        pairs = zip(_string_lists("words", words), known, strict=True)
        return cls(Sentence(*pair, number, None) for number, pair in enumerate(pairs))

    def take(self, indices: Indices) -> Self:
        """Some of them, in this order."""
        return type(self)(self[int(index)] for index in indices)

    def place(self, index: int) -> str:
        """The file and line of a sentence."""
        return self[index].place(0)


def _string_lists(name: str, given: Sequence[Any]) -> list[tuple[str, ...]]:
    return [_strings(f"{name}[{index}]", one) for index, one in enumerate(given)]


def _strings(name: str, given: Any) -> tuple[str, ...]:
    found = (None,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(entry, str) and entry for entry in found):
        remedy = "Give a list of strings that are not empty, one for each word"
        raise ArgumentTypeError.of(name, given, "is not a list of words", remedy)
    return found


@dataclass(frozen=True)
class TaggedPart:
    """Sentences as numbers of word forms, each of which is encoded once, and as numbers of tags."""

    sentences: Sentences
    forms: Sequences
    ids: NDArray[np.int64]
    spellings: Sequences
    tags: Sequences | None

    @property
    def lengths(self) -> Indices:
        return self.forms.lengths

    @cached_property
    def counts(self) -> Indices:
        """The words of each sentence; 0 where it has a tag that training never saw, as it then has no loss."""
        if self.tags is None or UNSEEN not in self.tags.values:
            return self.forms.lengths
        known = [UNSEEN not in tags for tags in self.tags]
        return np.where(known, self.forms.lengths, 0)

    def batch(self, indices: Indices) -> Batch:
        forms = self.forms.padded(indices)
        distinct, places = np.unique(forms, return_inverse=True)
        arrays = (
            self.ids[forms],
            places.reshape(forms.shape),
            self.spellings.padded(distinct),
            self.spellings.lengths[distinct],
        )
        targets = None if self.tags is None else self.tags.padded(indices)
        units = float(self.counts[indices].sum())
        return Batch(WordBatch(*arrays), self.forms.lengths[indices], targets, units)


class Tagging(TolerantTask):
    """Learning which tag each word has. A prediction is a `TagPrediction`.

    Example:
        task = Tagging.prepare(TaggedData(files=("train.conll",)), seed=0)
        model = make_learner(task, TaggerSettings())
        task.evaluate(model, "validation")["span F1"]
    """

    name = "tag"
    unit = "words"
    more_is_better = True

    def __init__(
        self,
        parts: Mapping[str, TaggedPart],
        lexicon: Lexicon,
        tags: Sequence[str],
        scheme: Scheme,
        data: TaggedData,
        **of: Any,
    ) -> None:
        super().__init__(parts, **of)
        self.lexicon, self.tags, self.scheme, self.data = lexicon, list(tags), scheme, data
        self.has_spans = scheme != "io" or OUTSIDE in tags  # where no tag is "outside", tags do not mark spans
        self.chosen_by = "span F1" if self.has_spans else "accuracy"

    # ── data ──

    @classmethod
    def is_column_file(cls, file: Path) -> bool:
        return file.suffix.lower() in SUFFIXES or _are_tagged(list(islice(read_lines(file), LINES)))

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        if glance.suffix in SUFFIXES:
            return Claim(50, f"{glance.name} ends in {glance.suffix}")
        if glance.has_tagged_folder:
            return Claim(50, f"{glance.name} has words in seq.in and their tags in seq.out")
        if not glance.is_table and _are_tagged(glance.lines):
            return Claim(50, f"{glance.name} has a word and a tag on each line")
        return None

    @classmethod
    def prepare(cls, data: TaggedData, seed: int) -> Self:
        raws = read_divided(data, lambda _, source: Sentences(read_sentences(source)))
        return cls.of(raws, data, digest=digest_files(data.files, data.validation, data.test), seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Sentences], data: TaggedData, **of: Any) -> Self:
        """From sentences in memory, by the part that they are for."""
        training = raws["training"]
        tags = list_tags(training)
        if len(tags) < 2:
            what = f"have the tag {tags[0]!r}" if tags else "have no tags"
            raise DataError(
                f"all {len(training)} training sentences {what}: there is nothing to tell apart. "
                "Give sentences with two tags at least."
            )
        scheme = guess_scheme(tags) if data.scheme == "auto" else data.scheme
        training = Sentences(mend_sentences(training, scheme))
        tags = list_tags(training)
        start, _, end = transitions(tags, scheme)
        if not (start & end).any():  # no tag would be permitted for a single word
            tags = sorted([*tags, OUTSIDE])
        task = cls({}, Lexicon.fit(training, data.lowercase), tags, scheme, data, **of)
        mended = {**raws, "training": training}
        task.parts = {name: task.part(raw) for name, raw in mended.items() if len(raw)}
        check_validation(task.parts, "tags")
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: TaggedData) -> Self:
        try:
            words, characters = (tuple(saved.read_names(document, name, least=0)) for name in ("words", "characters"))
            lowercase, scheme = saved.read_flag(document, "lowercase"), document["scheme"]
            tags = saved.read_names(document, "tags")
            if scheme not in get_args(Scheme):
                raise ValueError(f"scheme {scheme!r:.40}")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the run's vocabulary.json does not say how to read sentences: {error!r}. Train again."
            ) from error
        return cls({}, Lexicon(words, characters, lowercase), tags, scheme, data)

    def dump(self) -> dict[str, Any]:
        lexicon = self.lexicon
        known = {"words": list(lexicon.words), "characters": list(lexicon.characters), "lowercase": lexicon.lowercase}
        return {**known, "tags": self.tags, "scheme": self.scheme}

    def embedded_tokens(self) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(self.lexicon.words, 1)}

    def describe(self) -> Mapping[str, str]:
        sizes = ", ".join(f"{len(part.lengths):,} for {name}" for name, part in self.parts.items())
        words = self.parts["training"].lengths
        return {
            "data": f"{sizes} (sentences of {words.min()} to {words.max()} words)",
            "words": f"{len(self.lexicon.words):,} that occur more than once",
            "tags": f"{len(self.tags)} ({self.scheme}): {list_some(self.tags)}",
        }

    def gather(self, source: Source, *, targets: bool = True) -> Sentences:
        return Sentences(read_sentences(source, targets))

    def gather_texts(self, texts: Sequence[str], place: Callable[[int], str]) -> Sentences:  # noqa: ARG002
        return Sentences(Sentence(tuple(text.split()), (), row, None) for row, text in enumerate(texts))

    def part_of(self, examples: Any, targets: Any = None) -> TaggedPart:
        """A part from sentences: lists of words, or texts whose words are separated by white space.

        Args:
            examples: The sentences.
            targets: A list of tags for each; None where they are not known.
        """
        check_list(examples, "examples", "Give a list of lists of words, or of texts")
        if targets is not None:
            check_list(targets, "targets", "Give a list of tags for each sentence")
        words = [one.split() if isinstance(one, str) else one for one in examples]
        found = self.part(Sentences.of(words, targets))
        if targets is not None and found.tags is None:
            raise ArgumentError.of("targets", targets, "hold no tag", "Give each word a tag")
        return found

    def show_given(self, given: Sentences, index: int) -> list[str]:
        return list(given[index].words)

    def part(self, sentences: Sentences) -> TaggedPart:
        """Sentences, encoded as the training data is."""
        if any(sentence.tags for sentence in sentences):
            sentences = Sentences(mend_sentences(sentences, self.scheme, find_letters(self.tags)))
        check_lengths([len(sentence.words) for sentence in sentences], self.data.max_length, sentences)
        forms: dict[str, int] = {}
        numbers = [[forms.setdefault(word, len(forms)) for word in sentence.words] for sentence in sentences]
        encoded = Sequences.of(np.array(one, np.int64) for one in numbers)
        return TaggedPart(sentences, encoded, *self.lexicon.encode(list(forms)), self._number_tags(sentences))

    def _number_tags(self, sentences: Sentences) -> Sequences | None:
        if not any(sentence.tags for sentence in sentences):
            return None
        number = {tag: place for place, tag in enumerate(self.tags)}
        found = Sequences.of(
            np.array([number.get(tag, UNSEEN) for tag in sentence.tags], np.int64) for sentence in sentences
        )
        _warn_unseen_tags(sentences, number, len(found.values))
        return found

    def sequences(self) -> TrainingSequences:
        return TrainingSequences("words", [list(self.parts["training"].forms)])

    def tokens(self, part: TaggedPart, batch: Batch, indices: Indices) -> Tokens:  # noqa: ARG002
        words = [part.sentences[int(index)].words for index in indices]
        steps = max(map(len, words))
        return [[own[t] if t < len(own) else "" for own in words] for t in range(steps)]

    # ── the model ──

    def usage(self) -> Usage:
        return Usage("words", self.unit, tuple(self.tags))

    def player_facts(self) -> dict[str, Any]:
        return {"allowed": permitted(self.tags, self.scheme)}

    def metrics(self, part: TaggedPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        assert part.tags is not None
        y_true = np.concatenate([part.tags[int(index)] for index in indices])
        y_pred = [prediction.tags for prediction in predictions]
        right: dict[str, float] = {"accuracy": accuracy(y_true, np.concatenate(y_pred))}
        unseen = int((y_true == UNSEEN).sum())
        if unseen:
            right |= {"words": len(y_true), "unseen tags": unseen}
        return {**self._score_spans(part, indices, y_pred), **right} if self.has_spans else right

    def _score_spans(self, part: TaggedPart, indices: Indices, y_pred: Sequence[Any]) -> dict[str, float]:
        true_spans = [spans(part.sentences[int(index)].tags, self.scheme) for index in indices]
        score = span_f1(true_spans, [self.spans(one) for one in y_pred])
        return {"span F1": score.f1, "precision": score.precision, "recall": score.recall}

    def spans(self, tags: NDArray[np.int64]) -> list[Span]:
        """The spans that tags with these numbers mark."""
        return spans(self.name_tags(tags), self.scheme)

    def name_tags(self, tags: NDArray[np.int64]) -> list[str]:
        """The tags with these numbers."""
        return [self.tags[tag] for tag in tags]

    def show(self, part: TaggedPart, index: int, prediction: TagPrediction) -> str:
        sentence, tags = part.sentences[index], self.name_tags(prediction.tags)
        words, target = sentence.words, sentence.tags
        predicted = self.mark(words, tags)
        return f"✓ {predicted}" if list(target) == tags else f"✗ {predicted}, not {self.mark(words, target)}"

    def mark(self, words: Sequence[str], tags: Sequence[str]) -> str:
        """A sentence with its spans in brackets, or with the tag after each word where tags do not mark spans."""
        if self.has_spans:
            marked = list(words)
            for kind, first, last_exclusive in spans(tags, self.scheme):
                marked[first] = f"[{kind}{': ' if kind else ''}{marked[first]}"
                marked[last_exclusive - 1] += "]"
        else:
            marked = [f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)]
        line = " ".join(marked)
        return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        return ("words", "tags", "probabilities")

    def record(self, part: TaggedPart, index: int, prediction: TagPrediction) -> dict[str, Any]:
        words, tags = list(part.sentences[index].words), self.name_tags(prediction.tags)
        return {"words": words, "tags": tags, "probabilities": prediction.probabilities.tolist()}


def list_tags(sentences: Iterable[Sentence]) -> list[str]:
    """The different tags of sentences, sorted."""
    return sorted({tag for sentence in sentences for tag in sentence.tags})


def _warn_unseen_tags(sentences: Sentences, known: Container[str], words: int) -> None:
    unseen = [(sentence, word) for sentence in sentences for word, tag in enumerate(sentence.tags) if tag not in known]
    if unseen:
        first, word = unseen[0]
        tags = [sentence.tags[place] for sentence, place in unseen]
        warn_unseen("tag", "words", words, tags, first.place(word))


def _are_tagged(lines: Sequence[str]) -> bool:
    """Whether every line is a word and a tag, such as B-place, I-place or O."""
    rows = [row for line in lines if (row := split_columns(line.removesuffix("\n")))]
    return _is_rectangle(rows) and guess_scheme([row[-1] for row in rows]) in ("bio", "bioes")


def _is_rectangle(rows: Sequence[Sequence[str]]) -> bool:
    """Whether there are several rows of several entries, as many in each."""
    return len(rows) > 1 and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


def permitted(tags: Sequence[str], scheme: Scheme) -> NDArray[np.bool_]:
    """Which tag may follow which, as a CRF takes it: the tags, then the start, then the end."""
    count = len(tags)
    found = np.zeros((count + 2, count + 2), np.bool_)
    found[count, :count], found[:count, :count], found[:count, count + 1] = transitions(tags, scheme)
    return found
