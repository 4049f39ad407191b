"""The memory of data in words: what was measured, how sure it is, and what could not be told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unspool.data.units import count_units
from unspool.insight.measures.context import LEFT, Context
from unspool.insight.measures.dependence import Dependence


def explain_memory(context: Context, pairs: Dependence, unit: str) -> str:
    """How a memory is known, in sentences.

    Args:
        context: What the last steps tell of the next.
        pairs: The dependence of pairs of steps.
        unit: What a step is, in the plural.

    Example:
        explain_memory(found.context, found.dependence, "characters")
    """
    if not len(pairs.lags):
        return "No sequence is long enough that a step could tell of a later one."
    numbers = pairs.measure == "autocorrelation"
    if not (pairs.values.any() or pairs.noise.any()):
        line = ", or on a straight line" if numbers else ""
        return f"All steps are the same{line}: no step can tell anything of another."
    found = _explain_none(context, numbers) if not context.memory else _explain_gain(context, unit, numbers)
    return " ".join([found, *_explain_limits(context, unit, numbers)])


def name_memory(memory: int, context: Context, unit: str) -> str:
    """A number of steps, said to be the least where it is.

    Example:
        name_memory(4, found.context, "characters")  # "at least 4 characters"
    """
    least = context.at_least and memory == context.memory
    return f"{'at least ' if least else ''}{count_units(memory, unit)}"


def _explain_none(context: Context, numbers: bool) -> str:
    """That nothing was found, and by what."""
    if numbers:
        return "No step back has a partial autocorrelation above chance: the last steps do not predict the next one."
    tried = "" if context.probed else " nor a small recurrent network"
    found = f"The last steps do not predict the next one: neither counts of contexts nor single steps back{tried} gain "
    return found + "more than chance on held-out data."


def _explain_gain(context: Context, unit: str, numbers: bool) -> str:
    """What so many steps tell, and by what that is known."""
    many, by = count_units(context.memory, unit), context.by[context.steps.index(context.memory)]
    if by == "season":
        return _explain_season(context, many)
    told = _explain_numbers(context) if numbers else _explain_tokens(context)
    enough = f"{100 * LEFT:.0f} %"
    return f"From the last {many} the next is predicted within {enough} of the best that was found: {told}. " + WAYS[
        by
    ](many)


def _explain_season(context: Context, many: str) -> str:
    some, all_ = (100 * (1 - np.exp(2 * loss)) for loss in (context.losses[-1], -context.gain))
    return (
        f"The data repeats itself without fading after {many}, its season: a linear prediction from one season "
        f"explains {some:.3g} % of the variance of a step. Older seasons only average out noise ({all_:.3g} %)."
    )


def _explain_tokens(context: Context) -> str:
    left = context.losses[0] - context.gain
    return (
        f"the loss falls from {context.losses[0]:.3g} to {left:.3g} nats per step on held-out data "
        f"(a gain of {context.gain:.2g} ± {2 * context.error:.1g})"
    )


def _explain_numbers(context: Context) -> str:
    explained = 100 * (1 - np.exp(-2 * context.gain))
    return f"a linear prediction explains {explained:.3g} % of the variance of a step"


#: By predictor, how the memory is known.
WAYS: dict[str, Callable[[str], str]] = {
    "nothing": lambda _: "",
    "counts": lambda many: f"This is by counts of contexts; contexts of more than {many} add nothing that is certain.",
    "lag": lambda many: f"The step {many} back tells what all nearer ones do not; those further back add nothing.",
    "place": lambda many: f"How far a sequence has come tells more than its last steps: nine in ten are within {many}.",
    "probe": lambda many: (
        "Pairs of steps and counts of contexts cannot tell this: a small recurrent network predicts better than they "
        f"do, and gains nothing from more than {many}."
    ),
    "linear": lambda many: f"Steps more than {many} back have no partial autocorrelation that matters.",
}


def _explain_limits(context: Context, unit: str, numbers: bool) -> list[str]:
    """What is not counted, and what could not be told."""
    found = []
    if context.lines:
        found.append("Each line is judged by itself, as the line before it does not help to predict how it begins.")
    if context.drift:
        found.append(_explain_drift(context, numbers))
    if context.at_least:
        found.append(_explain_least(context, unit))
    if context.probed and not numbers:
        found.append(f"No recurrent network was tried: {context.probed}.")
    return found


def _explain_least(context: Context, unit: str) -> str:
    """Why a memory may be longer."""
    if context.hidden:
        return "It may be longer: a larger network, trained for longer, may see further."
    longer = count_units(context.memory + 1, unit)
    return f"It may be longer: contexts of {longer} and more come again too rarely to be counted."


def _explain_drift(context: Context, numbers: bool) -> str:
    part = f"{100 * context.drift:.0f} %"
    if numbers:
        return f"The level drifts, which is {part} of the variance and not counted as memory."
    return (
        f"The frequencies drift along the data: {part} of what contexts seem to tell stays if neighboring steps are "
        "shuffled, and is not counted as memory."
    )
