"""Can it tell what a spoken command in Chinese wants, and who does what to whom, which only the order of words says?

    python benchmarks/results/commands.py

Both sets are made from templates and words, by seed. Commands: the intent of a sentence, on sentences that were not
learned from. Order: "我爱你" and "你爱我" and sentences like them, each in both orders, so that a bag of vectors
has nothing to tell them apart by.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from itertools import product

import numpy as np

from unspool.estimators import SequenceClassifier

INTENTS = {
    "music": (
        "播放{singer}的《{song}》",
        "我想听{singer}的{song}",
        "来一首《{song}》",
        "放一首{singer}的歌",
        "播放{song}",
    ),
    "weather": ("{place}{day}天气怎么样", "{day}{place}会下雨吗", "查一下{place}的天气", "{day}{place}多少度"),
    "alarm": ("定一个{day}{hour}的闹钟", "{day}{hour}叫我起床", "{hour}提醒我{thing}", "把{hour}的闹钟关掉"),
    "light": ("打开{room}的灯", "把{room}的灯关掉", "{room}的灯调亮一点", "关灯,我在{room}"),
    "navigation": ("导航去{place}", "去{place}怎么走", "带我去{place}的{spot}", "到{place}{spot}要多久"),
    "phone": ("打电话给{person}", "给{person}发短信", "呼叫{person}", "告诉{person}我{hour}到"),
}
SLOTS = {
    "singer": ("周杰伦", "邓丽君", "王菲", "陈奕迅", "孙燕姿", "李健"),
    "song": ("青花瓷", "晴天", "红豆", "甜蜜蜜", "十年", "传奇", "遇见", "月亮代表我的心"),
    "place": ("北京", "上海", "广州", "成都", "杭州", "西安", "南京"),
    "day": ("今天", "明天", "后天", "周末", "周一"),
    "hour": ("七点", "八点半", "九点一刻", "早上六点", "下午三点", "晚上十点"),
    "thing": ("开会", "吃药", "买菜", "接孩子", "交作业"),
    "room": ("客厅", "卧室", "厨房", "书房", "阳台"),
    "spot": ("火车站", "机场", "博物馆", "大学", "医院"),
    "person": ("妈妈", "小王", "张老师", "李医生", "爷爷", "房东"),
}
#: Has a title that no training sentence has.
ASKED = "播放周杰伦的《稻香》"

BEGINNINGS = ("", "其实", "我知道", "你知道", "他说", "听说")
VERBS = ("爱", "恨", "想", "等", "帮", "找", "看见", "认识", "喜欢", "相信", "原谅", "忘记")
ENDINGS = ("", "了", "吗", "很久了", "一辈子", "。")
PEOPLE = ("我", "你")


def make_commands(seed: int) -> tuple[list[str], list[str]]:
    """All sentences that the templates make, in an order by chance, and their intents."""
    found = []
    for intent, templates in INTENTS.items():
        for template in templates:
            slots = [slot for slot in SLOTS if f"{{{slot}}}" in template]
            filled = (dict(zip(slots, words, strict=True)) for words in product(*(SLOTS[slot] for slot in slots)))
            found += [(template.format(**words), intent) for words in filled]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[place][0] for place in order], [found[place][1] for place in order]


def make_orders(seed: int) -> tuple[list[str], list[str]]:
    """Sentences in pairs that differ in order alone, and who acts in each; pairs come by chance."""
    pairs = list(product(BEGINNINGS, VERBS, ENDINGS))
    texts, actors = [], []
    for place in np.random.default_rng(seed).permutation(len(pairs)):
        begin, verb, end = pairs[place]
        for actor, other in (PEOPLE, PEOPLE[::-1]):
            texts.append(f"{begin}{actor}{verb}{other}{end}")
            actors.append(actor)
    return texts, actors


def halves(texts: list[str], labels: list[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """To learn from, and to test on; neighbours stay together."""
    half = len(texts) // 4 * 2
    return texts[:half], labels[:half], texts[half:], labels[half:]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hidden", type=int, default=64)
    options.add_argument("--epochs", type=float, default=40)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    print(f"`python {shlex.join(sys.argv)}` (seed {asked.seed}):\n")
    print("| set | reader | test accuracy | time |\n|---|---|---|---|", flush=True)
    sets = {"commands": make_commands(asked.seed), "order": make_orders(asked.seed)}
    for name, made in sets.items():
        texts, labels, new_texts, new_labels = halves(*made)
        for reader in ("recurrent", "bag"):
            begun = time.perf_counter()
            model = SequenceClassifier(
                hidden=asked.hidden, backbone=reader, epochs=asked.epochs, random_state=asked.seed
            )
            accuracy = model.fit(texts, labels).score(new_texts, new_labels)
            seconds = time.perf_counter() - begun
            print(f"| {name} | {reader} | {accuracy:.2%} | {seconds:.0f} s |", flush=True)
            if name == "commands":
                said, sure = model.predict([ASKED])[0], model.predict_proba([ASKED]).max()
                print(f"| {ASKED} | {reader} | {said} ({sure:.0%}) | |", flush=True)


if __name__ == "__main__":
    main()
