"""Vocabularies: text to ids and back, by characters, words, byte pairs, atoms …; each tokenizer is a class."""

from __future__ import annotations

import codecs
import importlib
import re
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unspool.data.text import split_lines, whole_lines
from unspool.data.tokens import Ids, smallest_type
from unspool.errors import ArgumentError, DataError, MissingPackageError, UnknownNameError

UNKNOWN, END_OF_LINE = "<unk>", "<eos>"


class Vocabulary(ABC):
    """A numbering of tokens. Ids run from 0 to `len(vocabulary)` − 1."""

    kind: ClassVar[str]
    #: What people call a token of this kind, in the plural.
    unit: ClassVar[str] = "tokens"
    #: The smallest useful size: one token stands for all that are not in the list.
    least: ClassVar[int] = 2

    @classmethod
    def check_size(cls, size: int | None) -> None:
        """Refuse a `vocab_size` that this tokenizer cannot have."""
        if size is not None and size < cls.least:
            problem = f"is too small: {cls.kind} needs {cls.least} at least"
            raise ArgumentError.of("vocab_size", size, problem, "Give more, or leave it out")

    @classmethod
    @abstractmethod
    def fit(cls, pieces: Iterable[str], limit: int | None = None) -> Self:
        """The tokens of a text, at most `limit` of them, the most frequent ones."""

    @abstractmethod
    def encode(self, pieces: Iterable[str]) -> Iterator[Ids]:
        """The ids of a text in pieces; a token may start in one and end in the next."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text of ids."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def dump(self) -> dict[str, Any]:
        """What `load` needs, as JSON has it."""

    @classmethod
    @abstractmethod
    def load(cls, document: dict[str, Any]) -> Self:
        """A vocabulary from what `dump` gave; a DataError if it is anything else."""

    def listed(self) -> dict[str, int]:
        """Whole tokens and their ids; none where ids stand for bytes or parts of words."""
        return {}

    def fewest(self, text: str) -> int:
        """The fewest tokens that a text can have, found without reading it; 0 where a token may have any length."""
        return 0 if self.longest is None else -(-len(text) // self.longest)

    @property
    def longest(self) -> int | None:
        """The most characters that one token stands for; None: any number."""
        return None

    def ids(self, text: str) -> list[int]:
        """The ids of a short text."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            place = f"character {error.start} ({text[error.start]!r})"
            raise DataError(f"the text is not Unicode: {place} is half of a pair. Give UTF-8 text.") from error
        return [int(number) for part in self.encode([text]) for number in part]


