"""Tagging: a tag for every word of a sentence, and the spans that tags mark, such as names and the slots of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.data.inputs import check_lengths
from unspool.data.metrics import accuracy, span_f1
from unspool.data.sequences import Rows, Sequences
from unspool.data.tagged import (
    OUTSIDE,
    Scheme,
    Sentence,
    Span,
    check_tags,
    guess_scheme,
    read_tagged,
    spans,
    transitions,
)
from unspool.data.text import Source
from unspool.errors import ArgumentTypeError, DataError, ShapeError
from unspool.tasks.examples import Batch, ExampleData, ExampleTask, digest_files, read_divided
from unspool.tasks.tagger import Said, Tagger, TaggerSettings, Words

#: Characters of a word that are read; of a longer one the middle is left out, as beginnings and endings tell most.
SPELLED = 40
#: Characters of a marked sentence that a line of a sample shows.
SHOWN = 160


class TaggedData(ExampleData):
    """Sentences in column files: a word and, last, its tag on each line, an empty line between sentences."""

    scheme: Literal["auto", Scheme] = "auto"
    """how tags mark spans; auto: by their letters. io is for plain tags too, such as parts of speech"""
    lowercase: bool = False
    """words are known by their small letters; their characters are read as they are written"""


class Sentences(list[Sentence]):
    """Sentences that can be divided, and know where they are from."""

    @classmethod
    def of(cls, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]] | None = None) -> Self:
        """From lists in memory: the words of each sentence and, where they are known, the tags of these."""
        if tags is not None and len(tags) != len(words):
            raise ShapeError.of("tags", len(tags), f"lists are not as many as the {len(words)} sentences", "Pair them")
        known = [()] * len(words) if tags is None else [_strings(f"tags[{row}]", one) for row, one in enumerate(tags)]
        read = [_strings(f"words[{row}]", one) for row, one in enumerate(words)]
        return cls(Sentence(*pair, row, None) for row, pair in enumerate(zip(read, known, strict=True)))

    def take(self, rows: Rows) -> Self:
        """Some of them, in this order."""
        return type(self)(self[int(row)] for row in rows)

    def place(self, row: int) -> str:
        """Where a sentence begins."""
        return self[row].place(0)


def _strings(name: str, given: Any) -> tuple[str, ...]:
    found = (None,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(entry, str) and entry for entry in found):
        remedy = "Give a list of strings that are not empty, one for each word"
        raise ArgumentTypeError.of(name, given, "is not a list of words", remedy)
    return found


@dataclass(frozen=True)
class Lexicon:
    """The words and the characters that have ids of their own, from 1 up; all others share 0.

    What occurs once in the training data shares it too, so that the unknown is learned from what is rare.
    """

    words: tuple[str, ...]
    characters: tuple[str, ...]
    lowercase: bool

    @classmethod
    def fit(cls, sentences: Iterable[Sentence], lowercase: bool) -> Self:
        """That of training data."""
        counts = Counter(word for sentence in sentences for word in sentence.words)
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        for word, count in counts.items():
            words[word.lower() if lowercase else word] += count
            for character in spelled(word):
                characters[character] += count
        return cls(_repeated(words), _repeated(characters), lowercase)

    def encode(self, forms: Sequence[str]) -> tuple[NDArray[np.int64], Sequences]:
        """The ids of words, and those of the characters of each."""
        words = {word: number for number, word in enumerate(self.words, 1)}
        characters = {character: number for number, character in enumerate(self.characters, 1)}
        small = [form.lower() for form in forms] if self.lowercase else forms
        ids = np.array([words.get(form, 0) for form in small], np.int64)
        letters = ([characters.get(character, 0) for character in spelled(form)] for form in forms)
        return ids, Sequences.of(np.array(one, np.int64) for one in letters)


def spelled(word: str) -> str:
    """What is read of a word's characters."""
    half = SPELLED // 2
    return word if len(word) <= SPELLED else word[:half] + word[-half:]


def _repeated(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(entry for entry, count in counts.items() if count > 1))


