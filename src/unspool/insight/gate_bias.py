"""The cell for a memory and the initial bias of its gates: the one place that proposes them, for plan and for X-ray."""

from __future__ import annotations

import math

#: Steps of memory for which a GRU is enough.
SHORT = 20
#: The fewest steps of memory for which the initial bias of gates matters.
FEWEST = 4
#: The bias where it is not known how long a memory the data needs: gates start with a time constant of 8 steps.
UNKNOWN = 2.0
#: What is added to the bias of a model whose gates started as open, and whose gradients vanish nevertheless.
MORE = 1.0


def propose_cell(memory: int | None) -> str:
    """Propose a cell whose gate keeps the state: a GRU for a short memory, an LSTM for a long one or an unknown one.

    Args:
        memory: The steps that the data needs to be remembered; None if that is not known.

    Example:
        >>> propose_cell(12), propose_cell(50), propose_cell(None)
        ('gru', 'lstm', 'lstm')
    """
    return "gru" if memory is not None and memory <= SHORT else "lstm"


def propose_forget_bias(memory: int | None, given: float | None = None) -> float | None:
    """Propose b with σ(b) = e^(−1/τ), so that the time constant τ of a gate is √memory.

    τ is the geometric mean of the shortest memory, 1 step, and of the longest.

    Args:
        memory: The steps that the data needs to be remembered; None if that is not known.
        given: The bias that a model started with, which was not enough; None if there is no such model.

    Returns:
        The bias; None where the memory is too short for it to matter.

    Example:
        >>> propose_forget_bias(50)
        1.9
        >>> propose_forget_bias(50, given=2.5)
        3.5
    """
    if memory is not None and memory < FEWEST:
        return None
    bias = UNKNOWN if memory is None else round(-math.log(math.expm1(1 / time_constant(memory))), 1)
    return bias if given is None or given < bias else round(given + MORE, 1)


def time_constant(memory: int) -> float:
    """Steps after which a gate with the proposed bias has let go of all but 1/e of a state."""
    return math.sqrt(memory)
