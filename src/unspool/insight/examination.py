"""Examination: from a specimen to the report: measures, verdicts, sections with their pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

from unspool.errors import DataError
from unspool.insight.measurements import Measurements, measure
from unspool.insight.report.contract import Report, Section, Verdict
from unspool.insight.report.plain import to_plain
from unspool.insight.sections import activity, dynamics, gradients, text
from unspool.insight.specimen import Specimen
from unspool.insight.verdicts.judge import judge


def examine(
    specimen: Specimen, tell: Callable[[str], None] = lambda _: None, only: Collection[str] | None = None
) -> Report:
    """Everything that there is to say of a specimen, or of `only` some measures."""
    loss = float(specimen.recording.loss.detach())
    if not math.isfinite(loss):
        raise DataError(
            f"the loss is {loss}: it is not finite, so neither is any gradient. Look for NaN or infinity in what the "
            "model reads or computes."
        )
    found = measure(specimen, tell, only)
    tell("report")
    numbers = {name: to_plain(value) for name, value in vars(found).items() if value is not None}
    return Report(
        title=specimen.title,
        subtitle=", ".join(specimen.cells),
        facts=specimen.facts,
        verdicts=judge(specimen, found),
        sections=tuple(_sections(specimen, found)),
        missing=found.missing,
        numbers=numbers,
    )


#: Measure → the section that tells it, from what there is and what is known of the specimen.
TELLERS: dict[str, Callable[[Any, Specimen], Section]] = {
    "flow": lambda found, _: gradients.tell_flow(found),
    "forgetting": lambda found, _: dynamics.tell_forgetting(found),
    "truncation": lambda found, specimen: gradients.tell_truncation(found, specimen.window),
    "shares": lambda found, _: gradients.tell_shares(found),
    "gates": lambda found, _: activity.tell_gates(found),
    "time_constants": lambda found, _: activity.tell_time_constants(found),
    "activations": lambda found, _: activity.tell_activations(found),
    "attenuation": lambda found, _: activity.tell_attenuation(found),
    "participation": lambda found, _: activity.tell_participation(found),
    "jacobians": lambda found, _: dynamics.tell_jacobians(found),
    "lyapunov": lambda found, _: dynamics.tell_lyapunov(found),
    "fixed_points": lambda found, _: dynamics.tell_fixed_points(found),
    "frequency": lambda found, _: dynamics.tell_frequency(found),
    "sensitivity": lambda found, _: dynamics.tell_sensitivity(found),
    "streams": lambda found, _: gradients.tell_streams(found),
    "surprise": lambda found, _: text.tell_surprise(found),
    "token_states": lambda found, _: text.tell_token_states(found),
}
#: Measures that may have found nothing to speak of, and the field that is empty then.
EMPTY = {"gates": "gates", "time_constants": "sets", "activations": "values", "attenuation": "pairs"}


def _sections(specimen: Specimen, found: Measurements) -> Iterator[Section]:
    for name, tell in TELLERS.items():
        value = getattr(found, name)
        if value is None or (name in EMPTY and not getattr(value, EMPTY[name])):
            continue
        if name == "streams" and len(value.labels) == 1:
            continue
        yield tell(value, specimen)
        if name == "surprise":
            yield text.tell_ribbons(specimen)


def name_broken(title: str, broken: tuple[str, ...], run: str | None) -> Report:
    """A model with weights that are no numbers: there is nothing to measure, and one thing to say."""
    names = ", ".join(broken[:4]) + (f" and {len(broken) - 4} more" if len(broken) > 4 else "")
    verdict = Verdict(
        "not-finite",
        "fault",
        "Weights are not numbers",
        f"{len(broken)} parameter(s) hold NaN or infinity: {names}.",
        "Training has diverged. Go back to a checkpoint from before, lower the rate to a third, and limit gradients.",
        None if run is None else f"unspool train --config {run}/config.toml --out {run}-2 --clip 1 --rate 0.001",
    )
    return Report(title, verdicts=(verdict,), missing=("everything: a model without numbers gives none.",))
