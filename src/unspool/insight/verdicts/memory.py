"""Rules about memory: gradients that vanish, latches, a loss that needs more, and single layers that forget."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measures.flow import HORIZON, GradientFlow
from unspool.insight.measures.forgetting import Forgetting
from unspool.insight.measures.lyapunov import Lyapunov
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.remedies import advise_gates, open_gates
from unspool.insight.verdicts.rules import Case, percent
from unspool.language import Message, listed

#: A network whose gradients all fall below 1 % within this number of steps cannot learn what lies further back.
SHORTEST_HORIZON = 10
#: Shorter sequences show no horizon worth a verdict.
SHORTEST_SEQUENCE = 8
#: If the states remember this many times longer than gradients reach, the memory is latched; else both fade together.
LATCHED = 3
#: A latch holds: at most this fraction of its units changes sign from one step to the next.
HELD = 0.1
#: A layer whose states forget all but 1 % within this number of steps has next to no recurrence.
NEXT_TO_NONE = 3


def vanishing(case: Case) -> Verdict | None:
    """In no layer a gradient reaches back further than a few steps."""
    flow = case.found.get(GradientFlow)
    known = known_horizons(case)
    if flow is None or not known.any() or int(flow.horizon[known].max()) >= _least(case):
        return None
    best = int(np.where(known, flow.horizon, -1).argmax())
    horizon = int(flow.horizon[best])
    after = min(20, flow.survival.shape[1] - 1)
    rate = float(flow.rate[best])
    evidence = Message(
        "In {label}, whose gradients reach back furthest, less than {part} of a gradient is left {horizon} step(s) "
        "back ({rate}{left:.1e} after {after} steps).",
        label=flow.labels[best],
        part=percent(HORIZON),
        horizon=horizon + 1,
        rate=Message("a factor of {rate:.2f} per step; ", rate=rate) if np.isfinite(rate) else "",
        left=float(flow.survival[best, after]),
        after=after,
    )
    return latched(case, evidence) or _vanishing(case, evidence, horizon)


def known_horizons(case: Case) -> NDArray[np.bool_]:
    """Whether it is known of each layer how far gradients reach; not if no loss reaches it, or it has few steps."""
    flow = case.found.get(GradientFlow)
    if flow is None or case.steps < SHORTEST_SEQUENCE:
        return np.zeros(0, bool)
    return np.asarray(np.isfinite(flow.survival).any(1) & ~(flow.censored & (flow.horizon < _least(case))))


def _least(case: Case) -> int:
    """The steps that gradients must reach back."""
    return min(SHORTEST_HORIZON, case.steps // 2)


def latched(case: Case, evidence: str) -> Verdict | None:
    """Gradients vanish, but some layer's states remember: they differ after different inputs, and hold."""
    memory, flow = case.found.get(Forgetting), case.found.get(GradientFlow)
    if memory is None or flow is None:
        return None
    least = _least(case)
    layers = case.specimen.recording.layers
    holding = [
        int(remembered)
        for layer, remembered, horizon in zip(layers, memory.horizon, flow.horizon, strict=True)
        if remembered >= max(least, LATCHED * horizon) and holds(layer)
    ]
    if not holding:
        return None
    evidence = Message(
        "{evidence} But its states still differ {remembered} steps after different inputs: the memory is latched.",
        evidence=evidence,
        remembered=max(holding),
    )
    remedy = "Nothing, if the model works: a latch holds a memory in place and lets no gradient through."
    return Verdict("latched", "note", "Memory without gradients", evidence, remedy, {}, "forgetting")


def holds(layer: RecordedLayer) -> bool:
    """Whether units keep their sign from step to step, as a latch does and saturated chaos does not."""
    values, live = layer.output.sign(), layer.live
    turned = (values[1:] != values[:-1])[live[1:] & live[:-1]]
    return bool(turned.numel()) and float(turned.double().mean()) <= HELD


