"""Sentences with intents: Chinese commands, and sentences in which only the order of words decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unspool.lab.data.sizes import check_sizes

Labelled = list[tuple[str, str]]
Words = Sequence[str]

SINGERS = ("周杰伦", "王菲", "邓丽君", "陈奕迅", "孙燕姿", "林俊杰")
SONGS = ("《稻香》", "《晴天》", "《红豆》", "《甜蜜蜜》", "《遇见》", "《十年》", "《江南》")
CITIES = ("北京", "上海", "广州", "成都", "西安", "杭州")
DAYS = ("今天", "明天", "后天", "周末")
FIRMS = ("苹果", "小米", "腾讯", "华为")
FOODS = ("苹果", "小米", "香蕉", "面条")
#: Intent → the words of its sentences, one choice per place; an empty word leaves the place out.
COMMANDS: dict[str, tuple[tuple[Words, ...], ...]] = {
    "音乐播放": (
        (("", "请", "给我", "现在"), ("播放",), SINGERS, ("的",), SONGS),
        (("", "请", "给我", "现在"), ("播放",), SINGERS, ("的",), ("歌", "新歌", "专辑")),
    ),
    "歌手评价": (
        (("", "其实", "一直以来"), ("我",), ("喜欢",), SINGERS, ("的",), ("声音", "风格", "新歌")),
        (("", "其实", "一直以来"), ("我",), ("喜欢",), SINGERS, ("", "很久")),
    ),
    "天气查询": ((CITIES, DAYS, ("天气",), ("怎么样", "如何", "好吗")),),
    "食物评价": ((("", "这种", "今天的"), FOODS, ("味道", "口感"), ("不错", "一般", "很好")),),
    "股票行情": ((("", "听说", "今天的"), FIRMS, ("股票", "股价"), ("大涨", "下跌", "平稳")),),
}
#: Verbs that go both ways: who does it decides between an offer and a request.
VERBS = ("帮", "等", "送", "教", "接", "找", "陪", "叫", "请", "谢")
#: Words that say nothing about who does it.
WHENS = ("今天", "明天", "后天", "晚上", "早上", "一会儿")
WHERES = ("在家", "在学校", "在公司", "在车站", "在楼下", "在路上")
HOWS = ("一定", "马上", "先", "再", "慢慢", "一起")


def chinese_commands(count: int, seed: int = 0, separator: str = "") -> Labelled:
    """Chinese commands and remarks with their intents: music, singers, weather, food, stocks.

    Some words have several senses: 苹果 and 小米 are foods and firms, and singers are played and liked.

    Args:
        count: sentences.
        seed: of the random numbers.
        separator: what stands between words; " " for a tokenizer that splits at spaces.

    Returns:
        (sentence, intent), such as ("播放周杰伦的《稻香》", "音乐播放").

    Example:
        >>> sentence, intent = chinese_commands(1, separator=" ")[0]
        >>> intent in COMMANDS
        True
    """
    check_sizes(count=count)
    chance = np.random.default_rng(seed)
    intents = list(COMMANDS)
    found = []
    for _ in range(count):
        intent = intents[chance.integers(len(intents))]
        patterns = COMMANDS[intent]
        places = patterns[chance.integers(len(patterns))]
        words = [words[int(chance.integers(len(words)))] for words in places]
        found.append((separator.join(word for word in words if word), intent))
    return found


def order_intents(count: int, seed: int = 0, separator: str = "") -> Labelled:
    """Offers (明天我送你) and requests (明天你送我): both have the same words, and only their order tells them apart.

    The intent is drawn independently of the words, so that a model that ignores order has an accuracy of ½.

    Args:
        count: sentences.
        seed: of the random numbers.
        separator: what stands between words; " " for a tokenizer that splits at spaces.

    Returns:
        (sentence, "offer" or "request").

    Example:
        >>> {intent for _, intent in order_intents(20)} == {"offer", "request"}
        True
    """
    check_sizes(count=count)
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        offer = bool(chance.integers(2))
        who, whom = ("我", "你") if offer else ("你", "我")
        when, where, how = (words[chance.integers(len(words))] * chance.integers(2) for words in (WHENS, WHERES, HOWS))
        words = (when, who, where, how, VERBS[chance.integers(len(VERBS))], whom)
        found.append((separator.join(word for word in words if word), "offer" if offer else "request"))
    return found
