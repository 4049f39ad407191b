"""Vocabularies: there and back, whatever the pieces; the order of tokens; what is not known; JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.data.vocabulary import TOKENIZERS, UNKNOWN, Characters, Words, find_tokenizer, load_vocabulary
from unspool.errors import ArgumentError, DataError, UnknownNameError

TEXT = "我爱你 and you 爱我\nthe cat saw the dog\n\nthe end\n"
EXACT = [kind for kind in TOKENIZERS if kind != "word"]


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def encoded(kind: str, text: str, size: int) -> list[int]:
    vocabulary = TOKENIZERS[kind].fit(cut(TEXT, size))
    return [int(number) for part in vocabulary.encode(cut(text, size)) for number in part]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_do_not_matter(kind: str) -> None:
    whole = encoded(kind, TEXT, len(TEXT))
    assert all(encoded(kind, TEXT, size) == whole for size in (1, 2, 7))


@pytest.mark.parametrize("kind", EXACT)
def test_there_and_back(kind: str) -> None:
    vocabulary = TOKENIZERS[kind].fit([TEXT])
    assert vocabulary.decode(vocabulary.ids(TEXT)) == TEXT
    assert max(vocabulary.ids(TEXT)) < len(vocabulary)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_bytes_know_every_text(text: str) -> None:
    vocabulary = TOKENIZERS["byte"].fit([])
    assert vocabulary.decode(vocabulary.ids(text)) == text
    assert len(vocabulary) == 256


@pytest.mark.parametrize("kind", EXACT)
@given(text=st.text(st.sampled_from("ab 我爱\t\n\u2028\x85🙂'1."), max_size=30), size=st.integers(1, 30))
def test_any_text_comes_back_in_any_pieces(kind: str, text: str, size: int) -> None:
    vocabulary = TOKENIZERS[kind].fit(cut(text, size))
    ids = [int(number) for part in vocabulary.encode(cut(text, size)) for number in part]
    assert vocabulary.decode(ids) == text
    assert ids == vocabulary.ids(text)


@given(st.text(st.sampled_from("ab我\t\n \u2028\x85\x1c"), max_size=30))
def test_words_are_what_stands_between_blanks(text: str) -> None:
    words = [
        word for line in re.split("(\n)", text) for word in (["<eos>"] if line == "\n" else re.findall(r"\S+", line))
    ]
    assert Words.split(text) == words


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_half_characters_are_refused(kind: str) -> None:
    vocabulary = TOKENIZERS[kind].fit([TEXT])
    with pytest.raises(DataError, match="character 2 .* half of a pair"):
        vocabulary.ids("ab\udc80")


def test_byte_pairs_of_a_long_line_are_those_of_its_words() -> None:
    text = "the cat  saw a dog's tail, " * 200
    vocabulary = TOKENIZERS["bpe"].fit([TEXT * 20], limit=300)
    words = re.findall(r"'s| ?[a-z]+| ?[^\sa-z]+|\s+(?!\S)|\s+", text)
    assert vocabulary.ids(text) == [number for word in words for number in vocabulary.ids(word)]


def test_frequent_tokens_come_first() -> None:
    assert Characters.fit(["abbccc", "c"]).tokens == [UNKNOWN, "c", "b", "a"]
    assert Characters.fit(["ba"]).tokens == [UNKNOWN, "a", "b"]
    assert Characters.fit(["abbccc"], limit=3).tokens == [UNKNOWN, "c", "b"]
    assert Words.fit(["a b b\n", "b\n"]).tokens == [UNKNOWN, "b", "<eos>", "a"]


def test_words() -> None:
    vocabulary = Words.fit([TEXT])
    assert vocabulary.decode(vocabulary.ids("the  dog saw\nyou\n")) == "the dog saw\nyou\n"
    assert vocabulary.ids("<unk> unheard-of") == [0, 0]
    assert Words.fit(["a <unk> b"]).tokens == [UNKNOWN, "a", "b"]  # texts prepared by others have it already


def test_what_is_not_in_the_list_is_unknown() -> None:
    vocabulary = Characters.fit(["abc"])
    assert vocabulary.ids("aXc") == [1, 0, 3]
    assert vocabulary.decode([1, 0, 3]) == "a\ufffdc"


def test_chinese_words_are_longer_than_characters() -> None:
    words = TOKENIZERS["jieba"].fit(["播放周杰伦的稻香，今天天气怎么样"])
    assert "周杰伦" in words.dump()["tokens"]


def test_atoms_of_molecules() -> None:
    text = "C[C@@H](N)c1[nH]cc%12Br.Cl@@[Cl-][unclosed\n"
    atoms = ["C", "[C@@H]", *"(N)c1", "[nH]", *"cc", "%12", "Br", ".", "Cl", "@@", "[Cl-]", *"[unclosed\n"]
    vocabulary = TOKENIZERS["smiles"].fit([text])
    assert [vocabulary.decode([number]) for number in vocabulary.ids(text)] == atoms
    assert vocabulary.decode(vocabulary.ids("C[Xx]Br")) == "C\ufffdBr"


def test_byte_pairs_of_a_given_number() -> None:
    vocabulary = TOKENIZERS["bpe"].fit([TEXT * 20], limit=300)
    assert 256 < len(vocabulary) <= 300
    assert len(vocabulary.ids(TEXT)) < len(TEXT.encode())
    assert vocabulary.decode(vocabulary.ids("🙂 unseen")) == "🙂 unseen"


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_json_there_and_back(kind: str) -> None:
    vocabulary = TOKENIZERS[kind].fit([TEXT])
    again = load_vocabulary(json.loads(json.dumps(vocabulary.dump())))
    assert type(again) is type(vocabulary)
    assert again.dump() == vocabulary.dump()
    assert again.ids(TEXT) == vocabulary.ids(TEXT)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"kind": 3},
        {"kind": "char"},
        {"kind": "char", "tokens": "abc"},
        {"kind": "char", "tokens": ["<unk>", 1]},
        {"kind": "char", "tokens": ["<unk>", "a", "a"]},
        {"kind": "word", "tokens": ["a", "b"]},
        {"kind": "bpe"},
        {"kind": "bpe", "tokenizer": "{}"},
    ],
    ids=repr,
)
def test_json_that_is_no_vocabulary(wrong: Any) -> None:
    with pytest.raises(DataError, match="vocabulary"):
        load_vocabulary(wrong)


def test_unknown_kinds_and_sizes() -> None:
    with pytest.raises(UnknownNameError, match="'char'"):
        find_tokenizer("character")
    with pytest.raises(ArgumentError, match="`vocab_size` \\(=100\\) is not 256"):
        TOKENIZERS["byte"].fit([], limit=100)
    with pytest.raises(ArgumentError, match="`vocab_size` \\(=255\\) is too small: bpe needs 256"):
        TOKENIZERS["bpe"].fit([], limit=255)
    for kind in ("char", "word", "jieba"):
        with pytest.raises(ArgumentError, match=f"`vocab_size` \\(=1\\) is too small: {kind} needs 2 at least"):
            TOKENIZERS[kind].fit([TEXT], limit=1)
        assert len(TOKENIZERS[kind].fit([TEXT], limit=2)) == 2