def _vanishing(case: Case, evidence: str, horizon: int) -> Verdict:
    need, settings = case.need, open_gates(case)
    if need is not None and need.furthest > horizon:
        evidence = Message(
            "{evidence} The loss needs more: the input {lag} steps back explains {part} of its error.",
            evidence=evidence,
            lag=need.furthest,
            part=percent(float(need.explained[need.furthest - 1])),
        )
    elif need is not None:
        evidence = Message(
            "{evidence} But no input further back was found that would lower the loss (by linear prediction of its "
            "error).",
            evidence=evidence,
        )
        settings = None
    elif settings is None:
        evidence = Message(
            "{evidence} The training data was not found to need more than {memory} step(s) of memory.",
            evidence=evidence,
            memory=case.specimen.memory,
        )
    if settings is None:
        remedy: str = "Nothing, if the model works: no longer way back is needed."
        return Verdict("vanishing", "note", "Gradients vanish", evidence, remedy, {}, "flow")
    return Verdict("vanishing", "fault", "Gradients vanish", evidence, advise_gates(case, settings), settings, "flow")


def short_memory(case: Case) -> Verdict | None:
    """The loss needs inputs from further back than gradients and states reach."""
    flow, memory, need = case.found.get(GradientFlow), case.found.get(Forgetting), case.need
    if flow is None or need is None or not np.isfinite(flow.survival).any():
        return None
    reach = max(int(flow.horizon.max()), 0 if memory is None else int(memory.horizon.max()))
    if need.furthest <= reach or reach < _least(case):
        return None
    settings = open_gates(case)
    if settings is None:
        return None
    evidence = Message(
        "Gradients and states reach back {reach} steps at most, but the input {lag} steps back explains {part} of the "
        "error of the loss (chance: {chance}).",
        reach=reach,
        lag=need.furthest,
        part=percent(float(need.explained[need.furthest - 1])),
        chance=percent(max(0.0, need.chance)),
    )
    title = "The loss needs a longer memory"
    return Verdict("memory", "fault", title, evidence, advise_gates(case, settings), settings, "need")


def compares_layers(case: Case) -> bool:
    """Whether there are layers, and sequences long enough, to tell one that forgets from others."""
    found = case.found.get(Lyapunov)
    return found is not None and case.steps >= SHORTEST_SEQUENCE and len(found.labels) >= 2


def forgetful(case: Case) -> Verdict | None:
    """Single layers that forget at once, while others remember."""
    found, flow = case.found.get(Lyapunov), case.found.get(GradientFlow)
    if found is None or not compares_layers(case):
        return None
    limit = math.log(HORIZON) / NEXT_TO_NONE
    layers = case.specimen.recording.layers
    highs = np.where(np.isnan(found.interval[:, 1]), found.largest, found.interval[:, 1])
    short = [high < limit and not holds(layer) for high, layer in zip(highs, layers, strict=True)]
    if not any(short) or (all(short) and flow is not None and flow.horizon.max() < SHORTEST_HORIZON):
        return None  # of a whole network that forgets, `vanishing` tells
    evidence = Message(
        "{layers}: all but {part} of a difference between states is gone within {steps} step(s). A layer that forgets "
        "at once adds depth, but no memory{others}.",
        layers=listed(label for label, one in zip(found.labels, short, strict=True) if one),
        part=percent(HORIZON),
        steps=max(1, math.ceil(math.log(HORIZON) / max(high for high, one in zip(highs, short, strict=True) if one))),
        others=""
        if flow is None
        else Message("; gradients of the network reach {steps} steps", steps=flow.horizon.max()),
    )
    settings = {"forget_bias": 2.0} if case.gated else {"init": "orthogonal"}
    remedy = (
        "If each layer should remember, start with open gates: `forget_bias=2.0`."
        if case.gated
        else 'If each layer should remember, start from orthogonal recurrent matrices: `init="orthogonal"`.'
    )
    return Verdict("forgetful", "warning", "A layer remembers next to nothing", evidence, remedy, settings, "lyapunov")
