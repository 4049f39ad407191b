"""Text from ids, piece by piece: the same text however it is cut, up to the first stop string."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.data.vocabulary import TOKENIZERS, Vocabulary
from unspool.decoding.text_stream import TextStream
from unspool.errors import ArgumentError

TEXT = "我爱你 and you 爱我\nthe cat — saw 🙂 the dog\n\nthe end\n"
VOCABULARIES: dict[str, Vocabulary] = {kind: TOKENIZERS[kind].fit([TEXT]) for kind in TOKENIZERS if kind != "bpe"}
VOCABULARIES["bpe"] = TOKENIZERS["bpe"].fit([TEXT * 9], limit=300)
BROKEN = [0x80, 0xBF, 0xC3, 0xE4, 0xBD, 0xA0, 0xF0, 0x9F, 0x98, 0xFF, 0x41]


@pytest.mark.parametrize("kind", VOCABULARIES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_pieces_make_up_the_whole_text_and_come_at_once(kind: str, data: st.DataObject) -> None:
    vocabulary = VOCABULARIES[kind]
    anything = st.integers(0, len(vocabulary) - 1)
    if kind == "byte":
        anything = st.sampled_from(BROKEN)
    part = st.lists(anything, max_size=40) | st.just(vocabulary.ids(TEXT))
    ids = [token for some in data.draw(st.lists(part, max_size=6)) for token in some]
    first = data.draw(st.integers(0, len(ids)))
    before = vocabulary.decode(ids[:first])
    if before.endswith("\ufffd"):  # shown broken already: what follows cannot mend it
        first, before = 0, ""
    stream, given_out = TextStream(vocabulary.decode, context=ids[:first]), before
    for end, token in enumerate(ids[first:], first + 1):
        given_out += stream.push(token)
        whole = vocabulary.decode(ids[:end])
        broken = min(len(whole) - len(whole.rstrip("\ufffd")), 3)
        assert given_out == whole[: len(whole) - broken]
    assert given_out + stream.finish() == vocabulary.decode(ids)
    assert stream.finish() == ""


def test_bytes_of_one_character_come_out_together() -> None:
    stream = TextStream(VOCABULARIES["byte"].decode)
    assert [stream.push(byte) for byte in "é🙂.".encode()] == ["", "é", "", "", "", "🙂", "."]
    assert [stream.push(byte) for byte in "x🙂".encode()[:4]] == ["x", "", "", ""]
    assert stream.finish() == "\ufffd"


def test_words_are_set_off_from_the_prompt() -> None:
    words = VOCABULARIES["word"]
    stream = TextStream(words.decode, context=words.ids("the cat"))
    assert [stream.push(token) for token in words.ids("saw the\ndog")] == [" saw", " the", "\n", "dog"]


@given(
    text=st.text("ab", max_size=30),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 5), min_size=30, max_size=30),
)
@settings(max_examples=150, deadline=None)
def test_text_stops_at_the_first_stop_string_however_it_is_cut(text: str, stops: list[str], sizes: list[int]) -> None:
    cuts = [min(cut, len(text)) for cut in itertools.accumulate(sizes, initial=0)]
    pieces = [text[start:end] for start, end in itertools.pairwise(cuts) if start < end]
    stream, given_out = TextStream(lambda ids: "".join(pieces[one] for one in ids), tuple(stops)), ""
    ends = [end for end in range(1, len(text) + 1) if text[:end].endswith(tuple(stops))]
    for place, cut in enumerate(cuts[1 : len(pieces) + 1]):
        given_out += stream.push(place)
        assert stream.stopped == any(end <= cut for end in ends)
        if not stream.stopped:
            begun = [n for stop in stops for n in range(len(stop)) if text[:cut].endswith(stop[:n])]
            assert given_out == text[: cut - max(begun)]
    given_out += stream.finish()
    if ends:
        longest = max(len(stop) for stop in stops if text[: ends[0]].endswith(stop))
        assert given_out == text[: ends[0] - longest]
    else:
        assert given_out == text


def test_a_stop_string_over_broken_characters_and_nothing_after_it() -> None:
    stream = TextStream(VOCABULARIES["byte"].decode, ("爱你", "\ufffd!"))
    pieces = [stream.push(byte) for byte in "我爱爱你们".encode()]
    assert "".join(pieces) == "我爱"
    assert stream.stopped
    assert stream.push(0x41) + stream.finish() == ""
    stream = TextStream(VOCABULARIES["byte"].decode, ("\ufffd",))
    assert [stream.push(0x41), stream.push(0xE4), stream.finish(), stream.stopped] == ["A", "", "", True]


@pytest.mark.parametrize(("byte", "character"), [(0x41, "A"), (0x80, "\ufffd")])
def test_a_long_stream_costs_as_much_an_id_as_a_short_one(byte: int, character: str) -> None:
    sizes: list[int] = []

    def decode(ids: Sequence[int]) -> str:
        sizes.append(len(ids))
        return VOCABULARIES["byte"].decode(ids)

    stream = TextStream(decode, ("\n",), context=[byte] * 1000)
    assert "".join(stream.push(byte) for _ in range(3000)) + stream.finish() == character * 3000
    assert max(sizes) <= 40
    assert sum(sizes) < 3000 * 40


@pytest.mark.parametrize(("name", "value"), [("stop", "ab"), ("stop", ("a", "")), ("stop", (1,)), ("context", [-1])])
def test_every_bad_argument_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}"):
        TextStream(VOCABULARIES["byte"].decode, **{name: value})
