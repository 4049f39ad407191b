"""n-grams: tables that grow with the context, beside a recurrent network that does not."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import encode, python_reference, windows
from unspool.language import Message
from unspool.learning import linear_cross_entropy

ORDERS = range(1, 8)
CONTEXTS = (1, 2, 4, 8, 16, 32, 64)


class CharacterModel(nn.Module):
    """Predicts the next character by a GRU."""

    def __init__(self, V: int) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(V, 32), unspool_nn.Recurrent("gru", 32, 128)
        self.head = nn.Linear(128, V)

    def forward(self, pieces: Tensor) -> Tensor:
        """The loss at all steps of windows of text."""
        output, _ = self.layer(self.embedding(pieces[:-1]))
        return linear_cross_entropy(output, self.head.weight, self.head.bias, pieces[1:])

    def last_loss(self, pieces: Tensor) -> float:
        """The loss of the last characters, predicted from all that is before them in the windows."""
        with torch.no_grad():
            output, _ = self.layer(self.embedding(pieces[:-1]))
            return float(linear_cross_entropy(output[-1], self.head.weight, self.head.bias, pieces[-1]))


def count_ngrams(text: str, unseen: str, V: int) -> list[dict[str, Any]]:
    """For each n the numbers of a full table, the n-grams of a text, and the perplexity of another text."""
    p = np.full(len(unseen) - max(ORDERS), 1 / V)
    found = []
    for n in ORDERS:
        grams = Counter(text[at : at + n] for at in range(len(text) - n + 1))
        totals, kinds = Counter[str](), Counter[str]()
        for gram, count in grams.items():
            totals[gram[:-1]] += count
            kinds[gram[:-1]] += 1
        new = 0
        for place in range(len(p)):
            gram = unseen[place + max(ORDERS) - n + 1 : place + max(ORDERS) + 1]
            new += gram not in grams
            if gram[:-1] in totals:  # Witten–Bell: new characters are as probable as contexts with new ones were
                kind, total = kinds[gram[:-1]], totals[gram[:-1]]
                p[place] = (grams.get(gram, 0) + kind * p[place]) / (total + kind)
        # one number per context and character; “meta” tensors have a size and no memory
        table = nn.Embedding(V ** (n - 1), V, device="meta").weight.numel()
        perplexity = math.exp(-np.log(p).mean())
        found.append({"n": n, "table": table, "seen": len(grams), "new": new / len(p), "perplexity": perplexity})
    return found


def train(tokens: np.ndarray[Any, Any], test: np.ndarray[Any, Any], V: int, steps: int, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = CharacterModel(V)
    lab.fit(model, lambda step: model(torch.as_tensor(windows(tokens, 64, 16, seed * 10_000 + step))), steps, lr=1e-2)
    pieces = torch.as_tensor(windows(test, max(CONTEXTS), 4000, seed=1))
    losses = [model.last_loss(pieces[-context - 1 :]) for context in CONTEXTS]
    return {"losses": losses, "parameters": sum(each.numel() for each in model.parameters())}


def measure(study: lab.Study) -> lab.Found:
    text = python_reference()
    tokens, alphabet = encode(text)
    cut = len(text) * 9 // 10
    V, steps = len(alphabet), study.choose(400, 1600)
    networks = [train(tokens[:cut], tokens[cut:], V, steps, seed) for seed in study.seeds()]
    return {"V": V, "ngrams": count_ngrams(text[:cut], text[cut:], V), "networks": networks}


def judge(found: lab.Found) -> lab.Verdict:
    errors = [abs(math.log(row["table"]) / math.log(found["V"]) - row["n"]) for row in found["ngrams"]]
    sizes = {network["parameters"] for network in found["networks"]}
    gains = [network["losses"][-1] - network["losses"][CONTEXTS.index(4)] for network in found["networks"]]
    return lab.all_of(
        lab.below("change of the network's loss from 4 to 64 characters of context", gains),
        lab.at_most("largest difference of log table size by log |V| from n", max(errors), 1e-10),
        lab.at_most("change of the network's size with the context", max(sizes) - min(sizes), 0),
    )


def show(found: lab.Found) -> lab.Shown:
    size = found["networks"][0]["parameters"]
    losses = zip(*(network["losses"] for network in found["networks"]), strict=True)
    by_context = [math.exp(statistics.fmean(each)) for each in losses]
    ngrams = found["ngrams"]
    orders = [row["n"] for row in ngrams]
    columns = ("n", "table", "seen", "new", "perplexity")
    return lab.Shown(
        tables=(
            lab.Table(
                ("n", "numbers of a full table", "different n-grams in the text", "new in other text", "perplexity"),
                [tuple(row[column] for column in columns) for row in ngrams],
            ),
            lab.Table(
                ("characters of context", "parameters of the network", "perplexity"),
                [(context, size, perplexity) for context, perplexity in zip(CONTEXTS, by_context, strict=True)],
            ),
        ),
        figures=(
            lab.Lines(
                "Numbers that a model with a context of n characters has",
                "n",
                "numbers",
                [
                    lab.Series("full table", orders, [row["table"] for row in ngrams]),
                    lab.Series("n-grams in the text", orders, [row["seen"] for row in ngrams]),
                    lab.Series("network", orders, [size] * len(orders)),
                ],
                log_y=True,
            ),
            lab.Lines(
                "Perplexity on other text",
                "characters of context",
                "perplexity",
                [
                    lab.Series("n-grams", [n - 1 for n in orders[1:]], [row["perplexity"] for row in ngrams[1:]]),
                    lab.Series("network", CONTEXTS, by_context),
                ],
            ),
        ),
        remarks=(
            Message(
                "Only a full table grows as |V|ⁿ: this text has {seen:,} different n-grams of {n} characters, and no "
                "text has more than it has characters. But {new:.0%} of those in other text are then new.",
                seen=ngrams[-1]["seen"],
                n=ngrams[-1]["n"],
                new=ngrams[-1]["new"],
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S2-1",
    equation="P(x_t | x_{t−1}, …, x_{t−n+1}): |V|^{n} numbers\nP(x_t | h_{t−1}): as many numbers for any context",
    method=(
        "n-grams of the characters of nine tenths of the Python reference are counted, n = 1…7, and predict the last "
        "tenth, with Witten–Bell interpolation. A GRU with 128 units is trained on the same text and predicts "
        "characters of the last tenth from 1 to 64 characters before them. The claim holds if a full table has |V|ⁿ "
        "numbers, if the network has the same size for every context, and if it uses the context: its loss with 64 "
        "characters is below that with 4."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
