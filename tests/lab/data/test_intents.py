"""Sentences with intents against what defines them."""

from __future__ import annotations

from collections import Counter

from unspool.lab.data import chinese_commands, order_intents
from unspool.lab.data.intents import COMMANDS


def test_commands_have_the_intent_of_their_words() -> None:
    signs = {"播放": "音乐播放", "喜欢": "歌手评价", "天气": "天气查询"}
    signs |= dict.fromkeys(("味道", "口感"), "食物评价") | dict.fromkeys(("股票", "股价"), "股票行情")
    labelled = chinese_commands(500)
    for sentence, intent in labelled:
        assert [meant for sign, meant in signs.items() if sign in sentence] == [intent], sentence
    counts = Counter(intent for _, intent in labelled)
    assert set(counts) == set(COMMANDS)
    assert min(counts.values()) > 60  # of 100 expected


def test_the_documents_sentence_can_be_drawn() -> None:
    sentences = {sentence for sentence, _ in chinese_commands(5000)}
    assert {"播放周杰伦的《稻香》", "我喜欢周杰伦", "苹果味道不错", "苹果股票大涨"} <= sentences


def test_words_can_be_separated() -> None:
    apart = [sentence for sentence, _ in chinese_commands(50, seed=1, separator=" ")]
    assert [sentence.replace(" ", "") for sentence in apart] == [one for one, _ in chinese_commands(50, seed=1)]
    assert all("" not in sentence.split(" ") for sentence in apart)


def test_only_order_decides() -> None:
    """Each sentence with 我 and 你 exchanged has the same words and the other intent."""
    labelled = order_intents(2000, separator=" ")
    intents = dict(labelled)
    assert len(intents) == len({*labelled}), "a sentence has one intent"
    exchange = str.maketrans("我你", "你我")
    for sentence, intent in intents.items():
        assert sorted(sentence.split()) == sorted(sentence.translate(exchange).split())
        assert intents.get(sentence.translate(exchange)) != intent
        assert (sentence.index("我") < sentence.index("你")) == (intent == "offer")


def test_a_bag_of_words_says_nothing() -> None:
    """The words are independent of the intent: their frequencies differ by chance only."""
    labelled = order_intents(4000, separator=" ")
    counts = {intent: Counter() for intent in ("offer", "request")}  # type: dict[str, Counter[str]]
    for sentence, intent in labelled:
        counts[intent].update(sentence.split())
    for word in counts["offer"] | counts["request"]:
        a, b = counts["offer"][word], counts["request"][word]
        assert (a - b) ** 2 / (a + b) < 15, word  # chi-square of one degree of freedom, beyond 4 in 10,000
