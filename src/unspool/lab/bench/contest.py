"""A contest: contestants that agree, timed in the same rounds, as a row for training and one for inference."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.lab.bench.contestants.contestant import Contestant
from unspool.lab.bench.report import Row
from unspool.lab.bench.timing import Call, Spread, interleave


def contest(
    question: str, case: object, contestants: Mapping[str, Contestant], rounds: int, besides: Mapping[str, Call] = {}
) -> tuple[Row, Row, dict[str, Spread]]:
    """The rows for training and for inference, and the seconds of the calls `besides`."""
    calls: dict[tuple[str, str], Call] = {("inference", name): one.infer for name, one in contestants.items()}
    calls |= {("training", name): one.train for name, one in contestants.items() if one.train}
    calls |= {("besides", name): call for name, call in besides.items()}
    times = interleave(calls, rounds)
    spreads = {
        what: {name: spread for (kind, name), spread in times.items() if kind == what}
        for what in ("training", "inference", "besides")
    }
    training, inference = (Row(question, what, str(case), spreads[what]) for what in ("training", "inference"))
    return training, inference, spreads["besides"]
