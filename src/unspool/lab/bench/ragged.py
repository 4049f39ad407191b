"""Ragged batches: lengths uniform in 1…T, against the full batch and against torch's packed sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from unspool.lab.bench.agreement import check_agreement
from unspool.lab.bench.cases import Array, Case, Point
from unspool.lab.bench.contest import contest
from unspool.lab.bench.contestants import modules
from unspool.lab.bench.contestants.contestant import Contestant
from unspool.lab.bench.report import OURS, Finding, Row, compare
from unspool.lab.bench.settings import Say, Settings

POINT = Point(32, 100, 64, 128)
FULL = f"{OURS}, full batch"


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for case in settings.cases((POINT,)):
        say(f"ragged: {case}")
        lengths = np.random.default_rng(2).integers(1, case.point.T, case.point.B, endpoint=True)
        contestants = {OURS: _ours(case, lengths), "torch, packed": _packed(case, lengths)}
        check_agreement(case, contestants)
        contestants |= {FULL: modules.unspool(case, settings.threads)}
        contestants |= {"torch, full batch": modules.torch_nn(case, settings.threads)}
        shown = f"{case}, {lengths.mean() / case.point.T:.0%} full"
        yield from contest("ragged", shown, contestants, settings.rounds)[:2]


def _ours(case: Case, lengths: Array) -> Contestant:
    layer, x = modules.layer_of(modules.OURS, case)
    ends = torch.from_numpy(lengths)

    def forward() -> Tensor:
        output: Tensor = layer(x, lengths=ends)[0]
        return output

    return modules.of_module(layer, forward)


def _packed(case: Case, lengths: Array) -> Contestant:
    """torch's own way, packing included; the sum is taken of the packed output, to torch's advantage."""
    layer, x = modules.layer_of(modules.TORCH, case)
    ends = torch.from_numpy(lengths)

    def forward() -> Tensor:
        output: Tensor = layer(pack_padded_sequence(x, ends, enforce_sorted=False))[0].data
        return output

    def padded(_: Tensor) -> Array:
        with torch.no_grad():
            output = layer(pack_padded_sequence(x, ends, enforce_sorted=False))[0]
        return np.asarray(pad_packed_sequence(output, total_length=case.point.T)[0])

    return modules.of_module(layer, forward, output=padded)


def judge(rows: Iterable[Row]) -> list[Finding]:
    training = [row for row in rows if row.kind == "training"]
    parts = {row.case: 1 / row.ratio(FULL) for row in training}
    if not parts:
        return []
    gated = [row for row in training if not row.case.startswith("Elman")]
    where = max(parts, key=parts.__getitem__)
    return [
        Finding("ragged", "training, in parts of the full batch's time: worst", parts[where], "×", 0.65, False, where),
        *compare(gated, ("torch, packed",), "training of GRU and LSTM, against torch, packed", None, 3.0),
    ]