@dataclass(frozen=True)
class TaggedPart:
    """Sentences as numbers of word forms, each of which is encoded once, and the numbers of their tags."""

    sentences: Sentences
    forms: Sequences
    ids: NDArray[np.int64]
    spellings: Sequences
    tags: Sequences | None

    @property
    def lengths(self) -> Rows:
        return self.forms.lengths

    @property
    def counts(self) -> Rows:
        return self.forms.lengths

    def batch(self, rows: Rows) -> Batch:
        forms = self.forms.padded(rows)
        distinct, places = np.unique(forms, return_inverse=True)
        arrays = (
            self.ids[forms],
            places.reshape(forms.shape),
            self.spellings.padded(distinct),
            self.spellings.lengths[distinct],
        )
        targets = None if self.tags is None else torch.from_numpy(self.tags.padded(rows))
        lengths = self.forms.lengths[rows]
        return Batch(Words(*map(torch.from_numpy, arrays)), torch.from_numpy(lengths), targets, float(lengths.sum()))


class Tagging(ExampleTask):
    """Learning which tag each word has. An answer is a `Said`."""

    name = "tag"
    Data = TaggedData
    Model = TaggerSettings
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
        self.has_spans = scheme != "io" or OUTSIDE in tags  # where every word has a tag, tags are not of spans
        self.chosen_by = "span F1" if self.has_spans else "accuracy"

    @classmethod
    def prepare(cls, data: TaggedData, seed: int) -> Self:
        raws = read_divided(data, read_sentences)
        return cls.of(raws, data, digest=digest_files(data.files, data.validation, data.test), seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Sentences], data: TaggedData, **of: Any) -> Self:
        """From sentences that are in memory."""
        training = raws["training"]
        tags = sorted({tag for sentence in training for tag in sentence.tags})
        if len(tags) < 2:
            what = f"have the tag {tags[0]!r}" if tags else "have no tags"
            raise DataError(
                f"all {len(training)} training sentences {what}: there is nothing to tell apart. "
                "Give sentences with two tags at least."
            )
        scheme = guess_scheme(tags) if data.scheme == "auto" else data.scheme
        check_tags(training, scheme)
        start, _, end = transitions(tags, scheme)
        if not (start & end).any():  # else no tag would be permitted for a single word
            tags = sorted([*tags, OUTSIDE])
        task = cls({}, Lexicon.fit(training, data.lowercase), tags, scheme, data, **of)
        task.parts = {name: task.part(raw) for name, raw in raws.items() if len(raw)}
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: TaggedData) -> Self:
        try:
            words, characters, tags = (tuple(map(str, document[name])) for name in ("words", "characters", "tags"))
            lowercase, scheme = bool(document["lowercase"]), document["scheme"]
            if scheme not in get_args(Scheme) or not tags:
                raise ValueError(f"scheme {scheme!r} and {len(tags)} tags")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the run's vocabulary.json does not say how to read data: {error!r}. Train again."
            ) from error
        return cls({}, Lexicon(words, characters, lowercase), tags, scheme, data)

    def dump(self) -> dict[str, Any]:
        lexicon = self.lexicon
        known = {"words": list(lexicon.words), "characters": list(lexicon.characters), "lowercase": lexicon.lowercase}
        return {**known, "tags": self.tags, "scheme": self.scheme}

    def make_learner(self, settings: TaggerSettings) -> Tagger:
        sizes = 1 + len(self.lexicon.words), 1 + len(self.lexicon.characters), len(self.tags)
        return Tagger(settings, *sizes, permitted(self.tags, self.scheme))

    def describe(self) -> Mapping[str, str]:
        sizes = ", ".join(f"{len(part.lengths):,} for {name}" for name, part in self.parts.items())
        words = self.parts["training"].lengths
        listed = f"{', '.join(self.tags[:8])}{', …' * (len(self.tags) > 8)}"
        return {
            "data": f"{sizes} (sentences of {words.min()} to {words.max()} words)",
            "words": f"{len(self.lexicon.words):,} that occur more than once",
            "tags": f"{len(self.tags)} ({self.scheme}): {listed}",
        }

    def read(self, source: Source, *, answers: bool = True) -> TaggedPart:
        return self.part(read_sentences(self.data, source, answers))

    def part(self, sentences: Sentences) -> TaggedPart:
        """Sentences in the terms of the training data."""
        check_lengths([len(sentence.words) for sentence in sentences], self.data.longest, sentences)
        forms: dict[str, int] = {}
        numbers = [[forms.setdefault(word, len(forms)) for word in sentence.words] for sentence in sentences]
        encoded = Sequences.of(np.array(one, np.int64) for one in numbers)
        return TaggedPart(sentences, encoded, *self.lexicon.encode(list(forms)), self._number_tags(sentences))

    def _number_tags(self, sentences: Sentences) -> Sequences | None:
        if not any(sentence.tags for sentence in sentences):
            return None
        check_tags(sentences, self.scheme)
        number = {tag: place for place, tag in enumerate(self.tags)}
        for sentence in sentences:
            for word, tag in enumerate(sentence.tags):
                if tag not in number:
                    raise DataError(
                        f"{sentence.place(word)}: the tag {tag!r} does not occur in the training data. Correct it, "
                        "leave the sentence out, or train with examples of it; where shares divide the data, another "
                        "`split_seed` may put them there."
                    )
        return Sequences.of(np.array([number[tag] for tag in sentence.tags], np.int64) for sentence in sentences)

    def figures(self, part: TaggedPart, rows: Rows, answers: Sequence[Any]) -> dict[str, float]:
        assert part.tags is not None
        truth, said = [part.tags[int(row)] for row in rows], [answer.tags for answer in answers]
        right = {"accuracy": accuracy(np.concatenate(truth), np.concatenate(said))}
        if not self.has_spans:
            return right
        score = span_f1([self.spans(one) for one in truth], [self.spans(one) for one in said])
        return {"span F1": score.f1, "precision": score.precision, "recall": score.recall, **right}

    def spans(self, tags: NDArray[np.int64]) -> list[Span]:
        """What the tags of these numbers mark."""
        return spans([self.tags[tag] for tag in tags], self.scheme)

    def show(self, part: TaggedPart, row: int, answer: Said) -> str:
        assert part.tags is not None
        words, truth = part.sentences[row].words, part.tags[row]
        said = self.mark(words, answer.tags)
        return f"✓ {said}" if np.array_equal(truth, answer.tags) else f"✗ {said}, not {self.mark(words, truth)}"

    def mark(self, words: Sequence[str], tags: NDArray[np.int64]) -> str:
        """A sentence with its spans in brackets, or with the tag after each word where tags are not of spans."""
        if self.has_spans:
            marked = list(words)
            for kind, first, last_exclusive in self.spans(tags):
                marked[first] = f"[{kind}{': ' if kind else ''}{marked[first]}"
                marked[last_exclusive - 1] += "]"
        else:
            marked = [f"{word}/{self.tags[tag]}" for word, tag in zip(words, tags, strict=True)]
        line = " ".join(marked)
        return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"

    def record(self, part: TaggedPart, row: int, answer: Said) -> dict[str, Any]:
        tags = [self.tags[tag] for tag in answer.tags]
        return {"words": list(part.sentences[row].words), "tags": tags, "probabilities": answer.probabilities.tolist()}


def read_sentences(data: TaggedData, source: Source, answers: bool = True) -> Sentences:  # noqa: ARG001
    """Tagged sentences from files; `data` has nothing to say of how they are read."""
    return Sentences(read_tagged(source, answers))


def permitted(tags: Sequence[str], scheme: Scheme) -> NDArray[np.bool_]:
    """What may follow what, as a chain of tags takes it: the tags, then the start, then the end."""
    count = len(tags)
    found = np.zeros((count + 2, count + 2), np.bool_)
    found[count, :count], found[:count, :count], found[:count, count + 1] = transitions(tags, scheme)
    return found
