"""Corpora: where the parts are cut, that nothing is lost or seen twice, and what is refused."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.data import corpus as corpus_module
from unspool.data.corpus import PARTS, Corpus, Division, _Pieces, prepare
from unspool.data.vocabulary import TOKENIZERS, Words
from unspool.errors import ArgumentError, DataError, UnknownNameError

LINES = "".join(f"the {n % 7} cats and {n % 11} dogs\n" for n in range(200))
NAMES = [f"name {n:04}" for n in range(2000)]


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def texts(corpus: Corpus) -> list[str]:
    return [corpus.vocabulary.decode(getattr(corpus, part)) for part in PARTS]


def divided(folder: Path, lines: list[str], division: Division) -> list[list[str]]:
    found = texts(prepare(write(folder / "names.txt", "\n".join(lines)), division))
    return [part.split("\n")[:-1] for part in found]


def by_hand(text: str, first: int, second: int) -> list[str]:
    """Each line is in the part that its first character falls into."""
    parts, at = ["", "", ""], 0
    for line in text.split("\n"):
        parts[(at >= first) + (at >= second)] += line + "\n"
        at += len(line) + 1
    last = max(number for number, part in enumerate(parts) if part)
    parts[last] = parts[last][:-1]  # what is after the last line end is no line end
    return parts


class TestTail:
    @pytest.mark.parametrize("count", [100, 101, 109, 111_539])
    def test_the_last_tenth_of_the_characters(self, tmp_path: Path, count: int) -> None:
        text = ("abc def\n" * count)[:count]
        corpus = prepare(write(tmp_path / "a.txt", text), Division())
        cut = count * 9 // 10
        assert texts(corpus) == [text[:cut], text[cut:], ""]

    def test_shares_are_the_decimal_numbers_that_were_given(self, tmp_path: Path) -> None:
        text = "abc d" * 20
        assert 100 * (1 - 0.05 - 0.05) < 90  # in binary; the cut would be one too early
        corpus = prepare(write(tmp_path / "a.txt", text), Division(validation=0.05, test=0.05))
        assert texts(corpus) == [text[:90], text[90:95], text[95:]]

    def test_bytes_are_cut_between_characters(self, tmp_path: Path) -> None:
        text = "一二三四五六七八九十"
        corpus = prepare(write(tmp_path / "a.txt", text), Division(), "byte")
        assert texts(corpus) == ["一二三四五六七八九", "十", ""]

    @pytest.mark.parametrize("kind", ["word", "bpe", "jieba"])
    def test_others_are_cut_where_a_line_ends(self, tmp_path: Path, kind: str) -> None:
        corpus = prepare(write(tmp_path / "a.txt", LINES), Division(validation=0.1, test=0.1), kind)
        assert texts(corpus) == by_hand(LINES, len(LINES) * 8 // 10, len(LINES) * 9 // 10)
        assert 300 < len(texts(corpus)[2]) < len(LINES) / 9

    @pytest.mark.parametrize("piece", [1, 3, 50])
    @given(text=st.text("ab\n", min_size=1, max_size=60), ends=st.tuples(*[st.floats(0, 1)] * 2))
    @settings(max_examples=40, deadline=None)
    def test_parts_join_to_the_text_wherever_the_cuts_are(
        self, piece: int, text: str, ends: tuple[float, float]
    ) -> None:
        first, second = sorted(int(end * len(text)) for end in ends)
        spans = [(0, first), (first, second), (second, len(text))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(corpus_module, "read_pieces", lambda *_: (text[n : n + piece] for n in range(0, 60, piece)))
            exact, lines = (["".join(_Pieces([], span, exact)) for span in spans] for exact in (True, False))
        assert exact == [text[:first], text[first:second], text[second:]]
        assert lines == by_hand(text, first, second)
        assert "".join(lines) == text

    def test_several_files_are_one_text_without_joining_their_lines(self, tmp_path: Path) -> None:
        write(tmp_path / "texts/1.txt", "the first")
        write(tmp_path / "texts/2.txt", "the second\n")
        corpus = prepare(tmp_path / "texts", Division(validation=0), "word")
        assert texts(corpus) == ["the first\nthe second\n", "", ""]


class TestFiles:
    def test_validation_and_test_of_their_own(self, tmp_path: Path) -> None:
        train, valid, test = (write(tmp_path / f"{name}.txt", f"abc {name}\n") for name in ("train", "valid", "test"))
        corpus = prepare(train, Division(validation=(str(valid),), test=(str(test),)))
        assert len(corpus.training) == len("abc train\n")
        known = set("abc train\n")  # the rest is what training alone has not shown
        assert texts(corpus)[1] == "".join(one if one in known else "\ufffd" for one in "abc valid\n")
        assert texts(corpus)[2] == "".join(one if one in known else "\ufffd" for one in "abc test\n")

    @pytest.mark.parametrize("split", ["tail", "lines"])
    def test_one_of_its_own_and_a_share(self, tmp_path: Path, split: str) -> None:
        first, valid = write(tmp_path / "a.txt", "ab\n" * 100), write(tmp_path / "b.md", "ba\nbb\n")
        corpus = prepare(first, Division(split, (str(valid),), 0.0))
        assert texts(corpus) == ["ab\n" * 100, "ba\nbb\n", ""]
        corpus = prepare(first, Division("tail", (str(valid),), 0.5))
        assert texts(corpus) == ["ab\n" * 50, "ba\nbb\n", "ab\n" * 50]

    def test_what_is_held_out_is_not_trained_on(self, tmp_path: Path) -> None:
        write(tmp_path / "texts/train.txt", "some text")
        valid = write(tmp_path / "texts/valid.txt", "other text")
        (tmp_path / "texts" / "alias.txt").symlink_to(valid)
        corpus = prepare(tmp_path / "texts", Division(validation=(str(valid),)))
        assert texts(corpus)[0] == "some text"
        with pytest.raises(DataError, match="all of the text's files are in `validation`"):
            prepare(valid, Division(validation=(str(valid),)))
        with pytest.raises(DataError, match="`validation` and `test` name the same file"):
            prepare(tmp_path / "texts", Division(validation=(str(valid),), test=(str(tmp_path / "texts/alias.txt"),)))


class TestLines:
    def test_each_line_is_in_one_part_and_shares_are_about_right(self, tmp_path: Path) -> None:
        parts = divided(tmp_path, NAMES, Division("lines", 0.1, 0.2, seed=3))
        assert sorted(parts[0] + parts[1] + parts[2]) == NAMES
        for part, share in zip(parts, (0.7, 0.1, 0.2), strict=True):
            spread = (2000 * share * (1 - share)) ** 0.5  # of a binomial distribution
            assert abs(len(part) - 2000 * share) < 4 * spread

    def test_equal_lines_go_together(self, tmp_path: Path) -> None:
        lines = [name for n, name in enumerate(NAMES[:300]) for _ in range(1 + n % 4)]
        parts = divided(tmp_path, lines, Division("lines", 0.3, 0.3))
        assert Counter(parts[0] + parts[1] + parts[2]) == Counter(lines)
        assert not set(parts[0]) & set(parts[1])
        assert not set(parts[0]) & set(parts[2])
        assert not set(parts[1]) & set(parts[2])

    def test_they_are_shuffled(self, tmp_path: Path) -> None:
        training = divided(tmp_path, NAMES, Division("lines", 0.1))[0]
        places = np.array([int(name.split()[1]) for name in training])
        assert abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 4 / len(places) ** 0.5

    def test_equal_lines_do_not_stand_together(self, tmp_path: Path) -> None:
        training = divided(tmp_path, NAMES[:100] * 20, Division("lines", 0.0))[0]
        beside = sum(a == b for a, b in pairwise(training))
        assert beside < 20 + 4 * 20**0.5  # of 2,000 pairs one in a hundred, by chance

    def test_the_seed_alone_decides(self, tmp_path: Path) -> None:
        first, again, other = (
            divided(tmp_path / str(n), NAMES, Division("lines", 0.1, seed=seed)) for n, seed in enumerate((1, 1, 2**70))
        )
        assert first == again
        assert set(first[1]) != set(other[1])
        assert first[0] != other[0]

    def test_a_line_stays_in_its_part_when_others_come(self, tmp_path: Path) -> None:
        few = divided(tmp_path / "few", NAMES[:1000], Division("lines", 0.2))
        many = divided(tmp_path / "many", random.Random(0).sample(NAMES, 2000), Division("lines", 0.2))
        assert set(few[1]) == set(many[1]) & set(NAMES[:1000])

    @pytest.mark.parametrize("bytes_at_a_time", [100, 5_000, 1 << 30])
    def test_the_order_is_the_same_whatever_is_sorted_at_a_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_at_a_time: int
    ) -> None:
        whole = divided(tmp_path / "whole", NAMES, Division("lines", 0.1))
        monkeypatch.setattr(corpus_module, "BUCKET", bytes_at_a_time)
        monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "other"))
        assert divided(tmp_path / "dealt", NAMES, Division("lines", 0.1)) == whole

    def test_empty_lines_are_dropped_and_only_line_ends_end_lines(self, tmp_path: Path) -> None:
        lines = ["one\u2028two", "", "three\x0bfour\x85five", "", "", "six"]
        training, *_ = divided(tmp_path, lines, Division("lines", 0.0))
        assert sorted(training) == sorted(line for line in lines if line)

    def test_the_cut_text_keeps_empty_lines(self, tmp_path: Path) -> None:
        text = "one\u2028two\n\n\nthree\n"
        assert texts(prepare(write(tmp_path / "a.txt", text), Division(validation=0)))[0] == text


@pytest.mark.parametrize("kind", ["char", "word"])
@pytest.mark.parametrize("split", ["tail", "lines"])
def test_the_vocabulary_has_seen_the_training_text_alone(tmp_path: Path, kind: str, split: str) -> None:
    lines = [chr(0x4E00 + n) for n in range(500)]
    file = write(tmp_path / "a.txt", "".join(f"{line}\n" for line in lines))
    corpus = prepare(file, Division(split, 0.2, 0.2), kind)
    training = [one for one in texts(corpus)[0] if one != "\n"]
    assert set(corpus.vocabulary.dump()["tokens"]) - {"<unk>", "<eos>", "\n"} == set(training)
    assert 200 < len(training) < 400
    ends = corpus.vocabulary.ids("\n")[0]
    assert set(corpus.validation.tolist()) == {0, ends}  # none of its lines was seen
    assert set(corpus.test.tolist()) == {0, ends}


def test_a_vocabulary_that_is_there_already(tmp_path: Path) -> None:
    file, vocabulary = write(tmp_path / "a.txt", "a b c\n" * 10), Words.fit(["a b\n"])
    corpus = prepare(file, Division(), vocabulary=vocabulary)
    assert corpus.vocabulary.dump() == vocabulary.dump()
    assert corpus.training.tolist() == vocabulary.ids("a b c\n" * 9)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize(
    "text", ["xy", "ab" * 60_000, "a b " * 20_000, "🙂🙃\U0010ffff" * 3, "\n\n\n\n", "\ufeff\ufeffa\r\r\n"]
)
def test_strange_texts_come_back_whole(tmp_path: Path, kind: str, text: str) -> None:
    corpus = prepare(write(tmp_path / "a.txt", text), Division(validation=0), kind)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = texts(corpus)[0]
    assert (found.split() == text.split()) if kind == "word" else (found == text)


def test_a_text_that_is_one_long_line_is_cut_between_words(tmp_path: Path) -> None:
    text = "aa bb " * 400_000  # 2.4 MB
    corpus = prepare(write(tmp_path / "a.txt", text), Division(validation=0.5), "word")
    assert " ".join(texts(corpus)[:2]).split() == text.split()
    assert 0.45 < len(corpus.validation) / 800_000 < 0.5


@pytest.mark.parametrize(("text", "count"), [("", 0), ("x", 1), ("\ufeff", 0), ("\r\n", 1)])
def test_too_little_text(tmp_path: Path, text: str, count: int) -> None:
    with pytest.raises(DataError, match=f"a.txt has {count} character"):
        prepare(write(tmp_path / "a.txt", text), Division())
    assert not (tmp_path / "cache").exists()


def test_a_text_that_grows_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.txt", LINES)
    fit = TOKENIZERS["char"].fit

    def slow(pieces: object, limit: int | None = None) -> object:
        write(file, LINES + "more")
        return fit(pieces, limit)  # type: ignore[arg-type]

    monkeypatch.setattr(TOKENIZERS["char"], "fit", slow)
    with pytest.raises(DataError, match="changed while it was read"):
        prepare(file, Division())
    assert list((tmp_path / "cache" / "tokens").iterdir()) == []


def test_divisions_that_are_none() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'tail'"):
        Division("tial")
    for wrong in (1.0, -0.1, float("nan"), 10):
        with pytest.raises(ArgumentError, match="`validation`.*is not a fraction"):
            Division(validation=wrong)
        with pytest.raises(ArgumentError, match="`test`.*is not a fraction"):
            Division(test=wrong)
    with pytest.raises(ArgumentError, match="leave nothing to train on"):
        Division(validation=0.5, test=0.5)
