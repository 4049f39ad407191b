"""LSTM or GRU: overfitting on few sequences, and counting beyond the numbers seen in training."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import linear_gaussian

#: Cell and units: equal width, and a GRU with as many parameters as the LSTM.
MODELS = {"lstm": ("lstm", 32), "gru": ("gru", 32), "gru, equal parameters": ("gru", 37)}
SMALLEST, T = 200, 12
COUNTED, LONGEST = 20, 60
#: Training ends at this error, about half that of the best estimator: below it a network knows its data by heart.
MEMORIZED = 0.1


class Reader(nn.Module):
    """A recurrent layer with a linear head at every step."""

    def __init__(self, name: str, inputs: int) -> None:
        super().__init__()
        cell, units = MODELS[name]
        self.layer, self.head = unspool_nn.Recurrent(cell, inputs, units), nn.Linear(units, 1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.layer(x)[0]).squeeze(-1)
        return output


def overfit(name: str, count: int, updates: int, seed: int) -> float:
    """The error on new sequences beyond that on the sequences of training: estimates of a hidden state."""
    torch.manual_seed(seed)
    reader = Reader(name, 1)
    (x, z), (new_x, new_z) = (
        map(torch.as_tensor, linear_gaussian(T, each, noise=0.5, seed=seed + start))
        for each, start in ((count, 0), (2000, 1_000_000))
    )

    def error(x: Tensor, z: Tensor) -> Tensor:
        found: Tensor = (reader(x)[-1] - z[-1, :, 0]).square().mean()
        return found

    def loss(_step: int) -> Tensor:
        rows = torch.randint(0, count, (64,))
        return error(x[:, rows], z[:, rows])

    @torch.no_grad()
    def memorized(step: int) -> bool:
        return step % 10 == 0 and float(error(x[:, :2000], z[:, :2000])) < MEMORIZED

    lab.fit(reader, loss, updates, lr=0.01, stop=memorized)
    with torch.no_grad():
        return float(error(new_x, new_z) - error(x, z))


def words(numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """aⁿbⁿ for each n: letters (2·max n, words, 2); at each b whether it is the last; and where there is a b."""
    step, n = torch.arange(2 * max(numbers)).unsqueeze(1), torch.tensor(numbers)
    is_b = (step >= n) & (step < 2 * n)
    x = torch.stack([(step < n).float(), is_b.float()], -1)
    return x, (step == 2 * n - 1).float(), is_b


def count_on(name: str, updates: int, seed: int) -> list[bool]:
    """For each n up to 60, whether the last b of aⁿbⁿ is told at every b, after training with n up to 20."""
    torch.manual_seed(seed)
    reader = Reader(name, 2)
    x, last, is_b = words(range(1, COUNTED + 1))

    def loss(_step: int) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(reader(x)[is_b], last[is_b])

    lab.fit(reader, loss, updates, lr=0.01)
    x, last, is_b = words(range(1, LONGEST + 1))
    with torch.no_grad():
        right = (reader(x) > 0) == last.bool()
    found: list[bool] = (right | ~is_b).all(0).tolist()
    return found


def measure(study: lab.Study) -> lab.Found:
    counts = study.choose([SMALLEST], [SMALLEST, 2000, 20_000])
    updates, epochs = study.choose((500, 700), (1000, 2500))
    gaps: dict[str, dict[str, list[float]]] = {name: {str(count): [] for count in counts} for name in MODELS}
    right: dict[str, list[list[bool]]] = {name: [] for name in MODELS}
    for seed in study.seeds():
        for name in MODELS:
            for count in counts:
                gaps[name][str(count)].append(overfit(name, count, updates, seed))
            right[name].append(count_on(name, epochs, seed))
    return {"counts": counts, "gaps": gaps, "right": right}


def beyond(found: lab.Found, name: str) -> list[float]:
    """The fraction of right answers for n beyond those of training, one per seed."""
    return [statistics.fmean(run[COUNTED:]) for run in found["right"][name]]


def differences(more: Sequence[float], less: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(more, less, strict=True)]


def judge(found: lab.Found) -> lab.Verdict:
    gaps = {name: found["gaps"][name][str(SMALLEST)] for name in ("lstm", "gru")}
    return lab.all_of(
        lab.above("overfitting of the LSTM beyond the GRU's, 200 sequences", differences(gaps["lstm"], gaps["gru"])),
        lab.above(
            "numbers that the LSTM counts beyond the GRU", differences(beyond(found, "lstm"), beyond(found, "gru"))
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    counts, numbers = found["counts"], list(range(1, LONGEST + 1))
    columns = [f"N = {count}" for count in counts]
    gaps = {name: [statistics.fmean(found["gaps"][name][str(count)]) for count in counts] for name in MODELS}
    right = {name: [statistics.fmean(each) for each in zip(*found["right"][name], strict=True)] for name in MODELS}
    rows: list[tuple[float | str, ...]] = [
        (name, *gaps[name], statistics.fmean(beyond(found, name))) for name in MODELS
    ]
    return lab.Shown(
        tables=(lab.Table(("model", *columns, "right for n = 21 to 60"), rows),),
        figures=(
            lab.Bars(
                "Overfitting by the number of sequences",
                "error on new sequences − error in training",
                [lab.Series(name, columns, values) for name, values in gaps.items()],
            ),
            lab.Lines(
                "Counting aⁿbⁿ, with n up to 20 in training",
                "n",
                "fraction of seeds that are right",
                [lab.Series(name, numbers, values) for name, values in right.items()],
            ),
        ),
        remarks=("The columns with N are the error on new sequences minus that on the N sequences of training.",),
    )


CHAPTER = lab.Chapter(
    claim="S1-9",
    equation="overfitting = MSE_{new} − MSE_{training}\na^{n} b^{n}: is this the last b?",
    method=(
        "With few data: an LSTM and a GRU of 32 units, and a GRU with as many parameters as the LSTM, learn to "
        "estimate a hidden state from 200 or more noisy sequences. Training ends when the error on these sequences is "
        "0.1, about half that of the best estimator, so that cells that learn at different speed are compared at the "
        "same fit. On a harder task: they count the letters of aⁿbⁿ with n up to 20, and are tested up to 60. The "
        "claim holds if, with 200 sequences and equal width, the LSTM overfits more than the GRU, and if it counts "
        "right at more n beyond 20; both as paired differences over seeds."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
