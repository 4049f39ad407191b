"""Compare: whether two runs represent the same data alike."""

from __future__ import annotations

from pathlib import Path

import torch

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures.similarity import ROWS, Similarity, measure_similarity
from unspool.insight.report.contract import Section
from unspool.insight.sections.similarity import ROWS as SHOWN_ROWS
from unspool.insight.sections.similarity import tell_apart, tell_pair
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.run import take_run


def compare_runs(first: str | Path, second: str | Path, data: str | Path | None = None, rows: int = ROWS) -> Similarity:
    """CKA and RSA between the layers of two runs over the same data.

    Args:
        first: the folder of a run.
        second: that of another one, which reads data in the same way.
        data: a file to read; by default the validation data of each, which must be the same.
        rows: steps at most; of more, evenly spaced ones are compared.

    Returns:
        Both tables.

    Example:
        >>> compare_runs("runs/a", "runs/b").cka  # doctest: +SKIP
    """
    a, b = take_run(first, data), take_run(second, data)
    if not _read_the_same(a, b):
        raise ArgumentError.of("second", str(second), f"reads other data than {first}", "Give both the same `data`")
    return measure_similarity(a.recording, b.recording, rows)


def tell_runs(first: str | Path, second: str | Path, data: str | Path | None = None) -> Section:
    """How alike the layers of two runs are, for a page of both; a sentence where they read different data."""
    try:
        return tell_pair(compare_runs(first, second, data, SHOWN_ROWS))
    except (ArgumentError, ShapeError):
        return tell_apart()


def _read_the_same(a: Specimen, b: Specimen) -> bool:
    """Whether two models read the same tokens, or the same numbers; numbers that a model learns tell nothing."""
    if a.tokens is not None and b.tokens is not None:
        return [*map(list, a.tokens)] == [*map(list, b.tokens)]
    if (a.tokens is None) != (b.tokens is None):
        return False
    one, other = (specimen.recording.calls[specimen.recording.entrances[0]].x for specimen in (a, b))
    return one.requires_grad or other.requires_grad or torch.equal(one, other)
