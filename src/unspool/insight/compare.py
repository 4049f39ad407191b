"""Compare: whether two runs represent the same data alike."""

from __future__ import annotations

from pathlib import Path

from unspool.errors import ArgumentError
from unspool.insight.measures.similarity import Similarity, measure_similarity
from unspool.insight.subjects.run import take_run


def compare_runs(first: str | Path, second: str | Path, data: str | Path | None = None) -> Similarity:
    """CKA and RSA between the layers of two runs over the same data.

    Args:
        first: the folder of a run.
        second: that of another one, which reads data in the same way.
        data: a file to read; by default the validation data of each, which must be the same.

    Returns:
        Both tables.

    Example:
        >>> compare_runs("runs/a", "runs/b").cka  # doctest: +SKIP
    """
    a, b = take_run(first, data), take_run(second, data)
    if a.tokens is not None and b.tokens is not None and [*map(list, a.tokens)] != [*map(list, b.tokens)]:
        raise ArgumentError.of("second", str(second), f"reads other tokens than {first}", "Give both the same `data`")
    return measure_similarity(a.recording, b.recording)
