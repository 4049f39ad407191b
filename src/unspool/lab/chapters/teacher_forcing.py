"""Teacher forcing: how fast a network learns on the true tokens and on its own, and how it then runs freely."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool import nn as unspool_nn
from unspool.learning import free_run

LETTERS, PERIOD, STEPS = 8, 4, 12
LEARNED = 0.9
CHECKS = 20
WAYS = {"teacher forcing": 1.0, "free running": 0.0}


def draw(count: int, seed: int) -> Tensor:
    """Sequences that repeat four random letters: the first period is given, the rest is to be predicted."""
    letters = torch.randint(0, LETTERS, (PERIOD, count), generator=torch.Generator().manual_seed(seed))
    return letters.repeat(1 + STEPS // PERIOD, 1)


class Model(nn.Module):
    """Reads the first period, then predicts letter by letter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(LETTERS, 16), unspool_nn.Recurrent("gru", 16, 48)
        self.head = nn.Linear(48, LETTERS)

    def predict(self, letters: Tensor, state: Any) -> tuple[Tensor, Any]:
        output, state = self.layer(self.embedding(letters).unsqueeze(0), state)
        return self.head(output[0]), state

    def forward(self, sequences: Tensor, teacher_forcing: float, greedy: bool = False) -> Tensor:
        """Logits (STEPS, count, LETTERS) of what follows the first period."""
        _, state = self.layer(self.embedding(sequences[: PERIOD - 1]))
        inputs = sequences[PERIOD - 1 : -1]
        if teacher_forcing == 1:
            logits: Tensor = self.head(self.layer(self.embedding(inputs), state)[0])
            return logits
        return free_run(self.predict, inputs, state, teacher_forcing, greedy=greedy)[0]


def by_step(model: Model, teacher_forcing: float) -> list[float]:
    """The accuracy at each predicted step, on new sequences."""
    sequences = draw(500, seed=10**9)
    with torch.no_grad():
        right = model(sequences, teacher_forcing, greedy=True).argmax(-1) == sequences[PERIOD:]
    return [float(fraction) for fraction in right.double().mean(1)]


def train(way: str, updates: int, seed: int) -> list[dict[str, list[float]]]:
    """Accuracies by step, forced and free, after each twentieth of the updates."""
    torch.manual_seed(seed)
    model, found = Model(), []
    each = updates // CHECKS
    for check in range(CHECKS):

        def loss(step: int, check: int = check) -> Tensor:
            sequences = draw(32, seed=seed * 100_000 + check * each + step)
            return cross_entropy(model(sequences, WAYS[way]).flatten(0, 1), sequences[PERIOD:].flatten())

        lab.fit(model, loss, each, lr=5e-3)
        found.append({"forced": by_step(model, 1.0), "free": by_step(model, 0.0)})
    return found


def measure(study: lab.Study) -> lab.Found:
    updates = study.choose(400, 800)
    seeds = [{way: train(way, updates, seed) for way in WAYS} for seed in study.seeds()]
    return {"updates": updates, "seeds": seeds}


def learned(found: lab.Found, way: str, run: str) -> list[int]:
    """For each seed, at which check the mean accuracy is first above the threshold; the number of checks if never."""
    return [
        next((place for place, check in enumerate(seed[way]) if statistics.fmean(check[run]) >= LEARNED), CHECKS)
        for seed in found["seeds"]
    ]


def lost(found: lab.Found) -> list[float]:
    """What running freely costs at the last step, as soon as the forced network is above the threshold."""
    places = learned(found, "teacher forcing", "forced")
    checks = [seed["teacher forcing"][min(at, CHECKS - 1)] for seed, at in zip(found["seeds"], places, strict=True)]
    return [check["forced"][-1] - check["free"][-1] for check in checks]


def judge(found: lab.Found) -> lab.Verdict:
    forced, free = (learned(found, way, "free") for way in WAYS)
    sooner = [(a - b) / CHECKS for a, b in zip(forced, free, strict=True)]
    return lab.all_of(
        lab.below("updates until learned, with minus without teacher forcing, as a fraction of training", sooner),
        lab.above("accuracy lost by running freely, at the last step", lost(found), 0.05),
    )


def mean_over_seeds(found: lab.Found, way: str, check: int, run: str) -> list[float]:
    curves = [seed[way][check][run] for seed in found["seeds"]]
    return [statistics.fmean(values) for values in zip(*curves, strict=True)]


def show(found: lab.Found) -> lab.Shown:
    each = found["updates"] // CHECKS
    updates = [each * (check + 1) for check in range(CHECKS)]
    curves = [
        lab.Series(
            way, updates, [statistics.fmean(mean_over_seeds(found, way, check, "free")) for check in range(CHECKS)]
        )
        for way in WAYS
    ]
    at = min(CHECKS - 1, round(statistics.fmean(learned(found, "teacher forcing", "forced"))))
    names = {"forced": "true letters as input", "free": "own letters as input"}
    steps = [
        lab.Series(name, list(range(1, STEPS + 1)), mean_over_seeds(found, "teacher forcing", at, run))
        for run, name in names.items()
    ]
    rows = [
        (way, each * min(CHECKS, 1 + statistics.fmean(learned(found, way, "free"))), curve.y[-1])
        for way, curve in zip(WAYS, curves, strict=True)
    ]
    return lab.Shown(
        tables=(lab.Table(("trained by", "updates until an accuracy of 0.9, or all", "accuracy at the end"), rows),),
        figures=(
            lab.Lines(
                "Accuracy of running freely", "updates", "accuracy", curves, marks=(lab.Mark("learned", LEARNED),)
            ),
            lab.Lines("Half-trained by teacher forcing", "predicted step", "accuracy", steps),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S2-4",
    equation="teacher forcing: h_t = f(h_{t−1}, x_t)\nfree running: h_t = f(h_{t−1}, x̂_t), x̂_t ∼ P(x_t | h_{t−1})",
    method=(
        "Sequences repeat four random letters of eight. A GRU reads the first period and predicts the next three; in "
        "training its inputs are the true letters, or those that it drew itself. Both are tested running freely. The "
        "first part holds if the accuracy reaches 0.9 after fewer updates with teacher forcing. The second part is "
        "tested as soon as a network trained by teacher forcing has an accuracy of 0.9 on true letters: it holds if, "
        "running freely, it loses more than 0.05 at the last step. A network that makes no more mistakes does not "
        "drift."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
