"""Examination: from a specimen to the report: measures, verdicts, sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any

from unspool.errors import DataError
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.measure import Measure
from unspool.insight.measurements import take_measurements
from unspool.insight.one_thread import one_thread
from unspool.insight.report.contract import Verdict
from unspool.insight.report.plain import to_plain
from unspool.insight.report.report import Report
from unspool.insight.specimen import Specimen
from unspool.insight.verdicts.judge import judge
from unspool.language import Message, words


@one_thread()
def examine(
    specimen: Specimen,
    progress: Callable[[str], None] = lambda _: None,
    only: Collection[str] | None = None,
    measures: Sequence[Measure[Any]] = CATALOGUE,
) -> Report:
    """Measure a specimen, judge it and report.

    Args:
        specimen: the recorded model.
        progress: called with what begins.
        only: keys of the measures to take; by default all that apply.
        measures: the measures to choose from, in the report's order.

    Returns:
        The report. Its figures are drawn when it is shown.
    """
    _check_loss(float(specimen.recording.loss.detach()))
    found = take_measurements(specimen, measures, progress, only)
    progress(words("report"))
    taken = [measure for measure in measures if measure.key in found.values]
    shown = [(measure, found.values[measure.key]) for measure in taken if measure.shows(found.values[measure.key])]
    numbers = {measure.key: to_plain(found.values[measure.key]) for measure in taken}
    return Report(
        title=specimen.title,
        subtitle=", ".join(specimen.cells),
        facts=specimen.facts,
        verdicts=judge(specimen, found),
        sections=tuple(measure.tell(values) for measure, values in shown),
        missing=found.missing,
        numbers={**numbers, "missing": list(found.missing)},
        scalars=tuple(chain.from_iterable(measure.named_scalars() for measure in taken)),
        retrain=specimen.retrain,
    )


def _check_loss(loss: float) -> None:
    if not math.isfinite(loss):
        raise DataError(
            f"the loss is {loss}: it is not finite, so no gradient is. Look for NaN or infinity in the model's input "
            "and in what it computes."
        )


def report_broken(title: str, broken: Sequence[str]) -> Report:
    """The report on a model with weights that are not finite: nothing can be measured, and one thing must change."""
    names = ", ".join(broken[:4])
    if len(broken) > 4:
        names = Message("{names} and {count} more", names=names, count=len(broken) - 4)
    verdict = Verdict(
        "not-finite",
        "fault",
        "Weights are not finite",
        Message("{count} parameter(s) contain NaN or infinity: {names}.", count=len(broken), names=names),
        "Training has diverged. Return to an earlier checkpoint, lower `lr` to a third and clip gradients: `clip=1.0`.",
        {"clip": 1.0, "lr": 0.001},
    )
    missing = ("everything: a model whose weights are not finite gives no finite numbers.",)
    return Report(title, verdicts=(verdict,), missing=missing)