class Listed(Vocabulary):
    """Tokens in a list; the first stands for all that are not in it."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = list(tokens)
        self._places = {token: place for place, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def listed(self) -> dict[str, int]:
        return {token: number for token, number in self._places.items() if token != UNKNOWN}

    def dump(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokens": self.tokens}

    @classmethod
    def load(cls, document: dict[str, Any]) -> Self:
        tokens = document.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise DataError("the vocabulary's `tokens` are not a list of strings. Take vocabulary.json from the run.")
        if len(set(tokens)) != len(tokens) or tokens[:1] != [UNKNOWN]:
            raise DataError(f"the vocabulary's `tokens` are not {UNKNOWN!r} and others, once each. Take the run's own.")
        return cls(tokens)

    @classmethod
    def _of(cls, counts: Counter[str], limit: int | None) -> Self:
        """The most frequent first; equally frequent ones in alphabetical order."""
        counts.pop(UNKNOWN, None)
        ordered = sorted(counts, key=lambda token: (-counts[token], token))
        return cls([UNKNOWN, *(ordered if limit is None else ordered[: limit - 1])])

    def _ids(self, tokens: Iterable[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self._places.get, tokens, repeat(0)), np.int64)


class Characters(Listed):
    """One token per character; also a plain choice for Chinese."""

    kind = "char"
    unit = "characters"

    @property
    def longest(self) -> int:
        return 1

    @classmethod
    def fit(cls, pieces: Iterable[str], limit: int | None = None) -> Self:
        cls.check_size(limit)
        counts = np.zeros(sys.maxunicode + 1, np.int64)
        for piece in pieces:
            found = np.bincount(_code_points(piece))
            counts[: len(found)] += found
        return cls._of(Counter({chr(point): int(counts[point]) for point in np.flatnonzero(counts)}), limit)

    def encode(self, pieces: Iterable[str]) -> Iterator[Ids]:
        places = np.zeros(sys.maxunicode + 1, smallest_type(len(self)))
        for place, token in enumerate(self.tokens[1:], 1):
            places[ord(token)] = place
        for piece in pieces:
            yield places.take(_code_points(piece))

    def decode(self, ids: Sequence[int] | Ids) -> str:
        return "".join(self.tokens[int(number)] if number else "\ufffd" for number in ids)

    @classmethod
    def load(cls, document: dict[str, Any]) -> Self:
        found = super().load(document)
        if any(len(token) != 1 for token in found.tokens[1:]):
            raise DataError("the vocabulary's `tokens` are not single characters. Take vocabulary.json from the run.")
        return found


class Words(Listed):
    """One token per word between spaces, and one at the end of each line."""

    kind = "word"
    unit = "words"

    @classmethod
    def fit(cls, pieces: Iterable[str], limit: int | None = None) -> Self:
        cls.check_size(limit)
        counts: Counter[str] = Counter()
        for text in whole_lines(pieces):
            counts.update(cls.split(text))
        return cls._of(counts, limit)

    def encode(self, pieces: Iterable[str]) -> Iterator[Ids]:
        for text in whole_lines(pieces):
            yield self._ids(self.split(text))

    @classmethod
    def split(cls, text: str) -> list[str]:
        """The words of whole lines."""
        return text.replace("\n", f" {END_OF_LINE} ").split()

    def decode(self, ids: Sequence[int] | Ids) -> str:
        words = ["\n" if self.tokens[int(number)] == END_OF_LINE else self.tokens[int(number)] for number in ids]
        return " ".join(words).replace(" \n ", "\n").replace(" \n", "\n").replace("\n ", "\n")


class ChineseWords(Words):
    """One token per Chinese word, as jieba divides the text; spaces are tokens too, so that nothing is lost."""

    kind = "jieba"

    @classmethod
    def split(cls, text: str) -> list[str]:
        return [END_OF_LINE if word == "\n" else word for word in _extra("rjieba").cut(text)]

    def decode(self, ids: Sequence[int] | Ids) -> str:
        tokens = (self.tokens[int(number)] for number in ids)
        return "".join("\n" if token == END_OF_LINE else token for token in tokens)


class Smiles(Listed):
    """One token per atom, bond, branch or ring of a molecule in SMILES: [nH], Cl, Br, @@ and %12 are one each."""

    kind = "smiles"
    _token = re.compile(r"\[[^\[\]\s]*\]|Br|Cl|@@|%[0-9]{2}|.", re.DOTALL)

    @classmethod
    def fit(cls, pieces: Iterable[str], limit: int | None = None) -> Self:
        counts: Counter[str] = Counter()
        for text in whole_lines(pieces):
            counts.update(cls._token.findall(text))
        return cls._of(counts, limit)

    def encode(self, pieces: Iterable[str]) -> Iterator[Ids]:
        for text in whole_lines(pieces):
            yield self._ids(self._token.findall(text))

    def decode(self, ids: Sequence[int] | Ids) -> str:
        return "".join(self.tokens[int(number)] if number else "\ufffd" for number in ids)


class Bytes(Vocabulary):
    """The 256 bytes of UTF-8, in which any text can be written."""

    kind = "byte"
    unit = "bytes"

    @property
    def longest(self) -> int:
        return 1

    @classmethod
    def check_size(cls, size: int | None) -> None:
        if size not in (None, 256):
            raise ArgumentError.of("vocab_size", size, "is not 256, the number of bytes", "Leave it out")

    @classmethod
    def fit(cls, pieces: Iterable[str], limit: int | None = None) -> Self:  # noqa: ARG003, nothing is learned
        cls.check_size(limit)
        return cls()

    def encode(self, pieces: Iterable[str]) -> Iterator[Ids]:
        for piece in pieces:
            yield np.frombuffer(piece.encode(), np.uint8)

    def decode(self, ids: Sequence[int] | Ids) -> str:
        return codecs.decode(bytes(int(number) for number in ids), "utf-8", "replace")

    def __len__(self) -> int:
        return 256

    def dump(self) -> dict[str, Any]:
        return {"kind": self.kind}

    @classmethod
    def load(cls, document: dict[str, Any]) -> Self:  # noqa: ARG003, there is nothing to read
        return cls()


class BytePairs(Vocabulary):
    """Byte pairs merged into ever longer tokens, by the `tokenizers` library."""

    kind = "bpe"
    least = 256  # the bytes that pairs are made of
    SIZE = 4096
    #: Long lines in parts that end before a space. The time to merge a word grows with the square of its length: a word
    #: of a million letters would take hours, so it is cut as well.
    _part = re.compile(r".{1,1000}(?<=\S)(?=\s)|.{1,1000}", re.DOTALL)

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def fit(cls, pieces: Iterable[str], limit: int | None = None) -> Self:
        cls.check_size(limit)
        library = _extra("tokenizers")
        tokenizer = library.Tokenizer(library.models.BPE())
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        alphabet = library.pre_tokenizers.ByteLevel.alphabet()
        trainer = library.trainers.BpeTrainer(
            vocab_size=limit or cls.SIZE, initial_alphabet=alphabet, show_progress=False, special_tokens=[]
        )
        tokenizer.train_from_iterator(cls._parts(pieces), trainer)
        return cls(tokenizer)

    def encode(self, pieces: Iterable[str]) -> Iterator[Ids]:
        for parts in self._parts(pieces):
            found = self._tokenizer.encode_batch_fast(parts)
            yield np.concatenate([np.array(part.ids, np.int64) for part in found])

    @classmethod
    def _parts(cls, pieces: Iterable[str]) -> Iterator[list[str]]:
        for text in whole_lines(pieces):
            yield [part for line in split_lines(text) for part in cls._part.findall(line)]

    def decode(self, ids: Sequence[int] | Ids) -> str:
        return str(self._tokenizer.decode([int(number) for number in ids]))

    @cached_property
    def longest(self) -> int:
        """A token is written with one letter per byte, and a character has one byte at least."""
        return max(map(len, self._tokenizer.get_vocab()), default=1)

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def dump(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokenizer": self._tokenizer.to_str()}

    @classmethod
    def load(cls, document: dict[str, Any]) -> Self:
        try:
            return cls(_extra("tokenizers").Tokenizer.from_str(document["tokenizer"]))
        except MissingPackageError:
            raise
        except Exception as error:  # the library raises no class of its own
            raise DataError(f"the vocabulary's `tokenizer` cannot be read: {error}. Take the run's own.") from error


TOKENIZERS: dict[str, type[Vocabulary]] = {
    kind.kind: kind for kind in (Characters, Bytes, Words, ChineseWords, BytePairs, Smiles)
}


def find_tokenizer(name: str) -> type[Vocabulary]:
    """The vocabulary class of a tokenizer's name."""
    if name not in TOKENIZERS:
        raise UnknownNameError.among("tokenizer", name, TOKENIZERS)
    return TOKENIZERS[name]


def load_vocabulary(document: Any) -> Vocabulary:
    """A vocabulary from JSON."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise DataError("the vocabulary has no `kind`. Take vocabulary.json from the run.")
    return find_tokenizer(document["kind"]).load(document)


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _extra(name: str) -> Any:
    with MissingPackageError.explaining("this tokenizer"):
        return importlib.import_module(name)
