"""Parameters: an LSTM has four affine maps and a GRU three."""

from __future__ import annotations

from torch import nn

from unspool import lab
from unspool import nn as unspool_nn

SIZES = ((1, 1), (3, 5), (28, 128), (64, 64), (300, 512))
BLOCKS = {"elman": 1, "gru": 3, "lstm": 4}


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def measure(_study: lab.Study) -> lab.Found:
    counts = {
        cell: [count(unspool_nn.Recurrent(cell, inputs, units)) for inputs, units in SIZES]
        for cell in (*BLOCKS, "gru-reset-after")
    }
    return {
        "sizes": SIZES,
        "counts": counts,
        "torch": {
            "lstm": [count(nn.LSTM(inputs, units)) for inputs, units in SIZES],
            "gru": [count(nn.GRU(inputs, units)) for inputs, units in SIZES],
        },
    }


def formula_error(found: lab.Found) -> int:
    """The largest difference from blocks · d (m + d + 1)."""
    errors: list[int] = [
        abs(number - BLOCKS[cell] * units * (inputs + units + 1))
        for cell in BLOCKS
        for number, (inputs, units) in zip(found["counts"][cell], found["sizes"], strict=True)
    ]
    return max(errors)


def ratios(counts: lab.Found) -> list[float]:
    return [lstm / gru for lstm, gru in zip(counts["lstm"], counts["gru"], strict=True)]


def judge(found: lab.Found) -> lab.Verdict:
    both = [*ratios(found["counts"]), *ratios(found["torch"])]
    return lab.all_of(
        lab.at_most("difference from the formula, in parameters", formula_error(found), 0),
        lab.at_most("difference of the ratio from 4/3", max(abs(ratio - 4 / 3) for ratio in both), 1e-12),
    )


def show(found: lab.Found) -> lab.Shown:
    names = [f"{inputs} → {units}" for inputs, units in found["sizes"]]
    counts = found["counts"]
    columns = (counts["elman"], counts["gru"], counts["lstm"], ratios(counts), ratios(found["torch"]))
    heading = ("input → units", "elman", "gru", "lstm", "LSTM / GRU", "LSTM / GRU in torch.nn")
    series = [lab.Series(cell, names, counts[cell]) for cell in (*BLOCKS, "gru-reset-after")]
    return lab.Shown(
        tables=(lab.Table(heading, list(zip(names, *columns, strict=True))),),
        figures=(lab.Bars("Parameters of one layer", "parameters", series, log_y=True),),
        remarks=(
            "torch.nn has two bias vectors per map, in both cells, which leaves the ratio as it is. A GRU whose reset "
            "gate acts after the product (gru-reset-after) has one bias more, and so slightly more parameters.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-8",
    equation="N_{LSTM} = 4 d (m + d + 1)\nN_{GRU} = 3 d (m + d + 1)\nN_{LSTM} / N_{GRU} = 4/3",
    method=(
        "Layers of five sizes are made, with m inputs and d units, and their parameters are counted. The claim holds "
        "if each affine map has d (m + d + 1) of them, and if the ratio of LSTM to GRU is 4/3, here and in torch.nn."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
